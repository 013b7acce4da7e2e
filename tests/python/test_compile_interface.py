"""pf.compile: arguments, modes, backends, and graphs under the names of torch.cuda."""

import copy
import pickle

import pytest
from captured_steps import CAPTURED, batches, calls, model, same

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import nn

# ---- graphs of torch.cuda ------------------------------------------------------------------


def test_cuda_graph():
    m = model()
    x = pf.zeros(4, 13)
    pf.manual_seed(2)
    for _ in range(2):
        m(x)
    g = pf.cuda.CUDAGraph()
    with pf.cuda.graph(g):
        assert pf.cuda.is_current_stream_capturing()
        y = m(x).detach()
    assert not pf.cuda.is_current_stream_capturing()
    for seed in range(4):
        x.copy_(pf.randn(4, 13))
        pf.manual_seed(seed)
        g.replay()
        pf.manual_seed(seed)
        assert same([m(x)], [y])
    g.reset()
    with pytest.raises(pf.ValueError, match="not captured"):
        g.replay()


def test_cuda_graph_of_a_training_step():
    def run(captured):
        m = model()
        o = pf.optim.AdamW(m.parameters(), lr=0.01)
        x, y = pf.zeros(6, 13), pf.zeros(6, dtype=pf.int64)

        def step():
            o.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            o.step()
            return loss.detach()

        pf.manual_seed(3)
        data = batches(7)
        losses, loss, graph = [], None, pf.cuda.CUDAGraph()
        for i, (a, b) in enumerate(data):
            x.copy_(a), y.copy_(b)
            if not captured or i < 2:
                loss = step()
            elif i == 2:
                with pf.cuda.graph(graph):
                    loss = step()
            else:
                graph.replay()
            losses.append(loss.item())
        return losses, list(m.parameters()), [p.grad for p in m.parameters()]

    want, got = run(False), run(True)
    assert want[0] == got[0] and same(want[1], got[1]) and same(want[2], got[2])


def test_cuda_graph_of_what_cannot_be_captured():
    g = pf.cuda.CUDAGraph()
    with pytest.raises(pf.NotSupportedError, match="the host reads a value"):
        with pf.cuda.graph(g):
            pf.ones(2).sum().item()
    with pytest.raises(KeyError):
        with pf.cuda.graph(g):
            raise KeyError
    with pytest.raises(pf.ValueError, match="without capture_begin"):
        g.capture_end()
    g.capture_begin()
    with pytest.raises(pf.ValueError, match="another capture"):
        pf.cuda.CUDAGraph().capture_begin()
    y = pf.ones(2) * 3
    g.capture_end()
    y.zero_()
    g.replay()
    assert y.tolist() == [3.0, 3.0]


def test_graphed_callables():
    m, f = model(0.0), lambda x: x * 2
    m2, f2 = pf.cuda.make_graphed_callables((m, f), ((pf.zeros(2, 13),), (pf.zeros(2),)))
    assert m2 is m
    for _ in range(5):
        x = pf.randn(2, 13)
        m.zero_grad()
        m(x).sum().backward()
        assert m[0].weight.grad is not None and same([f2(x)], [x * 2])
    assert m.__dict__["forward"].replays == 2


# ---- the interface -------------------------------------------------------------------------


def test_default_mode_is_python_at_every_call():
    count = []

    @pf.compile
    def f(x):
        """Doubles."""
        count.append(1)
        return x * len(count)

    assert [f(pf.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
    assert f.__name__ == "f" and f.__doc__ == "Doubles." and "mode='default'" in f.report()


def test_compiled_module_is_the_module():
    m = model()
    c = pf.compile(m, **CAPTURED)
    assert isinstance(c, nn.Module) and c._orig_mod is m
    assert list(c.state_dict()) == ["_orig_mod." + k for k in m.state_dict()]
    assert c[0] is m[0] if hasattr(type(c), "__getitem__") else c._orig_mod[0] is m[0]
    c.eval()
    assert not m.training and not c.training
    m.extra = 3
    assert c.extra == 3
    c.extra = 4
    assert m.extra == 4
    assert [p is q for p, q in zip(c.parameters(), m.parameters())] == [True] * 6
    n = model(0.0).eval()
    n.compile(**CAPTURED)
    x = pf.randn(2, 13)
    with pf.no_grad():
        want = [n(x) for _ in range(6)]
    assert same(want[:1] * 5, want[1:])
    assert n.__dict__["forward"].replays == 3


@pytest.mark.parametrize("how", [{}, {"mode": "reduce-overhead"}, {"numerics": "fast"}])
@pytest.mark.parametrize("in_place", [False, True])
def test_copies_of_compiled_modules(how, in_place):
    """They have weights of their own, and capture by themselves."""
    m = nn.Linear(2, 2)
    x = pf.ones(1, 2)
    c = pf.compile(m, **how)
    if in_place:
        c = m
        m.compile(**how)
    for _ in range(5):
        want = c(x).tolist()
    for d in (copy.deepcopy(c), pickle.loads(pickle.dumps(c))):
        assert type(d) is type(c)
        with pf.no_grad():
            d.weight.zero_(), d.bias.fill_(2)
        for _ in range(5):
            assert d(x).tolist() == [[2, 2]] and c(x).tolist() == want


def test_wrong_arguments():
    with pytest.raises(
        pf.ValueError, match="mode='fast'; expected one of default, reduce-overhead"
    ):
        pf.compile(lambda x: x, mode="fast")
    with pytest.raises(pf.ValueError, match="backend='tvm'"):
        pf.compile(lambda x: x, backend="tvm")
    with pytest.raises(pf.NotSupportedError, match="function as backend"):
        pf.compile(lambda x: x, backend=lambda g, x: g)
    with pytest.raises(TypeError, match="expected a Module or a function"):
        pf.compile(3)
    for bad in (0, -1, 2.5, "x", True):
        with pytest.raises(pf.ValueError, match="verify_every.*expected a number of calls"):
            pf.compile(lambda x: x, options={"verify_every": bad})
        with pytest.raises(pf.ValueError, match="recompile_limit.*expected a number of kinds"):
            pf.compile(lambda x: x, recompile_limit=bad)

    def f(x):
        return x

    assert pf.compile(f, disable=True) is f
    assert pf.compile(mode="reduce-overhead")(f)(pf.ones(1)).item() == 1


def test_backend_of_the_environment(monkeypatch):
    monkeypatch.setenv("PYFLAME_COMPILE_BACKEND", "cudagraphs")
    c = pf.compile(lambda x: x + 1)
    for _ in range(4):
        c(pf.ones(1))
    assert calls(c)[0] == 1 and pf.compiler.get_default_backend() == "cudagraphs"
    monkeypatch.setenv("PYFLAME_COMPILE_BACKEND", "eager")
    assert "mode='default'" in pf.compile(lambda x: x + 1, **CAPTURED).report()


def test_disabled_functions_break_a_capture():
    @pf.compiler.disable
    def inner(x):
        return x + 1

    c = pf.compile(lambda x: inner(x) * 2, **CAPTURED)
    for _ in range(4):
        assert c(pf.ones(1)).item() == 4
    assert "is not to be compiled" in c.report()


def test_compiled_calls_within_compiled_calls():
    inner = pf.compile(lambda x: x + 1, **CAPTURED)
    outer = pf.compile(lambda x: inner(x) * 2, **CAPTURED)
    for i in range(5):
        assert outer(pf.full((1,), float(i))).item() == 2 * (i + 1)
    assert calls(outer)[0] == 2
