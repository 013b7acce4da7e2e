"""Checks of gradients against finite differences."""

import itertools

from .. import _C
from .._grad_mode import enable_grad, no_grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Tensor = _C.Tensor


class GradcheckError(_C.PyFlameError):
    """A gradient differs from finite differences."""


class _Difference(Exception):
    pass


def _sequence(x):
    return (x,) if isinstance(x, Tensor) else tuple(x)


def _outputs(fn, inputs):
    out = fn(*inputs)
    out = (out,) if isinstance(out, Tensor) else tuple(out)
    return [o for o in out if isinstance(o, Tensor) and o.is_floating_point()]


def _of_parts(func, inputs):
    """A function of complex numbers as one of their parts: gradients are dL/dRe + i dL/dIm."""
    as_real, as_complex = _C._functions["view_as_real"], _C._functions["view_as_complex"]
    is_complex = [isinstance(x, Tensor) and x.is_complex() for x in inputs]

    def of_parts(*args):
        out = func(*[as_complex(a) if c else a for a, c in zip(args, is_complex)])
        return [
            as_real(o) if isinstance(o, Tensor) and o.is_complex() else o for o in _sequence(out)
        ]

    inputs = [
        as_real(x.detach()).requires_grad_(x.requires_grad) if c else x
        for x, c in zip(inputs, is_complex)
    ]
    return of_parts, tuple(inputs)


def _like(values, t):
    return _C.tensor(values, dtype=t.dtype, device=t.device).reshape(t.shape)


def _unit(t, k):
    values = [0.0] * t.numel()
    values[k] = 1.0
    return _like(values, t)


def _uneven(t, shift):
    """Fixed weights that no structure of a function is likely to hide from."""
    return _like([1.0 + 0.5 * ((3 * k + shift) % 7) / 7 for k in range(t.numel())], t)


def _moved(fn, inputs, x, step):
    """Outputs for x moved by `step`, a function of its memory's elements, and by its negative."""
    with no_grad():
        base = x.detach()
        for sign in (1, -1):
            step(base, sign)
            yield [o.clone() for o in _outputs(fn, inputs)]
            step(base, -sign)


def _numeric(fn, inputs, x, eps):
    """d outputs / d x, one list of rows per output: row i belongs to element i of x."""
    rows = []
    for index in itertools.product(*map(range, x.shape)):
        before = x.detach()[index].item()

        def step(base, sign, index=index, before=before):
            moves = base[index].item() == before
            base[index] = before + sign * eps if moves else before

        up, down = _moved(fn, inputs, x, step)
        rows.append([((u - d) / (2 * eps)).reshape(-1).tolist() for u, d in zip(up, down)])
    return rows


def _directional(fn, inputs, x, direction, eps):
    """The derivative of each output along a direction of x."""
    kept = x.detach().clone()

    def step(base, sign):
        moves = _C._functions["equal"](base, kept)
        base.copy_(kept + sign * eps * direction if moves else kept)

    up, down = _moved(fn, inputs, x, step)
    return [(u - d) / (2 * eps) for u, d in zip(up, down)]


def _backward(o, xs, g, batched=False):
    from . import grad

    if not o.requires_grad:
        return [None] * len(xs)
    return grad(o, xs, g, retain_graph=True, allow_unused=True, is_grads_batched=batched)


def _flat(found, x, rows=None):
    if found is not None:
        return found.reshape(-1).tolist() if rows is None else found.reshape(rows, -1).tolist()
    zeros = [0.0] * x.numel()
    return zeros if rows is None else [zeros] * rows


class _Check:
    def __init__(self, func, inputs, eps, atol, rtol, nondet_tol):
        self.func, self.inputs, self.eps = func, inputs, eps
        self.atol, self.rtol, self.nondet_tol = atol, rtol, nondet_tol
        self.checked = [
            (i, x) for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad
        ]
        if not self.checked:
            raise _C.ValueError(
                "pf.gradcheck: got no input that requires grad; call requires_grad_() on one"
            )
        self.xs = [x for _, x in self.checked]
        self.outputs = _outputs(func, inputs)

    def near(self, got, want, what):
        if not abs(got - want) <= self.atol + self.rtol * abs(want):
            raise _Difference(
                f"got {got:.6g} as {what}; expected {want:.6g} (finite differences, "
                f"eps={self.eps}); check the backward, or whether the function is smooth and "
                "float64 there"
            )

    def compare(self, analytic, numeric, how=""):
        """[output][input][element of output][element of input] with [input][element][output][...]."""
        for p, (i, x) in enumerate(self.checked):
            for n, o in enumerate(self.outputs):
                for k, j in itertools.product(range(o.numel()), range(x.numel())):
                    self.near(
                        analytic[n][p][k][j],
                        numeric[p][j][n][k],
                        f"{how}derivative of output {n} element {k} with respect to input {i} "
                        f"element {j}",
                    )

    def reverse(self):
        analytic = []
        for n, o in enumerate(self.outputs):
            rows = [[] for _ in self.xs]
            for k in range(o.numel()):
                found = _backward(o, self.xs, _unit(o, k))
                again = _backward(o, self.xs, _unit(o, k)) if k == 0 else found
                for row, x, f, a in zip(rows, self.xs, found, again):
                    values = _flat(f, x)
                    if any(abs(u - v) > self.nondet_tol for u, v in zip(values, _flat(a, x))):
                        raise _Difference(
                            f"two backward passes over output {n} gave different gradients; "
                            "expected the same (within nondet_tol)"
                        )
                    row.append(values)
            analytic.append(rows)
        return analytic

    def batched(self):
        """The rows as one backward pass over a batch of gradients makes them."""
        analytic = []
        for o in self.outputs:
            n = o.numel()
            if n == 0:
                analytic.append([[] for _ in self.xs])
                continue
            eye = _C._functions["eye"](n, dtype=o.dtype, device=o.device).reshape(n, *o.shape)
            found = _backward(o, self.xs, eye, batched=True)
            analytic.append([_flat(f, x, n) for f, x in zip(found, self.xs)])
        return analytic

    def forward(self):
        from . import forward_ad

        analytic = [[[[] for _ in range(o.numel())] for _ in self.xs] for o in self.outputs]
        for p, (i, x) in enumerate(self.checked):
            for j in range(x.numel()):
                for n, t in enumerate(self.tangents(forward_ad, i, _unit(x, j))):
                    for k, value in enumerate(_flat(t, self.outputs[n])):
                        analytic[n][p][k].append(value)
        return analytic

    def tangents(self, forward_ad, i, tangent):
        with forward_ad.dual_level():
            args = list(self.inputs)
            args[i] = forward_ad.make_dual(args[i].detach(), tangent)
            return [forward_ad.unpack_dual(o).tangent for o in _outputs(self.func, args)]

    def fast(self, reverse, forward):
        """v J u for one v and one u, in place of every entry."""
        sides = [_uneven(x.detach(), p) for p, x in enumerate(self.xs)]
        weights = [_uneven(o.detach(), n) for n, o in enumerate(self.outputs)]
        found = []  # before the inputs move
        for n, (o, v) in enumerate(zip(self.outputs, weights)):
            grads = _backward(o, self.xs, v) if reverse else ()
            found += [(n, p, (g, u)) for p, (g, u) in enumerate(zip(grads, sides))]
        if forward:
            from . import forward_ad

            for p, (i, _) in enumerate(self.checked):
                tangents = self.tangents(forward_ad, i, sides[p])
                found += [(n, p, (t, weights[n])) for n, t in enumerate(tangents)]
        for p, x in enumerate(self.xs):
            numeric = _directional(self.func, self.inputs, x, sides[p], self.eps)
            for n, q, (got, other) in found:
                if q == p:
                    self.near(
                        0.0 if got is None else (got * other).sum().item(),
                        (weights[n] * numeric[n]).sum().item(),
                        f"derivative of output {n} along a direction of input {p}",
                    )


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """Compares gradients of func(*inputs) with finite differences; use float64 or complex128 inputs.

    Also, where asked: forward-mode derivatives (`check_forward_ad`) and one backward pass over a
    batch of gradients (`check_batched_grad`). `fast_mode` compares one number for each pair of
    output and input. Each output is always differentiated with the others' gradients undefined.
    Returns True; raises GradcheckError (or returns False) when they differ.
    """
    check = _Check(*_of_parts(func, _sequence(inputs)), eps, atol, rtol, nondet_tol)
    try:
        one = check.reverse() if check_batched_grad or not fast_mode else None
        if check_batched_grad:
            for n, (alone, together) in enumerate(zip(one, check.batched())):
                for p, (a, b) in enumerate(zip(alone, together)):
                    for u, v in zip(itertools.chain(*a), itertools.chain(*b)):
                        check.near(v, u, f"batched gradient of output {n}, input {p}")
        if fast_mode:
            check.fast(check_backward_ad, check_forward_ad)
        else:  # what needs the values as they were comes first: the inputs are moved in place
            forward = check.forward() if check_forward_ad else None
            numeric = [_numeric(check.func, check.inputs, x, eps) for x in check.xs]
            if check_backward_ad:
                check.compare(one, numeric)
            if forward:
                check.compare(forward, numeric, "forward-mode ")
    except _Difference as e:
        if raise_exception:
            raise GradcheckError("pf.gradcheck: " + str(e)) from None
        return False
    return True


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """gradcheck of the gradients of func: second derivatives."""
    from . import grad

    inputs = _sequence(inputs)
    if grad_outputs is None:
        func, inputs = _of_parts(func, inputs)
        grad_outputs = []
        for o in _outputs(func, inputs):
            w = _uneven(o.detach(), 0)
            if gen_non_contig_grad_outputs and w.dim():
                w = _C._functions["stack"]([w, w], -1)[..., 0]
            grad_outputs.append(w.detach().requires_grad_())
    grad_outputs = _sequence(grad_outputs)
    count = len(inputs)

    def gradients(*args):
        xs, gs = args[:count], args[count:]
        with enable_grad():
            wanted = [
                x.requires_grad_() if x.is_leaf else x
                for x, given in zip(xs, inputs)
                if isinstance(given, Tensor) and given.requires_grad
            ]
            outs = _outputs(func, xs)
            pairs = [(o, g) for o, g in zip(outs, gs) if o.requires_grad]
            return grad(
                [o for o, _ in pairs],
                wanted,
                [g for _, g in pairs],
                create_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )

    return gradcheck(
        gradients,
        (*inputs, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )
