"""Values, first and second derivatives of functions at zeros of either sign, ones, infinities, NaN, subnormal
numbers and where their formulas change: PyTorch's in float64, unless PyTorch has NaN for the second derivative
or the limit is another one (LIMITS); float32 beside our float64."""

import math

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")
inf, nan = math.inf, math.nan
POINTS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    inf,
    -inf,
    nan,
    5e-324,
    -5e-324,
    1e-310,
    -1e-310,
    1e-30,
    -1e-30,
    0.5,
    -0.5,
]
POINTS += [
    2.0,
    -2.0,
    3.0,
    -3.0,
    6.0,
    -6.0,
    20.0,
    -20.0,
    100.0,
    -100.0,
    1e300,
    -1e300,
    math.pi / 2,
    math.pi,
]
PLAIN = """acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix
floor frac lgamma log log10 log1p log2 logit nan_to_num neg rad2deg reciprocal relu round rsqrt sigmoid sign sin
sinc sinh sqrt square tan tanh trunc special.entr special.erfcx special.i0 special.i0e special.i1 special.i1e
special.log_ndtr special.ndtr special.ndtri special.bessel_j0 special.bessel_j1 special.bessel_y0
special.bessel_y1 special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0
special.modified_bessel_k1 special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
special.spherical_bessel_j0 special.airy_ai""".split()
ACTIVATIONS = """relu relu6 elu selu celu leaky_relu hardtanh hardshrink softshrink hardswish silu mish gelu
softplus softsign logsigmoid tanhshrink""".split()
WITH = [
    ("clamp", -1.0, 1.0), ("clamp_min", 0.0), ("clamp_max", 0.0), ("pow", 0), ("pow", 1), ("pow", 2), ("pow", 3),
    ("pow", -1), ("pow", -2), ("pow", 1.5), ("pow", inf), ("pow", nan), ("float_power", 2), ("logit", 1e-3),
    ("fmod", 2), ("fmod", -3.0), ("remainder", 2), ("remainder", -3.0), ("xlogy", 0), ("special.xlogy", 2.0),
    ("special.xlog1py", 2.0), ("nan_to_num", 1.0, 2.0, 3.0), ("polygamma", 1), ("polygamma", 2),
    ("nn.functional.threshold", 1.0, 5.0), ("nn.functional.elu", -1.0), ("nn.functional.celu", 0.5),
    ("nn.functional.leaky_relu", -1.0), ("nn.functional.hardshrink", 0.0), ("nn.functional.softshrink", 0.0),
    ("nn.functional.softplus", 2.0, 3.0),
]  # fmt: skip
CASES = [(n,) for n in PLAIN] + [("nn.functional." + n,) for n in ACTIVATIONS] + WITH

# What is the limit where PyTorch has something else: {function: {point as text: {order: value}}}.
POLES = ("-1.0", "-2.0", "-3.0", "-6.0", "-20.0", "-100.0", "-1e+300")  # PyTorch: large numbers
WAVES = {x: {0: 0.0} for x in ("inf", "-inf")}  # waves that die away
CORNER = {
    x: {2: None} for x in ("0.0", "-0.0")
}  # the second derivative is that of the part below 0
NO_NUMBER = {"nan": {1: nan, 2: nan}}
SMALL = {repr(s * x): {2: -s} for x in (5e-324, 1e-310, 1e-30) for s in (1.0, -1.0)}
LIMITS = {
    "digamma": {"-0.0": {2: inf}, "-inf": {2: nan}} | {x: {1: inf} for x in POLES},
    "lgamma": {x: {2: inf} for x in POLES},
    "polygamma 1": {"-0.0": {1: inf}, "-inf": {1: nan, 2: nan}} | {x: {0: inf} for x in POLES},
    "polygamma 2": {"-0.0": {0: inf, 2: inf}, "inf": {0: 0.0}, "-inf": {0: nan, 1: nan, 2: nan}},
    "sinc": {x: {2: -(math.pi**2) / 3} for x in ("1e-30", "-1e-30")},
    "special.entr": {"-0.0": {2: -inf}},
    "special.i0": NO_NUMBER, "special.i1": NO_NUMBER, "special.i1e": NO_NUMBER | SMALL,
    "special.bessel_j0": WAVES, "special.bessel_j1": WAVES, "special.airy_ai": WAVES,
    "special.bessel_y0": {"inf": {0: 0.0}}, "special.bessel_y1": {"inf": {0: 0.0}},
    "special.modified_bessel_k0": {"5e-324": {0: 744.5560034370394}},
    "special.modified_bessel_k1": {"5e-324": {0: inf}},
    "special.scaled_modified_bessel_k0": {"5e-324": {0: 744.5560034370394}},
    "special.scaled_modified_bessel_k1": {"5e-324": {0: inf}},
    "special.spherical_bessel_j0": {x: {0: nan} for x in ("inf", "-inf")},
    "nn.functional.elu": CORNER, "nn.functional.selu": CORNER, "nn.functional.celu": CORNER,
    "nn.functional.elu -1.0": CORNER, "nn.functional.celu 0.5": CORNER,
    "nn.functional.softplus": {"20.0": {2: None}},  # where it becomes a line
    "nn.functional.gelu": {"-inf": {0: 0.0}},
    "pow 1.5": {"-0.0": {2: inf}},
}  # fmt: skip


def derivatives(m, case, point, dtype):
    """The value and the derivatives that there are, None for those that are not."""
    name, *args = case
    f = m
    for part in name.split("."):
        f = getattr(f, part)
    x = m.tensor([point], dtype=getattr(m, dtype), requires_grad=True)
    y = f(args[0], x) if name == "polygamma" else f(x, *args)
    found = [y.item()]
    for order in (1, 2):
        try:
            (y,) = m.autograd.grad(
                y, [x], m.ones_like(y), create_graph=order == 1, allow_unused=True
            )
        except (RuntimeError, NotImplementedError):  # PyTorch lacks it, or nothing depends on x
            y = None
        if y is None:
            return found + [None] * (3 - len(found))
        found.append(y.item())
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))
def test_float64_beside_pytorch(case):
    limits = LIMITS.get(" ".join(map(str, case)), {})
    for point in POINTS:
        ours, theirs = (derivatives(m, case, point, "float64") for m in (pf, torch))
        there = limits.get(repr(point), {})
        for order, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if order not in there and (b is None or order and math.isnan(b)):
                continue  # no derivative in PyTorch, or one that it does not know
            want = there.get(order, b)
            if want is not None:
                assert a is not None or want == 0, (point, order, want)
                assert (a or 0.0) == pytest.approx(want, rel=1e-6, abs=1e-12, nan_ok=True), (
                    point,
                    order,
                )


# Second derivatives that are NaN in PyTorch, or cancel to nothing there.
KNOWN = {
    ("special.log_ndtr",): {inf: (-0.0, 0.0, 0.0), -inf: (-inf, inf, -1.0), 100.0: (-0.0, 0.0, 0.0),
                            -100.0: (-5005.5242086942, 100.0099980009, -0.9999000599501448),
                            -1e300: (-inf, 1e300, -1.0)},
    ("special.erfcx",): {inf: (0.0, 0.0, 0.0), 1e300: (5.641895835477563e-301, 0.0, 0.0),
                         1e8: (5.641895835477562e-9, -5.641895835477562e-17, 1.1283791670955125e-24)},
    ("special.i1",): {5e-324: (0.0, 0.5, 0.0), 1e-310: (0.0, 0.5, 0.0), 0.015: (
        0.007500210939477548, 0.500042188159184, 0.005625175782980355)},
    ("special.bessel_j1",): {1e-310: (0.0, 0.5, 0.0), 0.0: (0.0, 0.5, 0.0)},
    ("special.entr",): {0.0: (0.0, inf, -inf), 5e-324: (0.0, 743.4400719213812, -inf), inf: (-inf, -inf, 0.0)},
    ("lgamma",): {5e-324: (744.4400719213812, -inf, inf), -1e-310: (713.8013788281542, inf, inf)},
}  # fmt: skip


@pytest.mark.parametrize("case", KNOWN, ids=lambda c: c[0])
def test_limits(case):
    for point, want in KNOWN[case].items():
        got = derivatives(pf, case, point, "float64")
        for order in range(3):
            assert got[order] == pytest.approx(
                want[order], rel=1e-10, abs=1e-30 if point == 1e8 else 1e-14
            )


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))
def test_float32_beside_float64(case):
    for point in POINTS:
        if point != 0 and not 1e-35 < abs(point) < 1e30 and not math.isinf(point):
            continue
        point = torch.tensor(point, dtype=torch.float32).item()  # noqa: PLW2901
        single, double = (derivatives(pf, case, point, t) for t in ("float32", "float64"))
        for order, (a, b) in enumerate(zip(single, double, strict=True)):
            if a is None or b is None or not abs(b) < 1e30:
                continue
            assert a == pytest.approx(b, rel=2e-3, abs=2e-5), (point, order)
