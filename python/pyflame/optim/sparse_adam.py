"""SparseAdam."""

from .._C import NotSupportedError
from .optimizer import Optimizer


class SparseAdam(Optimizer):
    """Adam over the rows that a sparse gradient has: averages of others stay as they are. Dense gradients
    are refused, as PyTorch's does."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        defaults = {"lr": lr, "betas": tuple(betas), "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)

    def _check(self, group):
        super()._check(group)
        if not group["lr"] > 0 or not group["eps"] > 0:
            raise ValueError(
                f"pf.optim.SparseAdam: invalid lr or eps: {group['lr']}, {group['eps']}; expected more than 0"
            )
        self._check_betas(group)

    def _step(self, group):
        params = [p for p in group["params"] if p.grad is not None]
        if any(p.grad.layout == "strided" for p in params):
            raise NotSupportedError(
                "pf.optim.SparseAdam: got a dense gradient; expected sparse ones, as an embedding with "
                "sparse=True has; use Adam"
            )
        if params:
            from ..sparse._steps import sparse_adam

            for p in params:
                sparse_adam(
                    p, p.grad, self.state[p], float(group["lr"]), group["betas"], group["eps"],
                    group["maximize"],
                )  # fmt: skip
