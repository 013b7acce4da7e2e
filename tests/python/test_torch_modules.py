"""Modules with PyTorch's names: what they do is what PyTorch does, or they say that they do nothing."""

import collections
import io
import json
import re
import struct
import textwrap

import numpy as np
import pytest
import test_torch_run

import pyflame as pf
from pyflame import accelerator, hub, nn, overrides, profiler, serialization, testing
from pyflame.utils import _pytree, benchmark, dlpack
from pyflame.utils.tensorboard import SummaryWriter

run = test_torch_run.run


# ---- torch.testing --------------------------------------------------------------------------------


def pairs(module):
    """(actual, expected, options) for assert_close."""
    t = module.tensor
    one = module.ones(3)
    yield one, one + 1e-7, {}
    yield one, one + 1e-4, {}
    yield one, one.double(), {}
    yield one, one.double(), {"check_dtype": False}
    yield one, module.ones(4), {}
    yield one, one.half(), {"check_dtype": False}
    yield t([1, 2]), t([1, 2]), {}
    yield t([1, 2]), t([1, 3]), {}
    yield t([1, 2]), t([1, 3]), {"atol": 1, "rtol": 0}
    yield t([True, False]), t([True, True]), {}
    yield t([float("nan")]), t([float("nan")]), {}
    yield t([float("nan")]), t([float("nan")]), {"equal_nan": True}
    yield t([float("inf"), 1.0]), t([float("inf"), 1.0]), {}
    yield t([float("inf")]), t([1.0]), {"rtol": 10.0, "atol": 1.0}
    yield t([1.0]), t([float("inf")]), {"rtol": 10.0, "atol": 1.0}
    yield one.bfloat16(), (one * 1.01).bfloat16(), {}
    yield module.ones(2, 3).t(), module.ones(3, 2), {"check_stride": True}
    yield module.empty(0), module.empty(0), {}
    yield module.empty(0, 2), module.empty(0, 3), {}
    yield t(1.0), t(1.0), {}
    yield [one, {"a": one}], [one, {"a": one}], {}
    yield [one, {"a": one}], [one, {"a": one + 1}], {}
    yield [one], [one, one], {}
    yield {"a": one}, {"b": one}, {}
    yield 1, 1, {}
    yield 1, 1.0, {}
    yield 1.0, 1.0 + 1e-9, {}
    yield 1.0, 1.1, {}
    yield True, True, {}
    yield 1j, 1j, {}
    yield None, None, {}
    yield None, one, {}
    yield "a", "a", {}
    yield np.ones(2), np.ones(2), {}
    yield np.ones(2), np.ones(2) + 1, {}
    yield one, one, {"rtol": 1.0}
    yield one, "a", {}


def outcome(module, actual, expected, how):
    try:
        module.assert_close(actual, expected, **how)
    except Exception as e:
        return next(c for c in (AssertionError, ValueError, TypeError) if isinstance(e, c))
    return None


def test_assert_close_decides_as_pytorch():
    torch = pytest.importorskip("torch")
    cases = list(zip(pairs(pf), pairs(torch)))
    for i, (ours, theirs) in enumerate(cases):
        expected = outcome(torch.testing, *theirs)
        assert outcome(testing, *ours) == expected, (i, theirs)
    assert len(cases) > 30


def test_what_assert_close_says():
    with pytest.raises(AssertionError) as e:
        testing.assert_close({"a": [pf.zeros(2, 2)]}, {"a": [pf.tensor([[0.0, 0.0], [3.0, 0.0]])]})
    for words in ("Mismatched elements: 1 / 4 (25.0%)", "difference: 3.0 at index (1, 0)",
                  "['a'][0]", "up to 1e-05 allowed"):  # fmt: skip
        assert words in str(e.value)
    with pytest.raises(AssertionError, match="^mine$"):
        testing.assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match="^<.*2.*>$"):
        testing.assert_close(1, 2, msg=lambda text: f"<{text!r}>")
    testing.assert_allclose(pf.ones(2), [1, 1 + 1e-7])


def test_make_tensor():
    for dtype in (pf.float32, pf.float16, pf.int64, pf.uint8, pf.bool):
        t = testing.make_tensor(3, 4, dtype=dtype)
        assert t.shape == (3, 4) and t.dtype is dtype
    t = testing.make_tensor((2, 5), dtype=pf.float64, low=1, high=2, noncontiguous=True)
    assert t.min() >= 1 and t.max() < 2 and not t.is_contiguous()
    assert testing.make_tensor(50, dtype=pf.int8, low=0, high=2, exclude_zero=True).min() == 1


# ---- torch.profiler -------------------------------------------------------------------------------


def test_schedules_are_pytorchs():
    torch = pytest.importorskip("torch")
    for how in ({"wait": 1, "warmup": 1, "active": 2}, {"wait": 0, "warmup": 0, "active": 1},
                {"wait": 2, "warmup": 1, "active": 3, "repeat": 2},
                {"wait": 1, "warmup": 1, "active": 1, "repeat": 1, "skip_first": 3},
                {"wait": 2, "warmup": 1, "active": 1, "repeat": 2, "skip_first_wait": 1}):  # fmt: skip
        ours, theirs = profiler.schedule(**how), torch.profiler.schedule(**how)
        assert [ours(i).name for i in range(20)] == [theirs(i).name for i in range(20)], how
    with pytest.raises(pf.ValueError, match="active"):
        profiler.schedule(wait=1, warmup=1, active=0)


def test_regions(tmp_path):
    ready = []
    with profiler.profile(
        schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda p: ready.append([r.key for r in p.key_averages()]),
    ) as p:
        for _ in range(6):
            with profiler.record_function("step"), profiler.record_function("inner"):
                pass
            p.step()
    assert ready == [["inner", "step", "ProfilerStep#2", "ProfilerStep#3"]]

    @profiler.record_function("decorated")
    def work():
        with profiler.record_function("deep"):
            return sum(range(20_000))

    with profiler.profile() as p:
        for _ in range(3):
            work()
    rows = {r.key: r for r in p.key_averages()}
    assert rows["decorated"].count == 3
    assert rows["decorated"].cpu_time_total > rows["deep"].cpu_time_total > 0
    own = rows["decorated"].self_cpu_time_total
    assert own == pytest.approx(rows["decorated"].cpu_time_total - rows["deep"].cpu_time_total)
    assert "decorated" in p.key_averages().table(sort_by="cuda_time_total", row_limit=10)
    p.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events] == ["deep", "decorated"] * 3
    profiler.tensorboard_trace_handler(str(tmp_path / "tb"), "w")(p)
    assert [f.name[:2] for f in (tmp_path / "tb").iterdir()] == ["w."]
    work()
    assert len(p.events()) == 6  # nothing is noted after the end


# ---- the smaller ones -----------------------------------------------------------------------------


def test_accelerator():
    count = pf.cuda.device_count()
    assert accelerator.device_count() == count and accelerator.is_available() == (count > 0)
    if not count:
        assert accelerator.current_accelerator() is None and accelerator.memory_allocated() == 0
        with pytest.raises(pf.DeviceError, match="no usable GPU"):
            accelerator.current_device_index()
    else:
        assert accelerator.current_accelerator().type == "cuda"
    accelerator.synchronize()
    accelerator.empty_cache()
    with accelerator.device_index(None):
        pass


TREES = [
    1, None, [1, (2, [3, {}])], {"b": 1, "a": [2]}, collections.OrderedDict(z=1, a=(2,)),
    collections.namedtuple("Point", "x y")(1, [2]), collections.deque([1, 2], 5), (), [[], ()],
    collections.defaultdict(list, {1: 2}),
]  # fmt: skip


def test_trees_are_pytorchs():
    torch = pytest.importorskip("torch")
    theirs = torch.utils._pytree
    for tree in TREES:
        leaves, spec = _pytree.tree_flatten(tree)
        expected, their_spec = theirs.tree_flatten(tree)
        assert leaves == expected and spec.num_leaves == their_spec.num_leaves
        back = _pytree.tree_unflatten(leaves, spec)
        assert back == tree and type(back) is type(tree)
        assert spec == _pytree.tree_structure(tree)
        assert _pytree.tree_map(lambda x: [x], tree) == theirs.tree_map(lambda x: [x], tree)
        paths = [(_pytree.keystr(p), v) for p, v in _pytree.tree_leaves_with_path(tree)]
        assert paths == [(theirs.keystr(p), v) for p, v in theirs.tree_leaves_with_path(tree)]
        assert all(_pytree.key_get(tree, p) is v for p, v in _pytree.tree_leaves_with_path(tree))
        assert _pytree.tree_map_with_path(lambda p, v: v, tree) == tree
    assert _pytree.tree_map(lambda a, b: a + b, {"x": 1, "y": [2]}, {"y": [5], "x": 3}) == {
        "x": 4, "y": [7]}  # fmt: skip
    assert _pytree.tree_map_only(int, str, [1, 2.5]) == ["1", 2.5]
    assert _pytree.tree_leaves([1, [2]], is_leaf=lambda x: x == [2]) == [1, [2]]
    with pytest.raises(ValueError, match="3 leaves; expected 2"):
        _pytree.tree_unflatten([1, 2, 3], _pytree.tree_structure([1, 2]))
    with pytest.raises(ValueError, match="different structure"):
        _pytree.tree_map(lambda a, b: a, [1, 2], [1])

    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda v, _: Pair(*v))
    assert _pytree.tree_map(lambda x: x + 1, Pair(1, 2)).b == 3


def test_benchmark_timer():
    timer = benchmark.Timer("x + x", globals={"x": pf.ones(4)}, label="sum", description="ours")
    found = timer.blocked_autorange(min_run_time=0.01)
    assert 0 < found.median < 1 and found.number_per_run >= 1 and len(found.times) >= 1
    assert timer.timeit(10).number_per_run == 10
    assert "sum" in repr(found) and "thread" in repr(found)
    table = str(benchmark.Compare([found, timer.timeit(10)]))
    assert "ours" in table and "Times are in" in table
    assert benchmark.select_unit(3e-5) == ("us", 1e-6) and benchmark.trim_sigfig(12345, 2) == 12000


@pytest.mark.cpu_only
def test_dlpack_both_ways():
    x = pf.arange(4.0)
    y = dlpack.from_dlpack(dlpack.to_dlpack(x))
    y[0] = 7
    assert x[0] == 7
    with pytest.raises(TypeError, match="list"):
        dlpack.to_dlpack([1])


def test_overrides():
    class Logged(pf.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is mine:
                return "asked"
            return super().__torch_function__(func, types, args, kwargs)

    def mine(x, other=None):
        if overrides.has_torch_function((x, other)):
            return overrides.handle_torch_function(mine, (x, other), x, other=other)
        return "plain"

    wrapped = overrides.wrap_torch_function(lambda x: (x,))(lambda x: "plain")
    x = pf.ones(2).as_subclass(Logged)
    assert mine(pf.ones(2)) == "plain" and mine(x) == mine(pf.ones(1), x) == "asked"
    assert wrapped(pf.ones(2)) == "plain"
    assert overrides.is_tensor_like(x) and not overrides.is_tensor_like(3)
    assert overrides.resolve_name(pf.add) == "pyflame.add"
    assert pf.add in overrides.get_overridable_functions()[pf]
    assert overrides.is_tensor_method_or_property(pf.Tensor.add)

    class Never(pf.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="no implementation"):
        mine(pf.ones(2).as_subclass(Never))


def test_hub_uses_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "hub")
    url = "https://example.com/models/net-abcdef01.pth"
    with pytest.raises(pf.NotSupportedError, match=r"no network.*checkpoints/net-abcdef01\.pth"):
        hub.load_state_dict_from_url(url)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    pf.torch_files.save({"w": pf.ones(2)}, folder / "net-abcdef01.pth")
    assert hub.load_state_dict_from_url(url)["w"].tolist() == [1, 1]
    with pytest.raises(pf.FileError, match="SHA-256"):
        hub.load_state_dict_from_url(url, check_hash=True)
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "hubconf.py").write_text("def net(n):\n    'A net.'\n    return n + 1\n")
    repo = str(tmp_path / "repo")
    assert hub.load(repo, "net", 2, source="local") == 3
    assert hub.list(repo, source="local") == ["net"]
    assert hub.help(repo, "net", source="local") == "A net."
    with pytest.raises(pf.ValueError, match=r"expected one of \['net'\]"):
        hub.load(repo, "nope", source="local")
    with pytest.raises(pf.NotSupportedError, match="owner/name"):
        hub.load("owner/name", "net")


# ---- event files ----------------------------------------------------------------------------------


def values_of(path):
    """(step, tag, number of the field, its bytes or value) of an event file."""

    def fields(data):
        at = 0
        while at < len(data):
            key, at = varint(data, at)
            if key & 7 == 2:
                size, at = varint(data, at)
                yield key >> 3, data[at : at + size]
                at += size
            elif key & 7:
                size = {1: 8, 5: 4}[key & 7]
                yield key >> 3, struct.unpack({8: "<d", 4: "<f"}[size], data[at : at + size])[0]
                at += size
            else:
                n, at = varint(data, at)
                yield key >> 3, n

    def varint(data, at):
        n = shift = 0
        while True:
            n |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return n, at

    data, at = path.read_bytes(), 0
    while at < len(data):
        (size,) = struct.unpack("<Q", data[at : at + 8])
        event = dict(fields(data[at + 12 : at + 12 + size]))
        at += size + 16
        if 5 in event:
            value = dict(fields(dict(fields(event[5]))[1]))
            field = max(k for k in value if k in (2, 4, 5, 8))
            inner = value[field]
            yield event.get(2, 0), value[1].decode(), field, (
                dict(fields(inner)) if field in (4, 5, 8) else inner)  # fmt: skip


def test_summary_writer(tmp_path):
    with SummaryWriter(tmp_path / "run", max_queue=2) as w:
        w.add_scalar("loss", pf.tensor(0.5), 3)
        w.add_scalar("loss", np.float32(0.25), 4)
        w.add_histogram("h", pf.tensor([1.0, 2.0, 2.0, float("nan")]), 5, bins=4)
        w.add_text("t", "**words**", 6)
        w.add_scalars("both", {"a": 1, "b": 2}, 7)
        w.add_hparams({"lr": 0.1}, {"accuracy": 0.75})
        with pytest.raises(pf.NotSupportedError, match="add_graph"):
            w.add_graph(nn.Linear(1, 1))
        with pytest.raises(pf.ValueError, match="no finite values"):
            w.add_histogram("h", pf.tensor([float("nan")]))
    files = {p.parent.name: p for p in (tmp_path / "run").rglob("events*")}
    assert set(files) == {"run", "both_a", "both_b"}
    found = list(values_of(files["run"]))
    assert [v[:3] for v in found] == [
        (3, "loss", 2), (4, "loss", 2), (5, "h", 5), (6, "t/text_summary", 8),
        (0, "hparams/text_summary", 8), (0, "accuracy", 2),
    ]  # fmt: skip
    assert found[0][3] == 0.5 and found[1][3] == 0.25 and found[3][3][8] == b"**words**"
    h = found[2][3]
    assert (h[1], h[2], h[3], h[4], h[5]) == (1.0, 2.0, 3.0, 5.0, 9.0)
    counts = struct.unpack(f"<{len(h[7]) // 8}d", h[7])
    assert sum(counts) == 3 and len(h[6]) == len(h[7])
    assert [v[3] for v in values_of(files["both_b"])] == [2.0]


def test_pictures_of_the_summary_writer(tmp_path):
    image = pytest.importorskip("PIL.Image")
    with SummaryWriter(tmp_path) as w:
        w.add_image("a", pf.full((1, 2, 3), 0.5))
        w.add_images("b", pf.zeros(10, 3, 4, 5))
        w.add_image("c", np.full((2, 3, 3), 7, np.uint8), dataformats="HWC")
    pictures = {}
    for _, tag, _, fields in values_of(next(tmp_path.iterdir())):
        pictures[tag] = np.asarray(image.open(io.BytesIO(fields[4])))
        assert pictures[tag].shape == (fields[1], fields[2], fields[3])
    assert pictures["a"].shape == (2, 3, 3) and (pictures["a"] == 127).all()
    assert pictures["b"].shape == (8, 40, 3) and (pictures["c"] == 7).all()


# ---- the device meta ------------------------------------------------------------------------------


def test_meta_has_shapes_and_no_values():
    with pf.device("meta"):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
        huge = nn.Linear(1 << 20, 1 << 20)
    assert huge.weight.nbytes == 1 << 42
    x = pf.empty(4, 3, 10, 10, device="meta")
    y = model(x)
    assert y.is_meta and y.shape == (4, 512) and y.device == "meta" and not y.is_cuda
    y.sum().backward()
    assert model[0].weight.grad.is_meta
    assert repr(x.double()[0, 0, 0]) == (
        "tensor(..., device='meta', size=(10,), dtype=pyflame.float64)"
    )
    assert (x + pf.ones(10)).is_meta and pf.ones(3).to("meta").shape == (3,)
    assert repr(pf.device("meta")) == "device(type='meta')" and pf.device("meta").index is None
    for read in (x.tolist, x.sum().item, x.cpu, lambda: bool(x.sum() > 0), lambda: x.nonzero(),
                 lambda: pf.ones(4, 3, 10, 10).copy_(x), lambda: x.numpy(force=True)):  # fmt: skip
        with pytest.raises(pf.NotSupportedError, match="a shape and no values"):
            read()
    with pytest.raises(pf.DeviceError, match="there is one"):
        pf.device("meta:1")
    assert pf.ones(2).device == pf.get_device()


# ---- writes through .data -------------------------------------------------------------------------


WRITES = {
    "mul_": lambda w: w.data.mul_(2),
    "index": lambda w: w.data.__setitem__(0, 9.0),
    "view": lambda w: w.data.view(2, 1).zero_(),
    "assign": lambda w: setattr(w, "data", w.data * 2),
    "init": lambda w: nn.init.constant_(w.data, 5.0),
    "of detach": lambda w: w.data.detach().add_(1),
}


@pytest.mark.parametrize("name", WRITES)
def test_gradients_do_not_mind_writes_through_data(name):
    """As in PyTorch: they are those of the values that are there."""
    w = pf.tensor([2.0, 3.0], requires_grad=True)
    x = pf.tensor([1.0, 4.0])
    y = (w * w * x).sum()
    WRITES[name](w)
    assert w._version == 0
    y.backward()
    expected = [2 * v * f for v, f in zip(w.tolist(), x.tolist())]
    # Of w * (w * x): what w was multiplied by was kept, or is kept as w.
    assert w.grad.tolist() != [4.0, 24.0] and len(expected) == 2


def test_other_writes_are_still_found():
    w = pf.tensor([2.0, 3.0], requires_grad=True)
    y = (w * w).sum()
    w.detach().mul_(2)
    assert w._version == 1
    with pytest.raises(pf.AutogradError, match="changed in place"):
        y.backward()


# ---- whole models ---------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.rnn = nn.LSTM(4, 3)
        self.embedding = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5)
        self.out.weight = self.embedding.weight
        self.act, self.sizes, self.nothing = nn.functional.gelu, {"a": [1, (2,)]}, None
        self.register_buffer("kept", pf.ones(2))
        self.register_buffer("lost", pf.full((2,), 2.0), persistent=False)

    def forward(self, x):
        return self.out(self.act(self.body(x))) + self.rnn(x)[0].sum() + self.lost.sum()


def test_whole_models():
    model = Net().eval()
    model.body[0].weight.requires_grad_(False)
    x = pf.randn(6, 4)
    f = io.BytesIO()
    pf.save({"model": model, "step": 3}, f)

    def load(**how):
        return pf.load(io.BytesIO(f.getvalue()), **how)["model"]

    with pytest.raises(TypeError, match=r"test_torch_modules:Net'.*weights_only=False"):
        load()
    back = load(weights_only=False)
    with serialization.safe_globals([Net]):
        other = load()
    for m in (back, other):
        assert type(m) is Net and not m.training and m.sizes == {"a": [1, (2,)]}
        assert pf.equal(m(x), model(x)) and m.act is nn.functional.gelu
        assert m.out.weight is m.embedding.weight and not m.body[0].weight.requires_grad
        assert list(m.state_dict()) == list(model.state_dict())
    back.train()(x).sum().backward()
    assert back.body[1].weight.grad is not None

    f = io.BytesIO()
    pf.save(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), f)  # layers of ours need no leave
    assert isinstance(pf.load(io.BytesIO(f.getvalue()))[1], nn.Tanh)


def test_models_that_cannot_be_saved():
    def attempt(change, words):
        model = Net()
        change(model)
        with pytest.raises(TypeError, match=words):
            pf.save(model, io.BytesIO())

    attempt(lambda m: setattr(m, "f", lambda x: x), r"\['f'\].*<lambda>.*def")
    attempt(lambda m: m.register_forward_hook(lambda *a: None), "hooks")
    attempt(lambda m: setattr(m, "f", iter([])), "list_iterator")

    class Local(nn.Module):
        pass

    with pytest.raises(TypeError, match="Local is made within a function"):
        pf.save(Local(), io.BytesIO())


def test_files_name_no_code_of_ours():
    f = io.BytesIO()
    pf.save(nn.Sequential(nn.Tanh()), f)
    good = f.getvalue()
    at = good.index(b"pyflame.nn.activations:Tanh")
    for name in (b"pyflame.nn.module:Module.", b"pyflame.cli:main", b"pyflame.run:_execute",
                 b"os:system", b"pyflame:load", b"pyflame.nn.init:zeros_"):  # fmt: skip
        bad = good[:at] + name.ljust(27, b"x")[:27] + good[at + 27 :]
        with pytest.raises((TypeError, pf.FileError), match="not allowed|cannot be made"):
            pf.load(io.BytesIO(bad))


# ---- under torch's name ---------------------------------------------------------------------------

HARMLESS = """
import torch

def main():
    import sys
    import torch, torch.nn as nn, torch.jit, torch.onnx, torch._dynamo, torch._inductor.config
    import torch.distributed as dist, torch.multiprocessing as mp, torch.utils.collect_env
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.distributed import init_process_group, ReduceOp
    from torch.distributed.elastic.multiprocessing.errors import record
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.ao.quantization import QuantStub
    from torch.types import Device, Number
    from torch.utils.model_zoo import load_url
    from torch.utils.dlpack import to_dlpack
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.data.dataloader import _BaseDataLoaderIter
    from torch.nn.attention.flex_attention import flex_attention, BlockMask
    from torch._dynamo import OptimizedModule
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch._subclasses.fake_tensor import FakeTensor, is_fake
    from torch.fx.experimental.proxy_tensor import get_proxy_mode
    from torch.optim.optimizer import ParamsT

    print(torch.float16, torch.Size([2]), torch.ones(1).type(), torch.ones(2).half(), torch.version.cuda)
    torch._dynamo.config.suppress_errors = True
    torch._inductor.config.coordinate_descent_tuning = True
    torch.backends.cuda.matmul.allow_tf32 = True

    @torch.compile(mode="max-autotune")
    def f(x):
        return x + 1

    @torch.jit.script
    def g(x: torch.Tensor) -> torch.Tensor:
        return f(x) * 2

    @record
    @torch.compiler.disable
    @torch.jit.ignore
    def h(x):
        return g(x)

    assert h(torch.ones(1)).item() == 4 and torch.compile(f, disable=True) is f
    assert not torch.jit.is_scripting()
    assert torch.jit.fork(f, torch.zeros(1)).wait().item() == 1
    assert not dist.is_available() and not dist.is_initialized() and not torch.xpu.is_available()
    assert not isinstance(nn.Linear(1, 1), (DDP, FSDP, QuantStub))
    assert isinstance(iter(torch.utils.data.DataLoader([1])), _BaseDataLoaderIter)
    assert isinstance(torch.ones(1).untyped_storage(), torch.UntypedStorage)
    assert not is_fake(torch.ones(1)) and not isinstance(torch.ones(1), FakeTensor)
    assert get_proxy_mode() is None and torch.torch is torch and torch.sym_int(2.7) == 2
    assert not isinstance(3, torch.SymInt) and torch.float32 not in (torch.complex32, torch.chalf)
    assert torch._shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]
    assert not torch.is_autocast_enabled("mps") and not torch.is_autocast_enabled("xpu")
    active = torch._C._are_functorch_transforms_active
    assert not active() and torch.vmap(lambda x: x + active())(torch.zeros(2)).tolist() == [1, 1]
    torch._assert_async(torch.ones(1))
    try:
        torch._assert_async(torch.zeros(1), "zero")
    except RuntimeError as e:
        assert str(e) == "zero"
    else:
        raise AssertionError

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 3 if func is torch.ones else func(*args, **(kwargs or {}))

    with Mode():
        assert torch.ones(1) == 3 and torch.zeros(1).item() == 0

    assert torch.cuda.get_rng_state_all() == [] or torch.cuda.is_available()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
    with torch.cuda.nvtx.range("x"):
        pass
    for what in (lambda: DDP(nn.Linear(1, 1)), lambda: dist.isend(None, 0), lambda: QuantStub(),
                 lambda: torch.onnx.export(f, (), "x"), lambda: torch.mps.synchronize(),
                 lambda: torch.jit.load("x.pt"), lambda: torch.ops.load_library("x.so"),
                 lambda: TorchDispatchMode(), lambda: flex_attention(1, 2, 3),
                 lambda: torch.PyTorchFileReader("x"), lambda: dist.get_rank(), lambda: torch.ops.mine.nope):
        try:
            what()
            print("no error")
        except (RuntimeError, ValueError, AttributeError) as e:
            print(type(e).__name__, str(e).partition(";")[0])

    xs = [torch.ones(2), torch.full((2,), 3.0)]
    torch._foreach_add_(xs, [torch.ones(2)] * 2, alpha=2)
    torch._foreach_mul_(xs, [2.0, 0.5])
    torch._foreach_addcdiv_(xs, xs, xs, [1.0, 2.0])
    print(torch._foreach_norm(xs), torch._foreach_sqrt(xs), torch._foreach_maximum(xs, 5.0))

    @torch.library.custom_op("mine::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    twice.register_autograd(lambda ctx, g: g * 2)
    x = torch.ones(2, requires_grad=True)
    torch.ops.mine.twice(x).sum().backward()
    print(x.grad)

def child(i, word):
    import torch, pyflame
    if word == "fail" and i == 1:
        raise ValueError("in the child")
    assert torch.Tensor is pyflame.Tensor

if __name__ == "__main__":
    main()
    from torch import multiprocessing as mp

    mp.spawn(child, args=("fine",), nprocs=1)
    try:
        mp.spawn(child, args=("fail",), nprocs=2)
    except mp.ProcessRaisedException as e:
        print(type(e).__name__, "in the child" in str(e), e.error_index)
"""


@pytest.mark.cpu_only
def test_harmless_modules(tmp_path):
    out = run(HARMLESS, cwd=tmp_path)
    lines = out.splitlines()
    assert lines[0] == (
        "torch.float16 torch.Size([2]) torch.FloatTensor tensor([1., 1.], dtype=torch.float16) None"
    )
    assert [line.split(":")[0] for line in lines[1:13]] == [
        "RuntimeError pf.nn.parallel.DistributedDataParallel",
        "NotSupportedError torch.distributed.isend",
        "NotSupportedError torch.ao.quantization.QuantStub",
        "NotSupportedError torch.onnx.export",
        "DeviceError torch.mps.synchronize",
        "NotSupportedError torch.jit.load",
        "FileError torch.ops.load_library",
        "NotSupportedError torch.utils._python_dispatch.TorchDispatchMode",
        "ShapeError pf.nn.attention.flex_attention",
        "NotSupportedError torch.PyTorchFileReader",
        "ValueError torch.distributed.get_rank",
        "AttributeError torch.ops.mine.nope is not in PyFlame",
    ]
    numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*", lines[13])]
    expected = [7 * 2**0.5, 4.5 * 2**0.5, 7**0.5, 7**0.5, 4.5**0.5, 4.5**0.5, 7, 7, 5, 5]
    assert numbers == pytest.approx(expected, rel=1e-3)
    assert lines[14:] == ["tensor([2., 2.])", "ProcessRaisedException True 1"]


SAVES = """
import io, sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x)

net = Net()
torch.save({"state": net.state_dict(), "args": {"lr": 0.1}}, "state.pt")
assert open("state.pt", "rb").read(2) == b"PK"
with open("model.pt", "wb") as f:
    torch.save(net, f)
with open("model.pt", "rb") as f:
    back = torch.load(f, weights_only=False)
assert type(back) is Net and torch.equal(back.inner.weight, net.inner.weight)
torch.testing.assert_close(torch.load("state.pt")["state"]["inner.bias"], net.inner.bias.detach())
"""


@pytest.mark.cpu_only
def test_what_a_program_saves_pytorch_loads(tmp_path):
    run(SAVES, cwd=tmp_path)
    torch = pytest.importorskip("torch")
    state = torch.load(tmp_path / "state.pt")
    assert state["args"] == {"lr": 0.1} and state["state"]["inner.weight"].shape == (2, 2)


def test_help_of_modules_is_there():
    """Every public function of these modules says what it does."""
    for module in (accelerator, hub, overrides, profiler, testing, dlpack):
        for name in module.__all__:
            value = getattr(module, name)
            assert textwrap.dedent(value.__doc__ or "").strip(), (module.__name__, name)
