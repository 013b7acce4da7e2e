"""Sizes as tuples, and prefixes of state dicts: what torch.nn.modules.utils has."""

from .._named_errors import name_errors as _name_errors


def _ntuple(n, name="parse"):
    def parse(x):
        return tuple(x) if hasattr(x, "__iter__") else (x,) * n

    parse.__name__ = name
    return parse


def whole_numbers(layer, **sizes):
    """Raises TypeError for a size of a layer that is none, such as 64 / 2."""
    for name, size in sizes.items():
        if not hasattr(size, "__index__"):
            raise TypeError(
                f"pf.nn.{type(layer).__name__}: got {name}={size!r}; expected a whole number; divide by "
                "//, or convert it with int()"
            )


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t, n):
    """Each entry n times, the last first: padding as nn.functional.pad takes it."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Takes a prefix, such as "module.", off the names of a state dict, in place."""
    for key in list(state_dict.keys()):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in list(metadata.keys()):
            if key == prefix.rstrip("."):
                metadata.setdefault("", metadata.pop(key))
            elif key.startswith(prefix):
                metadata[key[len(prefix) :]] = metadata.pop(key)


_name_errors(__name__)
