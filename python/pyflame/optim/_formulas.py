"""Steps of optimizers as recorded operations, for `differentiable=True`: gradients go through them.

The formulas are those of kernels/optim_rules.h, adamw.h and sgd.h. Each takes the parameter, the
gradient, the states by name and the numbers of the step, and returns the new parameter and states.
"""

from .. import _ops
from .._C import AutogradError
from ..autograd import enable_grad


def _rmsprop(p, g, s, n, centered=False, momentum=False):
    rate, alpha, rest, eps = n[:4]
    square = spread = s["square_avg"] * alpha + rest * (g * g)
    new = {"square_avg": square}
    if centered:
        new["grad_avg"] = s["grad_avg"] + rest * (g - s["grad_avg"])
        spread = square - new["grad_avg"] ** 2
    u = g / (spread.sqrt() + eps)
    if momentum:
        u = new["momentum_buffer"] = s["momentum_buffer"] * n[4] + u
    return p - rate * u, new


def _adagrad(p, g, s, n):
    total = s["sum"] + g * g
    return p - n[0] * (g / (total.sqrt() + n[1])), {"sum": total}


def _adadelta(p, g, s, n):
    rate, rho, rest, eps = n
    square = s["square_avg"] * rho + rest * (g * g)
    u = (s["acc_delta"] + eps).sqrt() / (square + eps).sqrt() * g
    return p - rate * u, {"square_avg": square, "acc_delta": s["acc_delta"] * rho + rest * (u * u)}


def _adamax(p, g, s, n):
    rate, rest, beta2, eps = n
    m = s["exp_avg"] + rest * (g - s["exp_avg"])
    top = _ops.maximum(s["exp_inf"] * beta2, g.abs() + eps)
    return p - rate * (m / top), {"exp_avg": m, "exp_inf": top}


def _averages(g, s, n):
    m = s["exp_avg"] + n[0] * (g - s["exp_avg"])
    v = s["exp_avg_sq"] * n[1] + n[2] * (g * g)
    return m, v, {"exp_avg": m, "exp_avg_sq": v}


def _nadam(p, g, s, n):
    m, v, new = _averages(g, s, n[2:])
    root = (v * n[5]).sqrt() + n[6]
    return p - n[0] * (g / root) - n[1] * (m / root), new


def _radam(p, g, s, n):
    divided, alone, eps = n[0], n[1], n[5]
    m, v, new = _averages(g, s, n[2:])
    if bool(alone != 0):
        return p - alone * m, new
    return p - divided * (m / (v.sqrt() + eps)), new


def _asgd(p, g, s, n):
    p = p * n[0] - n[1] * g
    return p, {"ax": p if n[2] == 1 else s["ax"] + n[2] * (p - s["ax"])}


def _rprop(p, g, s, n):
    low, high, smallest, largest = n
    turn = g * s["prev"]
    before = s["step_size"]
    size = _ops.where(turn > 0, before * high, _ops.where(turn < 0, before * low, before))
    size = size.clamp(smallest, largest)
    g = _ops.where(turn < 0, 0.0, g)
    return p - g.sign() * size, {"prev": g, "step_size": size}


def _lion(p, g, s, n):
    u = s["exp_avg"] * n[1] + n[2] * g
    return p - n[0] * u.sign(), {"exp_avg": s["exp_avg"] * n[3] + n[4] * g}


def _sgd(p, g, s, n):
    rate, momentum, undamped, nesterov = n
    if not momentum:
        return p - rate * g, {}
    before = s.get("momentum_buffer")
    b = g if before is None else before * momentum + undamped * g
    return p - rate * (g + momentum * b if nesterov else b), {"momentum_buffer": b}


def _adam(p, g, s, n):
    rate, root, eps, amsgrad = n[3:]
    m, v, new = _averages(g, s, n)
    if amsgrad:
        v = new["max_exp_avg_sq"] = _ops.maximum(s["max_exp_avg_sq"], v)
    return p - rate * (m / (v.sqrt() * root + eps)), new


_FORMULAS = {
    "rmsprop": _rmsprop,
    "rmsprop_centered": lambda p, g, s, n: _rmsprop(p, g, s, n, centered=True),
    "rmsprop_momentum": lambda p, g, s, n: _rmsprop(p, g, s, n, momentum=True),
    "rmsprop_centered_momentum": lambda p, g, s, n: _rmsprop(p, g, s, n, True, True),
    "adagrad": _adagrad,
    "adadelta": _adadelta,
    "adamax": _adamax,
    "nadam": _nadam,
    "radam": _radam,
    "asgd": _asgd,
    "rprop": _rprop,
    "lion": _lion,
    "sgd": _sgd,
    "adam": _adam,
}


def step(rule, params, grads, states, numbers, decays, decay, maximize):
    """One step, recorded: the parameters are written in place and keep their history."""
    formula = _FORMULAS[rule]
    with enable_grad():
        for p, g, s in zip(params, grads, states):
            if p.is_leaf and p.requires_grad:
                raise AutogradError(
                    f"pf.optim: a step with differentiable=True over a leaf of shape "
                    f"{list(p.shape)} that requires gradients; expected results of operations, "
                    "such as clone() of parameters, that the step can be a part of the history of"
                )
            if maximize:
                g = -g
            before = p.clone()
            if decays == 1:
                g = g + decay * before
            elif decays == 2:
                before = before * decay
            value, new = formula(before, g, s, numbers)
            p.copy_(value)
            s.update(new)
