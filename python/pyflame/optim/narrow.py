"""How optimizers train parameters of 16 bits: with float32 masters, or rounded at random.

Both are options of a group, `master_weights` and `stochastic_rounding`; parameters of other dtypes
are trained as without them.
"""

from .. import _C, _ops

OPTIONS = ("master_weights", "stochastic_rounding", "state_dtype")
PLAIN, MASTERS, RANDOM = range(3)
_NARROW = (_C.bfloat16, _C.float16)


def given(master_weights, stochastic_rounding, state_dtype):
    """Those that are set, for an optimizer's defaults: others print and save as PyTorch's."""
    options = {}
    if master_weights:
        options["master_weights"] = True
    if stochastic_rounding:
        options["stochastic_rounding"] = True
    if state_dtype is not None:
        options["state_dtype"] = _name(state_dtype)
    return options


def _name(dtype):
    """As files keep it: "float32"."""
    return str(dtype).rpartition(".")[2]


def refuse(cls, options):
    """NotSupportedError where an option is set that optimizers of this class do not have."""
    for name in OPTIONS:
        if options.get(name):
            raise _C.NotSupportedError(
                f"pf.optim.{cls.__name__}: got {name}={options[name]!r}; expected none of "
                f"{', '.join(OPTIONS)}, which Adam, AdamW and SGD have; keep its parameters in float32"
            )


def check(optimizer, group):
    """A group's options."""
    cls = type(optimizer)
    if not cls._narrow:
        return refuse(cls, group) if cls.__module__.startswith(__package__) else None
    if not any(group.get(name) for name in OPTIONS):
        return None
    where = f"pf.optim.{cls.__name__}"
    masters, random = group.get("master_weights"), group.get("stochastic_rounding")
    if masters and random:
        raise ValueError(
            f"{where}: got master_weights and stochastic_rounding; expected one of them: a step of a "
            "float32 master loses nothing that would have to be right in the mean"
        )
    if group.get("differentiable"):
        raise _C.NotSupportedError(
            f"{where}: got differentiable=True with parameters of 16 bits that are stepped in float32; "
            "expected one of them: rounding has no gradient"
        )
    kept = group.get("state_dtype")
    if kept is None:
        return None
    group["state_dtype"] = kept = _name(kept)
    if not (masters or random):
        raise ValueError(
            f"{where}: got state_dtype={kept!r} alone; expected stochastic_rounding=True with it: "
            "averages in 16 bits that are rounded to the nearest stand still"
        )
    for p in group["params"]:
        allowed = {"float32"} | ({_name(p.dtype)} if random else set())
        if p.dtype in _NARROW and kept not in allowed:
            raise ValueError(
                f"{where}: got state_dtype={kept!r} for a parameter of {p.dtype}; expected "
                f"{' or '.join(sorted(allowed))}"
            )


def way(group):
    """How a group's parameters of 16 bits are stepped."""
    if group.get("master_weights"):
        return MASTERS
    return RANDOM if group.get("stochastic_rounding") else PLAIN


def way_of(p, how):
    """How parameter p is, in a group that is stepped so."""
    return how if how and p.dtype in _NARROW else PLAIN


def state_dtype(group, p):
    """The dtype of p's state."""
    if not way_of(p, way(group)):
        return p.dtype
    return p.dtype if group.get("state_dtype") == _name(p.dtype) else _C.float32


def zeros(group, p):
    """A state to begin with, where p's memory is."""
    return _ops._zeros_beside(p.detach(), state_dtype(group, p))


def master(s, p):
    """p's float32 master in its state `s`. A new one is zeros: a master that its weight is not the
    rounded value of follows the weight, in the step."""
    found = s.get("master")
    if found is None:
        found = s["master"] = _ops._zeros_beside(p.detach(), _C.float32)
    return found


def last_arguments(how, weights):
    """What the step's operation gets behind its numbers."""
    return () if how == PLAIN else (weights,) if how == MASTERS else (None, True)
