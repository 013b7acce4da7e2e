"""Programs as graphs: symbolic tracing of modules and functions, and rewriting. Names as in torch.fx.

`symbolic_trace` runs a module once with `Proxy` objects in place of its arguments and notes what happens
to them as the `Node` objects of a `Graph`; a `GraphModule` is a module that runs a graph, by Python code
made of it (`gm.code`). What depends on values of tensors (`if x.sum() > 0`) cannot be noted and raises
`TraceError`.
"""

from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .immutable_collections import immutable_dict, immutable_list
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy, TraceError
from .subgraph_rewriter import replace_pattern
from .tracing import PH, Tracer, symbolic_trace, wrap

__all__ = [
    "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "PH", "Proxy", "TraceError", "Tracer",
    "Transformer", "has_side_effect", "immutable_dict", "immutable_list", "map_arg",
    "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
