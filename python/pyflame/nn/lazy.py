"""Layers that take the size of their input from the first one; see LazyModuleMixin."""

import inspect

from .. import _ops
from .._C import Tensor
from . import convolution, layers, normalization
from .parameter import UninitializedParameter

__all__ = [
    "LazyLinear",
    *(
        f"Lazy{kind}{d}d"
        for kind in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm")
        for d in (1, 2, 3)
    ),
]


class LazyModuleMixin:
    """A layer whose parameters have no shape before the first call, or before a state is loaded.

    The first call makes them, and the layer one of the class `cls_to_become`. An optimizer may be
    given the parameters before: they stay the same objects.
    """

    cls_to_become = None
    _size_name = ""  # what the input decides

    def has_uninitialized_params(self):
        return any(isinstance(p, UninitializedParameter) for p in self._parameters.values())

    def reset_parameters(self):
        pass  # there are none yet

    def _size_of(self, input):
        return input.shape[-1]

    def initialize_parameters(self, input):
        """Makes what is not there yet, for inputs like this one."""
        if not isinstance(input, Tensor):
            raise TypeError(
                f"pf.nn.{type(self).__name__}: got {type(input).__name__}; expected a Tensor; call pf.tensor"
            )
        size = self._size_of(input)
        like = next(iter(self._parameters.values()), None)
        if like is None:  # no parameters, but statistics
            like = next((b for b in self._buffers.values() if b is not None), None)
        place = {} if like is None else {"device": like.device, "dtype": like.dtype}
        made = self.cls_to_become(size, **self._how, **place)
        for name, p in self._parameters.items():
            if isinstance(p, UninitializedParameter):
                p._become(made._parameters[name])
        for name, b in self._buffers.items():
            if b is not None and b.shape != made._buffers[name].shape:
                self._buffers[name] = made._buffers[name]
        setattr(self, self._size_name, size)

    def __call__(self, *args, **kwargs):
        self.initialize_parameters(*args, **kwargs)
        del self.__dict__["_how"]
        self.__class__ = self.cls_to_become
        return self(*args, **kwargs)

    def _load_from_state_dict(self, state_dict, prefix, *how):
        for table in (self._parameters, self._buffers):
            for name, old in table.items():
                value = state_dict.get(prefix + name)
                if old is None or not isinstance(value, Tensor) or value.size() == old.size():
                    continue
                if isinstance(old, UninitializedParameter):
                    old.materialize(tuple(value.shape))
                elif old.numel() == 0:
                    shape = tuple(value.shape)
                    table[name] = _ops.empty(shape, dtype=old.dtype, device=old.device)
        super()._load_from_state_dict(state_dict, prefix, *how)


class _OfChannels(LazyModuleMixin):
    def _size_of(self, input):
        normalization.check_ranks(self, input, self._input_ranks)
        return input.shape[0 if input.dim() == self._alone else 1]


def _lazy(real, mixin, size_name, placeholder=lambda how: 1, **more):
    name = "Lazy" + real.__name__
    signature = inspect.signature(real.__init__)
    # Norms have weights and statistics unless they are told otherwise, those of instances too.
    given = [
        p.replace(default=True) if p.name in ("affine", "track_running_stats") else p
        for p in signature.parameters.values()
    ]
    signature = signature.replace(parameters=given[:1] + given[2:])

    def __init__(self, *args, **kwargs):
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        how = dict(list(bound.arguments.items())[1:])
        place = {k: how.pop(k) for k in ("device", "dtype")}
        real.__init__(self, placeholder(how), **how, **place)
        self._how = how
        setattr(self, size_name, 0)
        for key, p in self._parameters.items():
            if p is not None:
                self._parameters[key] = UninitializedParameter(device=p.device, dtype=p.dtype)
        for key, b in self._buffers.items():
            if b is not None and b.ndim:
                self._buffers[key] = _ops.empty((0,), device=b.device, dtype=b.dtype)

    __init__.__signature__ = signature
    space = {
        "__doc__": f"{real.__name__} whose {size_name} is that of its first input.",
        "__module__": __name__,
        "__init__": __init__,
        "cls_to_become": real,
        "_size_name": size_name,
        **more,
    }
    return type(name, (mixin, real), space)


LazyLinear = _lazy(layers.Linear, LazyModuleMixin, "in_features")
for _d in (1, 2, 3):
    for _kind in ("Conv", "ConvTranspose"):
        globals()[f"Lazy{_kind}{_d}d"] = _lazy(
            getattr(convolution, f"{_kind}{_d}d"),
            _OfChannels,
            "in_channels",
            lambda how: how["groups"],
            _input_ranks=(_d + 1, _d + 2),
            _alone=_d + 1,
        )
    for _kind in ("BatchNorm", "InstanceNorm"):
        _real = getattr(normalization, f"{_kind}{_d}d")
        globals()[f"Lazy{_kind}{_d}d"] = _lazy(
            _real,
            _OfChannels,
            "num_features",
            _input_ranks=_real._ranks,
            _alone=_d + 1 if _kind == "InstanceNorm" else -1,
        )
