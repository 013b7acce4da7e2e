"""Subclasses of Tensor: which class the result of an operation has, under both packages."""

import copy
import importlib
import importlib.util
import pickle

import pytest

import pyflame as pf


@pytest.fixture(params=["pyflame"] + ["torch"] * bool(importlib.util.find_spec("torch")))
def t(request):
    return importlib.import_module(request.param)


class Named(pf.Tensor):
    """For pickling: a class that a module has."""


# What makes something of a subclass's tensor x ([2.0, 3.0]) that is of the subclass again.
KEPT = {
    "x + 1": lambda t, x: x + 1,
    "1 + x": lambda t, x: 1 + x,
    "1 - x": lambda t, x: 1 - x,
    "2 ** x": lambda t, x: 2**x,
    "x / 2": lambda t, x: x / 2,
    "7 // x": lambda t, x: 7 // x,
    "x % 2": lambda t, x: x % 2,
    "plain + x": lambda t, x: t.ones(2) + x,
    "x @ x": lambda t, x: x @ x,
    "-x": lambda t, x: -x,
    "abs": lambda t, x: abs(x),
    "x == x": lambda t, x: x == x,
    "~": lambda t, x: ~(x > 2),
    "&": lambda t, x: (x > 2) & (x > 1),
    "sum": lambda t, x: x.sum(),
    "exp": lambda t, x: t.exp(x),
    "maximum": lambda t, x: t.maximum(t.ones(2), x),
    "cat": lambda t, x: t.cat([t.ones(2), x]),
    "stack": lambda t, x: t.stack((x, t.ones(2))),
    "split": lambda t, x: x.split(1),
    "unbind": lambda t, x: x.unbind(),
    "max": lambda t, x: x.max(0),
    "max's values": lambda t, x: x.max(0).values,
    "sort": lambda t, x: t.sort(x),
    "x[0]": lambda t, x: x[0],
    "x[x > 2]": lambda t, x: x[x > 2],
    "x[:]": lambda t, x: x[:],
    "rows": lambda t, x: tuple(x),
    "double": lambda t, x: x.double(),
    "to": lambda t, x: x.to(t.float64),
    "to nothing else": lambda t, x: x.to(t.float32),
    "type": lambda t, x: x.type(t.float64),
    "cpu": lambda t, x: x.cpu(),
    "T": lambda t, x: x.view(1, 2).T,
    "mT": lambda t, x: x.view(1, 2).mT,
    "H": lambda t, x: x.view(1, 2).H,
    "data": lambda t, x: x.data,
    "detach": lambda t, x: x.detach(),
    "clone": lambda t, x: x.clone(),
    "contiguous": lambda t, x: x.contiguous(),
    "view": lambda t, x: x.view(2, 1),
    "add_": lambda t, x: x.clone().add_(1),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "new_zeros": lambda t, x: x.new_zeros(2),
    "new_tensor": lambda t, x: x.new_tensor([1.0]),
    "where": lambda t, x: t.where(x > 2, x, t.zeros(2)),
    "relu": lambda t, x: t.nn.functional.relu(x),
    "softmax": lambda t, x: t.nn.functional.softmax(x, dim=0),
    "einsum": lambda t, x: t.einsum("i,i->", x, x),
    "a layer": lambda t, x: t.nn.Linear(2, 3)(x),
    "layers": lambda t, x: t.nn.Sequential(t.nn.Linear(2, 3), t.nn.ReLU())(x),
    "reversed": lambda t, x: reversed(x),
    "requires_grad_": lambda t, x: x.clone().requires_grad_(),
    "norm": lambda t, x: x.norm(),
    "parameter + x": lambda t, x: t.nn.Parameter(t.ones(2)) + x,
    "as_subclass": lambda t, x: t.ones(2).as_subclass(type(x)),
    "constructor": lambda t, x: type(x)([1.0, 2.0]),
    "constructor of a tensor": lambda t, x: type(x)(t.ones(2)),
}


@pytest.mark.parametrize("name", KEPT)
def test_results_keep_the_class(t, name):
    class T(t.Tensor):
        pass

    x = t.tensor([2.0, 3.0]).as_subclass(T)
    assert type(x) is T
    plain = KEPT[name](t, x.as_subclass(t.Tensor)) if "constructor" not in name else None
    kept = KEPT[name](t, x)
    for result in kept if isinstance(kept, tuple) else (kept,):
        assert type(result) is T, name
    if plain is not None:
        as_lists = lambda r: [v.tolist() for v in r] if isinstance(r, tuple) else r.tolist()  # noqa: E731
        if "layer" not in name:
            assert as_lists(plain) == as_lists(kept)


def test_results_that_are_plain(t):
    class T(t.Tensor):
        pass

    x = T([2.0, 3.0])
    assert isinstance(x, t.Tensor) and type(x.as_subclass(t.Tensor)) is t.Tensor
    assert type(x.tolist()[0]) is float and type(x[0].item()) is float
    p = t.nn.Parameter(t.ones(2))
    for plain in (p + 1, p.exp(), p[0], p.detach(), p.data, p.clone(), p.T if p.dim() > 1 else -p):
        assert type(plain) is t.Tensor

    class Mine(t.nn.Parameter):
        pass

    assert type(Mine(t.ones(2)) * 2) is t.Tensor


def test_the_most_special_class_wins(t):
    class T(t.Tensor):
        pass

    class U(T):
        pass

    class V(t.Tensor):
        pass

    x, u, v = T([1.0]), U([1.0]), V([1.0])
    assert type(x + u) is type(u + x) is type(t.cat([x, u])) is U
    for both in (lambda: x + v, lambda: t.cat([x, v])):
        with pytest.raises(TypeError):
            both()
    assert type(x + v.as_subclass(t.Tensor)) is T


def test_gradients_and_memory(t):
    class T(t.Tensor):
        pass

    y = t.ones(2, requires_grad=True)
    x = y.as_subclass(T)
    (x * 3).sum().backward()
    assert type(y.grad) is t.Tensor and y.grad.tolist() == [3, 3]
    z = t.zeros(2)
    z.as_subclass(T).add_(1)
    assert z.tolist() == [1, 1]
    leaf = T([1.0, 2.0]).requires_grad_()
    (leaf * leaf).sum().backward()
    assert leaf.is_leaf and leaf.grad.tolist() == [2, 4]


def test_attributes_copies_and_files(tmp_path):
    x = Named([1.0, 2.0])
    x.note = "kept"
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is Named and other.note == "kept" and other.tolist() == [1, 2]
    assert repr(x).startswith("Named([1., 2.]")
    assert repr(Named([[1.0], [2.0]]))[:12] == "Named([[1.],"
    with pytest.raises(TypeError, match="as_subclass"):
        x.as_subclass(int)


def test_a_class_that_decides_itself(t):
    calls = []

    class Logged(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Other(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is t.exp:
                return "mine", args[0].tolist(), kwargs
            return super().__torch_function__(func, types, args, kwargs or {})

    x = Logged([1.0, 2.0])
    for result in (x + 1, 1 - x, x.sum(dim=0), t.cat([x, x], dim=0), x[0], x.double()):
        assert type(result) is Logged
    assert len(calls) >= 6 and {"sum", "cat"} <= set(calls)
    o = Other([1.0])
    assert t.exp(o)[:2] == ("mine", [1.0]) and type(t.log(o)) is Other and type(o * 2) is Other


def test_many_subclass_results_leak_nothing():
    import gc
    import weakref

    class T(pf.Tensor):
        pass

    x = T([1.0])
    kept = weakref.WeakSet()
    for _ in range(100):
        y = x + 1
        kept.add(y)
        for part in y.split(1):
            kept.add(part)
    del y, part
    gc.collect()
    assert len(kept) == 0


def test_keyword_arguments_of_the_hook_are_a_dict():
    assert pf.Tensor.__torch_function__(pf.add, (), (pf.ones(1), 2), None).tolist() == [3]
    with pytest.raises(TypeError, match="kwargs of type list"):
        pf.Tensor.__torch_function__(pf.add, (), (), [1])


def test_properties_and_assignments_go_through_the_hook(t):
    calls = []

    class Logged(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = t.ones(2, 3).as_subclass(Logged)
    for view in (x.T, x.mT, x.H, x.mH):
        assert type(view) is Logged and view.shape == (3, 2)
    assert len(calls) >= 4 and all(map(callable, calls))
    calls.clear()
    x[0] = 5
    x[t.tensor([1])] = t.zeros(3)
    assert calls == [t.Tensor.__setitem__] * 2
    assert x.as_subclass(t.Tensor).tolist() == [[5, 5, 5], [0, 0, 0]]


def test_a_hook_may_print_its_arguments(t):
    shown = []

    class Printed(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is not t.Tensor.__repr__:
                shown.append(repr(args))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = t.ones(2).as_subclass(Printed)
    assert repr(x).startswith("Printed([1., 1.]")
    assert repr(t.ones(2, requires_grad=True).as_subclass(Printed))[:10] == "Printed([1"
    x + 1
    assert any("Printed([1., 1.]" in text for text in shown)


def test_saving_a_subclass_says_what_helps(tmp_path):
    x = Named([1.0, 2.0])
    with pytest.raises(TypeError, match=r"as_subclass\(pyflame.Tensor\)"):
        pf.save(x, tmp_path / "x")
    pf.save(x.as_subclass(pf.Tensor), tmp_path / "x")
    assert pf.load(tmp_path / "x").tolist() == [1, 2]
