"""Every source of random orders: passes differ, seeds repeat them, a kept state resumes them.

One table of sources, one of promises, under pyflame and, where it is installed, under PyTorch: what
is asked here holds there too.
"""

import importlib
import importlib.util
import itertools
import random

import numpy as np
import pytest

import pyflame as pf

N = 40


def modules():
    yield "pyflame"
    if importlib.util.find_spec("torch"):
        yield "torch"


@pytest.fixture(params=modules())
def torch(request):
    module = importlib.import_module(request.param)
    importlib.import_module(request.param + ".utils.data")
    module.manual_seed(0)
    return module


def flat(batches):
    return [int(i) for (b,) in batches for i in b]


# Each makes a function that gives the order of the next pass, from a module and a generator.
def shuffled(t, g, **options):
    data = t.utils.data
    loader = data.DataLoader(
        data.TensorDataset(t.arange(N)), batch_size=7, shuffle=True, generator=g, **options
    )
    return lambda: flat(loader)


def fresh_loader(t, g):
    return lambda: shuffled(t, g)()


def workers(t, g):
    return shuffled(t, g, num_workers=2)


def sampler(name, *args, **options):
    def make(t, g):
        made = getattr(t.utils.data, name)(*args, **options, generator=g)
        return lambda: list(made)

    return make


def fresh_sampler(t, g):
    return lambda: list(t.utils.data.RandomSampler(range(N), generator=g))


def split(t, g):
    parts = lambda: t.utils.data.random_split(range(N), [N // 2, N - N // 2], generator=g)  # noqa: E731
    return lambda: [i for part in parts() for i in part.indices]


SOURCES = {
    "DataLoader": shuffled,
    "DataLoader made for each pass": fresh_loader,
    "DataLoader with workers": workers,
    "RandomSampler": sampler("RandomSampler", range(N)),
    "RandomSampler made for each pass": fresh_sampler,
    "RandomSampler with replacement": sampler("RandomSampler", range(N), replacement=True),
    "RandomSampler beyond its size": sampler("RandomSampler", range(N), num_samples=N + 5),
    "SubsetRandomSampler": sampler("SubsetRandomSampler", range(100, 100 + N)),
    "WeightedRandomSampler": sampler("WeightedRandomSampler", [1.0, 2.0, 3.0], N),
    "random_split": split,
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("own", [True, False], ids=["generator", "global"])
def test_passes_differ_and_repeat(torch, name, own):
    def generator(seed):
        return torch.Generator().manual_seed(seed) if own else torch.manual_seed(seed) and None

    def passes(seed, n=3):
        g = generator(seed)
        next_pass = SOURCES[name](torch, g)
        return [next_pass() for _ in range(n)]

    first = passes(7)
    assert first[0] != first[1] != first[2] != first[0]
    assert passes(7) == first
    assert passes(8) != first


@pytest.mark.parametrize("name", SOURCES)
def test_a_kept_state_resumes(torch, name):
    g = torch.Generator().manual_seed(3)
    next_pass = SOURCES[name](torch, g)
    next_pass()
    state = g.get_state()
    rest = [next_pass(), next_pass()]
    again = torch.Generator()
    again.set_state(state)
    next_pass = SOURCES[name](torch, again)
    assert [next_pass(), next_pass()] == rest


@pytest.mark.parametrize("name", SOURCES)
def test_a_generator_is_all_that_counts(torch, name):
    """Nothing else is drawn from, and nothing else that draws changes the order."""
    if name == "DataLoader with workers":
        pytest.skip("as the DataLoader")

    def order(noise):
        torch.manual_seed(noise)
        g = torch.Generator().manual_seed(5)
        return [SOURCES[name](torch, g)() for _ in range(2)], torch.rand(2).tolist()

    a, b = order(1), order(2)
    assert a[0] == b[0]
    torch.manual_seed(1)
    assert a[1] == torch.rand(2).tolist()


def test_an_order_is_the_same_with_and_without_workers(torch):
    def orders(make):
        torch.manual_seed(11)
        g = torch.Generator().manual_seed(2)
        next_pass = make(torch, g)
        return [next_pass(), next_pass()]

    assert orders(workers) == orders(shuffled)


def test_every_index_once(torch):
    for name in ("DataLoader", "RandomSampler", "SubsetRandomSampler", "random_split"):
        order = SOURCES[name](torch, torch.Generator().manual_seed(1))()
        assert sorted(i % 100 for i in order) == list(range(N)), name
    beyond = SOURCES["RandomSampler beyond its size"](torch, None)()
    assert sorted(beyond[:N]) == list(range(N)) and len(set(beyond[N:])) == 5


class Noise:
    """Samples that are the noise of whoever makes them."""

    def __init__(self, t):
        self.t = t

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return float(np.random.rand()), random.random(), self.t.rand(1).item()


@pytest.mark.parametrize("own", [True, False], ids=["generator", "global"])
def test_workers_differ_between_passes_and_loaders(torch, own):
    """A loader that is built anew for every epoch must not make the same augmentations again."""

    def noise(seed, anew):
        g = torch.Generator().manual_seed(seed) if own else torch.manual_seed(seed) and None
        data = torch.utils.data
        make = lambda: data.DataLoader(Noise(torch), batch_size=None, num_workers=2, generator=g)  # noqa: E731
        loader, rows = make(), []
        for _ in range(2):
            rows += list(make() if anew else loader)
        return rows

    for anew in (False, True):
        rows = noise(4, anew)
        for column in zip(*rows):
            assert len(set(column)) == len(column) == 16  # no worker and no pass repeats another
        assert noise(4, anew) == rows


def test_ten_billion_samples_are_drawn_as_they_are_asked_for(torch):
    made = torch.utils.data.RandomSampler(range(10), replacement=True, num_samples=int(1e10))
    assert len(made) == int(1e10)
    drawn = list(itertools.islice(iter(made), 5000))
    assert set(drawn) == set(range(10))
    assert abs(np.mean(drawn) - 4.5) < 5 * np.std(drawn) / 5000**0.5
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.arange(10)), batch_size=64, sampler=made
    )
    (batch,) = next(iter(loader))
    assert batch.shape == (64,) and len(loader) == int(1e10) // 64


def test_the_generators_of_python_seed_too():
    ds = pf.utils.data.TensorDataset(pf.arange(N))

    def passes():
        loader = pf.utils.data.DataLoader(ds, shuffle=True, generator=random.Random(1))
        return flat(loader), flat(loader)

    a, b = passes()
    assert a != b and passes() == (a, b)


def test_bad_arguments(torch):
    data = torch.utils.data
    for bad in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match="num_samples"):
            data.WeightedRandomSampler([1.0], bad)
    with pytest.raises(ValueError, match="num_samples"):
        data.RandomSampler([])
    with pytest.raises(ValueError, match="num_samples"):
        data.DataLoader([], shuffle=True)
    with pytest.raises(TypeError, match="replacement"):
        data.RandomSampler([1], replacement=1)
    with pytest.raises(ValueError, match="weights"):
        data.WeightedRandomSampler([[1.0]], 2)
