"""torch.autograd.profiler: names of it that have none here."""

import contextlib as _contextlib


class emit_nvtx(_contextlib.nullcontext):
    """Accepted: operations are not marked; torch.cuda.nvtx.range marks what a program names."""

    def __init__(self, enabled=True, record_shapes=False):
        super().__init__(self)


class emit_itt(emit_nvtx):
    """Accepted."""
