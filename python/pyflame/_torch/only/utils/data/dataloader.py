"""torch.utils.data.dataloader: names of it that have others here."""

import typing as _typing

from .....utils.data.dataloader import _Pass

_collate_fn_t = _typing.Callable[[list], _typing.Any]
_worker_init_fn_t = _typing.Callable[[int], None]

_BaseDataLoaderIter = _SingleProcessDataLoaderIter = _MultiProcessingDataLoaderIter = _Pass
