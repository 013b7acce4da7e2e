"""torch.utils._foreach_utils: how optimizers of libraries put tensors in groups."""

import collections as _collections


def _get_foreach_kernels_supported_devices():
    """The kinds of devices whose optimizers take all parameters at once."""
    return ["cuda"]


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """{(device, dtype) of the first list: (the lists, those elements of each; their places)}."""
    places = _collections.defaultdict(list)
    for i, t in enumerate(tensorlistlist[0]):
        if t is not None:
            places[t.device, t.dtype].append(i)
    return {
        key: ([[l[i] for i in at] if l else [] for l in tensorlistlist], at if with_indices else [])
        for key, at in places.items()
    }
