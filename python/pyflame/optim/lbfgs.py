"""L-BFGS: steps by gradients and an estimate of the inverse Hessian from the last ones."""

import math

from .. import _C, _ops
from .._C import Tensor
from .._named_errors import name_errors as _name_errors
from ..autograd import enable_grad, no_grad
from .optimizer import Optimizer


def cubic_minimum(x1, f1, g1, x2, f2, g2, bounds=None):
    """Where the cubic through two points with these values and slopes is least, within bounds (by
    default the points themselves); the middle where it has no minimum."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    if x1 > x2:
        x1, f1, g1, x2, f2, g2 = x2, f2, g2, x1, f1, g1
    a = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = a * a - g1 * g2
    if not square >= 0:
        return (low + high) / 2
    root = math.sqrt(square)
    at = x2 - (x2 - x1) * ((g2 + root - a) / (g2 - g1 + 2 * root))
    return min(max(at, low), high)


class _Point:
    """A step length along the direction, with loss, gradient and slope there."""

    def __init__(self, t, loss, grad, slope):
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope


def strong_wolfe(
    evaluate, start, t, reach, enough=1e-4, flat=0.9, least_change=1e-9, most_steps=25
):
    """(point, evaluations): a step length along a direction that satisfies the strong Wolfe conditions.

    `evaluate(t)` gives the _Point at t, `start` is the one at 0, t the first to try, and `reach` the
    largest element of the direction. First points are taken further out until two of them bracket
    such a length, then the bracket is narrowed by cubic interpolation (Nocedal and Wright, chapter
    3.5, with the safeguards of Schmidt's minFunc).
    """

    def too_high(p):
        return p.loss > start.loss + enough * p.t * start.slope

    def is_flat(p):
        return abs(p.slope) <= -flat * start.slope

    before, now = start, evaluate(t)
    evaluations, steps = 1, 0
    bracket = None
    while steps < most_steps:
        if too_high(now) or (steps > 1 and now.loss >= before.loss):
            bracket = [before, now]
            break
        if is_flat(now):
            return now, evaluations
        if now.slope >= 0:
            bracket = [before, now]
            break
        bounds = now.t + 0.01 * (now.t - before.t), now.t * 10
        t = cubic_minimum(
            before.t, before.loss, before.slope, now.t, now.loss, now.slope, bounds
        )  # fmt: skip
        before, now = now, evaluate(t)
        evaluations += 1
        steps += 1
    if bracket is None:
        bracket = [start, now]
    low = 0 if bracket[0].loss <= bracket[1].loss else 1  # which end is the better
    stuck = False
    while steps < most_steps:
        if abs(bracket[1].t - bracket[0].t) * reach < least_change:
            break
        first, last = bracket
        t = cubic_minimum(first.t, first.loss, first.slope, last.t, last.loss, last.slope)
        left, right = min(first.t, last.t), max(first.t, last.t)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:  # too near an end to narrow the bracket
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = evaluate(t)
        evaluations += 1
        steps += 1
        high = 1 - low
        if too_high(now) or now.loss >= bracket[low].loss:
            bracket[high] = now
            low = 0 if bracket[0].loss <= bracket[1].loss else 1
        else:
            done = is_flat(now)
            if not done and now.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
            if done:
                break
    return bracket[low], evaluations


def _real(x):
    """A tensor, of complex numbers as their parts: a vector of parameters has real ones."""
    return _ops.view_as_real(x) if x.is_complex() else x


class LBFGS(Optimizer):
    """Quasi-Newton steps over all parameters as one vector; `step(closure)` makes up to `max_iter`.

    The closure clears the gradients, computes the loss, calls backward() and returns the loss; it is
    called up to `max_eval` times a step (by None 1.25 max_iter), and once more where that ends a line
    search. `line_search_fn` is None (each step
    is `lr` long) or "strong_wolfe". A step ends early when no gradient is above `tolerance_grad`, or
    nothing changes by more than `tolerance_change`. The last `history_size` steps are kept.
    """

    def __init__(
        self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
        history_size=100, line_search_fn=None,
    ):  # fmt: skip
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError(
                f"pf.optim.LBFGS: got {len(self.param_groups)} parameter groups; expected one; it "
                "has no options for some of the parameters"
            )

    def _check(self, group):
        super()._check(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise _C.ValueError(
                f"pf.optim.LBFGS: got line_search_fn {group['line_search_fn']!r}; expected None or "
                "'strong_wolfe'"
            )

    def _loaded(self, key, value, p, where, dtype):
        if isinstance(value, Tensor):
            return value.detach().clone()
        if isinstance(value, (list, tuple)):
            return [self._loaded(key, v, p, where, dtype) for v in value]
        return value

    # ---- the parameters as one vector ------------------------------------------------------------

    def _flat_grad(self):
        grads = [
            (_ops.zeros_like(p) if p.grad is None else p.grad).detach()
            for p in self.param_groups[0]["params"]
        ]
        return _ops.cat([_real(g).reshape(-1) for g in grads])

    def _move(self, origin, t, direction):
        """Sets the parameters to origin + t * direction."""
        at = 0
        for p, start in zip(self.param_groups[0]["params"], origin):
            real = _real(start)
            n = real.numel()
            moved = real + direction[at : at + n].view(real.shape) * t
            p.copy_(_ops.view_as_complex(moved) if p.is_complex() else moved)
            at += n

    # ---- a step -----------------------------------------------------------------------------------

    def step(self, closure):
        """Up to max_iter steps; returns the loss from before them."""
        with no_grad():
            return self._iterate(self.param_groups[0], closure)

    def _iterate(self, group, closure):
        lr = float(group["lr"])
        history, change = group["history_size"], group["tolerance_change"]

        def evaluate():
            with enable_grad():
                loss = closure()
            s["func_evals"] += 1
            return loss

        params = group["params"]
        s = self.state[params[0]]
        s.setdefault("func_evals", 0)
        s.setdefault("n_iter", 0)
        original = evaluate()
        loss = float(original)
        evaluations = 1
        grad = self._flat_grad()
        if grad.abs().max().item() <= group["tolerance_grad"]:
            return original
        d, t = s.get("d"), s.get("t")
        dirs, steps, ro = s.get("old_dirs"), s.get("old_stps"), s.get("ro")
        scale, before = s.get("H_diag"), s.get("prev_flat_grad")
        loss_before = s.get("prev_loss")

        for iteration in range(1, group["max_iter"] + 1):
            s["n_iter"] += 1
            if s["n_iter"] == 1:
                d, dirs, steps, ro, scale = -grad, [], [], [], 1
            else:
                y, step = grad - before, d * t
                ys = y.dot(step).item()
                if ys > 1e-10:
                    if len(dirs) == history:
                        dirs.pop(0), steps.pop(0), ro.pop(0)
                    dirs.append(y)
                    steps.append(step)
                    ro.append(1.0 / ys)
                    scale = ys / y.dot(y).item()
                d, factors = self._direction(grad, dirs, steps, ro, scale)
                s["al"] = factors + [None] * (history - len(factors))
            before, loss_before = grad.clone(), loss
            t = min(1.0, 1.0 / grad.abs().sum().item()) * lr if s["n_iter"] == 1 else lr
            slope = grad.dot(d).item()
            if slope > -change:
                break
            made = 0
            origin = [p.detach().clone() for p in params]
            if group["line_search_fn"] is not None:

                def at(length, origin=origin, d=d):
                    self._move(origin, length, d)
                    value = float(evaluate())
                    g = self._flat_grad()
                    self._move(origin, 0.0, d)
                    return _Point(length, value, g, g.dot(d).item())

                point, made = strong_wolfe(
                    at, _Point(0, loss, grad, slope), t, d.abs().max().item(),
                    most_steps=max(0, group["max_eval"] - evaluations),
                )  # fmt: skip
                loss, grad, t = point.loss, point.grad, point.t
                self._move(origin, t, d)
                largest = grad.abs().max().item()
            else:
                self._move(origin, t, d)
                largest = None
                if iteration != group["max_iter"]:
                    loss = float(evaluate())
                    grad = self._flat_grad()
                    largest = grad.abs().max().item()
                    made = 1
            evaluations += made
            if (
                iteration == group["max_iter"]
                or evaluations >= group["max_eval"]
                or largest <= group["tolerance_grad"]
                or (d * t).abs().max().item() <= change
                or abs(loss - loss_before) < change
            ):
                break

        s.update(
            d=d, t=t, old_dirs=dirs, old_stps=steps, ro=ro, H_diag=scale, prev_flat_grad=before,
            prev_loss=loss_before,
        )  # fmt: skip
        return original

    @staticmethod
    def _direction(grad, dirs, steps, ro, scale):
        """(minus the estimated inverse Hessian times the gradient, the factors of the first of its two
        loops, which the state of PyTorch has)."""
        q, factors = -grad, []
        for y, step, r in zip(reversed(dirs), reversed(steps), reversed(ro)):
            factors.append(step.dot(q) * r)
            q = q - y * factors[-1]
        q = q * scale
        for y, step, r, f in zip(dirs, steps, ro, reversed(factors)):
            q = q + step * (f - y.dot(q) * r)
        return q, factors[::-1]


_name_errors(__name__)
