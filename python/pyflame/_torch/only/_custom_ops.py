"""torch._custom_ops: the older names of torch.library."""

from .library import custom_op, impl, impl_abstract  # noqa: F401
