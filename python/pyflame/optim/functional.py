"""Steps of optimizers as functions of lists, by the names of torch.optim's modules.

    adamw(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, beta2, ...)

Lists come in PyTorch's order and options by name. Parameters, states and steps (tensors of one element
each) are changed in place; no gradient goes through. A parameter whose gradient is None is left alone.
"""

from .._C import NotSupportedError, Tensor, ValueError
from ..autograd import no_grad
from .adam_sgd import SGD, Adam, AdamW
from .rules import ASGD, Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop

_MOMENTS = ("exp_avg", "exp_avg_sq")
# The optimizer, and what each list behind parameters and gradients is in its state.
_FORMS = {
    "adadelta": (Adadelta, ("square_avg", "acc_delta", "step")),
    "adagrad": (Adagrad, ("sum", "step")),
    "adam": (Adam, (*_MOMENTS, "max_exp_avg_sq", "step")),
    "adamax": (Adamax, ("exp_avg", "exp_inf", "step")),
    "adamw": (AdamW, (*_MOMENTS, "max_exp_avg_sq", "step")),
    "asgd": (ASGD, ("ax", "mu", "eta", "step")),
    "nadam": (NAdam, (*_MOMENTS, "mu_product", "step")),
    "radam": (RAdam, (*_MOMENTS, "step")),
    "rmsprop": (RMSprop, ("square_avg", "grad_avg", "momentum_buffer", "step")),
    "rprop": (Rprop, ("prev", "step_size", "step")),
    "sgd": (SGD, ("momentum_buffer",)),
}
# Options of the functions that are one option of the optimizer together.
_PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}
_MEANINGLESS = {"has_complex", "has_sparse_grad", "foreach", "fused", "capturable"}
_REFUSED = ("differentiable", "grad_scale", "found_inf")

__all__ = sorted(_FORMS)


def _function(name):
    cls, states = _FORMS[name]

    def function(params, grads, *lists, **options):
        where = f"pf.optim.functional.{name}"
        for option in _REFUSED:
            given = options.pop(option, None)
            if given is not None and given is not False:
                raise NotSupportedError(
                    f"{where}: got {option}; expected none; use pf.optim.{cls.__name__}"
                )
        if len(lists) != len(states):
            raise ValueError(
                f"{where}: got {len(lists)} lists of states; expected {len(states)}: {', '.join(states)}"
            )
        options = {k: v for k, v in options.items() if k not in _MEANINGLESS}
        for pair, (low, high) in _PAIRS.items():
            if low in options:
                options[pair] = (float(options.pop(low)), float(options.pop(high)))
        views = [p.detach() for p in params]
        if not views:
            return
        optimizer = cls(views, **options)
        optimizer.state.clear()  # some have one from the start
        for i, (p, g) in enumerate(zip(views, grads, strict=True)):
            if g is None:
                continue
            p.grad = g
            given = {s: of_all[i] for s, of_all in zip(states, lists) if len(of_all) > i}
            for s, value in given.items():
                if s in cls._scalars:
                    value = cls._scalars[s](value.item() if isinstance(value, Tensor) else value)
                if value is not None:
                    optimizer.state[p][s] = value
        with no_grad():
            optimizer._step(optimizer.param_groups[0])
            for i, p in enumerate(views):
                for s, of_all in zip(states, lists):
                    new = optimizer.state[p].get(s) if p.grad is not None else None
                    if s in cls._scalars and new is not None:
                        _put(of_all, i, new)
                    elif new is not None and (i >= len(of_all) or of_all[i] is None):
                        of_all[i : i + 1] = [new]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"A step of :class:`pyflame.optim.{cls.__name__}`; lists: {', '.join(states)}."
    )
    return function


def _put(numbers, i, value):
    if isinstance(numbers[i], Tensor):
        numbers[i].fill_(value)
    else:
        numbers[i] = value


for _name in __all__:
    globals()[_name] = _function(_name)
