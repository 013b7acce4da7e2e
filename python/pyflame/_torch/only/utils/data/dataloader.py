"""torch.utils.data.dataloader: names of it that have others here."""

from .....utils.data.dataloader import _Pass

_BaseDataLoaderIter = _SingleProcessDataLoaderIter = _MultiProcessingDataLoaderIter = _Pass
