"""What libraries written for PyTorch reach for beyond its documented names, under `pyflame run`.

Each piece stands for one that was met: safetensors, transformers, accelerate, lightning, captum, torchinfo,
pytorch-geometric, botorch, pyro, opacus.
"""

import pytest
import test_torch_run

import pyflame as pf
from pyflame.distributions import utils

run = test_torch_run.run

LIBRARIES = """
import collections
import functools
import sys
import torch
import torch._dynamo
import torch.distributed._composable.fsdp, torch.distributed._tensor.experimental
import torch.distributed.nn, torch.utils.flop_counter
import torch.utils._pytree as pytree
from torch._jit_internal import _copy_to_script_wrapper
from torch.autograd.profiler import emit_nvtx
from torch.serialization import FILE_LIKE, MAP_LOCATION
from torch.utils.data.dataloader import _collate_fn_t, _worker_init_fn_t
from torch._higher_order_ops.associative_scan import associative_scan

# safetensors maps files so, and takes tensors out of slices.
with open("bytes", "wb") as f:
    f.write(bytes(range(32)))
storage = torch.UntypedStorage.from_file("bytes", False, 32)
part = storage[8:16]
assert (len(storage), len(part), storage[3], part.nbytes()) == (32, 8, 3, 8)
assert part.untyped().tolist() == list(range(8, 16))
t = torch.asarray(part, dtype=torch.uint8)
t[0] = 99
assert storage[8] == 99 and t.data_ptr() == storage.data_ptr() + 8 and part.data_ptr() == t.data_ptr()
assert t.view(torch.int32).tolist() == [99 + 9 * 2**8 + 10 * 2**16 + 11 * 2**24, 0x0F0E0D0C]
assert open("bytes", "rb").read() == bytes(range(32))
assert torch.arange(4)[1:].untyped_storage()[:16].tolist() == [0] * 8 + [1] + [0] * 7
torch.UntypedStorage.from_file("bytes", True, 32)._bytes()[0] = 7
assert open("bytes", "rb").read(2) == bytes([7, 1])

# accelerate asks for the class, transformers marks caches.
assert isinstance(torch.compile(torch.nn.Linear(1, 1)), torch._dynamo.eval_frame.OptimizedModule)
assert not isinstance(torch.nn.Linear(1, 1), torch._dynamo.eval_frame.OptimizedModule)
torch._dynamo.mark_static_address(t)
torch._dynamo.mark_dynamic(t, 0, min=1)

a, b = torch.rand(2, 7, 3, requires_grad=True), torch.rand(2, 7, 3)
states = []
for i in range(7):
    states.append(a[:, i] * states[-1] + b[:, i] if states else b[:, i])
step = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])
_, found = associative_scan(step, (a, b), 1)
torch.testing.assert_close(found, torch.stack(states, 1))
found.sum().backward()
expected, = torch.autograd.grad(torch.stack(states, 1).sum(), a)
torch.testing.assert_close(a.grad, expected)
m = torch.rand(5, 2, 2)
found = associative_scan(torch.matmul, m, 0, reverse=True, combine_mode="generic")
torch.testing.assert_close(found[0], functools.reduce(torch.matmul, m.flip(0)))
torch.testing.assert_close(found[3], m[4] @ m[3])
assert associative_scan(torch.add, m[:1], 0).equal(m[:1])
# captum and others wait for such values.
first, second = torch.futures.Future(), torch.Future()
later = first.then(lambda f: f.value() + 1)
broken = second.then(lambda f: 1 // f.value())
both = torch.futures.collect_all([first, second])
first.set_result(2)
assert later.wait() == 3 and not both.done()
second.set_result(0)
assert both.wait() == [first, second] and torch.futures.wait_all([first, second]) == [2, 0]
for wrong, kind in ((broken.wait, ZeroDivisionError), (torch.Future().value, RuntimeError)):
    try:
        wrong()
    except kind:
        pass
    else:
        raise AssertionError(kind)

# torchinfo asks whether a module is a script, pyg compares operators, lightning takes trees apart.
assert not isinstance(torch.nn.Linear(1, 1), (torch.jit.ScriptModule, torch.ScriptModule))
aten = torch.ops.aten
assert {aten.mm.default: 1}[aten.mm.default] == 1 and aten.mm.default != aten.mm.out
assert aten.add.Tensor(torch.ones(2), torch.ones(2)).tolist() == [2, 2] and repr(aten.mm.default) == "aten.mm.default"
assert aten.alias.default is aten.alias.default and aten.mm.overloads() == ["default", "out"]
Pair = collections.namedtuple("Pair", "x y")
for tree in ([1, 2], {"a": 1}, Pair(1, 2), (1,)):
    kind = pytree._get_node_type(tree)
    node = pytree.SUPPORTED_NODES[kind]
    values, context = node.flatten_fn(tree)
    assert node.unflatten_fn(values, context) == tree and kind in pytree.SUPPORTED_NODES
    leaves = [pytree.LeafSpec() for _ in values]
    assert pytree.tree_unflatten(values, pytree.TreeSpec(kind, context, leaves)) == tree
assert pytree._get_node_type(3) is int and int not in pytree.SUPPORTED_NODES

class Marked(torch.Tensor):
    pass

marked = torch.ones(2).as_subclass(Marked)
with torch._C.DisableTorchFunctionSubclass():
    assert type(marked + 1) is torch.Tensor
assert type(marked + 1) is Marked

class Quiet(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

assert type(torch.ones(2).as_subclass(Quiet) + 1) is torch.Tensor

from torch.quasirandom import SobolEngine

engine = SobolEngine(2)
assert engine.draw(4).tolist() == [[0, 0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
assert engine.fast_forward(1).draw(1, dtype=torch.float64).tolist() == [[0.875, 0.875]]
assert engine.reset().draw_base2(1).shape == (2, 2) and engine.num_generated == 2
assert repr(SobolEngine(3, True, 5)) == "SobolEngine(dimension=3, scramble=True, seed=5)"
assert SobolEngine(3, True, 5).draw(8).equal(SobolEngine(3, True, 5).draw(8))
assert sys.getsizeof(torch.ones(1000).untyped_storage()) >= 4000

# lightning reads arguments of to() so, pyg prints so.
parse = torch._C._nn._parse_to
assert parse("cpu", torch.float16) == (torch.device("cpu"), torch.float16, False, None)
assert parse(torch.ones(1), True) == (torch.device("cpu"), torch.float32, True, None)
assert torch._C._nn.relu(torch.tensor([-1.0])).item() == 0
text = torch._tensor_str._tensor_str(torch.ones(2, 2), 5)
assert torch._tensor_str._add_suffixes("Ones(" + text, ["n=2"], 5, False) == (
    "Ones([[1., 1.],\\n      [1., 1.]], n=2)")
assert torch._tensor_str.PRINT_OPTS.threshold == 1000

# pytorch_optimizer, laplace-torch, torchattacks, fvcore, and older libraries.
from torch._vmap_internals import _vmap
from torch.distributions.multivariate_normal import _precision_to_scale_tril
from torch.jit import TracerWarning
from torch.overrides import has_torch_function_unary, has_torch_function_variadic
from torch.serialization import DEFAULT_PROTOCOL
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
from torch.utils.tensorboard.writer import SummaryWriter
import torch.distributed.nn.functional, torch.utils.deterministic

# monai, open_clip, bitsandbytes, and those that drop weights of recurrent layers.
from torch.utils.data._utils.collate import np_str_obj_array_pattern
from torch import TensorType

assert np_str_obj_array_pattern.search("<U3") and not np_str_obj_array_pattern.search("<f4")
assert torch._C._has_cuda == torch.cuda.is_available() and not torch._C._has_xpu and not torch._C._has_mps
gru = torch.nn.GRU(2, 3, bidirectional=True)
assert gru._flat_weights_names == [n for n, _ in gru.named_parameters()]

assert str(type(torch.ones(1))) == "<class 'torch.Tensor'>" and repr(torch.ones(1)) == "tensor([1.])"
halves = [torch.ones(1).half(), torch.ones(2)]
(lists, places), (wide, _) = _group_tensors_by_device_and_dtype([[*halves, halves[0]], [], [1, 2, 3]], True).values()
assert lists == [[halves[0]] * 2, [], [1, 3]] and places == [0, 2] and wide[0][0] is halves[1]
assert _vmap(torch.sum, 1)(torch.eye(3)).tolist() == [1, 1, 1]
m = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
factor = _precision_to_scale_tril(m)
torch.testing.assert_close(factor @ factor.mT, m.inverse())
assert not has_torch_function_unary(t) and not has_torch_function_variadic(t, 1)
torch.cuda.random.manual_seed(1)
assert torch._C.Graph.__name__ == "Graph"

# geoopt makes parameters with arguments of its own.
class Mine(torch.nn.Parameter):
    def __new__(cls, data, manifold=None):
        made = torch.Tensor._make_subclass(cls, data, True)
        made.manifold = manifold
        return made

assert Mine(torch.ones(1), manifold=3).manifold == 3

for bad in (lambda: aten.alias(t), lambda: engine.draw_base2(2), lambda: SobolEngine(0),
            lambda: associative_scan(step, (a, b[:, 1:]), 1), lambda: associative_scan(step, a, 1, False, "x")):
    try:
        bad()
    except (ValueError, NotImplementedError) as e:
        print(e)
"""


@pytest.mark.cpu_only
def test_what_libraries_reach_for(tmp_path):
    lines = run(LIBRARIES, cwd=tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "torch.ops.aten.alias", "torch.quasirandom.SobolEngine.draw_base2",
        "torch.quasirandom.SobolEngine",
        "torch.associative_scan", "torch.associative_scan",
    ]  # fmt: skip
    assert "sizes [6, 7]" in lines[-2] and "'x'" in lines[-1]


@pytest.mark.parametrize("diag", [-1, 0, 1])
def test_triangles_as_rows(diag):
    torch = pytest.importorskip("torch")
    theirs = torch.distributions.utils
    m = pf.arange(32.0).reshape(2, 4, 4)
    row = utils.tril_matrix_to_vec(m, diag)
    expected = theirs.tril_matrix_to_vec(torch.arange(32.0).reshape(2, 4, 4), diag)
    assert row.tolist() == expected.tolist()
    if diag <= 0:  # PyTorch takes the wrong size for others
        back = utils.vec_to_tril_matrix(row, diag)
        assert back.tolist() == theirs.vec_to_tril_matrix(expected, diag).tolist()
        assert back.tolist() == m.tril(diag).tolist()


def test_a_row_that_is_no_triangle():
    with pytest.raises(ValueError, match="got 4 elements"):
        utils.vec_to_tril_matrix(pf.ones(4))


def test_gpytorchs_normal_distribution():
    """A subclass that sets what PyTorch's has, without its __init__."""

    class Mine(pf.distributions.MultivariateNormal):
        def __init__(self, loc, tril):
            self.loc, self._unbroadcasted_scale_tril = loc, tril
            pf.distributions.Distribution.__init__(self, loc.shape[:-1], loc.shape[-1:])

    tril = pf.tensor([[2.0, 0.0], [0.5, 1.0]])
    x = pf.tensor([0.3, -1.0])
    plain = pf.distributions.MultivariateNormal(pf.zeros(2), scale_tril=tril)
    assert Mine(pf.zeros(2), tril).log_prob(x).item() == plain.log_prob(x).item()
    assert pf.distributions.kl_divergence(Mine(pf.ones(2), tril), plain).item() > 0


ONE_PROCESS = """
import datetime, os
import torch, torch.distributed as dist, torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DistributedSampler

def refused(call, *kinds):
    try:
        call()
    except kinds as e:
        return str(e)
    raise AssertionError("no error")

net = nn.Linear(2, 1)
assert not dist.is_available() and not dist.is_initialized()
refused(lambda: DDP(net), RuntimeError)
assert "RANK is not set" in refused(lambda: dist.init_process_group("gloo"), ValueError)
assert "one process" in refused(
    lambda: dist.init_process_group("gloo", rank=0, world_size=2), NotImplementedError)
refused(lambda: dist.init_process_group("gloo", rank=1, world_size=1), ValueError)
refused(lambda: dist.init_process_group("gloo", rank=0, world_size=1, timeout=3), TypeError)
os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
dist.init_process_group("NCCL", timeout=datetime.timedelta(seconds=9))
assert "twice" in refused(lambda: dist.init_process_group("gloo"), ValueError)
assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, dist.Backend.NCCL)
assert dist.is_available() and list(DistributedSampler(range(3), shuffle=False)) == [0, 1, 2]

ddp = DDP(net, device_ids=None, find_unused_parameters=True)
assert list(ddp.state_dict()) == ["module.weight", "module.bias"]
with ddp.no_sync():
    ddp(torch.ones(1, 2)).sum().backward()
ddp(torch.ones(1, 2)).sum().backward()
assert net.weight.grad.tolist() == [[2, 2]] and ddp.require_backward_grad_sync
refused(lambda: DDP(nn.ReLU()), RuntimeError)

t = torch.tensor([1.0, 2.0], requires_grad=True)
work = dist.all_reduce(t, dist.ReduceOp.AVG, async_op=True)
assert work.wait() and work.is_completed() and work.result()[0] is t
dist.broadcast(t, src=0)
dist.reduce(t, 0)
outs = [torch.zeros(2) for _ in range(6)]
dist.all_gather(outs[:1], t)
dist.gather(t, outs[1:2], dst=0)
dist.scatter(outs[2], [t], src=0)
dist.reduce_scatter(outs[3], [t])
dist.all_to_all(outs[4:5], [t])
dist.all_to_all_single(outs[5], t)
assert all(o.tolist() == [1, 2] and not o.requires_grad for o in outs)
row = torch.zeros(1, 2)
dist.all_gather_into_tensor(row, t)
assert row.tolist() == [[1, 2]]
objects = [None]
dist.all_gather_object(objects, {"a": 1})
dist.broadcast_object_list(objects)
dist.scatter_object_list(objects, objects)
dist.barrier(dist.new_group([0]))
assert objects == [{"a": 1}] and dist.get_process_group_ranks(dist.group.WORLD) == [0]
assert "got rank 1" in refused(lambda: dist.broadcast(t, src=1), ValueError)
assert "lists of 2 and 1" in refused(lambda: dist.all_gather(outs[:2], t), ValueError)
refused(lambda: dist.send(t, 0), NotImplementedError)
dist.destroy_process_group()
assert not dist.is_initialized()
assert "init_process_group" in refused(lambda: dist.all_reduce(t), ValueError)
assert issubclass(torch._C._LinAlgError, RuntimeError)
"""


@pytest.mark.cpu_only
def test_programs_for_several_processes_run_as_one(tmp_path):
    run(ONE_PROCESS, cwd=tmp_path)


EXPORTED = """
import torch, torch.nn as nn
from torch.export import Dim, dims, export

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("shift", torch.ones(2))
    def forward(self, x, *, scale):
        return torch.relu(self.layer(x)) * scale + self.shift

class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

net, x = Net(), torch.randn(4, 3)
program = export(net, (x,), {"scale": torch.tensor(2.0)}, dynamic_shapes={"x": {0: Dim("batch", min=1)}, "scale": None})
for n in (4, 1):
    x = torch.randn(n, 3)
    assert torch.equal(program.module()(x, scale=3.0), net(x, scale=3.0))
assert [n.op for n in program.graph.nodes][:2] == ["placeholder", "placeholder"]
assert list(program.state_dict) == list(net.state_dict()) and len(list(program.parameters())) == 2
assert program.example_inputs[1]["scale"].item() == 2 and "relu" in str(program)
assert program.run_decompositions() is program and [d.__name__ for d in dims("a", "b")] == ["a", "b"]
for call in (lambda: export(Branch(), (x,)), lambda: export(torch.relu, (x,)), lambda: export(net, x), lambda: program(x),
             lambda: torch.export.save(program, "x.pt2")):
    try:
        call()
    except (ValueError, TypeError, RuntimeError) as e:
        print(type(e).__name__)
"""


@pytest.mark.cpu_only
def test_exported_programs(tmp_path):
    assert run(EXPORTED, cwd=tmp_path).split() == [
        "TraceError", "ValueError", "TypeError", "RuntimeError", "NotSupportedError",
    ]  # fmt: skip
