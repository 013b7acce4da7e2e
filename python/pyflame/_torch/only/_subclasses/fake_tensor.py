"""torch._subclasses.fake_tensor: no tensor is one; the device "meta" has shapes without values."""

from ...absent import absent

_needs = absent(__name__, "tensors without values are those of the device 'meta'")
FakeTensor, FakeTensorMode = map(_needs, ("FakeTensor", "FakeTensorMode"))


def is_fake(x):
    """False."""
    return False
