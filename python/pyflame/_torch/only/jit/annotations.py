"""torch.jit.annotations: types that TorchScript reads; Python does not."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: F401, UP035


class _Broadcasting:
    def __getitem__(self, of):
        return list[of]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _Broadcasting()
