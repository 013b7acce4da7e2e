"""Random numbers: reproducible, of the right distribution, whatever the layout."""

import numpy as np
import pytest
from finite import same

import pyflame as pf

pytestmark = pytest.mark.kernels

FLOATS = [pf.float32, pf.float64, pf.float16, pf.bfloat16]


def numbers(t):
    return t.to(pf.float64).cpu().numpy()


@pytest.mark.parametrize("dtype", FLOATS)
def test_moments(dtype):
    pf.manual_seed(0)
    z = numbers(pf.randn(200_000, dtype=dtype))
    assert abs(z.mean()) < 0.01 and abs(z.std() - 1) < 0.01
    assert abs((z**3).mean()) < 0.03 and abs((z**4).mean() - 3) < 0.1
    u = numbers(pf.rand(200_000, dtype=dtype))
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.005
    e = numbers(pf.empty(200_000, dtype=dtype).exponential_(2.0))
    assert abs(e.mean() - 0.5) < 0.01 and e.min() >= 0 and np.isfinite(e).all()


def test_normal_agrees_with_its_distribution_function():
    from scipy import stats

    pf.manual_seed(1)
    z = np.sort(numbers(pf.randn(100_000)))
    assert stats.kstest(z, "norm").pvalue > 1e-3
    # Neighbours come from one pair: they must not be correlated.
    z = numbers(pf.randn(100_000)).reshape(-1, 2)
    assert abs(np.corrcoef(z.T)[0, 1]) < 0.02
    assert abs(np.corrcoef((z**2).T)[0, 1]) < 0.02


@pytest.mark.parametrize("dtype", FLOATS)
def test_seed_repeats(dtype):
    pf.manual_seed(5)
    a = pf.randn(3, 1001, dtype=dtype), pf.rand(7, dtype=dtype)
    pf.manual_seed(5)
    b = pf.randn(3, 1001, dtype=dtype), pf.rand(7, dtype=dtype)
    for x, y in zip(a, b):
        same(numbers(x), numbers(y))
    assert (numbers(pf.randn(1001, dtype=dtype)) != numbers(a[0])[0]).any()


def test_strides_do_not_matter():
    pf.manual_seed(5)
    want = pf.empty(6, 5).normal_().cpu().numpy()
    pf.manual_seed(5)
    same(pf.empty(5, 6).t().normal_(), want)
    pf.manual_seed(5)
    big = pf.zeros(6, 11)
    same(big[:, 1::2].normal_(), want)
    assert (big.cpu().numpy()[:, ::2] == 0).all()


def test_a_longer_tensor_begins_alike():
    pf.manual_seed(2)
    a = pf.rand(100).cpu().numpy()
    pf.manual_seed(2)
    same(pf.rand(1000).cpu().numpy()[:100], a)


def test_uniform_bounds():
    u = pf.empty(100_000).uniform_(-3, 5).cpu().numpy()
    assert u.min() >= -3 and u.max() < 5 and abs(u.mean() - 1) < 0.05
    same(pf.empty(4).uniform_(2, 2), [2, 2, 2, 2])
    with pytest.raises((ValueError, RuntimeError)):
        pf.empty(4).uniform_(3, 2)


def test_randint():
    t = pf.randint(0, 10, (100_000,))
    assert t.dtype == pf.int64
    counts = np.bincount(t.cpu().numpy(), minlength=10)
    assert len(counts) == 10 and counts.min() > 9000
    assert tuple(pf.randint(5, (2, 3)).shape) == (2, 3)
    assert tuple(pf.randint(0, 10, [2, 3], dtype=pf.int32).shape) == (2, 3)
    wide = pf.randint(-(2**62), 2**62, (1000,)).cpu().numpy()
    assert (wide < 0).any() and (wide > 2**61).any()
    with pytest.raises((ValueError, RuntimeError)):
        pf.randint(3, 3, (2,))
    with pytest.raises((ValueError, RuntimeError)):
        pf.randint(0, 300, (2,), dtype=pf.uint8)


@pytest.mark.races("1000")
@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_randperm(n):
    p = pf.randperm(n).cpu().numpy()
    same(np.sort(p), np.arange(n))
    if n == 1000:
        assert (p != np.arange(n)).sum() > 900


@pytest.mark.parametrize("dtype, most", [(pf.uint8, 256), (pf.int8, 128), (pf.int16, 1 << 15)])
def test_randperm_of_a_narrow_dtype(dtype, most):
    same(np.sort(pf.randperm(most, dtype=dtype).cpu().numpy()).astype(int), np.arange(most))
    for wrong in (dtype, pf.bool):
        with pytest.raises(pf.ValueError, match="holds 0 to n - 1"):
            pf.randperm(most + 1, dtype=wrong)


def test_randperm_refuses_before_it_begins():
    """Neither memory nor random numbers are taken."""
    pf.manual_seed(3)
    want = pf.rand(4).tolist()
    pf.manual_seed(3)
    with pytest.raises(pf.ValueError, match="2.32"):
        pf.randperm(2**32)
    assert pf.rand(4).tolist() == want


@pytest.mark.races
def test_bernoulli():
    p = pf.tensor([0.0, 1.0, 0.25]).expand(20_000, 3)
    b = pf.bernoulli(p).cpu().numpy()
    assert b[:, 0].max() == 0 and b[:, 1].min() == 1 and abs(b[:, 2].mean() - 0.25) < 0.02
    assert set(np.unique(pf.empty(1000).bernoulli_(0.5).cpu().numpy())) == {0, 1}


@pytest.mark.large
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement):
    pf.manual_seed(3)
    weights = np.array([0.0, 1.0, 2.0, 5.0])
    first = []
    for _ in range(2000):
        s = pf.multinomial(pf.tensor(weights), 2, replacement=replacement).cpu().numpy()
        assert replacement or s[0] != s[1]
        first.append(s[0])
    share = np.bincount(first, minlength=4) / len(first)
    np.testing.assert_allclose(share, weights / weights.sum(), atol=0.04)


@pytest.mark.races
def test_multinomial_rows_and_refusals():
    w = pf.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    same(pf.multinomial(w, 1), [[2], [0]])
    same(pf.multinomial(w, 4, replacement=True), [[2] * 4, [0] * 4])
    for bad in [[-1.0, 2.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]]:
        with pytest.raises((ValueError, RuntimeError)):
            pf.multinomial(pf.tensor(bad), 1)
    with pytest.raises((ValueError, RuntimeError)):
        pf.multinomial(w, 2)
    with pytest.raises((ValueError, RuntimeError)):
        pf.multinomial(w, 4)


@pytest.mark.large
def test_large_multinomial_follows_its_weights():
    pf.manual_seed(9)
    w = np.random.default_rng(0).random(50)
    got = pf.multinomial(pf.tensor(w), 200_000, replacement=True).cpu().numpy()
    np.testing.assert_allclose(np.bincount(got, minlength=50) / 200_000, w / w.sum(), atol=2e-3)


def test_multinomial_is_the_same_everywhere():
    rng = np.random.default_rng(4)
    # A row of many tiles, their edges, several rows in a block, more tiles than a block has threads
    for rows, n, k in [
        *((1, n, 700) for n in (1, 2, 1023, 1024, 1025, 20_000, 300_001)),
        *((m, n, 9) for m, n in ((300, 3), (7, 1024), (5, 1025), (3, 5000))),
    ]:
        w = rng.random((rows, n)).astype(np.float32)
        w[rng.random((rows, n)) < 0.3] = 0
        w[:, n // 2] = 1
        drawn = []
        for device in (None, "cpu"):
            pf.manual_seed(5)
            t = pf.tensor(w, device=device)
            drawn.append(pf.multinomial(t, k, replacement=True).cpu().numpy())
            drawn.append(pf.multinomial(t.T.contiguous().T, 1).cpu().numpy())
        assert np.array_equal(drawn[0], drawn[2]) and np.array_equal(drawn[1], drawn[3])
        assert drawn[0].shape == (rows, k) and drawn[1].shape == (rows, 1)
        assert (np.take_along_axis(w, drawn[0], 1) > 0).all()
        # Found in running sums that are added up otherwise: nearly always the same.
        pf.manual_seed(5)
        u = pf.rand(rows, k, dtype=pf.float64).cpu().numpy()
        ends = np.cumsum(w.astype(np.float64), 1)
        want = np.array([np.searchsorted(e, x * e[-1], "right") for e, x in zip(ends, u)])
        assert (drawn[0] != want).mean() < 1e-3


def test_multinomial_refuses_what_the_first_bad_row_says():
    good, zero = np.ones(2500, np.float32), np.zeros(2500, np.float32)
    negative, infinite, two = good.copy(), good.copy(), zero.copy()
    negative[2047], infinite[2499], two[[3, 2400]] = -1, np.inf, 1
    for rows, k, again, words in [
        ([good, negative, zero], 1, True, "negative"),
        ([good, infinite], 1, True, "negative"),
        ([good, zero, negative], 1, True, "add up to 0"),
        ([two, negative], 3, False, "fewer than 3"),
        ([zero, negative], 3, False, "fewer than 3"),
        ([negative, two], 3, False, "negative"),
    ]:
        with pytest.raises(ValueError, match=words):
            pf.multinomial(pf.tensor(np.stack(rows)), k, replacement=again)
    got = pf.multinomial(pf.tensor(np.stack([two] * 3)), 2).cpu().numpy()
    assert (np.sort(got) == [3, 2400]).all()
    huge = pf.full((3000,), 1e308, dtype=pf.float64)  # their sum is infinite: no error, as before
    assert pf.multinomial(huge, 3, replacement=True).shape == (3,)


def test_dropout():
    pf.manual_seed(4)
    x = pf.ones(100_000, requires_grad=True)
    y = pf.nn.functional.dropout(x, 0.3)
    v = y.detach().cpu().numpy()
    assert abs((v == 0).mean() - 0.3) < 0.01
    np.testing.assert_allclose(v[v != 0], 1 / 0.7, rtol=1e-6)
    y.sum().backward()
    same(x.grad, v)
    assert pf.nn.functional.dropout(x, 0.3, training=False) is x
    same(pf.nn.functional.dropout(pf.ones(3), 1.0), np.zeros(3, np.float32))
    with pytest.raises((ValueError, RuntimeError)):
        pf.nn.functional.dropout(x, 1.5)


def test_dropout_is_keyed_by_logical_index():
    pf.manual_seed(4)
    a = pf.nn.functional.dropout(pf.ones(8, 6), 0.5)
    pf.manual_seed(4)
    b = pf.nn.functional.dropout(pf.ones(6, 8).t(), 0.5)
    same(a, b.cpu().numpy())


def test_in_place_random_writes_cut_the_gradient():
    x = pf.ones(4, requires_grad=True)
    y = x * 2
    y[:2].uniform_()
    y.sum().backward()
    same(x.grad, [0, 0, 2, 2])
    with pytest.raises(RuntimeError):
        x.normal_()
    with pf.no_grad():
        x.normal_()


def test_normal_of_tensors():
    pf.manual_seed(0)
    mean = pf.tensor([0.0, 100.0]).expand(10_000, 2)
    z = pf.normal(mean, pf.tensor([1.0, 2.0])).cpu().numpy()
    np.testing.assert_allclose(z.mean(0), [0, 100], atol=0.1)
    np.testing.assert_allclose(z.std(0), [1, 2], atol=0.1)
    assert tuple(pf.normal(0.0, 1.0, (2, 3)).shape) == (2, 3)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 48, 49, 700, 5001, 100_003])
def test_permutations_hold_each_number_once(n):
    p = pf.randperm(n)
    same(np.sort(p.cpu().numpy()), np.arange(n))
    if n > 100:  # no part of it stays where it was
        assert abs(np.corrcoef(p.cpu().numpy(), np.arange(n))[0, 1]) < 5 / n**0.5


@pytest.mark.parametrize("default", [False, True])
def test_clone_state_draws_on_its_own(default):
    source = pf.random.default_generator if default else pf.Generator()
    source.manual_seed(7)
    pf.rand(3, generator=source)
    clone = source.clone_state()
    assert clone.initial_seed() == source.initial_seed()
    first, second = pf.rand(5, generator=clone).tolist(), pf.rand(5, generator=clone).tolist()
    assert pf.rand(5, generator=source).tolist() == first  # the clone's draws moved only the clone
    assert pf.rand(5, generator=source).tolist() == second
