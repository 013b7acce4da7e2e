"""Optimizers and norms over gradients, of which some are sparse: those of embeddings."""

from .. import _C, _ops
from ._convert import coalesce
from ._elementwise import add_rows_, all_values
from ._tensor import SparseTensor

# Functions over lists of gradients, which get the operation itself first.
NAMES = {
    "_sgd", "_adamw", "_optim_step", "_multi_norm", "_clip_grad_norm_", "_clip_grad_value_",
    "_found_nonfinite",
}  # fmt: skip


def _is_sparse(g):
    return isinstance(g, SparseTensor)


def _without(lists, out):
    """Lists of one length without the positions `out`."""
    return [[x for i, x in enumerate(of) if i not in out] for of in lists]


def rows_of(g, p):
    """Rows of a parameter and their gradient, each row once."""
    g = coalesce(g)
    if g.sparse_dim() != 1:
        raise _C.NotSupportedError(
            f"pf.optim: got a gradient of {g.sparse_dim()} sparse dimensions for a parameter of shape "
            f"{list(p.shape)}; expected one; call to_dense()"
        )
    return g.indices()[0], g.values()


def sgd(
    step, params, grads, buffers, lr, momentum, dampening, weight_decay, nesterov, maximize, first,
    *narrow,
):  # fmt: skip
    if narrow:
        raise _C.NotSupportedError(
            "pf.optim.SGD: got a sparse gradient with master_weights or stochastic_rounding; expected "
            "dense ones; use an embedding with sparse=False"
        )
    if momentum != 0 or weight_decay != 0:  # all rows change
        grads = [g.to_dense() if _is_sparse(g) else g for g in grads]
        return step(
            params, grads, buffers, lr, momentum, dampening, weight_decay, nesterov, maximize, first
        )
    sparse = {i for i, g in enumerate(grads) if _is_sparse(g)}
    for i in sparse:
        add_rows_(params[i].detach(), grads[i].detach(), lr if maximize else -lr)
    params, grads = _without([params, grads], sparse)
    if params:
        step(params, grads, [], lr, momentum, dampening, weight_decay, nesterov, maximize, first)


def _refuse(name, instead):
    raise _C.NotSupportedError(
        f"pf.optim.{name}: got a sparse gradient; expected dense ones; use SparseAdam, Adagrad or SGD, or "
        f"{instead}"
    )


def refuse_adam(step, *args, **kwargs):
    _refuse("Adam", "an embedding with sparse=False")


def by_rule(step, rule, params, grads, states, numbers, kind, decay, maximize):
    if rule != "adagrad":
        _refuse(rule, "an embedding with sparse=False")
    sparse = {i for i, g in enumerate(grads) if _is_sparse(g)}
    if kind:
        raise _C.NotSupportedError(
            "pf.optim.Adagrad: got weight_decay with a sparse gradient; expected 0, for decay changes all "
            "rows; use an embedding with sparse=False"
        )
    rate, eps = numbers
    for i in sparse:
        rows, values = rows_of(grads[i].detach(), params[i])
        total = states[i]
        total.index_add_(0, rows, values * values)
        change = values / (total[rows].sqrt() + eps)
        params[i].detach().index_add_(0, rows, change * (rate if maximize else -rate))
    params, grads, states = _without([params, grads, states], sparse)
    if params:
        step(rule, params, grads, states, numbers, kind, decay, maximize)


def sparse_adam(p, g, state, lr, betas, eps, maximize):
    """One step of SparseAdam: averages move in the rows that the gradient has."""
    rows, g = rows_of(g.detach(), p)
    if maximize:
        g = -g
    if not state:
        state.update(
            step=0,
            exp_avg=_ops._zeros_beside(p.detach()),
            exp_avg_sq=_ops._zeros_beside(p.detach()),
        )
    step = state["step"] + 1
    beta1, beta2 = betas
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    m = mean[rows] + (g - mean[rows]) * (1 - beta1)
    v = square[rows] + (g * g - square[rows]) * (1 - beta2)
    size = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
    mean.index_copy_(0, rows, m)
    square.index_copy_(0, rows, v)
    p.detach().index_add_(0, rows, m / (v.sqrt() + eps) * -size)
    state["step"] = step


def _plain(tensors):
    return [all_values(t).detach() if _is_sparse(t) else t for t in tensors]


def multi_norm(step, tensors, norm_type):
    return step(_plain(tensors), norm_type)


def _coalesced(grads):
    for g in grads:
        if _is_sparse(g) and g.is_sparse:
            g._set(coalesce(g))


def clip(step, grads, *limits):
    _coalesced(grads)
    # Values of their own, for the step writes to them: those of a gradient may be somebody else's.
    values = [_C._sparse_parts(g)[2].detach().clone() if _is_sparse(g) else g for g in grads]
    found = step(values, *limits)
    for g, v in zip(grads, values):
        if _is_sparse(g):
            g._set(g._with(v))
    return found


def found_nonfinite(step, *args, **kwargs):
    def dense(a):
        return _plain(a) if isinstance(a, (list, tuple)) else a

    return step(*map(dense, args), **{name: dense(a) for name, a in kwargs.items()})
