"""Distributions at the edges of their parameters and of their supports, beside PyTorch's: every one
whose parameters are numbers, all combinations."""

import inspect
import itertools
import math

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cpu_only

NUMBERS = {
    "loc", "scale", "df", "df1", "df2", "concentration", "concentration0", "concentration1", "rate",
    "alpha", "low", "high",
}  # fmt: skip
# Bounds, where not everything above 0 is one.
VALUES = {"low": [0.0, 0.5], "high": [1.0, 2.0], "loc": [0.0, 1.0]}
POINTS = [0.0, 0.5, 1.0, 2.0]

# (distribution, what): where ours are right and PyTorch's are not.
OURS = {
    ("Kumaraswamy", "mode"): "NaN wherever there is one",
    ("Kumaraswamy", "log_prob"): "NaN at 0 and 1",
    ("Gumbel", "icdf"): "finite at 0 and 1",
    ("Weibull", "mode"): "beyond the smallest value, though the density falls from there",
    ("GeneralizedPareto", "mean"): "NaN where it is infinite",
    ("GeneralizedPareto", "variance"): "NaN where it is infinite",
    ("GeneralizedPareto", "cdf"): "NaN below the support",
}


def kinds():
    for name in sorted(pf.distributions.__all__):
        kind = getattr(pf.distributions, name)
        if not isinstance(kind, type) or not hasattr(torch.distributions, name):
            continue
        given = [*inspect.signature(getattr(torch.distributions, name).__init__).parameters][1:]
        given = [p for p in given if p != "validate_args"]
        if given and set(given) <= NUMBERS:
            yield name, given
        elif given == ["probs", "logits"]:
            yield from ((name, [how]) for how in given)


KINDS = [k for k in kinds() if k[0] != "LogisticNormal"]  # whose events are vectors


def told(module, name, given, what, point):
    """A number, or None where it is refused."""
    # PyTorch's GeneralizedPareto takes nothing else.
    dtype = module.float32 if name == "GeneralizedPareto" else module.float64
    d = getattr(module.distributions, name)(
        **{p: module.tensor([v], dtype=dtype) for p, v in given.items()}
    )
    try:
        value = getattr(d, what)
        if callable(value):
            value = value() if point is None else value(module.tensor([point], dtype=dtype))
    except (ValueError, NotImplementedError):
        return None
    assert tuple(value.shape)[:1] == (1,) or value.dim() == 0
    return value.double().reshape(-1).tolist()


def inside(name, given, point):
    d = getattr(torch.distributions, name)(**{p: torch.tensor(v) for p, v in given.items()})
    return bool(d.support.check(torch.tensor(point)))


def same(a, b):
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(
        x == y or math.isnan(x) and math.isnan(y) or math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-7)
        for x, y in zip(a, b)
    )


def test_there_are_many():
    assert len({name for name, _ in KINDS}) > 20


@pytest.mark.parametrize(
    "name, names", KINDS, ids=lambda v: v if isinstance(v, str) else "-".join(v)
)
def test_edges_beside_pytorch(name, names):
    vectors = name.startswith(("Categorical", "OneHot", "Multinomial", "Dirichlet"))
    if vectors:
        pytest.skip("its parameters are vectors")
    choices = [VALUES.get(n, [0.5, 1.0, 2.0]) for n in names]
    if names == ["probs"]:
        choices = [[0.0, 0.5, 1.0]]
    seen = {what: 0 for what in ("mean", "variance", "mode", "entropy", "log_prob", "cdf", "icdf")}
    for values in itertools.product(*choices):
        given = dict(zip(names, values))
        for what in seen:
            if (name, what) in OURS:
                continue
            points = POINTS if what in ("log_prob", "cdf") else [0.0, 0.5, 1.0]
            for point in points if what in ("log_prob", "cdf", "icdf") else [None]:
                try:
                    want = told(torch, name, given, what, point)
                except ValueError:  # the parameters themselves
                    with pytest.raises(ValueError):
                        told(pf, name, given, what, point)
                    continue
                got = told(pf, name, given, what, point)
                if what in ("cdf", "entropy", "icdf") and want is None and got is not None:
                    continue  # we have more of them
                if got is None and what == "cdf" and not inside(name, given, point):
                    continue  # ours is refused
                assert same(got, want), (name, given, what, point, got, want)
                seen[what] += got is not None
    assert seen["mean"] or seen["log_prob"] or seen["entropy"]


def test_what_pytorch_has_not():
    d = pf.distributions
    assert d.Kumaraswamy(2.0, 3.0).mode.item() == pytest.approx(math.sqrt(1 / 5))
    assert d.Kumaraswamy(1.0, 2.0).log_prob(pf.tensor(0.0)).item() == pytest.approx(math.log(2))
    assert d.Weibull(2.0, 0.5).mode.item() == 0
    assert d.GeneralizedPareto(0.0, 1.0, 2.0).mean.item() == math.inf
    assert d.GeneralizedPareto(0.0, 1.0, 2.0).variance.item() == math.inf
