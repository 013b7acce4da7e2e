"""Programs about distributions, drawn: see test_beside_drawn.py."""

import re

# name: {form: (parameters and what they are)}, dimensions of an event
REAL, POSITIVE, UNIT, SIMPLEX, COUNT = "real", "positive", "unit", "simplex", "count"
KINDS = {
    "Normal": {"loc": REAL, "scale": POSITIVE},
    "LogNormal": {"loc": REAL, "scale": POSITIVE},
    "HalfNormal": {"scale": POSITIVE},
    "HalfCauchy": {"scale": POSITIVE},
    "Cauchy": {"loc": REAL, "scale": POSITIVE},
    "Laplace": {"loc": REAL, "scale": POSITIVE},
    "Gumbel": {"loc": REAL, "scale": POSITIVE},
    "Exponential": {"rate": POSITIVE},
    "Gamma": {"concentration": POSITIVE, "rate": POSITIVE},
    "InverseGamma": {"concentration": POSITIVE, "rate": POSITIVE},
    "Chi2": {"df": POSITIVE},
    "Beta": {"concentration1": POSITIVE, "concentration0": POSITIVE},
    "Kumaraswamy": {"concentration1": POSITIVE, "concentration0": POSITIVE},
    "StudentT": {"df": POSITIVE, "loc": REAL, "scale": POSITIVE},
    "FisherSnedecor": {"df1": POSITIVE, "df2": POSITIVE},
    "Pareto": {"scale": POSITIVE, "alpha": POSITIVE},
    "Weibull": {"scale": POSITIVE, "concentration": POSITIVE},
    "VonMises": {"loc": REAL, "concentration": POSITIVE},
    "GeneralizedPareto": {"loc": REAL, "scale": POSITIVE, "concentration": POSITIVE},
    "Uniform": {"low": REAL, "high": "above"},
    "Bernoulli": {"probs|logits": UNIT},
    "ContinuousBernoulli": {"probs|logits": UNIT},
    "Geometric": {"probs|logits": UNIT},
    "Poisson": {"rate": POSITIVE},
    "Binomial": {"total_count": COUNT, "probs|logits": UNIT},
    "NegativeBinomial": {"total_count": COUNT, "probs|logits": UNIT},
    "RelaxedBernoulli": {"temperature": "temperature", "probs|logits": UNIT},
    "LogitRelaxedBernoulli": {"temperature": "temperature", "probs|logits": UNIT},
    "Dirichlet": {"concentration": "positives"},
    "Categorical": {"probs|logits": SIMPLEX},
    "OneHotCategorical": {"probs|logits": SIMPLEX},
    "OneHotCategoricalStraightThrough": {"probs|logits": SIMPLEX},
    "RelaxedOneHotCategorical": {"temperature": "temperature", "probs|logits": SIMPLEX},
    "Multinomial": {"total_count": "total", "probs|logits": SIMPLEX},
    "LogisticNormal": {"loc": "reals", "scale": "positives"},
    "MultivariateNormal": {
        "loc": "reals",
        "covariance_matrix|precision_matrix|scale_tril": "matrix",
    },
    "LowRankMultivariateNormal": {"loc": "reals", "cov_factor": "factor", "cov_diag": "positives"},
    "Wishart": {"df": "df", "covariance_matrix|precision_matrix|scale_tril": "matrix"},
    "LKJCholesky": {"dim": "dim", "concentration": POSITIVE},
}
VECTORS = {k: 1 for k in list(KINDS)[list(KINDS).index("Dirichlet") :]} | {
    "Wishart": 2,
    "LKJCholesky": 2,
    "Categorical": 0,
}
SIZE = 3


def nested(r, shape, one):
    if not shape:
        return one()
    return [nested(r, shape[1:], one) for _ in range(shape[0])]


def number(r, kind):
    if kind == REAL:
        return r.choice([0.0, 1.0, -0.5, round(r.uniform(-3, 3), 2)])
    if kind == "above":
        return round(r.uniform(3.1, 6), 2)
    if kind == POSITIVE:
        return r.choice([1.0, 2.0, 0.5, round(r.uniform(0.1, 6), 2)])
    if kind == UNIT:
        return r.choice([0.5, 0.25, round(r.uniform(0.05, 0.95), 2)])
    if kind == COUNT:
        return float(r.randint(1, 6))
    return round(r.uniform(0.2, 2), 2)


class Drawing:
    def __init__(self, r):
        self.r, self.lines, self.leaves, self.n = r, [], [], 0
        self.dtype = r.choice(["float64", "float64", "float32"])

    def name(self, letter):
        self.n += 1
        return f"{letter}{self.n}"

    def add(self, text, letter="v"):
        name = self.name(letter)
        self.lines.append(f"{name} = {text}")
        return name

    def tensor(self, values, grad=False, dtype=None):
        dtype = dtype or self.dtype
        tail = ", requires_grad=True" if grad else ""
        name = self.add(f"m.tensor({values!r}, dtype=m.{dtype}{tail})", "p")
        if grad:
            self.leaves.append(name)
        return name

    def parameter(self, kind, form, batch):
        r = self.r
        grad = r.random() < 0.6
        if kind == "temperature":
            return self.tensor(r.choice([0.5, 1.0, 2.2]), grad)
        if kind == "total":
            return str(r.randint(1, 4))
        if kind == "dim":
            return str(SIZE)
        if kind == "df":
            return self.tensor(nested(r, batch, lambda: round(r.uniform(3.1, 7), 1)), grad)
        if kind == COUNT:
            if r.random() < 0.4:
                return str(r.randint(1, 6))
            return self.tensor(nested(r, batch, lambda: number(r, COUNT)))
        if kind == "matrix":

            def one():
                a = [
                    [round(r.uniform(0.5, 2), 2) if i == j else 0.0 for j in range(SIZE)]
                    for i in range(SIZE)
                ]
                for i in range(SIZE):
                    for j in range(i):
                        a[i][j] = round(r.uniform(-0.4, 0.4), 2)
                return a

            low = self.tensor(nested(r, batch, one), grad)
            return low if form == "scale_tril" else self.add(f"{low} @ {low}.mT", "p")
        if kind == "factor":
            return self.tensor(nested(r, (*batch, SIZE, 2), lambda: number(r, REAL)), grad)
        if kind in ("reals", "positives", SIMPLEX):
            inner = REAL if kind == "reals" or form == "logits" else POSITIVE
            return self.tensor(nested(r, (*batch, SIZE), lambda: number(r, inner)), grad)
        if form == "logits":
            kind = REAL
        if batch == () and r.random() < 0.25:
            return repr(number(r, kind))
        return self.tensor(nested(r, batch, lambda: number(r, kind)), grad)

    def distribution(self, name=None, batch=None):
        r = self.r
        name = name or r.choice(list(KINDS))
        batch = batch if batch is not None else r.choice([(), (2,), (2,), (2, 1), (0,), (1,)])
        parts = []
        for forms, kind in KINDS[name].items():
            form = r.choice(forms.split("|"))
            own = batch if r.random() < 0.7 else r.choice([(), batch[-1:], batch])
            parts.append(f"{form}={self.parameter(kind, form, own)}")
        if r.random() < 0.3:
            parts.append(f"validate_args={r.random() < 0.5}")
        d = self.add(f"D.{name}({', '.join(parts)})", "d")
        return name, d, batch

    def value(self, name, batch):
        """One that may lie in the support."""
        r = self.r
        batch = (
            (*r.choice([(), (), (3,), (3, 1)]), *batch)
            if r.random() < 0.7
            else r.choice([(), batch])
        )
        dim = VECTORS.get(name, 0)
        grad = r.random() < 0.4
        if name in ("Categorical",):
            return self.tensor(
                nested(r, batch, lambda: r.randrange(SIZE)),
                dtype="int64" if r.random() < 0.7 else None,
            )
        if name.startswith("OneHot"):
            return self.tensor(
                nested(r, batch, lambda: r.choice([[1, 0, 0], [0, 1, 0], [0, 0, 1]]))
            )
        if name == "Multinomial":
            return self.tensor(
                nested(r, batch, lambda: r.choice([[1, 1, 0], [2, 0, 2], [1, 0, 0], [0, 3, 0]]))
            )
        if name in ("Dirichlet", "RelaxedOneHotCategorical", "LogisticNormal"):
            return self.tensor(
                nested(
                    r,
                    batch,
                    lambda: r.choice([[0.25, 0.25, 0.5], [0.1, 0.8, 0.1], [0.5, 0.375, 0.125]]),
                ),
                grad,
            )
        if dim == 1:
            return self.tensor(nested(r, (*batch, SIZE), lambda: number(r, REAL)), grad)
        if name == "Wishart":
            return self.tensor(
                nested(r, batch, lambda: [[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]]),
                grad,
            )
        if name == "LKJCholesky":
            return self.tensor(
                nested(r, batch, lambda: [[1.0, 0, 0], [0.6, 0.8, 0], [0.0, 0.6, 0.8]]), grad
            )
        if name in ("Bernoulli",):
            return self.tensor(nested(r, batch, lambda: r.choice([0.0, 1.0, 1.0, 0.0, 0.5])))
        if name in ("Geometric", "Poisson", "Binomial", "NegativeBinomial"):
            return self.tensor(nested(r, batch, lambda: r.choice([0.0, 1.0, 2.0, 5.0, 1.5])) if r.random() < 0.3
                               else nested(r, batch, lambda: float(r.randrange(3))))  # fmt: skip
        kind = (
            UNIT
            if name in ("Beta", "Kumaraswamy", "ContinuousBernoulli", "RelaxedBernoulli")
            else REAL
        )
        if kind == REAL and r.random() < 0.7:
            kind = POSITIVE
        return self.tensor(nested(r, batch, lambda: number(r, kind)), grad)

    def gradients(self, of, twice=False):
        if self.leaves:
            names = ", ".join(self.leaves)
            comma = "," if len(self.leaves) == 1 else ""
            self.add(
                f"m.autograd.grad({of}.sum(), ({names}{comma}), allow_unused=True, retain_graph=True)",
                "g",
            )

    def looked(self, name, d, batch):
        r = self.r
        what = r.choice(LOOKS)
        if what in ("log_prob", "cdf"):
            v = self.value(name, batch)
            out = self.add(f"{d}.{what}({v})")
            self.gradients(out)
        elif what == "icdf":
            v = self.tensor(nested(r, batch, lambda: number(r, UNIT)), r.random() < 0.3)
            out = self.add(f"{d}.icdf({v})")
            self.gradients(out)
            if r.random() < 0.5:
                self.add(f"{d}.cdf({out})")
        elif what in ("sample", "rsample"):
            size = r.choice(["", "()", "(3,)", "m.Size([2])", "(2, 0)", "[2]"])
            out = self.add(f"{d}.{what}({size})", "s")
            text = str(self.lines)  # a rounded factor of a correlation is none, by the last bits
            whole = "Mixture" not in text and "CorrCholesky" not in text
            inside = f", {d}.support.check(s).all().item()" if whole else ""
            self.lines[-1] = (
                f"{out} = (lambda s: (s.shape, s.dtype, s.requires_grad{inside}))({d}.{what}({size}))"
            )
        elif what == "enumerate_support":
            self.add(f"{d}.enumerate_support({r.choice(['', 'False', 'expand=True'])})")
        elif what == "support":
            v = self.value(name, batch)
            self.add(f"{d}.support.check({v})")
            self.add(f"({d}.support.event_dim, {d}.support.is_discrete, str({d}.support))")
        elif what == "arg_constraints":
            self.add(f"{{k: str(v) for k, v in {d}.arg_constraints.items()}}")
        elif what == "repr":
            self.add(f"repr({d})")
        elif what == "expand":
            size = r.choice([(4, *batch), (2,), (3, 2), batch, (1, 2)])
            return self.add(
                f"{d}.expand({r.choice([f'{size}', f'm.Size({list(size)})'])})", "d"
            ), size
        elif what == "independent" and batch:
            k = r.randint(0, len(batch) + (r.random() < 0.1))
            return self.add(f"D.Independent({d}, {k})", "d"), None
        elif what in ("entropy", "perplexity", "mean", "variance", "stddev", "mode"):
            out = self.add(f"{d}.{what}{'()' if what in ('entropy', 'perplexity') else ''}")
            self.gradients(out)
        else:
            self.add(
                f"{d}.{r.choice(['batch_shape', 'event_shape', 'has_rsample', 'has_enumerate_support'])}"
            )
        return d, batch


LOOKS = (
    *(
        "log_prob",
        "log_prob",
        "cdf",
        "icdf",
        "sample",
        "rsample",
        "enumerate_support",
        "support",
        "expand",
    ),
    *(
        "arg_constraints",
        "repr",
        "independent",
        "entropy",
        "perplexity",
        "mean",
        "variance",
        "stddev",
        "mode",
        "other",
    ),
)


def plain(r):
    """One distribution, looked at, expanded, made independent."""
    p = Drawing(r)
    name, d, batch = p.distribution()
    for _ in range(r.randint(3, 6)):
        d, batch = p.looked(name, d, batch if batch is not None else ())
    return p.lines


def divergence(r):
    p = Drawing(r)
    name, d, batch = p.distribution()
    other, e, _ = p.distribution(r.choice([name, name, None]), batch if r.random() < 0.8 else ())
    if r.random() < 0.2 and batch:
        d, e = (
            p.add(f"D.Independent({d}, 1)", "d"),
            p.add(f"D.Independent({e}, {r.choice([0, 1, 1])})", "d"),
        )
    if r.random() < 0.2:
        d, e = p.add(f"{d}.expand((2, 2))", "d"), p.add(f"{e}.expand((2, 2))", "d")
    if r.random() < 0.2:
        t = r.choice(["D.ExpTransform()", "D.AffineTransform(1.0, 2.0)", "D.SigmoidTransform()"])
        u = t if r.random() < 0.8 else "D.TanhTransform()"
        d = p.add(f"D.TransformedDistribution({d}, {r.choice([t, f'[{t}]'])})", "d")
        e = p.add(f"D.TransformedDistribution({e}, [{u}])", "d")
    out = p.add(f"D.kl_divergence({d}, {e})")
    p.gradients(out)
    p.add(f"D.kl_divergence({e}, {d})")
    return p.lines


TRANSFORMS = (
    *(
        "D.ExpTransform({c})",
        "D.SigmoidTransform({c})",
        "D.TanhTransform({c})",
        "D.SoftplusTransform({c})",
    ),
    *(
        "D.AffineTransform({p}, {q}{k})",
        "D.AffineTransform({p}, {q}, event_dim=1{k})",
        "D.AbsTransform({c})",
    ),
    *("D.PowerTransform({q}{k})", "D.StickBreakingTransform({c})", "D.SoftmaxTransform({c})"),
    *(
        "D.IndependentTransform({t}, 1{k})",
        "D.ComposeTransform([{t}, {t}]{k})",
        "D.ComposeTransform([])",
    ),
    *(
        "D.ReshapeTransform((3,), (3, 1){k})",
        "D.CorrCholeskyTransform({c})",
        "D.LowerCholeskyTransform({c})",
    ),
    *(
        "D.PositiveDefiniteTransform({c})",
        "D.identity_transform",
        "D.CumulativeDistributionTransform(D.Normal(0., 1.){k})",
    ),
    *(
        "D.CatTransform([{t}, {t}], dim=-1, lengths=[1, 2]{k})",
        "D.StackTransform([{t}, {t}, {t}], dim=-1{k})",
    ),
    *("({t}).inv", "({t}).with_cache()", "({t}).with_cache(1)", "({t}).with_cache(0)"),
)


def transform(p, depth=0):
    r = p.r
    text = r.choice(TRANSFORMS)
    while "{t}" in text and depth > 1:
        text = r.choice(TRANSFORMS)
    cached = r.random() < 0.3
    while "{t}" in text:
        text = text.replace("{t}", transform(p, depth + 1), 1)

    def some(kind):
        return (
            p.tensor(nested(r, r.choice([(), (3,)]), lambda: number(r, kind)), r.random() < 0.4)
            if r.random() < 0.7
            else repr(number(r, kind))
        )

    if "{p}" in text:
        text = text.replace("{p}", some(REAL))
    if "{q}" in text:
        text = text.replace("{q}", some(POSITIVE) if r.random() < 0.8 else repr(-1.5))
    return text.replace("{c}", "cache_size=1" if cached else "").replace(
        "{k}", ", cache_size=1" if cached else ""
    )


def transforms(r):
    """A transform alone: values, inverse, slopes, shapes, domains, caches, equality."""
    p = Drawing(r)
    t = p.add(transform(p), "t")
    shape = r.choice([(3,), (2, 3), (2, 3), (), (3, 3)])
    x = p.tensor(nested(r, shape, lambda: number(r, UNIT if r.random() < 0.5 else REAL)), True)
    y = p.add(f"{t}({x})", "y")
    p.gradients(y)
    for _ in range(r.randint(2, 5)):
        what = r.choice(
            ["inv", "slope", "kept", "shape", "tell", "equal", "inverse slope", "again", "twice"]
        )
        if what == "inv":
            out = p.add(f"{t}.inv({y})")
            p.gradients(out)
        elif what == "slope":
            out = p.add(f"{t}.log_abs_det_jacobian({x}, {y})")
            p.gradients(out)
        elif what == "inverse slope":
            p.add(f"{t}.inv.log_abs_det_jacobian({y}, {x})")
        elif what == "kept":
            p.add(f"({t}.inv({y}) is {x}, {t}({x}) is {y}, {t}.inv.inv is {t}, {t}.inv is {t}.inv)")
        elif what == "shape":
            s = r.choice(["(3,)", "(2, 3)", "(3, 1)", "m.Size([2, 4, 3])", "()", "(3, 3)"])
            p.add(f"tuple({t}.{r.choice(['forward_shape', 'inverse_shape'])}({s}))")
        elif what == "tell":
            p.add(
                f"{t}.{r.choice(['bijective', 'sign', 'event_dim', 'domain.event_dim', 'codomain.event_dim', 'domain.is_discrete'])}"
            )
            p.add(
                f"(str({t}.domain), str({t}.codomain), {t}.domain.check({x}), {t}.codomain.check({y}))"
            )
        elif what == "equal":
            p.add(f"({t} == {transform(p)}, {t} == {t}, {t}.inv == {t}.inv, {t} != {t}.inv)")
        elif what == "again":
            p.add(f"{t}.with_cache().inv({t}({x}))")
        else:
            p.add(f"repr({t})")
    return p.lines


def transformed(r):
    p = Drawing(r)
    name, d, batch = p.distribution(batch=r.choice([(), (3,), (2, 3)]))
    ts = [transform(p, 1) for _ in range(r.randint(1, 2))]
    if r.random() < 0.2:
        d = p.add(f"D.Independent({d}, 1)", "d")
    d = p.add(f"D.TransformedDistribution({d}, [{', '.join(ts)}])", "d")
    for _ in range(r.randint(3, 6)):
        d, batch = p.looked(name, d, batch if batch is not None else ())
    return p.lines


def mixture(r):
    p = Drawing(r)
    n = SIZE
    batch = r.choice([(), (2,), (1,)])
    values = p.tensor(nested(r, (*batch, n), lambda: number(r, POSITIVE)), r.random() < 0.6)
    mix = p.add(f"D.Categorical({r.choice(['', 'logits='])}{values})", "d")
    name = r.choice([k for k in KINDS if k not in ("LKJCholesky",)])
    name, d, _ = p.distribution(name, (*batch, n))
    d = p.add(f"D.MixtureSameFamily({mix}, {d}{r.choice(['', '', ', validate_args=False'])})", "d")
    for _ in range(r.randint(3, 6)):
        d, batch = p.looked(name, d, batch if batch is not None else ())
    return p.lines


CONSTRAINTS = (
    *(
        "real",
        "positive",
        "nonnegative",
        "unit_interval",
        "simplex",
        "lower_cholesky",
        "corr_cholesky",
        "boolean",
    ),
    *(
        "real_vector",
        "positive_definite",
        "positive_semidefinite",
        "symmetric",
        "square",
        "lower_triangular",
        "one_hot",
    ),
    *(
        "nonnegative_integer",
        "positive_integer",
        "greater_than(0.5)",
        "less_than(1.0)",
        "interval(-1.0, 2.0)",
    ),
    *(
        "half_open_interval(0.0, 1.0)",
        "greater_than_eq(1.0)",
        "integer_interval(0, 3)",
        "independent({c}, 1)",
    ),
    *(
        "stack([{c}, {c}], dim=-1)",
        "cat([{c}, {c}], dim=-1, lengths=[1, 2])",
        "multinomial(3)",
        "dependent",
    ),
    *("MixtureSameFamilyConstraint({c})"),
)


def constraint(r, depth=0):
    text = r.choice(CONSTRAINTS)
    while "{c}" in text and depth > 1:
        text = r.choice(CONSTRAINTS)
    while "{c}" in text:
        text = text.replace("{c}", constraint(r, depth + 1), 1)
    return f"D.constraints.{text}"


def constraints(r):
    p = Drawing(r)
    c = p.add(constraint(r), "c")
    shape = r.choice([(), (3,), (2, 3), (3, 3), (2, 2)])
    kind = r.choice([REAL, POSITIVE, UNIT, COUNT])
    x = p.tensor(nested(r, shape, lambda: number(r, kind)), r.random() < 0.4)
    p.add(f"{c}.check({x})")
    p.add(f"({c}.event_dim, {c}.is_discrete, str({c}))")
    which = r.choice(["biject_to", "transform_to"])
    t = p.add(f"D.{which}({c})", "t")
    y = p.add(f"{t}({x})", "y")
    p.gradients(y)
    p.add(f"{c}.check({y})")
    p.add(f"{t}.inv({y})")
    p.add(f"{t}.log_abs_det_jacobian({x}, {y})")
    p.add(f"D.constraints.is_dependent({c})")
    return p.lines


# What PyTorch has otherwise: (of a line, of what differs, why)
MEANT = (
    (
        r"mean|variance|stddev|mode|sum\(\)",
        r"inf|nan",
        "moments that are infinite or missing, and their slopes",
    ),
    (r"\.mode", r"not .*nan", "PyTorch takes the logarithm of a negative number in Kumaraswamy's"),
    (
        r"kl_divergence",
        r"grad (True|False).*not|\(.*\), not \(\)|not .*inf",
        "divergences that are infinite, or that PyTorch takes for infinite at a common end",
    ),
    (
        r"repr|str\(",
        r"Beta\(|Categorical\(|GreaterThanEq\(lower_bound=0",
        "parameters that were not asked for are not shown",
    ),
    (r"==", r"True, not False", "transforms without parameters are equal"),
    (r"MixtureSameFamily\(", r"IndexError", "a mixture of no components"),
    (
        r"log_prob|cdf|icdf",
        r"NotImplementedError|got start 0, end -1|tuple index",
        "what is not there, or of no elements, is said before the value is looked at",
    ),
    (
        r"check\(",
        r"pf.split|MixtureSame|Dimension out of range",
        "what is left of the parts of cat, and values of too few dimensions, are refused",
    ),
    (r"^y|log_abs_det", r"leaf True.*not", "reshape to the same shape gives the tensor itself"),
)


def meant(lines, i, text):
    """Differences that docs/pytorch_differences.md lists, and words."""
    line = lines[i]
    if "Wishart" in str(lines) and re.search("kl_div|grad|arg_con", line):
        return True  # its divergences are not PyTorch's, and gradients of a triangle's other half are 0
    if "event_dim=1" in str(lines) and "AffineTransform" in str(lines) and "tensor" in text:
        return True  # a factor of fewer dimensions than the event counts once for each element
    if "kl_div" in lines[i - 1] and line.startswith("g") and "not [-0.0]" in text:
        return True  # the slope of an infinity
    if line.startswith("g") and i:
        line = lines[i - 1]
    return any(re.search(a, line) and re.search(b, text) for a, b, _ in MEANT)


DIGITS = "float32"  # parameters that are numbers become float32
