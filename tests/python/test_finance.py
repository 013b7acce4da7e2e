"""Volume profiles against NumPy's histograms, and sessions that are none."""

import itertools
import math

import numpy as np
import pytest

import pyflame as pf
from pyflame.finance import VolumeProfileAnalyzer

DEVICE = str(pf.get_device())


def analyzer(precision=0.25, **options):
    return VolumeProfileAnalyzer(precision, DEVICE, **options)


def session(n, seed=0, kind=np.float64):
    rng = np.random.default_rng(seed)
    prices = (100 + np.cumsum(rng.normal(size=n)) * 0.01).round(2)
    return prices.astype(kind), rng.integers(1, 1000, n).astype(kind)


@pytest.mark.parametrize("precision", [0.25, 0.01, 0.1, 3.0])
def test_profile_is_numpys_histogram(precision):
    close, volume = session(100_000)
    profile = analyzer(precision, chunk_size=None).profile(close, volume)
    want, _ = np.histogram(close, profile.edges, weights=volume)
    assert np.allclose(profile.volume, want, rtol=1e-12)
    assert profile.edges[0] <= close.min() and close.max() <= profile.edges[-1]
    assert np.allclose(profile.edges / precision, np.round(profile.edges / precision))
    assert math.isclose(profile.total, volume.sum(), rel_tol=1e-12)
    top = want.argmax()
    assert profile.point_of_control == (profile.edges[top] + profile.edges[top + 1]) / 2
    low, high = profile.value_area
    inside = want[(profile.edges[:-1] >= low) & (profile.edges[1:] <= high)].sum()
    assert low <= profile.point_of_control <= high and inside >= 0.7 * want.sum()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 7, 513, 70_001])
def test_a_thousand_bins_are_numpys(kind, n):
    close, volume = session(n, n, kind)
    got = analyzer().calculate_volume_profile_stable({"close": close, "volume": volume})
    want, _ = np.histogram(close.astype("f8"), 1000, weights=volume.astype("f8"))
    assert got.dtype == np.float64 and np.allclose(got, want, rtol=1e-12)


def test_chunks_change_nothing():
    close, volume = session(20_000)
    whole = analyzer(chunk_size=None).profile(close, volume)
    for size in (1999, 20_000, 10**9):
        part = analyzer(chunk_size=size).profile(close, volume)
        assert np.array_equal(part.edges, whole.edges)
        assert np.allclose(part.volume, whole.volume, rtol=1e-12)
        assert part.value_area == whole.value_area


def test_a_session_made_by_hand():
    close = [10.0, 10.1, 10.3, 10.6, 10.3, 9.9]
    volume = [5, 5, 20, 8, 10, 1]
    profile = analyzer().profile((close, volume))
    assert profile.edges.tolist() == [9.75, 10.0, 10.25, 10.5, 10.75]
    assert profile.volume.tolist() == [1, 10, 30, 8]
    assert profile.point_of_control == 10.375
    assert profile.value_area == (10.0, 10.5)  # 30 of 49, then the bin below, which holds more
    assert analyzer(0.5).profile((close, volume)).volume.tolist() == [1, 40, 8]
    assert analyzer(value_area_share=0.5).profile((close, volume)).value_area == (10.25, 10.5)


def test_what_a_session_may_be():
    close, volume = session(100)
    want = analyzer().profile(close, volume).volume.tolist()

    class Frame(dict):  # a DataFrame's columns have `values`
        pass

    class Column:
        def __init__(self, values):
            self.values = values

    frame = Frame(close=Column(close), volume=Column(volume), other=None)
    tensors = pf.tensor(close), pf.tensor(volume)
    for given in (frame, dict(close=close, volume=volume), (close, volume), tensors):
        assert analyzer().profile(given).volume.tolist() == want
    ints = analyzer().profile(([10, 11, 11], [1, 2, 3]))
    assert ints.total == 6 and ints.point_of_control == 11.125


def test_odd_sessions():
    empty = analyzer().profile(([], []))
    assert empty.volume.shape == (0,) and math.isnan(empty.point_of_control)
    assert all(map(math.isnan, empty.value_area)) and empty.total == 0
    one = analyzer().profile(([5.1] * 4, [1, 2, 3, 4]))
    assert one.volume.tolist() == [10] and one.value_area == (5.0, 5.25)
    gaps = analyzer().profile(([1.0, math.nan, 1.0, 2.0], [1, 5, math.nan, 3]))
    assert gaps.total == 4 and gaps.point_of_control == 2.125
    assert math.isnan(analyzer().profile(([math.nan], [1.0])).point_of_control)
    assert math.isnan(analyzer().profile(([1.0, 2.0], [0, 0])).point_of_control)
    assert analyzer().calculate_volume_profile_stable({"close": [], "volume": []}).sum() == 0


def test_a_price_that_the_sample_missed():
    close, volume = session(50_000)
    close[777] = 300.0
    profile = analyzer().profile(close, volume)
    assert math.isclose(profile.total, volume.sum())
    assert profile.edges[-1] > 300 and profile.volume[-1] == volume[777]


@pytest.mark.parametrize(
    "given, error, says",
    [
        ((["a"], [1.0]), pf.DTypeError, "no numbers"),
        (([1.0], [1.0, 2.0]), pf.ShapeError, "length"),
        (([[1.0]], [[1.0]]), pf.ShapeError, "one dimension"),
        ({"close": [1.0]}, pf.ValueError, "'close' and 'volume'"),
        (7, pf.ValueError, "got int"),
        (([1.0, 2.0], [1.0, -1.0]), pf.ValueError, "volume of -1"),
        (([1.0, math.inf], [1.0, 1.0]), pf.ValueError, "infinite"),
        (([1.0, 2.0], [1.0, math.inf]), pf.ValueError, "infinite"),
        (([0.0, 1e9], [1.0, 1.0]), pf.ValueError, "larger price_precision"),
    ],
)
def test_bad_sessions(given, error, says):
    with pytest.raises(error, match=says):
        analyzer().profile(given)
    if "precision" not in says:
        with pytest.raises(RuntimeError, match="VPOC calculation failed") as caught:
            analyzer().calculate_volume_profile_stable(given)
        assert isinstance(caught.value.__cause__, error)


def test_bad_arguments(monkeypatch):
    for options in (
        {"price_precision": 0},
        {"price_precision": math.nan},
        {"chunk_size": 0},
        {"value_area_share": 1.5},
    ):
        with pytest.raises(pf.ValueError, match=next(iter(options))):
            VolumeProfileAnalyzer(device="cpu", **options)
    with pytest.raises(RuntimeError, match=":55"):
        VolumeProfileAnalyzer(device="cuda", device_ids=[55])


def test_a_device_that_fails(monkeypatch):
    from pyflame import _ops

    def broken(*_, **__):
        raise pf.BackendError("pf.ones: the device is lost")

    monkeypatch.setattr(_ops, "ones", broken)
    with pytest.raises(RuntimeError, match="not accessible: pf.ones: the device is lost"):
        analyzer()


def test_the_environment_is_left_alone():
    import os

    before = dict(os.environ)
    analyzer()
    assert dict(os.environ) == before


def test_binned_sums_of_any_width():
    rng = np.random.default_rng(3)
    for bins in (1, 2, 511, 2047, 2049, 4097, 40_000):
        edges = np.linspace(-1.0, 2.0, bins + 1)
        x = np.concatenate([rng.uniform(-1.2, 2.2, 4001), edges[:: max(1, bins // 50)], [np.nan]])
        w = rng.uniform(size=x.shape)
        w[::100] = np.nan
        w[1::100] = -1
        good = (x >= -1) & (x <= 2) & (w >= 0)
        sums, left_out = pf._ops._binned_sums(*map(pf.tensor, (x, w, edges)))
        want, _ = np.histogram(x[good], edges, weights=w[good])
        assert np.allclose(sums.cpu().numpy(), want, rtol=1e-12, atol=1e-12)
        assert left_out.item() == (~good).sum()
        counts, _ = pf._ops._binned_sums(pf.tensor(x), None, pf.tensor(edges))
        assert np.array_equal(counts.cpu().numpy(), np.histogram(x[~np.isnan(x)], edges)[0])


def test_binned_sums_whose_edges_are_rounded():
    """Far from 0 an edge is more than half a bin from where a product has it."""
    rng = np.random.default_rng(6)
    widths = [0.25, 0.5, 1.0]
    if pf.tensor(0.0).device.type == "cpu":  # many edges are the same
        widths += [0.1, 0.01]
    for low, width in itertools.product((1e15, -1e15), widths):
        edges = low + np.arange(301) * width
        x = np.concatenate([rng.choice(edges, 500), rng.uniform(edges[0] - 1, edges[-1] + 1, 5000)])
        w = rng.integers(1, 9, x.shape).astype(float)
        for v in (x, x[:5], x[:37]):
            sums, left_out = pf._ops._binned_sums(*map(pf.tensor, (v, w[: len(v)], edges)))
            want, _ = np.histogram(v, edges, weights=w[: len(v)])
            assert np.array_equal(sums.cpu().numpy(), want), (low, width, len(v))
            assert left_out.item() == ((v < edges[0]) | (v > edges[-1])).sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_binned_sums_of_runs_repeat_bit_for_bit(dtype):
    """Neighbours in one bin, which a GPU adds before they meet the others, several stretches, and
    more values than fit one."""
    rng = np.random.default_rng(4)
    for n, bins in ((0, 5), (1, 1), (70_001, 40), (33_000, 1024)):
        x = np.cumsum(rng.normal(size=n)).astype(dtype) * 0.01
        x[::97] = rng.uniform(-2, 2, x[::97].shape)
        w = rng.uniform(size=n).astype(dtype)
        edges = np.linspace(float(x.min(initial=0)) + 0.3, float(x.max(initial=1)), bins + 1)
        good = (x >= edges[0]) & (x <= edges[-1])
        place = [pf.tensor(v) for v in (x, w, edges)]
        sums, left_out = pf._ops._binned_sums(*place)
        want, _ = np.histogram(x[good].astype(float), edges, weights=w[good].astype(float))
        assert np.allclose(sums.cpu().numpy(), want, rtol=1e-12, atol=1e-9), (n, bins)
        assert left_out.item() == (~good).sum()
        again, _ = pf._ops._binned_sums(*place)
        assert np.array_equal(sums.cpu().numpy(), again.cpu().numpy())
