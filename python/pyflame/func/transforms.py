"""Derivatives of functions as functions: grad, vjp, jvp, jacobians, hessians, nested at will.

A transform gives the function its inputs as variables of their own (_enter), asks for gradients
between them and the results, and gives back values that know nothing of it unless somebody outside
asks for gradients, too: a leaf that requires grad, or a transform around this one.
"""

import functools

from .. import _C
from .._grad_mode import enable_grad
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten
from .vmap import Level, _name, _shape

Tensor = _C.Tensor


def _zeros(t):
    return _C._functions["zeros_like"](t)


class _Inputs:
    """Arguments as variables of a transform."""

    def __init__(self, name, tree):
        leaves, self.spec = tree_flatten(tree)
        for x in leaves:
            if not isinstance(x, Tensor):
                raise _C.ValueError(
                    f"pf.func.{name}: got an input of type {type(x).__name__} to differentiate by; "
                    "expected Tensors (in lists, tuples or dicts); choose others with argnums, or "
                    "close over it"
                )
        self.given = leaves
        self.outside = _C.is_grad_enabled()
        self.tensors = [_C._func_enter(x) for x in leaves]

    def tree(self):
        return tree_unflatten(self.tensors, self.spec)

    def leave(self):
        _C._func_leave(self.tensors)

    def wanted_outside(self, *tensors):
        """Whether somebody outside may ask for gradients of these; only after leave()."""
        return self.outside and _C._func_depends(list(tensors))


def _let_go(inputs, tree):
    """Results for the outside: without history where nobody there can ask for gradients."""
    return tree_map(
        lambda t: t.detach() if isinstance(t, Tensor) and not inputs.wanted_outside(t) else t, tree
    )


def _gradients(outputs, inputs, weights, create_graph):
    """Gradients, zeros where there are none."""
    pairs = [(y, w) for y, w in zip(outputs, weights) if y.requires_grad]
    found = [None] * len(inputs)
    if pairs:
        found = _C._grad(
            [y for y, _ in pairs], inputs, [w for _, w in pairs], True, create_graph, True
        )
    return [_zeros(x) if g is None else g for g, x in zip(found, inputs)]


def _tensors(name, func, tree):
    leaves, spec = tree_flatten(tree)
    for y in leaves:
        if not isinstance(y, Tensor):
            raise _C.ValueError(
                f"pf.func.{name}: got a result of type {type(y).__name__} from {_name(func)}; "
                "expected Tensors only"
            )
    return leaves, spec


def _check_like(name, words, given, got, tensors, spec):
    """That what is `given` for `tensors` has their structure and shapes; words name one of each."""
    what, of = words
    if got != spec:
        raise _C.ValueError(
            f"pf.func.{name}: got {what}s of structure {_shape(got)}; expected {_shape(spec)}, that of the {of}s"
        )
    for t, x in zip(given, tensors):
        if not isinstance(t, Tensor) or t.shape != x.shape:
            shape = list(t.shape) if isinstance(t, Tensor) else type(t).__name__
            raise _C.ShapeError(
                f"pf.func.{name}: got a {what} {shape} for a {of} of shape {list(x.shape)}; "
                "expected the same shape"
            )


def _with_aux(name, func, result, has_aux):
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise _C.ValueError(
            f"pf.func.{name}: got no pair from {_name(func)}; expected (result, aux) with "
            "has_aux=True"
        )
    return result


def _chosen(name, args, argnums):
    """The arguments that argnums names, and a function that puts others in their place."""
    several = isinstance(argnums, (tuple, list))
    numbers = tuple(argnums) if several else (argnums,)
    for i in numbers:
        if not isinstance(i, int) or isinstance(i, bool):
            raise _C.ValueError(
                f"pf.func.{name}: got argnums {argnums!r}; expected an int or a tuple of ints"
            )
        if not -len(args) <= i < len(args):
            raise _C.ValueError(
                f"pf.func.{name}: got argnums {argnums!r} for {len(args)} positional arguments; "
                "expected positions among them"
            )
    numbers = tuple(i % len(args) for i in numbers)
    if len(set(numbers)) != len(numbers) or not numbers:
        raise _C.ValueError(f"pf.func.{name}: got argnums {argnums!r}; expected each position once")
    picked = tuple(args[i] for i in numbers)

    def put(values):
        values = values if several else (values,)
        out = list(args)
        for i, v in zip(numbers, values):
            out[i] = v
        return out

    return (picked if several else picked[0]), put


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives (gradients, value) of `func`, which gives one number.

    The gradients have the structure of the arguments that `argnums` names. With `has_aux` the
    function gives (number, aux), and this (gradients, (value, aux)).
    """

    @functools.wraps(func)
    def both(*args, **kwargs):
        picked, put = _chosen("grad", args, argnums)
        inputs = _Inputs("grad", picked)
        with enable_grad():
            value, aux = _with_aux("grad", func, func(*put(inputs.tree()), **kwargs), has_aux)
            if not isinstance(value, Tensor) or value.dim() != 0:
                got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise _C.AutogradError(
                    f"pf.func.grad: got {got} from {_name(func)}; expected one number, a Tensor "
                    "of shape []; sum it, or use jacrev"
                )
            inputs.leave()
            found = _gradients([value], inputs.tensors, [None], inputs.wanted_outside(value))
        grads = tree_unflatten(found, inputs.spec)
        value = _let_go(inputs, value)
        return grads, ((value, _let_go(inputs, aux)) if has_aux else value)

    return both


def grad(func, argnums=0, has_aux=False):
    """A function that gives the gradients of `func`, which gives one number.

    They have the structure of the arguments that `argnums` (an int or a tuple) names. With
    `has_aux` the function gives (number, aux), and this (gradients, aux).
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def gradients(*args, **kwargs):
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradients


def vjp(func, *primals, has_aux=False):
    """(func(*primals), f): f gives the products of vectors, shaped as the results, and the jacobian.

    f gives a tuple with one product for each primal; it may be called as often as wanted, also by
    vmap. With `has_aux` the function gives (results, aux), and this
    (results, f, aux).
    """
    inputs = _Inputs("vjp", primals)
    with enable_grad():
        results, aux = _with_aux("vjp", func, func(*inputs.tree()), has_aux)
        ys, spec = _tensors("vjp", func, results)
    inputs.leave()

    def products(*cotangents, retain_graph=True, create_graph=None):
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        weights, got = tree_flatten(given)
        if len(weights) == len(ys) == 1:  # as it is, or in a tuple
            got = spec
        _check_like("vjp", ("vector", "result"), weights, got, ys, spec)
        outside = _C.is_grad_enabled()
        with enable_grad():
            found = _gradients(
                ys, inputs.tensors, weights, outside and _C._func_depends(ys + weights)
            )
        return tree_unflatten(found, inputs.spec)

    results = _let_go(inputs, results)
    return (results, products, _let_go(inputs, aux)) if has_aux else (results, products)


class _Forward:
    """Directional derivatives: the gradient of a gradient is linear in what it is multiplied with.

    g = vector x jacobian is computed once, with its history; the derivative of g x tangent by the
    vector is jacobian x tangent. So whatever has a second derivative has a forward-mode one.
    """

    def __init__(self, outputs, inputs):
        self.outputs, self.inputs = outputs, inputs
        self.known = [y for y in outputs if y.requires_grad]
        with enable_grad():
            self.vectors = [_C._func_enter(_zeros(y)) for y in self.known]
            self.products = [None] * len(inputs)
            if self.known:
                self.products = _C._grad(self.known, inputs, self.vectors, True, True, True)
        _C._func_leave(self.vectors)

    def push(self, tangents):
        """The derivative of each output along the tangents of the inputs; None where there is none."""
        outside = _C.is_grad_enabled()
        pairs = [
            (p, t)
            for p, t in zip(self.products, tangents)
            if p is not None and p.requires_grad and t is not None
        ]
        found = [None] * len(self.known)
        if pairs:
            values = [p for p, _ in pairs]
            weights = [t for _, t in pairs]
            create = outside and _C._func_depends(values + weights)
            with enable_grad():
                found = _C._grad(values, self.vectors, weights, True, create, True)
        found = iter(found)
        return [next(found) if y.requires_grad else None for y in self.outputs]

    def derivatives(self, tangents):
        """push() with zeros where there is none."""
        return [_zeros(y) if d is None else d for d, y in zip(self.push(tangents), self.outputs)]


def _run_forward(name, func, inputs, args, kwargs, has_aux):
    """The function's (results, aux), the structure of the results, and a _Forward through it."""
    from ..autograd.function import forward_mode

    with enable_grad(), forward_mode():
        results, aux = _with_aux(name, func, func(*args, **kwargs), has_aux)
        ys, spec = _tensors(name, func, results)
    inputs.leave()
    return results, aux, spec, _Forward(ys, inputs.tensors)


def _linearized(name, func, primals, has_aux=False):
    inputs = _Inputs(name, primals)
    results, aux, spec, forward = _run_forward(name, func, inputs, inputs.tree(), {}, has_aux)

    def push(tangents):
        values, got = tree_flatten(tangents)
        _check_like(name, ("tangent", "primal"), values, got, inputs.given, inputs.spec)
        return tree_unflatten(forward.derivatives(values), spec)

    return inputs, results, aux, push


def _tuple_of(name, what, x):
    if not isinstance(x, (tuple, list)) or not x:
        raise _C.ValueError(
            f"pf.func.{name}: got {what} of type {type(x).__name__}; expected a tuple, one for each "
            "argument of the function"
        )
    return tuple(x)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), the product of the jacobian and the tangents).

    `primals` and `tangents` are tuples, one for each argument. Results that do not depend on them
    have tangents of zero, or are an error with `strict`. With `has_aux` the function gives
    (results, aux), and this (results, products, aux).
    """
    primals = _tuple_of("jvp", "primals", primals)
    tangents = _tuple_of("jvp", "tangents", tangents)
    inputs, results, aux, push = _linearized("jvp", func, primals, has_aux)
    if strict:
        for y in tree_flatten(results)[0]:
            if not y.requires_grad:
                raise _C.AutogradError(
                    f"pf.func.jvp: got a result of shape {list(y.shape)} from {_name(func)} that "
                    "does not depend on the primals; expected one that does, with strict=True"
                )
    pushed = push(tangents)
    results = _let_go(inputs, results)
    return (results, pushed, _let_go(inputs, aux)) if has_aux else (results, pushed)


def linearize(func, *primals):
    """(func(*primals), f): f(*tangents) gives the product of the jacobian there and the tangents.

    The function runs once; f may be called as often as wanted, also by vmap.
    """
    inputs, results, _, push = _linearized("linearize", func, primals)

    def pushed(*tangents):
        return push(tangents)

    return _let_go(inputs, results), pushed


def _basis(t, start, count):
    """Rows start to start + count of the identity, each in the shape of t."""
    arange = _C._functions["arange"]
    rows = arange(start, start + count, device=t.device).reshape(count, 1)
    return (arange(t.numel(), device=t.device) == rows).to(t.dtype).reshape(count, *t.shape)


def _over_basis(f, t, chunk_size, randomness="error"):
    """f of each unit vector of t's shape, stacked: one flat list of [numel, ...] tensors."""
    step = chunk_size or max(t.numel(), 1)
    parts = []
    for start in range(0, t.numel(), step):
        with Level(min(step, t.numel() - start), randomness) as level:
            values = f(level.hide(_basis(t, start, level.size), 0))
            parts.append([level.show(v) for v in values])
    if len(parts) == 1:
        return parts[0]
    return [_C._functions["cat"](list(p)) for p in zip(*parts)]


def _empty(*parts):
    shape = [n for p in parts for n in p.shape]
    return _C._functions["zeros"](shape, dtype=parts[0].dtype, device=parts[0].device)


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that gives the jacobian of `func` by reverse mode: [*result, *argument] each.

    The results' structure, with the structure of the arguments that `argnums` names in each place.
    All rows are computed in one backward pass, or `chunk_size` of them at a time.
    """
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise _C.ValueError(
            f"pf.func.jacrev: got chunk_size {chunk_size!r}; expected a number of rows, at least 1"
        )

    @functools.wraps(func)
    def jacobian(*args, **kwargs):
        picked, put = _chosen("jacrev", args, argnums)
        inputs = _Inputs("jacrev", picked)
        outside = inputs.outside
        with enable_grad():
            results, aux = _with_aux("jacrev", func, func(*put(inputs.tree()), **kwargs), has_aux)
            ys, spec = _tensors("jacrev", func, results)
            inputs.leave()
            create = outside and _C._func_depends(ys)
            rows = []
            for y in ys:
                if y.numel() == 0 or not y.requires_grad:
                    found = [_empty(y, x) for x in inputs.tensors]
                else:
                    stacked = _over_basis(
                        lambda v, y=y: _gradients([y], inputs.tensors, [v], create), y, chunk_size
                    )
                    found = [
                        s.reshape((*y.shape, *x.shape)) for s, x in zip(stacked, inputs.tensors)
                    ]
                rows.append(tree_unflatten(found, inputs.spec))
        result = tree_unflatten(rows, spec)
        return (result, _let_go(inputs, aux)) if has_aux else result

    return jacobian


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """A function that gives the jacobian of `func` by forward mode: [*result, *argument] each.

    As jacrev; columns are computed, so it is the cheaper one for few inputs and many results.
    """

    @functools.wraps(func)
    def jacobian(*args, **kwargs):
        picked, put = _chosen("jacfwd", args, argnums)
        inputs = _Inputs("jacfwd", picked)
        _, aux, spec, forward = _run_forward(
            "jacfwd", func, inputs, put(inputs.tree()), kwargs, has_aux
        )
        ys = forward.outputs
        columns = []  # [input][result]
        for i, x in enumerate(inputs.tensors):

            def push(v, i=i):
                tangents = [None] * len(inputs.tensors)
                tangents[i] = v
                return forward.derivatives(tangents)

            if x.numel() == 0:
                columns.append([_empty(y, x) for y in ys])
                continue
            stacked = _over_basis(push, x, None, randomness)
            columns.append(
                [s.movedim(0, -1).reshape((*y.shape, *x.shape)) for s, y in zip(stacked, ys)]
            )
        rows = [
            tree_unflatten([column[k] for column in columns], inputs.spec) for k in range(len(ys))
        ]
        result = tree_unflatten(rows, spec)
        return (result, _let_go(inputs, aux)) if has_aux else result

    return jacobian


def hessian(func, argnums=0):
    """A function that gives second derivatives of `func`: jacfwd(jacrev(func))."""
    return jacfwd(jacrev(func, argnums), argnums)


def functionalize(func, *, remove="mutations"):
    """The function itself: transforms here take functions that write in place as they are."""
    if remove not in ("mutations", "mutations_and_views"):
        raise _C.ValueError(
            f"pf.func.functionalize: got remove {remove!r}; expected 'mutations' or "
            "'mutations_and_views'"
        )
    return func
