"""Calling a module with other parameters than its own."""

import contextlib

from ..._C import Tensor
from ..._named_errors import name_errors as _name_errors

__all__ = ["functional_call"]
_ABSENT = object()


def _owner(module, path):
    """(module, name) of a dotted path."""
    *parents, name = path.split(".")
    for parent in parents:
        child = module._modules.get(parent)
        if child is None:
            raise AttributeError(f"{type(module).__name__} has no submodule '{parent}'")
        module = child
    return module, name


def _tied(module):
    """path -> all paths of the same tensor."""
    names = {}
    for members in (module.named_parameters, module.named_buffers):
        for path, value in members(remove_duplicate=False):
            names.setdefault(id(value), []).append(path)
    return {path: same for same in names.values() for path in same}


@contextlib.contextmanager
def swapped(module, tensors, tie_weights=True, strict=False):
    """Within it the module has these tensors (by dotted path) as parameters and buffers.

    What is tied to one of them follows it with tie_weights; a name that it lacks is an attribute then. With `strict` all must be given, and no
    others. A buffer that the module replaces meanwhile is put into `tensors`.
    """
    tied = _tied(module)
    given = dict(tensors)
    if strict:
        missing = [p for p in tied if not any(q in given for q in tied[p])]
        unexpected = [p for p in given if p not in tied]
        if missing or unexpected:
            raise RuntimeError(
                f"pf.func.functional_call: got missing keys {missing} and unexpected keys "
                f"{unexpected}; expected all parameters and buffers; pass strict=False"
            )
    if tie_weights:
        for path, value in list(given.items()):
            for other in tied.get(path, ()):
                if other in tensors and tensors[other] is not value:
                    raise ValueError(
                        f"pf.func.functional_call: got different values for '{path}' and '{other}', "
                        "which are one tensor; expected one value; pass tie_weights=False"
                    )
                given.setdefault(other, value)
    undo, owners = [], {}
    try:
        for path, value in given.items():
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"pf.func.functional_call: got a {type(value).__name__} as '{path}'; expected a "
                    "tensor"
                )
            owner, name = _owner(module, path)
            for table in (owner._parameters, owner._buffers):
                if name in table:
                    undo.append((table, name, table[name]))
                    owners[path] = table, name
                    table[name] = value
                    break
            else:
                # Not the module's: an attribute of it for the time of the call.
                undo.append((owner.__dict__, name, owner.__dict__.get(name, _ABSENT)))
                owner.__dict__[name] = value
        yield module
        for path in tensors:
            if path in owners:
                table, name = owners[path]
                if table[name] is not tensors[path]:
                    tensors[path] = table[name]
    finally:
        for table, name, value in reversed(undo):
            if value is _ABSENT:
                del table[name]
            else:
                table[name] = value


def functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """module(*args, **kwargs) with these tensors, by dotted path, in place of its parameters and
    buffers.

    The module is as before afterwards. Tensors that are not given are the module's own; a sequence of
    dicts is read as one. `args` is a tuple, or the one argument.
    """
    if isinstance(parameters_and_buffers, (list, tuple)):
        joined = {}
        for part in parameters_and_buffers:
            if set(joined) & set(part):
                raise ValueError(
                    "pf.func.functional_call: got the same key in two dicts: "
                    f"{sorted(set(joined) & set(part))}; expected each key once"
                )
            joined.update(part)
        parameters_and_buffers = joined
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with swapped(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


_name_errors(__name__)
