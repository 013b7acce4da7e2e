"""einops knows PyFlame's tensors once both are imported, in whichever order.

einops asks the subclasses of its AbstractBackend whether a tensor is theirs. Ours is made when einops'
module of backends has run: until then nothing of einops is imported.
"""

import contextlib
import sys

from . import _C

_MODULE = "einops._backends"


def register(module):
    """Makes the backend, as a subclass of the module's AbstractBackend."""

    class PyFlameBackend(module.AbstractBackend):
        framework_name = "pyflame"

        def is_appropriate_type(self, tensor):
            return isinstance(tensor, _C.Tensor)

        def from_numpy(self, x):
            return _C.tensor(x)

        def to_numpy(self, x):
            return x.detach().cpu().numpy()

        def arange(self, start, stop):
            return _C._functions["arange"](start, stop, dtype=_C.int64)

        def shape(self, x):
            return tuple(x.shape)

        def transpose(self, x, axes):
            return x.permute(axes)

        def reduce(self, x, operation, reduced_axes):
            axes = sorted(reduced_axes)
            if operation in ("min", "max"):
                return getattr(x, "a" + operation)(dim=axes)
            if operation in ("sum", "mean"):
                return getattr(x, operation)(dim=axes)
            if operation in ("any", "all", "prod"):
                for axis in reversed(axes):
                    x = getattr(x, operation)(dim=axis)
                return x
            raise NotImplementedError(f"unknown reduction {operation}")

        def stack_on_zeroth_dimension(self, tensors):
            return _C._functions["stack"](tensors)

        def add_axes(self, x, n_axes, pos2len):
            sizes = [-1] * n_axes
            for position, length in pos2len.items():
                x = x.unsqueeze(position)
                sizes[position] = length
            return x.expand(sizes)

        def add_axis(self, x, new_position):
            return x.unsqueeze(new_position)

        def tile(self, x, repeats):
            return x.repeat(repeats)

        def concat(self, tensors, axis):
            return _C._functions["cat"](tensors, dim=axis)

        def is_float_type(self, x):
            return x.is_floating_point()

        def einsum(self, pattern, *x):
            return _C._functions["einsum"](pattern, *x)

    PyFlameBackend.__module__ = __name__
    module.PyFlameBackend = PyFlameBackend  # einops finds subclasses by weak references


class _Loader:
    """The loader of einops' module, which then makes our backend."""

    def __init__(self, loader, finder):
        self._loader, self._finder = loader, finder

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        register(module)
        with contextlib.suppress(ValueError):  # another thread was quicker
            sys.meta_path.remove(self._finder)


class _Finder:
    """Stands before the other finders until einops is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != _MODULE:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find and find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None


def install():
    """Called once, when PyFlame is imported."""
    if _MODULE in sys.modules:
        register(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Finder())
