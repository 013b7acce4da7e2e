"""torch.overrides.TorchFunctionMode: what a mode sees and changes, under both packages."""

import importlib
import importlib.util
import threading

import pytest

import pyflame as pf


@pytest.fixture(params=["pyflame"] + ["torch"] * bool(importlib.util.find_spec("torch")))
def t(request):
    return importlib.import_module(request.param)


def recorder(t, seen, name=None):
    class Recorder(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func if name is None else (name, func))
            return func(*args, **(kwargs or {}))

    return Recorder()


# What is called with x = ones(2, 2), and what the mode gets, in order.
SEEN = {
    "operator": (lambda t, x: x + 1, lambda t: [t.Tensor.add]),
    "function": (lambda t, x: t.exp(x), lambda t: [t.exp]),
    "method": (lambda t, x: x.exp(), lambda t: [t.Tensor.exp]),
    "in place": (lambda t, x: x.add_(1), lambda t: [t.Tensor.add_]),
    "factory": (lambda t, x: t.zeros(3), lambda t: [t.zeros]),
    "tensor": (lambda t, x: t.tensor([1.0]), lambda t: [t.tensor]),
    "reading": (lambda t, x: x[0, 0].item(), lambda t: [t.Tensor.__getitem__, t.Tensor.item]),
    "tolist": (lambda t, x: x.tolist(), lambda t: [t.Tensor.tolist]),
    "writing": (lambda t, x: x.__setitem__(0, 1), lambda t: [t.Tensor.__setitem__]),
    "conversion": (lambda t, x: x.to(t.float64), lambda t: [t.Tensor.to]),
    "in Python": (lambda t, x: t.einsum("ij,jk->ik", x, x), lambda t: [t.einsum]),
    "softmax": (lambda t, x: t.nn.functional.softmax(x, 0), lambda t: [t.nn.functional.softmax]),
    "loss": (lambda t, x: t.nn.functional.mse_loss(x, x), lambda t: [t.nn.functional.mse_loss]),
    "init": (lambda t, x: t.nn.init.normal_(x), lambda t: [t.nn.init.normal_]),
    "printing": (lambda t, x: repr(x), lambda t: [t.Tensor.__repr__]),
    "linear": (
        lambda t, x: t.nn.functional.linear(x, x),
        lambda t: [t.nn.functional.linear],
    ),
    "backward": (
        lambda t, x: x.requires_grad_().sum().backward(),
        lambda t: [t.Tensor.requires_grad_, t.Tensor.sum, t.Tensor.backward],
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_a_mode_sees(t, name):
    run, expected = SEEN[name]
    x, seen = t.ones(2, 2), []
    plain = run(t, x.clone())
    with recorder(t, seen):
        result = run(t, x.clone())
    assert seen[1:] == expected(t)  # without clone
    if isinstance(plain, t.Tensor) and name != "init":
        assert t.equal(plain, result)
    seen.clear()
    run(t, x)
    assert not seen


def test_nesting_and_what_a_mode_calls_itself(t):
    seen, x = [], t.ones(2)

    class Doubles(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            assert types == ()
            result = func(*args, **(kwargs or {}))
            return t.mul(result, 2)

    with recorder(t, seen, "outer"):
        with Doubles() as mode:
            assert t.exp(t.zeros(2)).tolist is not None
            y = t.add(x, x)
            assert isinstance(mode, Doubles)
        z = x + x
    inner = [f for _, f in seen]
    assert inner == [t.zeros, t.mul, t.exp, t.mul, t.add, t.mul, t.Tensor.add]
    assert y.tolist() == [4, 4] and z.tolist() == [2, 2]


def test_the_same_mode_twice_and_errors(t):
    class Counts(t.overrides.TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    mode, x = Counts(), t.ones(2)
    with mode, mode:
        x.exp()
    assert mode.calls == 2
    with pytest.raises(ZeroDivisionError), mode:
        x.exp()
        raise ZeroDivisionError
    with pytest.raises(RuntimeError), mode:
        t.ones(2) @ t.ones(3)
    before = mode.calls
    x.exp()
    assert mode.calls == before


def test_modes_that_say_nothing():
    t, x = pf, pf.ones(2)

    class Refuses(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError), Refuses():
        x.exp()
    with pytest.raises(NotImplementedError), t.overrides.TorchFunctionMode():
        x.exp()
    assert x.exp().shape == (2,)


def test_a_mode_comes_before_subclasses(t):
    seen = []

    class Mine(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append("class")
            return super().__torch_function__(func, types, args, kwargs or {})

    class Mode(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(types)
            return func(*args, **(kwargs or {}))

    x = t.ones(2).as_subclass(Mine)
    with Mode():
        y = x + 1
    assert seen == [(Mine,), "class"] and type(y) is Mine


def test_a_mode_is_of_its_thread(t):
    seen, results = [], []
    with recorder(t, seen):
        other = threading.Thread(target=lambda: results.append(t.ones(2).sum().item()))
        other.start()
        other.join()
    assert not seen and results == [2]


def test_devices_beside_modes(t):
    seen, before = [], t.zeros(2).device
    with t.device("meta"):
        assert t.zeros(2).device.type == "meta"
        with t.device("cpu"), recorder(t, seen):
            assert t.zeros(2).device.type == "cpu"
        assert t.tensor([1.0]).device.type == "meta"
    assert t.zeros in seen and t.zeros(2).device == before

    class OnMeta(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func in (t.empty, t.zeros, t.tensor):
                kwargs["device"] = "meta"
            return func(*args, **kwargs)

    with OnMeta():
        assert t.zeros(2).device.type == t.tensor([1.0]).device.type == "meta"


def test_functions_of_a_program(t):
    o = t.overrides

    @o.wrap_torch_function(lambda x: (x,))
    def twice(x):
        return x * 2

    seen, x = [], t.ones(2)
    assert not o.has_torch_function((x,))
    with recorder(t, seen):
        assert o.has_torch_function((x,))
        assert twice(x).sum().item() == 4
    assert seen == [twice, t.Tensor.sum, t.Tensor.item]


def test_gradients_through_a_mode(t):
    w = t.ones(3, requires_grad=True)
    with recorder(t, []):
        loss = (t.nn.functional.softmax(w * t.tensor([1.0, 2.0, 3.0]), 0) ** 2).sum()
    loss.backward()
    expected = t.ones(3, requires_grad=True)
    (t.nn.functional.softmax(expected * t.tensor([1.0, 2.0, 3.0]), 0) ** 2).sum().backward()
    assert t.equal(w.grad, expected.grad)


def test_functions_of_libraries_ask_modes_that_are_asked(t):
    """Within DisableTorchFunction a mode rests: has_torch_function() must not say that it is asked."""
    disabled = importlib.import_module(
        "torch._C" if t is not pf else "pyflame._torch.only._C"
    ).DisableTorchFunction
    asks, x, found = t.overrides.has_torch_function, t.ones(1), []
    with t.overrides.BaseTorchFunctionMode():
        found.append(asks((x,)))
        with disabled():
            found.append(asks((x,)))
    assert [*found, asks((x,))] == [True, False, False]
