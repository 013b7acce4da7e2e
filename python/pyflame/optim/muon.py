"""Muon: momentum whose matrix is made orthogonal."""

import math

from .. import _ops
from .._named_errors import name_errors as _name_errors
from ..autograd import no_grad
from .optimizer import Optimizer

_COEFFICIENTS = (3.4445, -4.775, 2.0315)


def orthogonalized(g, coefficients=_COEFFICIENTS, steps=5, eps=1e-7):
    """The orthogonal factor of a matrix, nearly: its singular values come near 1.

    `steps` of x = a x + (b x x' + c (x x')²) x from g / |g|, in bfloat16 (a Newton-Schulz iteration).
    """
    a, b, c = coefficients
    tall = g.shape[0] > g.shape[1]
    x = g.to(_ops.bfloat16)
    if tall:
        x = x.t()
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        s = x @ x.t()
        x = _ops.addmm(x, _ops.addmm(s, s, s, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


class Muon(Optimizer):
    """p -= rate * orthogonal factor of the momentum, for matrices (Jordan, 2024).

    Give it the weights of hidden layers, and the other parameters to AdamW. Weight decay is
    decoupled. `adjust_lr_fn` says how the rate follows the shape: None or "original" multiplies lr
    by sqrt(max(1, rows / columns)), "match_rms_adamw" by 0.2 sqrt(max(rows, columns)), so that
    AdamW's rates fit.
    """

    def __init__(
        self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
        ns_coefficients=_COEFFICIENTS, eps=1e-7, ns_steps=5, adjust_lr_fn=None,
    ):  # fmt: skip
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": tuple(ns_coefficients),
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def _check(self, group):
        super()._check(group)
        if not group["momentum"] >= 0:
            raise ValueError(f"pf.optim.Muon: invalid momentum: {group['momentum']}")
        if len(group["ns_coefficients"]) != 3 or not 0 <= group["ns_steps"] < 100:
            raise ValueError(
                f"pf.optim.Muon: got ns_coefficients {group['ns_coefficients']} and ns_steps "
                f"{group['ns_steps']}; expected three numbers and fewer than 100 steps"
            )
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"pf.optim.Muon: got adjust_lr_fn {group['adjust_lr_fn']!r}; expected None, "
                "'original' or 'match_rms_adamw'"
            )
        for p in group["params"]:
            if p.dim() != 2:
                raise ValueError(
                    f"pf.optim.Muon: got a parameter of shape {list(p.shape)}; expected matrices; "
                    "give biases, norms, embeddings and convolutions to AdamW"
                )

    def _rate(self, group, shape):
        rows, columns = shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            return float(group["lr"]) * 0.2 * math.sqrt(max(rows, columns))
        return float(group["lr"]) * math.sqrt(max(1, rows / columns))

    def _step(self, group):
        momentum = group["momentum"]
        with no_grad():
            for p in group["params"]:
                g = p.grad
                if g is None:
                    continue
                s = self.state[p]
                if not s:
                    s["momentum_buffer"] = _ops._zeros_beside(p.detach())
                m = s["momentum_buffer"].lerp_(g, 1 - momentum)
                u = g.lerp(m, momentum) if group["nesterov"] else m
                u = orthogonalized(u, group["ns_coefficients"], group["ns_steps"], group["eps"])
                if group["weight_decay"] != 0:
                    p.mul_(1 - float(group["lr"]) * group["weight_decay"])
                p.add_(u.to(p.dtype), alpha=-self._rate(group, p.shape))


_name_errors(__name__)
