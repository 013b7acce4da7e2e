"""pyflame.fx: tracing, graphs, their code, interpreters and rewriting; beside PyTorch's where that is."""

import copy
import math
import operator
import pickle

import pytest
import test_torch_run

import pyflame as pf
from pyflame import fx
from pyflame.fx import passes, subgraph_rewriter
from pyflame.fx.proxy import Attribute, GraphAppendingTracer

pytestmark = pytest.mark.cpu_only
F = pf.nn.functional


def outer(a, b=2):
    """Noted as it is: see wrap below."""
    return a + b if a.sum().item() > 0 else a


fx.wrap("outer")
fx.wrap("len")


def nets(T):
    """Modules of one of the two libraries, with the arguments that they take."""
    nn = T.nn

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)
            self.scale = nn.Parameter(T.ones(4))
            self.register_buffer("shift", T.full((4,), 0.5))
            self.inner = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))

        def forward(self, x, y=1.5, *, keep=None):
            n = x.shape[0]
            z = self.linear(x) * self.scale + self.shift + T.ones(4)
            z += 1
            z = self.inner(z)
            a, b = T.chunk(z, 2, dim=-1)
            return {
                "a": z.view(-1, n)[:, 1:2], "b": [a.to(T.float64), -b, ~(b > 0)],
                "c": T.nn.functional.relu(z, inplace=False) ** 2, "d": z.sum(), "e": 1 - z / 3,
                "f": (z.T, math.sqrt(2)), "g": T.cat([a, b], 1).size(0),
            }  # fmt: skip

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 3, padding=1, bias=False)
            self.bn = nn.BatchNorm2d(2)

        def forward(self, x):
            return T.relu(self.bn(self.conv(x)) + x)

    class Picture(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])
            self.pool, self.head = nn.MaxPool2d(2), nn.Linear(2, 3)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            x = T.flatten(self.pool(x).mean((2, 3)), 1)
            return T.log_softmax(self.head(x), dim=1)

    class Starred(nn.Module):
        def forward(self, x, *rest, **more):
            return x + rest[0] * more["k"]

    def plain(x, y):
        z = T.stack([x, y]).max()
        return T.exp(T.tan(z)) - x

    return {"mixed": Mixed, "picture": Picture, "starred": Starred, "plain": lambda: plain}


@pytest.mark.parametrize("name", ["mixed", "picture", "starred", "plain"])
def test_graphs_and_code_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.fx")

    ours = fx.symbolic_trace(nets(pf)[name]())
    theirs = torch.fx.symbolic_trace(nets(torch)[name]())
    ours.graph.lint()

    def nodes(gm):
        return [(n.op, n.name, str(n.args), len(n.users)) for n in gm.graph.nodes]

    def plain(text):
        return text.replace("pyflame.", "torch.").strip()

    assert nodes(ours) == [
        (op, name, args.replace("torch.", "pyflame."), users)
        for op, name, args, users in nodes(theirs)
    ]
    assert plain(ours.code) == plain(theirs.code)
    assert plain(str(ours.graph)) == plain(str(theirs.graph))


def values(tree):
    return [v.tolist() if isinstance(v, pf.Tensor) else v for v in _leaves(tree)]


def _leaves(tree):
    if isinstance(tree, dict):
        return [v for t in tree.values() for v in _leaves(t)]
    return [v for t in tree for v in _leaves(t)] if isinstance(tree, (list, tuple)) else [tree]


@pytest.mark.parametrize("name", ["mixed", "picture", "plain"])
def test_what_is_traced_runs_as_before(name):
    pf.manual_seed(0)
    root = nets(pf)[name]()
    args = {"mixed": [pf.randn(2, 3)], "picture": [pf.randn(2, 2, 4, 4)],
            "plain": [pf.randn(2), pf.randn(2)]}[name]  # fmt: skip
    gm = fx.symbolic_trace(root)
    if name == "picture":
        root.eval(), gm.eval()
    expected = values(root(*args))
    assert values(gm(*args)) == expected
    assert values(fx.Interpreter(gm).run(*args)) == expected
    assert values(fx.Transformer(gm).transform()(*args)) == expected
    assert values(copy.deepcopy(gm)(*args)) == expected
    assert values(pickle.loads(pickle.dumps(gm))(*args)) == expected
    again = fx.GraphModule(gm, gm.graph)
    assert again.graph is not gm.graph and values(again(*args)) == expected
    if isinstance(root, pf.nn.Module):  # the same parameters; a copy has its own
        ours = dict(gm.named_parameters())
        assert all(p is ours[n] for n, p in root.named_parameters())
        assert not {map(id, copy.deepcopy(gm).parameters())} & {map(id, root.parameters())}
        assert gm.state_dict().keys() >= root.state_dict().keys()


def test_starred_arguments():
    gm = fx.symbolic_trace(nets(pf)["starred"]())
    assert gm(pf.ones(2), pf.full((2,), 3.0), k=2).tolist() == [7, 7]
    with pytest.raises(ValueError, match="names of"):
        fx.symbolic_trace(lambda x: x, concrete_args={"y": 1})


def test_long_graphs_are_pickled():
    def long(x):
        for i in range(3000):
            x = x + [i, 1][1]
        return x.sum(), slice(0, 1)

    gm = pickle.loads(pickle.dumps(fx.symbolic_trace(long)))
    gm.graph.lint()
    assert len(gm.graph.nodes) == 3003 and gm(pf.zeros(2))[0].item() == 6000


def test_gradients_go_through():
    gm = fx.symbolic_trace(nets(pf)["picture"]())
    gm(pf.randn(2, 2, 4, 4)).sum().backward()
    assert all(p.grad is not None for p in gm.parameters())


def test_operations_note_themselves():
    """Operations take proxies wherever they are called from, also those that have no tensor."""
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = pf.add(pf.ones(2), x, alpha=2)
    z = pf.cat([x, y])
    w = pf.Tensor.mul(z, 2)
    v = pf.nn.Linear(2, 2)
    with pytest.raises(TypeError, match="pf.linear"):
        F.linear(object(), v.weight)
    out = F.layer_norm(input=w, normalized_shape=[4])
    graph.output(out.node)
    kinds = [(n.op, n.target) for n in graph.nodes]
    assert kinds[1:-1] == [
        ("call_function", pf.add), ("call_function", pf.cat), ("call_method", "mul"),
        ("call_function", F.layer_norm),
    ]  # fmt: skip


def test_objects_that_are_no_tensors_are_asked():
    class Named:
        def __init__(self, name):
            self.name = name

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is pf.mul:
                return NotImplemented
            return func.__name__, types, len(args), sorted(kwargs or {})

    class Off:
        __torch_function__ = None

    n = Named("n")
    assert pf.add(n, 1) == ("add", (Named,), 2, [])
    assert pf.add(pf.ones(2), n, alpha=3) == ("add", (Named,), 2, ["alpha"])
    assert pf.cat([pf.ones(2), n]) == ("cat", (Named,), 1, [])
    assert pf.ones(2).atan2(n)[0] == "atan2"
    with pytest.raises(TypeError, match="Named"):
        pf.mul(n, n)
    with pytest.raises(TypeError, match=r"pf\.add: got \(Off, int\)"):
        pf.add(Off(), 1)


def test_what_cannot_be_noted():
    def branches(x):
        return x if x.sum() > 0 else -x

    def loops(x):
        return sum(y for y in x)

    with pytest.raises(fx.TraceError, match="branches on gt"):
        fx.symbolic_trace(branches)
    with pytest.raises(fx.TraceError, match="iterates over x"):
        fx.symbolic_trace(loops)
    with pytest.raises(RuntimeError, match="'len'"):
        fx.symbolic_trace(lambda x: x.__len__())
    with pytest.raises(NotImplementedError, match="type set"):
        fx.symbolic_trace(lambda x: x + {1})
    with pytest.raises(TypeError, match="a module or a function"):
        fx.symbolic_trace(3)
    # Nothing of a trace that failed stays.
    assert F.relu(pf.ones(1) * -1).item() == 0 and not hasattr(F.relu, "_noted")
    assert pf.nn.Linear(1, 1)(pf.ones(1)).shape == (1,)


def test_wrapped_functions_are_noted():
    def f(x):
        return outer(x, b=len(x)) * math.floor(x)

    gm = fx.symbolic_trace(f)
    targets = [n.target for n in gm.graph.nodes if n.op == "call_function"]
    assert targets == [len, outer, math.floor, operator.mul]
    assert gm(pf.tensor([2.0])).tolist() == [6.0]
    assert outer.__name__ == "outer" and "len" not in globals()
    again = fx.symbolic_trace(gm)
    assert again.code == gm.code and again(pf.tensor([2.0])).tolist() == [6.0]
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("outer")
    with pytest.raises(TypeError, match="expected a function"):
        fx.wrap(3)


def test_concrete_arguments():
    def f(x, flag, k=2):
        return x * k if flag else -x

    gm = fx.symbolic_trace(f, concrete_args={"flag": True})
    assert gm(pf.ones(1), True, 5).item() == 5
    with pytest.raises(AssertionError, match="flag was True"):
        gm(pf.ones(1), False)
    with pytest.raises(ValueError, match="flg"):
        fx.symbolic_trace(f, concrete_args={"flg": True})
    with pytest.raises(NotImplementedError, match="Tensor"):
        fx.symbolic_trace(f, concrete_args={"flag": [pf.ones(1)]})


def test_concrete_containers():
    def f(x, d, pair=(1, 2)):
        for v in d["b"]:
            x = x * v
        return x + d["a"] + pair[0] if pair[1] in (None, 2) else x

    given = {"d": {"a": fx.PH, "b": [fx.PH, 3]}, "pair": (fx.PH, None)}
    gm = fx.symbolic_trace(f, concrete_args=given)
    gm = copy.deepcopy(gm)
    assert gm(pf.ones(1), {"a": 4, "b": [5, 3]}, (2, None)).item() == 5 * 3 + 4 + 2
    assert [n.op for n in gm.graph.nodes].count("placeholder") == 3
    for d, pair, says in (
        ({"a": 4, "b": [5, 2]}, (2, None), r"d\['b'\]\[1\] was 3"),
        ({"a": 4, "b": [5, 3, 1]}, (2, None), r"d\['b'\] had the places 2"),
        ({"a": 4, "c": [5, 3]}, (2, None), "had the places"),
        ({"a": 4, "b": [5, 3]}, (2, 1), "was None"),
    ):
        with pytest.raises(AssertionError, match=says):
            gm(pf.ones(1), d, pair)
    assert fx.symbolic_trace(f, concrete_args={"x": fx.PH, "d": {"a": 1, "b": []}, "pair": (1, 2)})(
        pf.ones(1), {"a": 1, "b": []}
    ).tolist() == [3]


class Listed(fx.CodeGen):
    """Code that takes its arguments as a list and returns a dict."""

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        return f"""
def forward(self, args_list: List[int]){maybe_return_annotation}:
    {", ".join(free_vars)}, = args_list"""

    def additional_globals(self):
        return [("List", list)]

    def generate_output(self, output_args):
        return f"return {{'out': {output_args!r}}}"

    def process_inputs(self, *inputs):
        return inputs[0]

    def process_outputs(self, outputs):
        return {"out": outputs}


def test_code_of_ones_own():
    gm = fx.symbolic_trace(lambda x, y: x.relu() * y)
    gm.graph.set_codegen(Listed())
    gm.recompile()
    given = [pf.ones(2), pf.full((2,), 3.0)]
    for m in (gm, copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        assert m(given)["out"].tolist() == [3, 3], m.code
        assert fx.Interpreter(m).run(given)["out"].tolist() == [3, 3]
    bare = fx.Interpreter(gm).run(*given, enable_io_processing=False)
    assert bare.tolist() == [3, 3]


def test_lines_of_code_are_changed():
    gm = fx.symbolic_trace(lambda x: x.relu() + 1)
    lines = []

    def first(body):
        lines.extend(body)
        return ["import math\n", *body]

    with gm.graph.on_generate_code(lambda before: first):
        with gm.graph.on_generate_code(
            lambda before: lambda b: ["if True:\n    pass\n", *before(b)]
        ):
            gm.recompile()
            assert "    if True:\n        pass\n    import math\n    relu" in gm.code
            assert gm(pf.ones(1)).item() == 2
        gm.recompile()
        assert "if True" not in gm.code and "import math" in gm.code
    gm.recompile()
    assert "import math" not in gm.code and all(line.endswith("\n") for line in lines)


def test_custom_tracers():
    class Through(fx.Tracer):
        def is_leaf_module(self, m, qualname):
            return not isinstance(m, pf.nn.ReLU) and super().is_leaf_module(m, qualname)

        def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
            n = super().create_node(kind, target, args, kwargs, name, type_expr)
            n.tag = kind
            return n

    root = pf.nn.Sequential(pf.nn.Linear(2, 2), pf.nn.ReLU())
    graph = Through().trace(root)
    assert [n.op for n in graph.nodes] == ["placeholder", "call_module", "call_function", "output"]
    assert all(n.tag == n.op for n in graph.nodes)
    x = pf.randn(3, 2)
    assert fx.GraphModule(root, graph)(x).tolist() == root(x).tolist()
    x = pf.nn.ReLU()

    def stranger(y):
        return x(y)

    with pytest.raises(NameError, match="ReLU that is no submodule"):
        fx.symbolic_trace(stranger)


def test_rewriting_by_hand():
    def f(x, y):
        return x + y, pf.add(x, y), x.add(y)

    gm = fx.symbolic_trace(f)
    for n in gm.graph.nodes:
        if n.target in (operator.add, pf.add, "add"):
            with gm.graph.inserting_after(n):
                n.replace_all_uses_with(gm.graph.call_function(pf.mul, n.args, n.kwargs))
            gm.graph.erase_node(n)
    gm.graph.lint()
    gm.recompile()
    assert values(gm(pf.tensor([3.0]), pf.tensor([4.0]))) == [[12.0]] * 3
    first, *_, last = gm.graph.nodes
    assert first < last and len(gm.graph.nodes) == 6
    with pytest.raises(RuntimeError, match="is used by"):
        gm.graph.erase_node(first)
    last.args = ([first],)
    with pytest.raises(NotImplementedError, match="mutation"):
        last.args[0].append(first)


def test_order_of_new_nodes():
    graph = fx.Graph()
    x = graph.placeholder("x")
    out = graph.output(x)
    with graph.inserting_after(x):
        a = graph.call_function(pf.neg, (x,))
        b = graph.call_function(pf.exp, (a,))
    graph.inserting_before(out)
    c = graph.call_method("sin", (b,))
    assert list(graph.nodes) == [x, a, b, c, out] == list(reversed(list(reversed(graph.nodes))))
    out.args = (c,)
    assert list(c.users) == [out] and not [u for u in x.users if u is out]
    b.prepend(c)
    with pytest.raises(RuntimeError, match="before it has been defined"):
        graph.lint()
    with pytest.raises(ValueError, match="another graph"):
        fx.Graph().inserting_after(x)


def test_dead_code():
    def f(x):
        y = x * 2
        x.exp()
        y.add_(1)
        unused = pf.relu(y)  # noqa: F841
        return y

    gm = fx.symbolic_trace(f)
    assert gm.graph.eliminate_dead_code() and not gm.graph.eliminate_dead_code()
    gm.recompile()
    assert [n.target for n in gm.graph.nodes][1:-1] == [operator.mul, "add_"]
    assert gm(pf.ones(1)).item() == 3


def test_names_never_clash():
    graph = fx.Graph()
    names = [
        graph.placeholder(n).name for n in ("x", "x", "x_1", "sum", "class", "1a", "a.b", "torch")
    ]
    assert names == ["x", "x_1", "x_2", "sum_1", "class_1", "_1a", "a_b", "torch_1"]


def test_lint_finds_targets():
    gm = fx.symbolic_trace(pf.nn.Sequential(pf.nn.Linear(2, 2)))
    gm.graph.call_module("none.such", ())
    with pytest.raises(RuntimeError, match=r"none\.such.*no none"):
        gm.graph.lint()
    with pytest.raises(RuntimeError, match="has no 0"):
        fx.GraphModule(pf.nn.Module(), gm.graph)
    with pytest.raises(ValueError, match="expected a function"):
        fx.Graph().call_function("relu", ())
    with pytest.raises(ValueError, match="expected one of"):
        fx.Graph().create_node("call", "x")


def test_submodules_of_a_graph_module():
    gm = fx.symbolic_trace(nets(pf)["picture"]())
    assert gm.add_submodule("extra.deep", pf.nn.ReLU())
    assert isinstance(gm.get_submodule("extra.deep"), pf.nn.ReLU)
    gm.delete_all_unused_submodules()
    assert not hasattr(gm, "extra") and hasattr(gm, "head")
    assert gm.delete_submodule("head") and not gm.delete_submodule("head")
    of_dict = fx.Graph()
    of_dict.output(of_dict.call_module("a.b", (of_dict.placeholder("x"),)))
    assert fx.GraphModule({"a.b": pf.nn.ReLU()}, of_dict)(pf.ones(1) * -1).item() == 0
    with pytest.raises(RuntimeError, match="has not"):
        fx.GraphModule({}, of_dict)


def test_values_in_code():
    def f(x):
        x = x.to(device=pf.device("cpu"), dtype=pf.float64)
        x = x.clamp(-math.inf, math.inf).reshape((-1,))
        x[0] = 3
        return (
            x[..., None, ::2],
            F.pad(x, (1, 1), value=math.nan),
            pf.Size((1, 2)),
            {"k": {"j": 1j}},
        )

    gm = fx.symbolic_trace(f)
    a, b, size, k = gm(pf.ones(2))
    assert a.tolist() == [[3.0]] and size == (1, 2) and k == {"k": {"j": 1j}}
    assert math.isnan(b[0].item()) and b.dtype is pf.float64


def test_errors_show_the_code():
    import traceback

    gm = fx.symbolic_trace(lambda x: pf.matmul(x, x))
    try:
        gm(pf.ones(2, 3))
    except RuntimeError:
        assert "matmul = pyflame.matmul(x, x)" in traceback.format_exc()


def test_tables_and_text(capsys):
    gm = fx.symbolic_trace(nets(pf)["picture"]())
    gm.graph.print_tabular()
    gm.print_readable()
    out = capsys.readouterr().out
    assert "blocks_0_conv" in out and "def forward(self, x)" in out and "opcode" in out
    assert "head): Linear" in str(gm) and gm.code in str(gm)


def test_interpreters():
    class Negated(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(pf.neg if target is pf.exp else target, args, kwargs)

    gm = fx.symbolic_trace(lambda x, y=3: pf.exp(x).add(y))
    assert Negated(gm).run(pf.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="no value for the argument x"):
        fx.Interpreter(gm).run()

    class Swapped(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(pf.sigmoid if target is pf.exp else target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method("sub" if target == "add" else target, args, kwargs)

    changed = Swapped(gm).transform()
    assert changed(pf.zeros(1)).item() == -2.5
    assert passes.shape_prop.ShapeProp(gm).propagate(pf.ones(2, 3)).shape == (2, 3)
    metas = [n.meta["tensor_meta"].shape for n in gm.graph.nodes if "tensor_meta" in n.meta]
    assert metas == [(2, 3)] * 4


def test_proxies_into_a_graph_that_is_there():
    class Net(pf.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = pf.nn.ReLU()

        def forward(self, x):
            return self.act(x) + 1.0

    gm = fx.symbolic_trace(Net())
    tracer = GraphAppendingTracer(gm.graph)
    for n in gm.graph.nodes:
        if n.op == "call_module":
            with gm.graph.inserting_before(n):
                made = gm.act(*fx.map_arg(n.args, lambda m: fx.Proxy(m, tracer)))
                n.replace_all_uses_with(made.node)
                gm.graph.erase_node(n)
    gm.recompile()
    assert gm(pf.tensor([-1.0])).item() == 1
    inner = fx.symbolic_trace(pf.nn.LeakyReLU(0.5))
    out = gm.graph.output_node()
    with gm.graph.inserting_before(out):
        out.args = (inner(fx.Proxy(out.args[0])).node,)
    gm.recompile()
    assert gm(pf.tensor([-1.0])).item() == 1
    assert isinstance(fx.Proxy(out).anything, Attribute)


PROGRAM = """
import torch
from torch.fx import GraphModule, Node, Proxy, symbolic_trace
from torch.fx._symbolic_trace import Tracer
from torch.fx.graph_module import GraphModule as same
from torch.fx.node import Argument, Target, map_arg
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.proxy import GraphAppendingTracer
from torch.nn.functional import gelu, relu, softmax

@torch.fx.wrap
def halves(x):
    return x / 2 if x.sum() > 0 else x

class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        torch._assert(x.dim() == 1, "one dimension")
        with torch.profiler.record_function("region"):
            x = relu(halves(x))
        return torch.einsum("i,i->", x, torch.nn.functional.softmax(x, 0))

class Regions(Tracer):
    def trace(self, root, concrete_args=None):
        kind = torch.autograd.profiler.record_function
        enter, leave = kind.__enter__, kind.__exit__
        def begin(region):
            region.handle = self.create_proxy(
                "call_function", torch.ops.profiler._record_function_enter, (region.name,), {})
        def end(region, *unused):
            torch.ops.profiler._record_function_exit(region.handle)
        kind.__enter__, kind.__exit__ = begin, end
        try:
            return super().trace(root, concrete_args)
        finally:
            kind.__enter__, kind.__exit__ = enter, leave

assert same is GraphModule and not isinstance(torch.ones(1), Proxy)
gm = GraphModule(Net(), Regions().trace(Net()))
gm.graph.eliminate_dead_code()
gm.recompile()
with torch.profiler.profile() as prof:
    print(gm(torch.ones(4)).item())
print("region" in str(prof))
print(gm.code)
try:
    gm(torch.ones(2, 2))
    print("no error")
except AssertionError:
    pass
from torch.fx.graph_module import _CodeOnlyModule, _copy_attr
assert relu.__name__ == "relu" and not hasattr(torch.nn.functional.softmax, "_noted")
assert not hasattr(torch.einsum, "_noted") and torch.einsum is __import__("pyflame").einsum
"""

CODE = """\
def forward(self, x : torch.Tensor):
    dim = x.dim()
    eq = dim == 1;  dim = None
    _assert = ASSERT(eq, 'one dimension');  eq = _assert = None
    _record_function_enter = ENTER('region')
    halves = __main___halves(x);  x = None
    relu = torch.nn.functional.relu(halves);  halves = None
    _record_function_exit = EXIT(_record_function_enter);  BOTH = None
    softmax = torch.nn.functional.softmax(relu, 0)
    einsum = torch.einsum('i,i->', relu, softmax);  relu = softmax = None
    return einsum
"""


def test_under_torchs_name(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = test_torch_run.start("run", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    shown = done.stdout
    for short, long in (
        ("ASSERT", "pyflame__torch_only__assert"),
        ("ENTER", "pyflame__torch_only_ops__record_function_enter"),
        ("EXIT", "pyflame__torch_only_ops__record_function_exit"),
        ("BOTH", "_record_function_enter = _record_function_exit"),
    ):
        shown = shown.replace(long, short)
    assert shown.split("\n\n\n\n")[0] == "0.5\nTrue"
    assert shown.split("\n\n\n\n")[1].strip() == CODE.strip()


# ---- patterns -----------------------------------------------------------------------------------


def test_replace_pattern():
    def f(x, w1, w2):
        a = pf.cat([pf.neg(w1), w2]).sum()
        b = pf.cat([pf.neg(w1), w2]).sum()
        return x + pf.max(a) + pf.max(b)

    def pattern(a, b):
        return pf.cat([pf.neg(a), b]).sum()

    gm = fx.symbolic_trace(f)
    matches = fx.replace_pattern(gm, pattern, lambda w1, w2: pf.stack([w1, w2]))
    assert len(matches) == 2 and isinstance(matches[0], subgraph_rewriter.Match)
    gm.graph.lint()
    assert gm.code.strip().splitlines()[1:3] == [
        "    stack = pyflame.stack([w1, w2])",
        "    max_1 = pyflame.max(stack);  stack = None",
    ]
    assert gm(pf.zeros(1), pf.ones(2), pf.full((2,), 5.0)).item() == 10


@pytest.mark.parametrize(
    ("f", "pattern", "count"),
    [
        (lambda x: pf.exp(pf.neg(x)), lambda x: pf.exp(pf.neg(x)), 1),
        # Chains: what comes from one replacement is an input of the next.
        (lambda x: pf.exp(pf.exp(pf.exp(x))), lambda x: pf.exp(x), 3),
        (lambda x: pf.exp(pf.exp(pf.exp(x))), lambda x: pf.exp(pf.exp(x)), 1),
        # A value within that is used elsewhere, other constants, one argument twice.
        (lambda x: pf.exp(y := pf.neg(x)) + y, lambda x: pf.exp(pf.neg(x)), 0),
        (lambda x: pf.sum(x, 1), lambda x: pf.sum(x, 0), 0),
        (lambda x: x + (x + 1), lambda x: x + x, 0),
        (lambda x: (x + x) * 2, lambda x: x + x, 1),
        (lambda x: x.relu().sum(dim=0), lambda x: x.relu().sum(dim=0), 1),
    ],
)
def test_what_a_pattern_fits(f, pattern, count):
    gm = fx.symbolic_trace(f)
    before = gm(pf.ones(2, 2))
    times_one = fx.symbolic_trace(lambda x: pf.mul(pattern(x), 1))
    assert len(fx.replace_pattern(gm, pattern, times_one)) == count
    gm.graph.lint()
    assert sum(n.target is pf.mul for n in gm.graph.nodes) == count
    assert pf.allclose(gm(pf.ones(2, 2)), before)


def test_patterns_with_several_results_and_modules():
    def f(x):
        a = pf.exp(x)
        return pf.neg(a) * pf.relu(a)

    def pattern(x):
        a = pf.exp(x)
        return pf.neg(a), pf.relu(a)

    gm = fx.symbolic_trace(f)
    assert len(fx.replace_pattern(gm, pattern, lambda x: (x + 1, x + 2))) == 1
    assert gm(pf.ones(1)).item() == 6
    gm = fx.symbolic_trace(pf.nn.Sequential(pf.nn.Linear(2, 2), pf.nn.ReLU()))
    old = fx.symbolic_trace(pf.nn.Sequential(pf.nn.ReLU()))
    new = fx.symbolic_trace(pf.nn.ModuleDict({"t": pf.nn.Tanh()})["t"])
    assert len(fx.replace_pattern(gm, old, new)) == 1 and "tanh" in gm.code
    with pytest.raises(ValueError, match="2 arguments"):
        fx.replace_pattern(fx.symbolic_trace(lambda x: x + x), lambda x, y: x + y, pf.neg)
    with pytest.raises(ValueError, match="returns one of its arguments"):
        fx.replace_pattern(gm, lambda x: x, lambda x: x)
    found = fx.subgraph_rewriter.replace_pattern_with_filters(
        fx.symbolic_trace(lambda x: x + 1 + 2), lambda x, k: x + k, lambda x, k: x - k,
        match_filters=[lambda match, graph, pattern: 2 in match.nodes_map.values()],
    )  # fmt: skip
    assert len(found) == 1 and [n.target for n in found[0].replacements] == [operator.sub]


def test_patterns_without_their_literals():
    def f(x):
        return (x + 2).clamp(min=0.5) * (x + 3).clamp(min=1) + pf.sum(x, 0)

    args = (lambda x: (x + 1).clamp(min=0), lambda x: x.relu())
    gm = fx.symbolic_trace(f)
    replace = subgraph_rewriter.replace_pattern_with_filters
    assert replace(gm, *args) == []
    assert len(replace(gm, *args, ignore_literals=True)) == 2
    x = pf.tensor([-1.0, 2.0])
    assert gm(x).tolist() == (x.relu() * x.relu() + x.sum()).tolist()
