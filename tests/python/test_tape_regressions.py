"""Defects of the tape that a review found once, so that they stay away."""

import threading

import numpy as np
import pytest

import pyflame as pf


def test_views_of_a_leaf_that_is_a_view_itself():
    x = pf.arange(6.0).view(2, 3)
    x.requires_grad = True
    ((x[0] * 2).sum() + (x * x).sum()).backward()
    assert x.grad.tolist() == [[2, 4, 6], [6, 8, 10]]
    y = pf.arange(6.0).reshape(2, 3).requires_grad_()
    assert y[0].requires_grad and y.view(-1).requires_grad
    with pytest.raises(pf.AutogradError):
        y[0].mul_(2)


def test_hooks_of_a_view_between():
    w = pf.ones(3, requires_grad=True)
    h = (w * 2).view(3, 1)
    calls = []
    h.register_hook(lambda g: calls.append(1) or g * 0)
    k = h.transpose(0, 1)
    (k * k).sum().backward()
    assert calls == [1] and w.grad.tolist() == [0, 0, 0]
    h = (w * 2).view(3, 1)
    h.retain_grad()
    h[0].sum().backward()
    assert h.grad.tolist() == [[1], [0], [0]]
    h = (w * 2).view(3, 1)
    assert pf.autograd.grad(h[0].sum(), h)[0].tolist() == [[1], [0], [0]]


def test_a_view_renewed_by_its_readers_keeps_its_place():
    w = pf.ones(2, 2, requires_grad=True)
    x = w * 1
    v = x[0]
    x.mul_(5)
    a, b = v * 2, v * 3
    total = a.sum() + b.sum() + (w * 7).sum()
    assert pf.autograd.grad(total, [w], retain_graph=True)[0].tolist() == [[32, 32], [7, 7]]
    total.backward()
    assert w.grad.tolist() == [[32, 32], [7, 7]]


@pytest.mark.parametrize("bad", [lambda g: pf.ones(50), lambda g: g.double(), lambda g: g.long()])
def test_a_hook_must_return_a_gradient_that_fits(bad):
    x = pf.ones(3, requires_grad=True)
    y = x * x
    y.register_hook(bad)
    with pytest.raises(pf.PyFlameError, match="register_hook"):
        y.sum().backward()


def test_a_gradient_from_another_device_is_refused():
    x = pf.ones(3, requires_grad=True, device="cpu")
    with pytest.raises(pf.DeviceError):
        (x * 2).backward(gradient=pf.ones(3, device="paranoid"))


def test_data_of_another_shape_between_forward_and_backward():
    c = pf.full((300,), 2.0, requires_grad=True)
    x = pf.ones(300)
    y = x * c
    x.data = pf.full((7,), 7.0)
    with pytest.raises(pf.ShapeError):
        y.sum().backward()
    with pytest.raises(pf.DTypeError):
        c.data = pf.ones(3, dtype=pf.int64)


def test_threads_accumulate_into_one_leaf():
    w = pf.ones(200_000, requires_grad=True)

    def work():
        for _ in range(5):
            w.sum().backward()
        pf.flush()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (w.grad == 20).all().item()


def test_a_node_that_saves_nothing_runs_again():
    x = pf.arange(6.0, requires_grad=True)
    h = x.reshape(3, 2)
    h.sum().backward()
    (h * 3).sum().backward()
    assert x.grad.tolist() == [4] * 6


def test_a_whole_overwrite_heals_a_poisoned_tensor():
    device = str(pf.get_device())
    x = pf.ones(64)
    pf.synchronize()
    with pytest.raises(pf.PyFlameError):
        with pf.debug.fault("program_launch", 1, "launch", device):
            x.mul_(0.5)
            x.tolist()  # a sum would take the program into its own launch
    try:
        pf.synchronize()
    except pf.PyFlameError:
        pass
    x.zero_()
    assert x.sum().item() == 0


def test_long_chains_of_views_are_linear():
    x = pf.ones(2, 3, requires_grad=True) * 1
    v = x
    for _ in range(20_000):
        v = v.t()
    v.sum().backward()


def test_writing_a_view_of_a_base_in_any_layout():
    w = pf.ones(12, requires_grad=True)
    w0 = pf.ones(3, 4, requires_grad=True)
    a = pf.ones(4, 3).t().detach()
    a.mul_(w0)
    a.t().reshape(12).mul_(w * 3)
    a.sum().backward()
    assert (w0.grad == 3).all().item()
    b = pf.ones(10)[2:8].detach()
    u = pf.ones(6, requires_grad=True)
    b.mul_(u)
    b.as_strided((2,), (1,), 3).mul_(3)
    b.sum().backward()
    assert u.grad.tolist() == [1, 3, 3, 1, 1, 1]


def test_views_made_without_gradients_are_not_written_with_them():
    w = pf.ones(4, requires_grad=True)
    x = w * 1
    with pf.no_grad():
        v = x[0:2]
    with pytest.raises(pf.AutogradError, match="no_grad"):
        v.mul_(5)
    with pf.no_grad():
        v.mul_(5)


def test_a_removed_hook_is_gone_after_an_in_place_write():
    x = pf.ones(3, requires_grad=True)
    y = x * 1
    h = y.register_hook(lambda g: g * 100)
    y.mul_(1)
    h.remove()
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


@pytest.mark.cpu_only
def test_a_contiguous_buffer_of_a_transposed_tensor_is_refused():
    t = pf.arange(6).view(2, 3).t()
    assert memoryview(t).shape == (3, 2)
    with pytest.raises((BufferError, ValueError)):
        np.frombuffer(t, dtype=np.int64)


def test_views_of_a_base_that_is_written_over_have_zeros():
    x = pf.tensor([1.0, 2.0, 3.0], requires_grad=True)
    base = x * 2.0
    part = base[1:]
    base.copy_(pf.zeros(3))
    assert base.requires_grad and part.requires_grad
    (part.sum() + x.sum()).backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_failure_in_one_thread_is_seen_by_a_reader_in_another(device):
    x = pf.ones(8)
    pf.synchronize()
    box = []
    with pf.debug.fault("program_launch", 1, "launch", str(device)):
        y = x * 2.0  # pending here, run by the thread below

        def work():
            try:
                box.append((y + 1.0).tolist())
            except pf.PyFlameError as error:
                box.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert isinstance(box[0], pf.PyFlameError)
    with pytest.raises(pf.PyFlameError):
        y.tolist()
    assert (x * 2.0).tolist() == [2.0] * 8


def retained(write):
    """Gradients that retain_grad() and a hook report when `write` comes after them."""
    x = pf.ones(4, requires_grad=True)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.retain_grad()
    write(y)
    (y * 7).sum().backward()
    return y.grad.tolist(), seen[0]


def test_retain_grad_is_of_the_latest_value_and_a_hook_of_its_own():
    assert retained(lambda y: y.mul_(5)) == ([7] * 4, [35] * 4)
    assert retained(lambda y: y[:2].mul_(5)) == ([7] * 4, [35, 35, 7, 7])
    assert retained(lambda y: y.mul_(5).add_(1)) == ([7] * 4, [35] * 4)


def test_retain_grad_of_a_view_whose_base_is_written():
    x = pf.ones(4, requires_grad=True)
    y = x * 2
    v = y[:2]
    v.retain_grad()
    y.mul_(5)
    (v * 7).sum().backward()
    assert v.grad.tolist() == [7, 7] and x.grad.tolist() == [70, 70, 0, 0]


def test_retain_grad_keeps_what_hooks_made():
    x = pf.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    (y * 7).sum().backward()
    assert y.grad.tolist() == [70, 70]


def test_views_of_views_made_without_gradients():
    x = pf.ones(4, 4, requires_grad=True)
    y = x * 1
    with pf.no_grad():
        of_leaf, of_result = x[0], y[:2]
    for view in (of_leaf, of_result, of_result[0]):
        with pytest.raises(pf.AutogradError, match="no_grad"):
            view[0] = 1.0
        with pytest.raises(pf.AutogradError, match="no_grad"):
            view.t().mul_(2) if view.dim() == 2 else view[1:].mul_(2)
    with pf.no_grad():
        of_result[0].mul_(2)
    assert (of_result * 2).requires_grad is False


def test_a_gradient_that_is_a_view_is_not_copied():
    x = pf.ones(4, 4, requires_grad=True)
    pf.synchronize()
    pf.debug.reset_stats()
    (x.reshape(16) * 2).sum().backward()
    pf.synchronize()
    assert pf.debug.stats()["kernels"] <= 1 and x.grad.shape == (4, 4)


@pytest.mark.parametrize("look", [False, True])
def test_a_view_is_written_after_its_base_got_a_history(look):
    # Where PyTorch refuses or not by whether somebody looked at grad_fn in between.
    x, w = pf.ones(3, 3) * 0.5, pf.ones(3, requires_grad=True)
    t = x.t()
    t[2] = w * 2
    if look:
        assert t.grad_fn is not None
    t.mul_(0.5)
    x.sum().backward()
    assert w.grad.tolist() == [1, 1, 1]


def test_detach_in_place():
    x = pf.ones(3, requires_grad=True)
    assert x.detach_() is x and not x.requires_grad
    y = pf.ones(3, requires_grad=True) * 2
    y.detach_()
    assert y.is_leaf and not y.requires_grad
    z = pf.ones(3, requires_grad=True) * 2
    with pytest.raises(pf.AutogradError, match="detach"):
        z[0].detach_()


def base_that_changed_form(reshape):
    w = pf.arange(6.0).reshape(2, 3).requires_grad_()
    t = w * 1
    v = t[0]
    reshape(t)
    return w, t, v


def test_a_view_is_written_after_its_base_was_transposed_in_place():
    weight = pf.arange(6.0).reshape(3, 2)
    w, t, v = base_that_changed_form(lambda t: t.transpose_(0, 1))
    v.mul_(5)
    assert t.tolist() == [[0, 3], [5, 4], [10, 5]]
    (t * weight).sum().backward()
    assert w.grad.tolist() == [[0, 10, 20], [1, 3, 5]]
    # The same, with the gradient wanted by what was multiplied by; and of second order.
    x = pf.arange(6.0).reshape(2, 3)
    v = x[0]
    x.t_()
    factor = pf.ones(3, requires_grad=True)
    v.mul_(factor)
    (x * weight).sum().backward()
    assert factor.grad.tolist() == [0, 2, 8]
    w, t, v = base_that_changed_form(lambda t: t.transpose_(0, 1))
    v.mul_(5)
    (g,) = pf.autograd.grad((t * t * t * weight).sum(), w, create_graph=True)
    (g * g).sum().backward()
    assert w.grad.tolist() == [[0, 2250000, 72000000], [972, 20736, 112500]]


def test_a_view_is_read_after_its_base_changed_form_and_values():
    for reshape in (lambda t: t.unsqueeze_(0), lambda t: t.transpose_(0, 1).unsqueeze_(1)):
        w, t, v = base_that_changed_form(reshape)
        t.mul_(5)
        (v * v).sum().backward()
        assert w.grad.tolist() == [[0, 50, 100], [0, 0, 0]]
    # With views of several forms, one of them of a view, and a base that needs no gradient itself.
    w, t, v = base_that_changed_form(lambda t: t.transpose_(0, 1).unsqueeze_(1))
    u = t[1]
    tail = v[1:]
    t.squeeze_(1)
    t.mul_(2)
    u.mul_(5)
    assert t.tolist() == [[0, 6], [10, 40], [4, 10]]
    (t * pf.arange(6.0).reshape(3, 2)).sum().backward(retain_graph=True)
    assert w.grad.tolist() == [[0, 20, 8], [2, 30, 10]]
    w.grad = None
    (v * pf.tensor([1.0, 10, 100])).sum().backward(retain_graph=True)
    assert w.grad.tolist() == [[2, 100, 200], [0, 0, 0]]
    w.grad = None
    tail.sum().backward()
    assert w.grad.tolist() == [[0, 10, 2], [0, 0, 0]]
    x = pf.arange(6.0).reshape(2, 3)
    v = x[0]
    x.transpose_(0, 1)
    factor = pf.ones(3, 2, requires_grad=True)
    x.mul_(factor)
    (v * pf.tensor([1.0, 10, 100])).sum().backward()
    assert factor.grad.tolist() == [[0, 0], [10, 0], [200, 0]]


def test_a_view_that_changes_form_itself_stays_a_view():
    w, t, v = base_that_changed_form(lambda t: t)
    u = v[1:]
    with pf.no_grad():
        v.unsqueeze_(1)
    v.unsqueeze_(0).mul_(3)
    assert t.tolist() == [[0, 3, 6], [3, 4, 5]] and v.shape == (1, 3, 1)
    (t * t).sum().backward(retain_graph=True)
    assert w.grad.tolist() == [[0, 18, 36], [6, 8, 10]]
    w.grad = None
    (u * u).sum().backward()
    assert w.grad.tolist() == [[0, 18, 36], [0, 0, 0]]


@pytest.mark.parametrize("grad", [True, False])
def test_what_was_saved_must_not_change_form(grad):
    t = pf.arange(4.0).reshape(2, 2)
    w = pf.ones(2, 2, requires_grad=True)
    y = t @ w
    with pf.set_grad_enabled(grad):
        t.transpose_(0, 1)
    with pytest.raises(pf.AutogradError, match="changed in place"):
        y.sum().backward()
    y = w.exp()
    y.unsqueeze_(0)
    with pytest.raises(pf.AutogradError, match="changed in place"):
        y.sum().backward()
    leaf = pf.ones(2, 3, requires_grad=True)
    y = leaf[0]
    with pf.no_grad():
        leaf.transpose_(0, 1)
    with pytest.raises(pf.ShapeError, match="changed after it was used"):
        y.sum().backward()


def test_many_forms_need_no_recursion():
    w = pf.ones(2, 3, requires_grad=True)
    t = w * 1
    first = t[0]
    for _ in range(20_000):
        view = t[0]  # noqa: F841
        t.transpose_(0, 1)
    t.mul_(2)
    first.sum().backward()
    assert w.grad.tolist() == [[2, 2, 2], [0, 0, 0]]
    del first, view
