"""Notes what shapes and dtypes the values of a graph have."""

from typing import Any, NamedTuple

from ... import _C
from ..interpreter import Interpreter
from ..node import map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple
    memory_format: Any
    is_quantized: bool
    qparams: dict


def _metadata(t):
    return TensorMetadata(t.shape, t.dtype, t.requires_grad, t.stride(), None, False, {})


class ShapeProp(Interpreter):
    """Runs a graph and notes a TensorMetadata of each value in `node.meta["tensor_meta"]`, and its type
    in `node.meta["type"]`."""

    def run_node(self, n):
        result = super().run_node(n)
        some = []

        def look(a):
            if isinstance(a, _C.Tensor):
                some.append(a)
                return _metadata(a)
            return a

        meta = map_aggregate(result, look)
        if some:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """Runs the graph with these arguments and returns what it gives."""
        return super().run(*args)
