"""Tensors made within inference_mode, beside PyTorch's rules."""

import importlib
import importlib.util
import threading

import pytest

import pyflame as pf


@pytest.fixture(params=["pyflame"] + ["torch"] * bool(importlib.util.find_spec("torch")))
def t(request):
    return importlib.import_module(request.param)


SAVED = "Inference tensors cannot be saved for backward"
WRITTEN = "Inplace update to inference tensor outside InferenceMode is not allowed"
WANTS = "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed"


def made(t):
    with t.inference_mode():
        return t.ones(2) * 2


def test_which_tensors_are(t):
    x = t.ones(2)
    with t.inference_mode():
        a, view, copy = t.ones(2), x[0:1], x.clone()
        assert all(
            v.is_inference() for v in (a, a * 2, a[0:1], a + x, copy, t.tensor([1.0]), a.view(2, 1))
        )
        assert not any(v.is_inference() for v in (view, x.add_(1), x.detach(), x.view(2, 1)))
        assert t.ones(2, requires_grad=True).requires_grad
        with t.inference_mode(False):
            assert not t.ones(2).is_inference() and t.is_grad_enabled()
    assert t.is_inference(a) and all(
        v.is_inference() for v in (a.view(2, 1), a.detach(), a.data, a[0])
    )
    assert not any(v.is_inference() for v in (a.clone(), a + 1, a.exp(), t.ones(2), t.cat([a, a])))

    @t.inference_mode()
    def f():
        return t.zeros(1)

    assert f().is_inference() and not t.zeros(1).is_inference()


# What is refused outside, of a tensor made inside and a parameter.
REFUSED = {
    "mul": (lambda t, a, w: a * w, SAVED),
    "linear": (lambda t, a, w: t.nn.functional.linear(a, w.view(1, 2)), SAVED),
    "its view": (lambda t, a, w: a.view(2, 1) * w, SAVED),
    "add_": (lambda t, a, w: a.add_(1), WRITTEN),
    "without gradients": (lambda t, a, w: t.no_grad()(lambda: a.add_(1))(), WRITTEN),
    "a view of it": (lambda t, a, w: a.view(2, 1).zero_(), WRITTEN),
    "an element": (lambda t, a, w: a.__setitem__(0, 1.0), WRITTEN),
    "a part": (lambda t, a, w: a.__setitem__(slice(0, 1), t.ones(1)), WRITTEN),
    "at indices": (lambda t, a, w: a.index_fill_(0, t.tensor([0]), 3.0), WRITTEN),
    "copy_": (lambda t, a, w: a.copy_(w.detach()), WRITTEN),
    "random": (lambda t, a, w: a.normal_(), WRITTEN),
    "out": (lambda t, a, w: t.exp(w.detach(), out=a), WRITTEN),
    "requires_grad_": (lambda t, a, w: a.requires_grad_(), WANTS),
    "requires_grad": (lambda t, a, w: setattr(a, "requires_grad", True), WANTS),
    "Parameter": (lambda t, a, w: t.nn.Parameter(a), WANTS),
    "version": (lambda t, a, w: a._version, "Inference tensors do not track version counter"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_outside(t, name):
    run, text = REFUSED[name]
    a, w = made(t), t.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=text):
        run(t, a, w)
    assert t is not pf or a.tolist() == [2, 2]  # PyTorch has written by then


def test_what_is_not(t):
    a, w = made(t), t.ones(2, requires_grad=True)
    assert (a + w).requires_grad and not (a * 2).requires_grad
    (a + w * 2).sum().backward(t.tensor(1.0))
    (w * 3).backward(a)
    (w * 3).backward(a)
    assert w.grad.tolist() == [14, 14] and not w.grad.is_inference()
    with t.no_grad():
        assert (a * w).tolist() == [2, 2]
    (a.clone() * w).sum().backward()
    x = t.zeros(2)
    x.copy_(a)
    x += a
    assert not x.is_inference()
    with t.inference_mode():
        assert a.add_(1).tolist() == [3, 3] and a.requires_grad_(False) is a
        x.add_(1)
    assert x.tolist() == [5, 5]
    assert t.nn.Linear(2, 1)(x).requires_grad


def test_threads_and_errors(t):
    found = []
    with pytest.raises(ZeroDivisionError), t.inference_mode():
        other = threading.Thread(target=lambda: found.append(t.ones(1).is_inference()))
        other.start()
        other.join()
        raise ZeroDivisionError
    assert found == [False] and not t.ones(1).is_inference() and t.is_grad_enabled()


def test_a_model_is_used_and_then_trained(t):
    model = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(3), t.nn.ReLU(), t.nn.Linear(3, 1))
    x = t.ones(4, 2) * t.arange(4).view(4, 1)
    with t.inference_mode():
        assert model(x).is_inference()
    optimizer = t.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    with t.inference_mode():
        assert model(x).isfinite().all()


def test_within_vmap():
    f = lambda x: pf.zeros(2).add_(x)  # noqa: E731
    with pf.inference_mode():
        assert pf.func.vmap(f)(pf.ones(3, 2)).sum().item() == 6
        outside = pf.zeros(2)
        with pytest.raises(pf.ValueError):
            pf.func.vmap(lambda x: outside.add_(x))(pf.ones(3, 2))
    assert pf.func.vmap(f)(pf.ones(3, 2)).sum().item() == 6


def test_elements_by_functions(t):
    x = t.ones(2, 2)
    assert x.map_(t.tensor([2.0, 3.0]), lambda a, b: a + b) is x and x.tolist() == [[3, 4], [3, 4]]
    y = t.ones(2).map2_(t.tensor([2.0]), t.tensor([3.0, 4.0]), lambda a, b, c: a + b * c)
    assert y.tolist() == [7, 9]
    whole = t.tensor([1, 2])
    assert whole.map_(whole, lambda a, b: 2.7).tolist() == [2, 2]
    with pytest.raises(TypeError):
        x.map_(t.ones(2, dtype=t.float64), lambda a, b: a)
    with pytest.raises(TypeError):
        x.map_(t.ones(2), lambda a, b: "text")
    with pytest.raises(RuntimeError, match="that requires? grad"):
        x.map_(t.ones(2, requires_grad=True), lambda a, b: a)
    with pytest.raises((RuntimeError, ValueError)):
        x.map_(t.ones(3), lambda a, b: a)
    with pytest.raises(ZeroDivisionError):
        x.map_(t.ones(2), lambda a, b: 1 / 0)
    assert t.ones(0).map_(t.ones(0), lambda a, b: 1 / 0).tolist() == []


def test_which_result_it_is(t):
    w = t.ones(2, requires_grad=True)
    assert w.output_nr == t.ones(2).output_nr == (w * 2).output_nr == 0
    assert [u.output_nr for u in (w * 1).unbind()] == [0, 1]


@pytest.mark.cpu_only
@pytest.mark.parametrize("p", [1.5, -0.5, float("nan")])
def test_no_probabilities(t, p):
    for draw in (
        lambda: t.bernoulli(t.tensor([0.5, p])),
        lambda: t.ones(2).bernoulli_(t.tensor([p, 0.5], dtype=t.float64)),
        lambda: t.ones(2).bernoulli_(p),
        lambda: t.bernoulli(t.ones(2), p),
    ):
        with pytest.raises((RuntimeError, ValueError)):
            draw()
    assert (
        t.bernoulli(t.tensor([0.0, 1.0])).tolist() == [0, 1] and t.bernoulli(t.ones(0)).numel() == 0
    )


def test_probabilities_elsewhere():
    assert pf.bernoulli(pf.ones(2, device="meta")).shape == (2,)
    inside = lambda p: pf.bernoulli(p)  # noqa: E731
    assert pf.func.vmap(inside, randomness="different")(pf.ones(3, 2)).sum().item() == 6
