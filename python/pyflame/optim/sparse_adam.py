"""SparseAdam."""

from .._C import NotSupportedError
from .optimizer import Optimizer


class SparseAdam(Optimizer):
    """Adam over the rows that a sparse gradient has. Gradients are dense here: a step refuses them,
    as PyTorch's does."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        defaults = {"lr": lr, "betas": tuple(betas), "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)

    def _step(self, group):
        if any(p.grad is not None for p in group["params"]):
            raise NotSupportedError(
                "pf.optim.SparseAdam: got a dense gradient; expected sparse ones, which no operation "
                "gives yet; use Adam"
            )
