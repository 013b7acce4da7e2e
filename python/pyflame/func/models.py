"""Models as functions of their state: ensembles, batch norms without state."""

from .. import _C
from .._named_errors import name_errors as _name_errors
from ..nn.utils import stateless


def functional_call(
    module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """module(*args, **kwargs) with these tensors, by dotted path, in place of its own.

    `parameter_and_buffer_dicts` is a dict or a sequence of dicts; tensors that are not given are the
    module's, and it is as before afterwards. `args` is a tuple, or the one argument. Tied tensors
    follow each other with `tie_weights`; with `strict` all must be given, and no others.
    """
    return stateless.functional_call(
        module, parameter_and_buffer_dicts, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def stack_module_state(models):
    """(parameters, buffers): dicts of the state of several models of one class, stacked.

    Parameters are leaves that require grad where those of the models do. For an ensemble:
    ``vmap(lambda p, b, x: functional_call(model, (p, b), (x,)), in_dims=(0, 0, None))``.
    """
    models = list(models)
    if not models:
        raise _C.ValueError("pf.func.stack_module_state: got no models; expected at least one")
    first = models[0]
    if any(type(m) is not type(first) for m in models):
        raise _C.ValueError(
            "pf.func.stack_module_state: got models of the classes "
            f"{sorted({type(m).__name__ for m in models})}; expected one class"
        )
    if any(m.training != first.training for m in models):
        raise _C.ValueError(
            "pf.func.stack_module_state: got models in training and in evaluation; expected all "
            "in one mode; call train() or eval()"
        )
    stack = _C._functions["stack"]

    def stacked(states, leaves):
        out = {}
        for name, value in states[0].items():
            values = [s[name] for s in states]
            kinds = {v.requires_grad for v in values}
            if len(kinds) > 1:
                raise _C.ValueError(
                    f"pf.func.stack_module_state: got '{name}' with and without requires_grad; "
                    "expected the same of all models"
                )
            out[name] = stack([v.detach() for v in values])
            if leaves:
                out[name].requires_grad_(value.requires_grad)
        return out

    parameters = stacked([dict(m.named_parameters()) for m in models], True)
    return parameters, stacked([dict(m.named_buffers()) for m in models], False)


def replace_all_batch_norm_modules_(root):
    """Takes the running statistics from all batch norms, in place: vmap cannot write them."""
    from ..nn.normalization import _BatchNorm

    for m in root.modules():
        if isinstance(m, _BatchNorm):
            m.running_mean = m.running_var = m.num_batches_tracked = None
            m.track_running_stats = False
    return root


__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]

_name_errors(__name__)
