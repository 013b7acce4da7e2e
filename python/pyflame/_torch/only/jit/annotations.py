"""torch.jit.annotations: types that TorchScript reads; Python does not."""


class _Broadcasting:
    def __getitem__(self, of):
        return list[of]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _Broadcasting()
