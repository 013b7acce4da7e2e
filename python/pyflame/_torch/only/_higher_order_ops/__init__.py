"""torch._higher_order_ops: control flow and scans, run as they are written."""

from .. import cond  # noqa: F401
from .associative_scan import associative_scan  # noqa: F401
