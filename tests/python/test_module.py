"""nn.Module: registration, walking, state, modes, hooks, printing."""

import copy

import pytest

import pyflame as pf
from pyflame import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.act = nn.ReLU()
        self.second = nn.Linear(3, 2, bias=False)
        self.scale = nn.Parameter(pf.ones(2))
        self.register_buffer("mask", pf.tensor([1.0, 0.0]))
        self.register_buffer("scratch", pf.zeros(3), persistent=False)
        self.register_parameter("nothing", None)

    def forward(self, x):
        return self.second(self.act(self.first(x))) * self.scale * self.mask


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight


def test_registration_and_names():
    net = Net()
    names = ["scale", "first.weight", "first.bias", "second.weight"]
    assert [n for n, _ in net.named_parameters()] == names
    assert [n for n, _ in net.named_parameters(prefix="net", recurse=False)] == ["net.scale"]
    assert [n for n, _ in net.named_buffers()] == ["mask", "scratch"]
    assert [n for n, _ in net.named_children()] == ["first", "act", "second"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "act", "second"]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in net.parameters())
    assert list(net.state_dict()) == [
        "scale",
        "mask",
        "first.weight",
        "first.bias",
        "second.weight",
    ]
    assert net.get_parameter("first.bias") is net.first.bias
    assert net.get_submodule("first") is net.first
    assert net.get_buffer("mask") is net.mask
    assert "first" in dir(net) and "mask" in dir(net)
    assert net.nothing is None
    with pytest.raises(AttributeError, match="no parameter 'weird'"):
        net.get_parameter("first.weird")
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        net.absent  # noqa: B018


def test_assignment_rules():
    net = Net()
    with pytest.raises(TypeError, match="parameter 'scale'"):
        net.scale = pf.ones(2)
    with pytest.raises(TypeError, match="child module 'first'"):
        net.first = 3
    with pytest.raises(TypeError, match="buffer 'mask'"):
        net.mask = "no"
    net.mask = pf.zeros(2)
    assert "mask" in dict(net.named_buffers())
    net.scale = None
    assert "scale" not in dict(net.named_parameters())
    net.plain = 5
    net.plain = nn.Parameter(pf.ones(1))  # an attribute becomes a parameter
    assert "plain" in dict(net.named_parameters())
    del net.plain
    assert not hasattr(net, "plain")
    for bad in ("", "a.b"):
        with pytest.raises(KeyError):
            net.register_buffer(bad, pf.zeros(1))
    with pytest.raises(KeyError, match="already exists"):
        net.add_module("training", nn.ReLU())

    class Forgetful(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(pf.ones(1))

    with pytest.raises(AttributeError, match="super"):
        Forgetful()
    with pytest.raises(NotImplementedError, match="forward"):
        nn.Module()(1)


def test_tied_weights_stay_tied():
    net = Tied()
    assert len(list(net.parameters())) == 1
    assert len(list(net.named_parameters(remove_duplicate=False))) == 2
    assert set(net.state_dict()) == {"embedding.weight", "head.weight"}
    for other in (copy.deepcopy(net), Tied().double(), Tied().to(pf.float64)):
        assert other.embedding.weight is other.head.weight
    other = Tied()
    other.load_state_dict(net.state_dict())
    assert other.embedding.weight is other.head.weight
    assert (other.head.weight == net.head.weight).all()
    loss = net.head(net.embedding(pf.tensor([1, 2]))).sum()
    loss.backward()
    assert net.embedding.weight.grad is net.head.weight.grad


def test_state_dict_round_trip_and_errors():
    a, b = Net(), Net()
    found = b.load_state_dict(a.state_dict())
    assert found.missing_keys == [] and found.unexpected_keys == []
    assert "matched" in repr(found)
    x = pf.randn(2, 4)
    assert (a(x) == b(x)).all()

    state = a.state_dict()
    del state["first.bias"]
    state["stray"] = pf.zeros(1)
    before = b.first.weight.clone()
    state["first.weight"] = state["first.weight"] + 1
    with pytest.raises(RuntimeError) as e:
        b.load_state_dict(state)
    assert "first.bias" in str(e.value) and "stray" in str(e.value)
    assert (b.first.weight == before).all(), "a failed load must change nothing"
    found = b.load_state_dict(state, strict=False)
    assert found.missing_keys == ["first.bias"] and found.unexpected_keys == ["stray"]

    state = a.state_dict()
    state["first.weight"], state["second.weight"] = pf.zeros(9), pf.zeros(1, 1)
    with pytest.raises(RuntimeError) as e:
        b.load_state_dict(state, strict=False)
    for text in ("first.weight", "second.weight", "[9]", "[3, 4]"):
        assert text in str(e.value)


def test_modes_and_apply():
    net = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    net.train()
    assert all(m.training for m in net.modules())
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Dropout", "Dropout", "Sequential", "Sequential"]
    net = Net()
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_zero_grad():
    net = Net()
    net(pf.randn(2, 4)).sum().backward()
    gradient = net.first.weight.grad
    net.zero_grad(set_to_none=False)
    assert net.first.weight.grad is gradient
    assert (net.first.weight.grad == 0).all()
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_casting_keeps_identity():
    net = Net()
    weight = net.first.weight
    net.double()
    assert net.first.weight is weight and weight.dtype == pf.float64
    assert net.mask.dtype == pf.float64
    net.to(pf.float32).to("cpu")
    assert weight.dtype == pf.float32
    assert net.half().first.weight.dtype == pf.float16
    assert net.bfloat16().first.weight.dtype == pf.bfloat16
    with pytest.raises(TypeError):
        net.to(pf.int64)


def test_deepcopy_is_independent():
    a = Net()
    b = copy.deepcopy(a)
    with pf.no_grad():
        b.first.weight.add_(1)
    assert not (a.first.weight == b.first.weight).any()
    assert isinstance(b.first.weight, nn.Parameter)


def test_forward_hooks():
    net, log = nn.Linear(3, 2), []
    handles = [
        net.register_forward_pre_hook(lambda m, args: log.append("pre")),
        net.register_forward_hook(lambda m, args, out: log.append("post")),
        net.register_forward_hook(lambda m, args, out: out * 0),
        net.register_forward_pre_hook(lambda m, args: log.append("first"), prepend=True),
    ]
    assert (net(pf.ones(1, 3)) == 0).all()
    assert log == ["first", "pre", "post"]
    for h in handles:
        h.remove()
    assert not (net(pf.ones(1, 3)) == 0).all()
    with net.register_forward_pre_hook(lambda m, args: (args[0] * 0,)):
        assert (net(pf.ones(1, 3)) == net.bias).all()


def test_backward_hook():
    net, seen = nn.Linear(3, 2), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    x = pf.ones(4, 3, requires_grad=True)
    net(x).sum().backward()
    (grad_input,), (grad_output,) = seen[0]
    assert tuple(grad_output.shape) == (4, 2) and (grad_output == 1).all()
    assert (grad_input == net.weight.sum(0)).all()
    assert (x.grad == grad_input).all()


def test_repr():
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    assert repr(nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh()))) == (
        "Sequential(\n  (0): ReLU()\n  (1): Sequential(\n    (0): Tanh()\n  )\n)"
    )
    assert repr(nn.Embedding(3, 4, padding_idx=0)) == "Embedding(3, 4, padding_idx=0)"
    assert repr(nn.Dropout(0.2)) == "Dropout(p=0.2, inplace=False)"
    assert "Parameter containing" in repr(nn.Parameter(pf.ones(1)))


def test_sequential():
    from collections import OrderedDict

    layers = [nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)]
    for one in (layers, tuple(layers), layers[:1]):
        assert list(nn.Sequential(one)) == list(one)
        assert [*nn.Sequential(one).state_dict()] == [*nn.Sequential(*one).state_dict()]
    for wrong in ({"a": layers[0]}, [layers], [1], layers[0].weight):
        with pytest.raises(TypeError, match="not a Module subclass"):
            nn.Sequential(wrong)
    net = nn.Sequential(*layers)
    assert len(net) == 3 and net[0] is layers[0] and net[-1] is layers[2]
    assert list(net) == layers
    assert isinstance(net[1:], nn.Sequential) and len(net[1:]) == 2
    net = nn.Sequential(OrderedDict(a=layers[0], b=layers[1]))
    assert net.a is layers[0] and list(net.state_dict()) == ["a.weight", "a.bias"]
    net = nn.Sequential(*layers)
    net.append(nn.Tanh()).insert(0, nn.Identity())
    assert len(net) == 5 and isinstance(net[0], nn.Identity) and isinstance(net[4], nn.Tanh)
    del net[0]
    assert net[0] is layers[0]
    net[1] = nn.GELU()
    assert isinstance(net[1], nn.GELU)
    with pytest.raises(IndexError):
        net[9]


def test_module_list_and_dict():
    layers = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    layers.append(nn.ReLU())
    assert len(layers) == 4
    assert isinstance(layers[:-1], nn.ModuleList) and len(layers[:-1]) == 3
    assert layers[:-1][0] is layers[0]
    assert len(list(layers.parameters())) == 6
    layers += [nn.Tanh()]
    assert isinstance(layers[-1], nn.Tanh) and len(layers) == 5
    assert isinstance(layers.pop(0), nn.Linear) and len(layers) == 4
    table = nn.ModuleDict({"a": nn.Linear(1, 2), "b": nn.ReLU()})
    table["c"] = nn.Tanh()
    assert list(table) == ["a", "b", "c"] and "c" in table and len(table) == 3
    assert list(table.state_dict()) == ["a.weight", "a.bias"]
    table.pop("b")
    assert list(table.keys()) == ["a", "c"]
    table["c"] = None  # a child that is left out
    assert "c" in table and table["c"] is None


def test_parameter_list_and_dict():
    values = nn.ParameterList([pf.ones(2), nn.Parameter(pf.zeros(3))])
    values.append(pf.ones(1))
    assert len(values) == 3 and len(list(values.parameters())) == 3
    assert isinstance(values[0], nn.Parameter) and len(values[1:]) == 2
    table = nn.ParameterDict({"a": pf.ones(2)})
    table["b"] = nn.Parameter(pf.ones(3))
    assert list(table.keys()) == ["a", "b"] and len(list(table.parameters())) == 2
    del table["a"]
    assert "a" not in table


def test_parameter():
    data = pf.ones(3)
    p = nn.Parameter(data)
    assert p.requires_grad and p.is_leaf and isinstance(p, pf.Tensor)
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    with pf.no_grad():
        p.mul_(2)
    assert (data == 2).all(), "a parameter shares the memory of its data"
    q = copy.deepcopy(p)
    assert isinstance(q, nn.Parameter) and q is not p and (q == p).all()
    assert not isinstance(p * 2, nn.Parameter)


def test_tables_of_hooks_hold_the_hooks():
    """Programs look for theirs in them; how a hook is called stands elsewhere."""
    layer = nn.Linear(2, 2)
    calls = []

    def before(module, args, kwargs):
        calls.append(("before", kwargs))

    def after(module, args, out):
        calls.append(("after", out))

    layer.register_forward_pre_hook(before, with_kwargs=True)
    layer.register_forward_hook(after, always_call=True)
    assert list(layer._forward_pre_hooks.values()) == [before]
    assert list(layer._forward_hooks.values()) == [after]
    copied = copy.deepcopy(layer)
    for module in (layer, copied):
        calls.clear()
        with pytest.raises(pf.ShapeError):
            module(pf.ones(3, 3))
        assert calls == [("before", {}), ("after", None)]
    assert nn.Linear(2, 2)._forward_hooks_always_called == {}


def test_typed_storage():
    x = pf.arange(6.0).reshape(2, 3)[1]
    s = x.storage()
    assert len(s) == s.size() == 6 and s.nbytes() == 24 and s.element_size() == 4
    assert s[1] == 1.0 and list(s) == s.tolist() == [0, 1, 2, 3, 4, 5]
    assert s.data_ptr() == x.untyped_storage().data_ptr() and s == x.t().storage()
    assert s.dtype == pf.float32 and s.device == x.device and not s.is_shared()
    s[3] = 9
    assert x.tolist() == [9, 4, 5]
    w = pf.ones(2, requires_grad=True)
    w.storage()[1] = 7.0
    assert w.tolist() == [1, 7] and w.is_leaf
    assert repr(pf.ones(1).storage()).endswith(
        f"(dtype=pyflame.float32, device={x.device}) of size 1]"
    )
    with pytest.raises(IndexError):
        s[6]
