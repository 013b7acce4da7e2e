"""The random state under torch.cuda's names. There is one generator for all devices, so each GPU's
state is the same."""

from .. import _C
from .. import random as _random
from ..random import initial_seed, manual_seed, seed  # noqa: F401 (names of torch.cuda)

manual_seed_all = manual_seed


def _count():
    return _C._device_count("rocm") + _C._device_count("cuda")


def get_rng_state(device="cuda"):
    """The random state as a uint8 tensor; DeviceError where there is no GPU."""
    if not _count():
        raise _C.DeviceError(
            "pf.cuda.get_rng_state: there is no usable GPU; expected one; use pf.get_rng_state()"
        )
    return _random.get_rng_state()


def get_rng_state_all():
    """A list with the random state for each GPU; empty where there is none."""
    return [_random.get_rng_state() for _ in range(_count())]


def set_rng_state(new_state, device="cuda"):
    """Puts back what get_rng_state() returned."""
    if _count():
        _random.set_rng_state(new_state)


def set_rng_state_all(new_states):
    """Puts back what get_rng_state_all() returned."""
    for state in new_states:
        set_rng_state(state)


seed_all = seed
