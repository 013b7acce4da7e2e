"""Orders of samples. Names as in torch.utils.data.sampler."""

import itertools
import random
from typing import Generic, TypeVar

from ... import _C, _ops
from ...random import Generator

_T_co = TypeVar("_T_co", covariant=True)
_PIECE = 1024  # numbers drawn at once where many are wanted


def draw_seed(generator):
    """One number of a generator (a Generator, a random.Random, or None for PyFlame's own)."""
    if isinstance(generator, random.Random):
        return generator.getrandbits(62)
    return int(_ops.randint(0, 2**62, (), device="cpu", generator=generator).item())


def generator_of_pass(generator):
    """A generator for one pass or split, whose seed is the next number of `generator`.

    So that every use finds `generator` further on, and the order of a pass does not depend on who
    else draws from it meanwhile (a loader with workers asks for indices ahead).
    """
    return Generator().manual_seed(draw_seed(generator))


def permutation(n, generator):
    """The numbers below n in random order, as a list."""
    return _ops.randperm(n, device="cpu", generator=generator).tolist()


def _check_number(sampler, num_samples):
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
        raise _C.ValueError(
            f"pf.utils.data.{sampler}: num_samples is {num_samples!r}; expected a positive integer; "
            "an empty dataset has no random order"
        )


def _check_flag(sampler, name, value):
    if not isinstance(value, bool):
        raise TypeError(f"pf.utils.data.{sampler}: {name} is {value!r}; expected True or False")


class Sampler(Generic[_T_co]):
    """Gives the indices of samples in the order they are wanted."""

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """The indices 0, 1, 2 and so on."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A new random order for each pass; with replacement if asked.

    Each pass takes one number from `generator` (PyFlame's own when there is none): the same state,
    the same order. With replacement indices are drawn as they are asked for, so `num_samples` may
    be as large as you like; without, those beyond the dataset's size begin another permutation.
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _check_flag("RandomSampler", "replacement", replacement)
        _check_number("RandomSampler", self.num_samples)

    @property
    def num_samples(self):
        """How many indices a pass gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        n, wanted = len(self.data_source), self.num_samples
        _check_number("RandomSampler", n)
        rng = generator_of_pass(self.generator)
        while wanted > 0:
            if self.replacement:
                size = (min(wanted, _PIECE),)
                piece = _ops.randint(0, n, size, device="cpu", generator=rng).tolist()
            else:
                piece = permutation(n, rng)[:wanted]
            yield from piece
            wanted -= len(piece)

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in a new random order for each pass, by one number of `generator`."""

    def __init__(self, indices, generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        for i in permutation(len(self.indices), generator_of_pass(self.generator)):
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to `weights`, anew for each pass."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        _check_number("WeightedRandomSampler", num_samples)
        _check_flag("WeightedRandomSampler", "replacement", replacement)
        self.weights = _ops.as_tensor(weights, dtype=_C.float64)
        if self.weights.dim() != 1:
            raise _C.ValueError(
                "pf.utils.data.WeightedRandomSampler: got weights of shape "
                f"{list(self.weights.shape)}; expected one dimension; pass a weight for each sample"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self):
        rng = generator_of_pass(self.generator)
        picked = _ops.multinomial(self.weights, self.num_samples, self.replacement, generator=rng)
        yield from picked.tolist()

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler[list]):
    """Lists of batch_size indices; the last may be shorter unless drop_last."""

    def __init__(self, sampler, batch_size, drop_last=False):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise _C.ValueError(
                f"pf.utils.data: batch_size should be a positive integer, but got {batch_size!r}"
            )
        if not isinstance(drop_last, bool):
            raise _C.ValueError(
                f"pf.utils.data.BatchSampler: drop_last is {drop_last!r}; expected True or False"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self):
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (1 if rest and not self.drop_last else 0)
