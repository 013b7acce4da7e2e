"""Derivatives of functions: jacobians, hessians and their products with vectors.

`func` takes one tensor or several and gives one or several. Results have the structure of the
inputs: a tensor for a tensor, a tuple for a tuple. With create_graph=True they can be
differentiated again; with strict=True an output that depends on no input, or with create_graph a
derivative that does, is an AutogradError.
"""

from .. import _C
from . import enable_grad, grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensor = _C.Tensor


def _tuple(x, what, name):
    alone = isinstance(x, Tensor)
    tensors = (x,) if alone else tuple(x)
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"pf.autograd.functional.{name}: got {what} {i} of type {type(t).__name__}; "
                "expected a Tensor or a tuple of Tensors"
            )
    return tensors, alone


def _fresh(inputs, create_graph):
    """The inputs as variables of their own: views of them where a graph is wanted."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_()
        for x in inputs
    )


def _call(name, func, inputs, create_graph):
    inputs, alone = _tuple(inputs, "input", name)
    x = _fresh(inputs, create_graph)
    y, y_alone = _tuple(func(*x), "output", name)
    return x, alone, y, y_alone


def _zeros(like, shape=None):
    return _C._functions["zeros"](
        like.shape if shape is None else shape, dtype=like.dtype, device=like.device
    )


def _independent(name, what):
    return _C.AutogradError(
        f"pf.autograd.functional.{name}: got {what} that does not depend on an input; expected one "
        "that does, with strict=True; leave strict out to get zeros"
    )


def _check_depend(name, what, values, strict):
    if strict and any(v is None or not v.requires_grad for v in values):
        raise _independent(name, what)


def _grads(name, outputs, inputs, weights, create_graph, strict=False, what="an output", keep=True):
    """Gradients of the outputs, zeros for inputs that they do not depend on."""
    pairs = [(y, w) for y, w in zip(outputs, weights) if y.requires_grad]
    found = (None,) * len(inputs)
    if pairs:
        found = grad(
            [y for y, _ in pairs],
            inputs,
            [w for _, w in pairs],
            retain_graph=keep,
            create_graph=create_graph,
            allow_unused=True,
        )
    if strict and any(g is None for g in found):
        raise _independent(name, what)
    if create_graph:
        _check_depend(name, "a derivative", found, strict)
    return tuple(_zeros(x) if g is None else g for g, x in zip(found, inputs))


def _vector(name, v, like, alone):
    """`v`, or 1 for a single number, in the shapes of `like`."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise _C.ValueError(
                f"pf.autograd.functional.{name}: got no v for {len(like)} tensors, the first of "
                f"shape {list(like[0].shape)}; expected v of the same shapes; it may be left out "
                "for a single number only"
            )
        return (_C._functions["ones_like"](like[0]),)
    v, _ = _tuple(v, "v", name)
    if len(v) != len(like) or any(a.shape != b.shape for a, b in zip(v, like)):
        raise _C.ShapeError(
            f"pf.autograd.functional.{name}: got v of shapes {[list(t.shape) for t in v]}; "
            f"expected {[list(t.shape) for t in like]}; reshape it"
        )
    return v


def _result(values, alone):
    return values[0] if alone else tuple(values)


def _final(values, create_graph):
    return values if create_graph else tuple(v.detach() for v in values)


def _at_once(out, x, create_graph):
    """The jacobian of one output by one backward pass over the vectors of the identity."""
    from ..func.vmap import Level

    eye = _C._functions["eye"](out.numel(), dtype=out.dtype, device=out.device)
    with Level(out.numel()) as level:
        vectors = level.hide(eye.reshape(out.numel(), *out.shape), 0)
        found = _grads("jacobian", (out,), x, (vectors,), create_graph)
        return tuple(level.show(g).reshape((*out.shape, *t.shape)) for g, t in zip(found, x))


def _one_by_one(name, out, x, create_graph, strict):
    """The same by a backward pass for each element of the output."""
    flat = out.reshape(-1)
    each = [_grads(name, (flat[i],), x, (None,), create_graph, strict) for i in range(flat.numel())]
    return tuple(
        _C._functions["stack"]([g[k] for g in each]).reshape((*out.shape, *xk.shape))
        if each
        else _zeros(xk, (*out.shape, *xk.shape))
        for k, xk in enumerate(x)
    )


def _check_ways(name, strict, vectorize, strategy):
    """What jacobian() refuses of its options, as PyTorch does."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise _C.ValueError(
            f"pf.autograd.functional.{name}: got strategy {strategy!r}; expected 'reverse-mode' or "
            "'forward-mode'"
        )
    if strict and (vectorize or strategy == "forward-mode"):
        raise _C.AutogradError(
            f"pf.autograd.functional.{name}: got strict=True with vectorize=True or forward mode; expected "
            "one of them; what depends on what is not seen there"
        )
    if strategy == "forward-mode" and not vectorize:
        raise _C.NotSupportedError(
            f"pf.autograd.functional.{name}: got 'forward-mode' without vectorize=True; pass both"
        )


def jacobian(
    func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"
):
    """Derivatives of all outputs with respect to all inputs: shape [*output, *input] each.

    With `vectorize` all rows of an output are computed in one backward pass (as func.vmap does), also
    where `strategy` is 'forward-mode'.
    """
    _check_ways("jacobian", strict, vectorize, strategy)
    return _jacobian("jacobian", func, inputs, create_graph, strict, vectorize)


def _jacobian(name, func, inputs, create_graph, strict, vectorize):
    with enable_grad():
        x, alone, y, y_alone = _call(name, func, inputs, create_graph)
        _check_depend(name, "an output", y, strict)
        rows = []
        for out in y:
            if vectorize and out.numel() > 0:
                row = _at_once(out, x, create_graph)
            else:
                row = _one_by_one(name, out, x, create_graph, strict)
            rows.append(_result(_final(row, create_graph), alone))
    return rows[0] if y_alone else tuple(rows)


def hessian(
    func,
    inputs,
    create_graph=False,
    strict=False,
    vectorize=False,
    outer_jacobian_strategy="reverse-mode",
):
    """Second derivatives of a function that gives one number: shape [*input, *input] each."""
    _check_ways("hessian", strict, vectorize, outer_jacobian_strategy)
    _, alone = _tuple(inputs, "input", "hessian")

    def gradient(*x):
        y, _ = _tuple(func(*x), "output", "hessian")
        _check_one("hessian", y)
        _check_depend("hessian", "an output", y, strict)
        g = _grads("hessian", (y[0].reshape(()),), x, (None,), True)
        _check_depend("hessian", "a derivative", g, strict)
        return _result(g, alone)

    return _jacobian("hessian", gradient, inputs, create_graph, strict, vectorize)


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the product of v and the jacobian)."""
    with enable_grad():
        x, alone, y, y_alone = _call("vjp", func, inputs, create_graph)
        _check_depend("vjp", "an output", y, strict)
        weights = _vector("vjp", v, y, y_alone)
        g = _grads("vjp", y, x, weights, create_graph, strict, keep=create_graph)
    return _result(_final(y, create_graph), y_alone), _result(_final(g, create_graph), alone)


def _turned(name, outputs, inputs, vector, create_graph, strict, what):
    """The product of the jacobian and a vector: outputs' gradient is linear in its weights, whose
    derivative it is."""
    weights = tuple(_zeros(t).requires_grad_() for t in outputs)
    g = _grads(name, outputs, inputs, weights, True)
    _check_depend(name, what, g, strict)
    return _grads(name, g, weights, vector, create_graph, strict, "a derivative")


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the product of the jacobian and v)."""
    with enable_grad():
        x, alone, y, y_alone = _call("jvp", func, inputs, create_graph)
        vector = _vector("jvp", v, x, alone)
        _check_depend("jvp", "an output", y, strict)
        product = _turned("jvp", y, x, vector, create_graph, strict, "an output")
    return _result(_final(y, create_graph), y_alone), _result(
        _final(product, create_graph), y_alone
    )


def _check_one(name, y):
    if len(y) != 1 or y[0].numel() != 1:
        raise _C.ShapeError(
            f"pf.autograd.functional.{name}: got outputs of shapes {[list(t.shape) for t in y]}; "
            "expected one number; sum them"
        )


def _second(name, func, inputs, v, create_graph, strict, product):
    """(output, product(gradient, inputs, v)) of a function that gives one number."""
    with enable_grad():
        x, alone, y, _ = _call(name, func, inputs, create_graph)
        vector = _vector(name, v, x, alone)
        _check_one(name, y)
        _check_depend(name, "an output", y, strict)
        g = _grads(name, (y[0].reshape(()),), x, (None,), True)
        _check_depend(name, "a derivative", g, strict)
        found = product(g, x, vector)
    return _final((y[0],), create_graph)[0], _result(_final(found, create_graph), alone)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the product of v and the hessian) for a function that gives one number."""

    def product(g, x, vector):
        return _grads("vhp", g, x, vector, create_graph, strict, "a derivative")

    return _second("vhp", func, inputs, v, create_graph, strict, product)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the product of the hessian and v); the hessian is symmetric: vhp is quicker."""

    def product(g, x, vector):
        if not strict:
            return _grads("hvp", g, x, vector, create_graph)
        return _turned("hvp", g, x, vector, create_graph, strict, "a derivative")

    return _second("hvp", func, inputs, v, create_graph, strict, product)
