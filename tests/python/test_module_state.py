"""What modules may override of state_dict and load_state_dict is called, as in PyTorch."""

import importlib
import importlib.util

import pytest

import pyflame as pf


@pytest.fixture(params=["pyflame"] + ["torch"] * bool(importlib.util.find_spec("torch")))
def t(request):
    return importlib.import_module(request.param)


def test_extra_state(t, tmp_path):
    class Counter(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = t.nn.Linear(2, 2)
            self.seen = 0

        def get_extra_state(self):
            return {"seen": self.seen}

        def set_extra_state(self, state):
            self.seen = state["seen"]

    m, other = t.nn.Sequential(Counter()), t.nn.Sequential(Counter())
    m[0].seen = 5
    state = m.state_dict()
    assert list(state) == ["0._extra_state", "0.layer.weight", "0.layer.bias"]
    t.save(state, tmp_path / "m.pt")
    other.load_state_dict(t.load(tmp_path / "m.pt"))
    assert other[0].seen == 5
    del state["0._extra_state"]
    with pytest.raises(RuntimeError, match="_extra_state"):
        other.load_state_dict(state)
    assert other.load_state_dict(state, strict=False).missing_keys == ["0._extra_state"]
    plain = t.nn.Sequential(t.nn.Module())
    with pytest.raises(RuntimeError, match="_extra_state"):
        plain.load_state_dict({"0._extra_state": 1})


def test_own_ways_of_saving_and_loading(t):
    """A layer that keeps its weight transposed in files, and knows an older name."""

    class Turned(t.nn.Module):
        _version = 2

        def __init__(self):
            super().__init__()
            self.weight = t.nn.Parameter(t.arange(6.0).view(2, 3))
            self.total = None

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            destination[prefix + "turned"] = self.weight.detach().t().clone()

        def _load_from_state_dict(
            self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors
        ):
            self.version = local_metadata.get("version")
            for name in ("turned", "old_name"):
                if prefix + name in state_dict:
                    state_dict[prefix + "weight"] = state_dict.pop(prefix + name).t()
            super()._load_from_state_dict(
                state_dict, prefix, local_metadata, strict, missing, unexpected, errors
            )
            self.total = self.weight.sum().item()  # of what was loaded

    a, b = (
        t.nn.Sequential(Turned(), t.nn.Linear(1, 1)),
        t.nn.Sequential(Turned(), t.nn.Linear(1, 1)),
    )
    with t.no_grad():
        a[0].weight.mul_(2)
    state = a.state_dict()
    assert list(state) == ["0.turned", "1.weight", "1.bias"]
    assert tuple(state["0.turned"].shape) == (3, 2)
    assert repr(b.load_state_dict(state)) == "<All keys matched successfully>"
    assert b[0].weight.tolist() == a[0].weight.tolist() and b[0].total == 30
    assert b[0].version == 2 and "0.turned" in state  # the caller's is not changed
    state["0.old_name"] = t.ones(3, 2)
    b.load_state_dict(state)
    assert b[0].total == 6
    state["0.nothing"] = t.ones(1)
    with pytest.raises(RuntimeError, match="0.nothing"):
        b.load_state_dict(state)
    del state["0.nothing"], state["0.old_name"], state["0.turned"]
    with pytest.raises(RuntimeError, match="0.weight"):
        b.load_state_dict(state)


def test_a_parent_that_renames_its_childrens_keys(t):
    class Old(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = t.nn.Linear(2, 1)

        def _load_from_state_dict(self, state_dict, prefix, *args):
            for key in list(state_dict):
                if key.startswith(prefix + "trunk."):
                    state_dict[prefix + "body." + key.rsplit(".", 1)[1]] = state_dict.pop(key)
            super()._load_from_state_dict(state_dict, prefix, *args)

    m = Old()
    m.load_state_dict({"trunk.weight": t.ones(1, 2), "trunk.bias": t.ones(1)})
    assert m.body.weight.tolist() == [[1, 1]]


def test_hooks(t):
    m = t.nn.Sequential(t.nn.Linear(2, 1))
    calls = []

    def before(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
        calls.append(("before", prefix))
        for key in list(state_dict):
            if key.endswith("_orig"):
                state_dict[key[: -len("_orig")]] = state_dict.pop(key)

    def after(module, incompatible):
        calls.append(("after", module.weight.sum().item()))
        incompatible.unexpected_keys.clear()

    m[0].register_load_state_dict_pre_hook(before)
    m[0].register_load_state_dict_post_hook(after)
    m[0].register_state_dict_pre_hook(lambda module, prefix, keep: calls.append(("save", prefix)))
    m[0].register_state_dict_post_hook(
        lambda module, state, prefix, meta: state.update({prefix + "note": t.ones(1)})
    )
    state = m.state_dict()
    assert list(state) == ["0.weight", "0.bias", "0.note"]
    m.load_state_dict({"0.weight_orig": t.ones(1, 2), "0.bias": t.ones(1), "0.odd": t.ones(1)})
    assert calls == [("save", "0."), ("before", "0."), ("after", 2.0)]


def test_names_within_names(t):
    """Keys that belong to nobody are unexpected at every level."""
    m = t.nn.ModuleDict({"a": t.nn.ModuleDict({"b": t.nn.Linear(1, 1)})})
    state = m.state_dict()
    odd = ["a.b.c", "a.c.weight", "z", "a.b.weight.x", "a"]
    for key in odd:
        state[key] = t.ones(1)
    found = m.load_state_dict(state, strict=False)
    assert sorted(found.unexpected_keys) == sorted(odd) and not found.missing_keys


def test_nothing_is_changed_when_something_does_not_fit():
    """PyFlame's own promise, also with modules that load in their own way."""

    class Own(pf.nn.Linear):
        def _load_from_state_dict(self, *args):
            super()._load_from_state_dict(*args)

    for watch in (False, True):
        m = pf.nn.Sequential(pf.nn.Linear(2, 2), Own(2, 2), pf.nn.Linear(2, 3))
        if watch:
            m[0].register_load_state_dict_post_hook(lambda module, keys: None)
        before = {k: v.clone() for k, v in m.state_dict().items()}
        bad = {k: v + 1 for k, v in before.items()}
        bad["2.bias"] = pf.ones(4)
        for assign in (False, True):
            held = m[1].weight
            with pytest.raises(RuntimeError, match="size mismatch"):
                m.load_state_dict(bad, assign=assign)
            assert m[1].weight is held
            assert all((m.state_dict()[k] == v).all() for k, v in before.items())
        bad["2.bias"] = pf.ones(3)
        m.load_state_dict(bad)
        assert (m[0].weight == before["0.weight"] + 1).all()
        assert (m[1].weight == before["1.weight"] + 1).all()


def test_assigned_and_version(t):
    m = t.nn.Linear(2, 1)
    w = t.ones(1, 2)
    m.load_state_dict({"weight": w, "bias": t.ones(1)}, assign=True)
    w.mul_(3)
    assert m.weight.tolist() == [[3, 3]] and isinstance(m.weight, t.nn.Parameter)
    assert m.state_dict()._metadata[""] == {"version": 1}
    for make in (m.get_extra_state, lambda: m.set_extra_state(1)):
        with pytest.raises(RuntimeError):
            make()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch's, of positional arguments
def test_the_order_of_older_programs(t):
    class Old(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = t.nn.Linear(1, 1)

        def state_dict(self, destination=None, prefix="", keep_vars=False):
            return self.layer.state_dict(destination, prefix + "inner.", keep_vars)

    m = t.nn.Sequential(Old())
    assert list(m.state_dict()) == ["0.inner.weight", "0.inner.bias"]
    assert m.state_dict(keep_vars=True)["0.inner.weight"] is m[0].layer.weight


def test_keys_below_a_child_that_is_none():
    m = pf.nn.Module()
    m.child = pf.nn.Linear(1, 1)
    state = m.state_dict()
    m.child = None
    with pytest.raises(RuntimeError, match='unexpected keys: "child.weight"'):
        m.load_state_dict(state)
    assert m.load_state_dict(state, strict=False).unexpected_keys == ["child.weight", "child.bias"]


def test_complex_values_for_real_parameters():
    m = pf.nn.Module()
    m.register_buffer("b", pf.ones(1))
    state = {"b": pf.tensor([1j])}
    with pytest.raises(RuntimeError, match='"b": got .*complex64; expected real numbers'):
        m.load_state_dict(state)
    m.load_state_dict(state, assign=True)
    assert m.b.tolist() == [1j]
    m.load_state_dict({"b": pf.tensor([2.0])})  # complex numbers hold real ones
    assert m.b.tolist() == [2]


def test_hooks_after_state_dict_change_it_in_place(t):
    layer = t.nn.Linear(1, 1)

    def remove_bias(module, state, prefix, metadata):
        del state[prefix + "bias"]

    layer.register_state_dict_post_hook(remove_bias)
    assert list(layer.state_dict()) == ["weight"]
    layer.register_state_dict_post_hook(lambda module, state, prefix, metadata: state)
    with pytest.raises(RuntimeError, match="None"):
        layer.state_dict()


def test_older_hooks_after_state_dict_may_replace_it(t):
    layer = t.nn.Linear(1, 1)
    layer._register_state_dict_hook(lambda module, state, prefix, metadata: {"all": len(state)})
    assert layer.state_dict() == {"all": 2}
