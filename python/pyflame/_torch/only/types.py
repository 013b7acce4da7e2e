"""torch.types: names for annotations."""

import builtins as _builtins
import os as _os
from collections.abc import Sequence as _Sequence
from typing import IO as _IO
from typing import Any as _Any
from typing import Union as _Union

from ... import Size, Tensor
from ... import device as _device
from ... import dtype as _dtype
from ..._tensor import UntypedStorage as Storage  # noqa: F401

_int, _float, _bool, _complex = _builtins.int, _builtins.float, _builtins.bool, _builtins.complex
_size = _Union[Size, list[int], tuple[int, ...]]
_TensorOrTensors = _Union[Tensor, _Sequence[Tensor]]
_symint = _int
Number = _Union[int, float, bool]
PySymType = _Union[int, float, bool]
Device = _Union[_device, str, int, None]
FileLike = _Union[str, _os.PathLike[str], _IO[bytes]]
_dispatchkey = _Any
_layout = _qscheme = _Any
__all__ = ["Device", "FileLike", "Number", "Storage", "_device", "_dtype", "_size"]
