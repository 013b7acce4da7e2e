"""Batches on their way to a device while it works on the one before."""

import collections

from ... import _C
from .collate import moved
from .dataloader import pin_memory

_END = object()


def prefetch(batches, device, ahead=1):
    """The batches with their tensors on `device`, `ahead` of them copied before they are asked for.

    On a GPU copies come from pinned memory and run on a stream of their own, beside the work on
    earlier batches; what uses a batch waits for its copy on the device, not on the host.
    """
    device = _C.device(device)
    if ahead < 1:
        raise _C.ValueError(f"pf.utils.data.prefetch: got ahead {ahead}; expected at least 1")
    if device.type == "cpu":
        for batch in batches:
            yield moved(batch, device)
        return
    from ... import streams

    copies = streams.Stream(device)
    batches, waiting = iter(batches), collections.deque()

    def start():
        batch = next(batches, _END)
        if batch is _END:
            return
        with streams.stream(copies):
            there = moved(pin_memory(batch, device), device, non_blocking=True)
            waiting.append((there, copies.record_event()))

    for _ in range(ahead):
        start()
    while waiting:
        batch, copied = waiting.popleft()
        copied.wait(streams.current_stream(device))
        start()
        yield batch
