"""Random numbers: one Philox generator for all devices; the same seed, the same numbers."""

import contextlib as _contextlib
import os as _os

from . import _C
from ._named_errors import name_methods as _name_methods


def seed_number(seed, op="manual_seed"):
    """A seed as a number of 64 bits."""
    try:
        return int(seed) & 0xFFFFFFFFFFFFFFFF
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"pf.{op}: got the seed {seed!r}; expected an int") from None


class Generator:
    """A random state of its own, for `generator=`."""

    def __init__(self, device="cpu"):
        self.device = _C.device(device)
        self._state = (_C.initial_seed(), 0)

    def manual_seed(self, seed):
        """Starts again from a seed; returns the generator."""
        self._state = (seed_number(seed), 0)
        return self

    def seed(self):
        """Starts from a seed of the operating system, and returns it."""
        seed = int.from_bytes(_os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self):
        """The seed it started from."""
        return self._state[0]

    def get_state(self):
        """The state as a uint8 tensor of 16 bytes."""
        return _pack(*self._state)

    def set_state(self, state):
        """Puts back what get_state() returned."""
        self._state = _unpack(state)

    def get_offset(self):
        """How many numbers of its sequence are behind it; on every device (PyTorch: on GPUs)."""
        return self._state[1]

    def set_offset(self, offset):
        """Goes to a place of its sequence, which get_offset() told."""
        if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset < 2**64:
            raise _C.ValueError(
                f"pf.Generator.set_offset: got {offset!r}; expected a whole number from 0 below 2**64; "
                "pass what get_offset() returned"
            )
        self._state = (self._state[0], offset)

    def clone_state(self):
        """A new generator in the state of this one; either then draws without the other."""
        new = Generator(self.device)
        new._state = self._state
        return new


class _Default(Generator):
    def __init__(self):
        self.device = _C.device("cpu")

    @property
    def _state(self):
        return _C._random_state()

    @_state.setter
    def _state(self, state):
        _C._set_random_state(*state)

    def manual_seed(self, seed):
        _C._manual_seed(seed_number(seed))
        return self


default_generator = _Default()


def _pack(seed, offset):
    data = int(seed).to_bytes(8, "little") + int(offset).to_bytes(8, "little")
    return _C.tensor(list(data), dtype=_C.uint8)


def _unpack(state):
    data = bytes(state.tolist())
    if len(data) != 16:
        raise _C.ValueError(
            f"pf.set_rng_state: got {len(data)} bytes; expected the 16 bytes of get_rng_state()"
        )
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")


def manual_seed(seed):
    """Starts the random generator from a seed; returns it."""
    return default_generator.manual_seed(seed)


def seed():
    """Starts the random generator from a seed of the operating system, and returns it."""
    return default_generator.seed()


def initial_seed():
    """The seed the random generator started from."""
    return _C.initial_seed()


def get_rng_state():
    """The state of the random generator as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Puts back what get_rng_state() returned."""
    default_generator.set_state(new_state)


class fork_rng(_contextlib.ContextDecorator):
    """Within it the random state may change; afterwards it is as before. `devices` and `device_type`
    are accepted: there is one state for all."""

    def __init__(self, devices=None, enabled=True, device_type="cuda"):
        self.enabled = enabled

    def __enter__(self):
        self._before = _C._random_state()

    def __exit__(self, *unused):
        if self.enabled:
            _C._set_random_state(*self._before)


_name_methods(__name__, "Generator")
