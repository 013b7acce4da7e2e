"""torch._subclasses: what libraries ask whether a tensor is."""

from . import fake_tensor

__all__ = ["FakeTensor", "fake_tensor"]
FakeTensor = fake_tensor.FakeTensor
