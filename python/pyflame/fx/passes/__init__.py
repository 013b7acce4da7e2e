"""What is done with graphs: shapes of values."""

from . import shape_prop  # noqa: F401
