"""The largest batch that fits into memory, by measuring."""

import contextlib

from .. import _C, memory


def find_batch_size(step, *, low=8, high=64, share=0.8, device=None):
    """The largest batch size from `low` to `high` whose step stays within `share` of the memory that
    is free now (of the limit, where one is set).

    `step(n)` runs one training step with n samples. Two small ones tell what a sample takes, the
    size that follows is tried, and made smaller while it does not fit. Returns at least `low`, which
    is tried as well: OutOfMemoryError when even that does not fit. `high` None is no upper end.

    Args:
        step: called with a batch size; what it makes must be gone when it returns.
        device: the memory of which device; the current one when None.
    """
    if not 1 <= low <= (low if high is None else high) or not 0 < share <= 1:
        raise _C.ValueError(
            f"pf.training.find_batch_size: got low {low}, high {high} and share {share}; expected "
            "1 <= low <= high and a share above 0, of 1 at most"
        )

    def peak(n):
        memory.empty_cache(device)
        memory.reset_peak_memory_stats(device)
        before = memory.memory_allocated(device)
        try:
            step(n)
            _C.synchronize()
        except _C.OutOfMemoryError:
            with contextlib.suppress(_C.OutOfMemoryError):
                _C.synchronize()  # what else waited for memory must not fail later
            raise
        return memory.max_memory_allocated(device) - before

    peak(low)  # makes what is made once: the state of an optimizer
    memory.empty_cache(device)
    limit = memory.memory_stats(device)["limit"] - memory.memory_allocated(device)
    room = min(memory.mem_get_info(device)[0], limit) * share
    first, second = peak(low), peak(2 * low)
    each = max((second - first) / low, 1.0)
    n = int(low + (room - first) / each)
    n = max(low, n if high is None else min(n, high))
    while n > low:
        try:
            if peak(n) <= room:
                break
        except _C.OutOfMemoryError:
            pass
        n = max(low, int(n * 0.9))
    return n
