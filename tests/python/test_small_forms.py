"""Small forms of PyTorch: products of Sequential, names behind `del`, loaders whose numbers stay, parts of complex
numbers written, one value for what meets itself, memory for threads."""

import copy

import pytest

import pyflame as pf
from pyflame import nn


def test_sequential_times():
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    assert len(m * 2) == len(2 * m) == 4 and (m * 2)[2] is m[0]
    assert list((m * 3)._modules) == [str(i) for i in range(6)]
    again = m
    m *= 2
    assert m is again and len(m) == 4 and m[3] is m[1]
    m += nn.Sequential(nn.Tanh())
    assert isinstance(m[4], nn.Tanh) and m is again
    for wrong, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="Sequential"):
            m * wrong
        with pytest.raises(error, match="Sequential"):
            m *= wrong


def test_names_behind_del():
    m = nn.Sequential()
    for n in "abcd":
        m.add_module(n, nn.ReLU())
    del m[0]
    assert list(m._modules) == ["0", "1", "2"]
    rows = nn.ModuleList(nn.ReLU() for _ in range(5))
    del rows[1:3]
    assert list(rows._modules) == ["0", "1", "2"]


def test_a_loaders_numbers_stay():
    loader = pf.utils.data.DataLoader(range(6), batch_size=2)
    for name in (
        "batch_size",
        "batch_sampler",
        "sampler",
        "drop_last",
        "dataset",
        "persistent_workers",
    ):
        with pytest.raises(ValueError, match=f"got a new {name}"):
            setattr(loader, name, None)
    loader.collate_fn = list
    assert [len(b) for b in loader] == [2, 2, 2]
    assert [len(b) for b in copy.copy(loader)] == [2, 2, 2]


def test_fused_with_others():
    p = [nn.Parameter(pf.ones(1))]
    for kind in (pf.optim.Adam, pf.optim.AdamW, pf.optim.SGD):
        for other in ("foreach", "differentiable"):
            with pytest.raises(RuntimeError, match=f"fused=True and {other}=True"):
                kind(p, lr=0.1, fused=True, **{other: True})
        kind(p, lr=0.1, fused=True, foreach=False)


def test_a_uniforms_support():
    u = pf.distributions.Uniform(0.0, 1.0)
    assert u.cdf(pf.tensor([0.25])).item() == 0.25
    for v in (-0.5, 1.5, float("nan")):
        with pytest.raises(ValueError):
            u.cdf(pf.tensor([v]))
    loose = pf.distributions.Uniform(0.0, 1.0, validate_args=False)
    assert loose.cdf(pf.tensor([-1.0, 2.0])).tolist() == [0.0, 1.0]


def test_parts_of_complex_numbers():
    z = pf.zeros(2, dtype=pf.complex64)
    z.real = pf.tensor([1.0, 2.0])
    z.imag = 5
    assert z.tolist() == [1 + 5j, 2 + 5j]
    x = pf.ones(2)
    x.real = pf.tensor([3.0, 4.0])
    assert x.tolist() == [3.0, 4.0]
    with pytest.raises(pf.DTypeError, match="imag"):
        x.imag = x
    for wrong in ("a", None):
        with pytest.raises(TypeError, match=r"pf.Tensor.real: got"):
            z.real = wrong
    with pytest.raises(TypeError, match="cannot be deleted"):
        del z.real


@pytest.mark.parametrize(
    "geometry", [((3, 2), (0, 1)), ((2, 3), (1, 1)), ((2, 2, 3), (0, 2, 1)), ((4,), (0,))]
)
def test_one_value_for_what_meets_itself(geometry):
    base = pf.zeros(9)
    view = base.as_strided(*geometry, 1)
    assert view.fill_(2.0) is view and (view == 2).all()
    reached = set(pf.arange(9).as_strided(*geometry, 1).reshape(-1).tolist())
    assert base.tolist() == [2.0 if i in reached else 0.0 for i in range(9)]
    view.zero_()
    assert base.tolist() == [0.0] * 9
    with pytest.raises(pf.ValueError, match="more than once"):
        view.add_(1)
    w = pf.ones(9, requires_grad=True)
    kept = w * 1
    kept.as_strided(*geometry, 1).fill_(3.0)
    kept.sum().backward()
    assert w.grad.tolist() == [0.0 if i in reached else 1.0 for i in range(9)]


def test_strides_that_interleave_do_not_meet():
    base = pf.zeros(12)
    base.as_strided((3, 3), (2, 3)).copy_(pf.arange(9.0).reshape(3, 3))  # 0 2 4, 3 5 7, 6 8 10
    assert base.tolist() == [0.0, 0, 3, 1, 6, 4, 2, 7, 5, 0, 8, 0]


def test_as_strided_scatter_has_gradients():
    x, src = pf.arange(6.0, requires_grad=True), pf.ones(2, requires_grad=True)
    (pf.as_strided_scatter(x, src * 2, (2,), (3,), 1) * pf.arange(6.0)).sum().backward()
    assert x.grad.tolist() == [0.0, 0, 2, 3, 0, 5] and src.grad.tolist() == [2.0, 8.0]
    turned = pf.arange(6.0).reshape(2, 3).t()
    out = pf.as_strided_scatter(turned, pf.tensor([9.0, 8.0]), (2,), (1,), 0)
    assert out.tolist() == [[9.0, 3.0], [8.0, 4.0], [2.0, 5.0]]  # by the strides of the tensor


def test_splits_and_copies():
    x = pf.arange(5)
    assert [p.tolist() for p in x.unsafe_chunk(2)] == [[0, 1, 2], [3, 4]]
    assert [p.tolist() for p in pf.unsafe_split(x, 3)] == [[0, 1, 2], [3, 4]]
    assert [p.tolist() for p in x.unsafe_split_with_sizes((1, 4))] == [[0], [1, 2, 3, 4]]
    copied = x.narrow_copy(0, 1, 2)
    copied.zero_()
    assert x.tolist() == [0, 1, 2, 3, 4]


def test_a_thread_that_is_not_there_says_the_limit(monkeypatch):
    import threading

    from pyflame._processes import start_thread

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(
        pf.DeviceError, match=r"DataLoader: no thread.*limit.*ulimit -u.*fewer workers"
    ):
        start_thread(threading.Thread(), ("utils.data.DataLoader", "take fewer workers"))


@pytest.mark.parametrize("wrong", [None, "hook", 3])
def test_a_hook_is_a_function(wrong):
    m = nn.Linear(1, 1)
    opt = pf.optim.SGD(m.parameters(), lr=0.1)
    for register in (
        m.register_forward_hook, m.register_forward_pre_hook, m.register_full_backward_hook,
        nn.modules.module.register_module_forward_hook, opt.register_step_post_hook,
    ):  # fmt: skip
        with pytest.raises(TypeError, match="as a hook; expected a function"):
            register(wrong)
    seen = []
    with nn.modules.module.register_module_forward_hook(lambda *a: seen.append(1)):
        assert m(pf.ones(1)).shape == (1,)
    assert seen == [1]


def test_a_dictionary_of_parameters_is_a_dictionary():
    q = nn.ParameterDict({"a": pf.ones(1), "b": pf.ones(2)})
    assert list(q | {"c": pf.ones(1)}) == ["a", "b", "c"] and len(q) == 2
    other = {"z": pf.ones(1), "a": pf.zeros(1)} | q
    assert list(other) == ["z", "a", "b"] and other["a"] is q["a"]
    q |= {"d": pf.ones(3)}
    assert list(reversed(q)) == ["d", "b", "a"] and q.popitem()[0] == "d"
    assert q.copy()["a"] is q["a"] and q.setdefault("a") is q["a"]
    assert isinstance(q.setdefault("k", pf.ones(1)), nn.Parameter) and list(q) == ["a", "b", "k"]
    assert list(q.fromkeys("xy", pf.ones(1))) == ["x", "y"]
    q.clear()
    assert not list(q.parameters())
    with pytest.raises(KeyError):
        q.popitem()


def test_fractions_that_fill_integers_are_cut():
    x, where = pf.arange(3), pf.tensor([True, False, True])
    assert x.masked_fill(where, 2.5).tolist() == [2, 1, 2]
    x[where] = -1.5
    assert x.tolist() == [-1, 1, -1]
    assert where.masked_fill(where, 0.5).tolist() == [True, False, True]
    for wrong in (float("nan"), float("inf"), 1e30):
        with pytest.raises(pf.ValueError, match="masked_fill"):
            x.masked_fill(where, wrong)


def test_refusals_that_pytorch_makes():
    x = pf.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="materialize_grads"):
        pf.autograd.grad(x.sum(), [x], allow_unused=False, materialize_grads=True)
    with pytest.raises(RuntimeError, match="itself"):
        x.grad = x
    with pytest.raises(ValueError, match="drop_last"):
        pf.utils.data.DataLoader(range(4), batch_size=None, drop_last=True)
    with pytest.raises(AssertionError, match="ConcatDataset"):
        pf.utils.data.ConcatDataset([])
    with pytest.raises(AssertionError, match="multiple"):
        nn.MultiheadAttention(5, 2)
    optimizer = pf.optim.SGD([x], lr=1.0)
    schedule = pf.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    with pytest.warns(UserWarning, match="deprecated"):
        schedule.step(3)
