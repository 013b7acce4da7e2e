"""Attributes of modules that are computed from parameters, with the names of torch.nn.utils.parametrize.

A module whose tensor `name` has a parametrization gets a class of its own, in which `name` is a
property: the result of the parametrization's modules for the original tensors, which stand under
`module.parametrizations[name]`.
"""

import copy
import threading
from contextlib import contextmanager

from ..._C import Tensor
from ..._named_errors import name_errors as _name_errors
from ...autograd import no_grad
from ..containers import ModuleDict, ModuleList
from ..parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip


class _Cached(threading.local):
    depth = 0  # of cached() regions

    def __init__(self):
        self.tensors = {}


_cached = _Cached()


@contextmanager
def cached():
    """Within it a parametrized tensor is computed once, by this thread: others see nothing of it."""
    _cached.depth += 1
    try:
        yield
    finally:
        _cached.depth -= 1
        if not _cached.depth:
            _cached.tensors.clear()


def _same_kind(where, old, new):
    if not isinstance(new, Tensor):
        raise ValueError(
            f"pf.nn.utils.parametrize: {where} gave a {type(new).__name__}; expected a tensor"
        )
    if new.dtype != old.dtype:
        raise ValueError(
            f"pf.nn.utils.parametrize: {where} gave {new.dtype} for {old.dtype}; expected one dtype; "
            "pass unsafe=True to allow another"
        )
    if new.shape != old.shape:
        raise ValueError(
            f"pf.nn.utils.parametrize: {where} gave the shape {list(new.shape)} for "
            f"{list(old.shape)}; expected the same; pass unsafe=True to allow another"
        )


def _store(owner, name, value, like):
    """Puts an original under a name: a parameter if `like` is one, else a buffer."""
    if isinstance(like, Parameter):
        parameter = value if isinstance(value, Parameter) else Parameter(value)
        parameter.requires_grad_(
            like.requires_grad and (value.is_floating_point() or value.is_complex())
        )
        owner.register_parameter(name, parameter)
    else:
        owner.register_buffer(name, value)


class ParametrizationList(ModuleList):
    """The modules that make one tensor, and what they make it of: `original`, or `original0`,
    `original1` and so on where the first one's right_inverse gives several."""

    def __init__(self, modules, original, unsafe=False):
        if not modules:
            raise ValueError("pf.nn.utils.parametrize: got no module; expected at least one")
        super().__init__(modules)
        self.unsafe = unsafe
        value = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        pass
        self.is_tensor = isinstance(value, Tensor)
        if self.is_tensor:
            if not unsafe:
                _same_kind("right_inverse", original, value)
            if isinstance(original, Parameter) and value.shape == original.shape:
                with no_grad():  # an optimizer may know it
                    if value is not original:
                        original.data = value.detach().clone()
                value = original
            _store(self, "original", value, original)
        else:
            if not isinstance(value, (list, tuple)):
                raise ValueError(
                    "pf.nn.utils.parametrize: right_inverse gave a "
                    f"{type(value).__name__}; expected a tensor or a sequence of them"
                )
            self.ntensors = len(value)
            for i, part in enumerate(value):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        f"pf.nn.utils.parametrize: right_inverse gave a {type(part).__name__}; "
                        "expected tensors"
                    )
                _store(self, f"original{i}", part.detach().clone(), original)
        if not unsafe:
            with no_grad():
                made = self()
            _same_kind("the parametrization", original, made)

    def _originals(self):
        if self.is_tensor:
            return (self.original,)
        return tuple(getattr(self, f"original{i}") for i in range(self.ntensors))

    def forward(self):
        made = self[0](*self._originals())
        for module in list(self)[1:]:
            made = module(made)
        return made

    def right_inverse(self, value):
        """Gives the originals other memory, so that they make `value`, by the modules' right_inverse: what
        shares the old one, as a state_dict() does, keeps its values."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"pf.nn.utils.parametrize: {type(module).__name__} has no right_inverse; "
                        "expected one, to be assigned to"
                    )
                value = module.right_inverse(value)
            values = (value,) if self.is_tensor else tuple(value)
            originals = self._originals()
            if len(values) != len(originals):
                raise ValueError(
                    f"pf.nn.utils.parametrize: right_inverse gave {len(values)} tensors; expected "
                    f"{len(originals)}"
                )
            for old, new in zip(originals, values):
                if old.dtype != new.dtype:
                    raise ValueError(
                        f"pf.nn.utils.parametrize: right_inverse gave {new.dtype}; expected "
                        f"{old.dtype}"
                    )
                old.data = new.detach()


def _property(name):
    def get(self):
        made = self.parametrizations[name]
        if not _cached.depth:
            return made()
        key = (id(self), name)
        if key not in _cached.tensors:
            _cached.tensors[key] = made()
        return _cached.tensors[key]

    def put(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def _deepcopy(self, memo):
    """Copies of parametrized modules have a class of their own as well."""
    found = memo.get(id(self))
    if found is not None:
        return found
    replica = self.__new__(self.__class__)
    memo[id(self)] = replica
    replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    _own_class(replica, type_before_parametrizations(self))
    for name in self.parametrizations:
        setattr(type(replica), name, _property(name))
    return replica


def _getstate(self):
    raise RuntimeError(
        "pf.nn.utils.parametrize: a parametrized module cannot be pickled; expected its state_dict()"
    )


def _own_class(module, cls):
    space = {"__getstate__": _getstate, "__module__": cls.__module__}
    if not hasattr(cls, "__deepcopy__"):
        space["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), space)


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Makes `module.tensor_name` the result of `parametrization(original)`; returns the module.

    A second one is applied to the result of the first, and leaves the original as it is. An optional
    method right_inverse(value) gives the original for a value: it is asked at the start, and when the
    attribute is assigned to.
    `unsafe` allows another shape or dtype.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        made = module.parametrizations[tensor_name]
        if not unsafe:
            with no_grad():
                before = getattr(module, tensor_name)
                value = parametrization(before)
                _same_kind("the parametrization", before, value)
                if hasattr(parametrization, "right_inverse"):
                    try:
                        _same_kind("right_inverse", before, parametrization.right_inverse(value))
                    except NotImplementedError:
                        pass
        made.append(parametrization)
        made.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"pf.nn.utils.parametrize: {type(module).__name__} has no parameter or buffer "
            f"'{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    parametrizations = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _own_class(module, type(module))
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = parametrizations
    return module


def is_parametrized(module, tensor_name=None):
    """Whether a tensor of the module, or this one, has a parametrization."""
    made = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(made, ModuleDict) or not len(made):
        return False
    return tensor_name is None or tensor_name in made


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Takes a parametrization away; the tensor keeps its present value, or the original's with
    leave_parametrized=False."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"pf.nn.utils.parametrize: '{tensor_name}' of {type(module).__name__} has no "
            "parametrization"
        )
    made = module.parametrizations[tensor_name]
    originals = made._originals()
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach().clone()
        if made.is_tensor and isinstance(originals[0], Parameter):
            kept = originals[0]
            kept.data = value
        else:
            kept = Parameter(value) if isinstance(originals[0], Parameter) else value
    else:
        if not made.is_tensor:
            raise ValueError(
                "pf.nn.utils.parametrize: leave_parametrized=False needs one original tensor; got "
                f"{len(originals)}"
            )
        kept = originals[0]
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(kept, Parameter):
        module.register_parameter(tensor_name, kept)
    else:
        module.register_buffer(tensor_name, kept)
    if not len(module.parametrizations):
        del module._modules["parametrizations"]
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The module's class without its parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Gives `to_module` the parametrizations of another, with their parameters; returns it."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for one in source:
            register_parametrization(to_module, name, copy.deepcopy(one), unsafe=source.unsafe)
        target = to_module.parametrizations[name]
        for own, other in zip(target._originals(), source._originals()):
            with no_grad():
                own.data = other.detach().clone()
    return to_module


_name_errors(__name__)
