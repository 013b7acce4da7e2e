"""torch.torch_version: the class of torch.__version__."""

from ..version import TorchVersion  # noqa: F401
