"""Adafactor: squares of gradients as a row and a column of each matrix."""

import math

from .. import _ops
from ..autograd import no_grad
from .optimizer import Optimizer


class Adafactor(Optimizer):
    """Steps by g / sqrt(estimate of g²), limited in size and relative to the parameter's own.

    Of a tensor of two dimensions or more the estimate is the product of the averages over its rows
    and its columns (Shazeer and Stern, 2018). `eps` is (least estimate, by None the dtype's own
    epsilon; least size of a parameter), `d` the largest root mean square of a step, and averages
    forget with the rate step**beta2_decay.
    """

    def __init__(
        self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *,
        foreach=None, maximize=False,
    ):  # fmt: skip
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": tuple(eps),
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _check(self, group):
        super()._check(group)
        for wrong, what, value in (
            (group["beta2_decay"] > 0, "beta2_decay", group["beta2_decay"]),
            (group["eps"][0] is not None and group["eps"][0] < 0, "epsilon1", group["eps"][0]),
            (group["eps"][1] < 0, "epsilon2", group["eps"][1]),
            (group["d"] < 1, "clipping threshold d", group["d"]),
        ):
            if wrong:
                raise ValueError(f"pf.optim.Adafactor: invalid {what}: {value}")

    def _fresh(self, p):
        if p.dim() < 2:
            return {"step": 0, "variance": _ops._zeros_beside(p.detach())}
        rows, columns = [*p.shape[:-1], 1], [*p.shape[:-2], 1, p.shape[-1]]
        new = {"dtype": p.dtype, "device": p.device}
        return {
            "step": 0,
            "row_var": _ops.zeros(rows, **new),
            "col_var": _ops.zeros(columns, **new),
        }

    def _loaded(self, key, value, p, where, dtype):
        if key in ("row_var", "col_var"):
            return value.detach().to(p.dtype).to(p.device).clone()
        return super()._loaded(key, value, p, where, dtype)

    def _step(self, group):
        from .._misc import finfo

        lr = float(group["lr"])
        with no_grad():
            for p in group["params"]:
                g = p.grad
                if g is None:
                    continue
                s = self.state[p]
                if not s:
                    s.update(self._fresh(p))
                if group["maximize"]:
                    g = -g
                s["step"] = step = s["step"] + 1
                least = group["eps"][0]
                if least is None:
                    least = finfo(p.dtype).eps
                forget = step ** group["beta2_decay"]
                rate = min(lr, 1 / math.sqrt(step))
                size = p.norm() / math.sqrt(p.numel())
                rate = size.clamp(min=group["eps"][1]) * rate
                if group["weight_decay"] != 0:
                    p.mul_(1 - lr * group["weight_decay"])
                if p.dim() > 1:
                    rows, columns = s["row_var"], s["col_var"]
                    rows.lerp_((g * g).mean(-1, keepdim=True), forget)
                    columns.lerp_((g * g).mean(-2, keepdim=True), forget)
                    whole = rows.mean(-2, keepdim=True).clamp(min=least)
                    estimate = rows * columns / whole
                else:
                    estimate = s["variance"].lerp_(g * g, forget)
                u = estimate.clamp(min=least * least).rsqrt() * g
                limit = (u.norm() / (math.sqrt(u.numel()) * group["d"])).clamp(min=1.0)
                p.sub_(u * (rate / limit))
