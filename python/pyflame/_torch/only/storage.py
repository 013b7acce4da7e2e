"""torch.storage: the memory of tensors, as far as programs look at it."""

import io as _io

from ..._tensor import TypedStorage, UntypedStorage  # noqa: F401
from ...serialization import load as _load


def _load_from_bytes(b):
    """What pickles of PyTorch's tensors call."""
    return _load(_io.BytesIO(b))
