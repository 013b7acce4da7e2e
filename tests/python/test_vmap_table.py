"""vmap over every operation of the table on drawn arguments: the same as one sample after the other,
with gradients inside and outside. PYFLAME_VMAP=10 draws ten times as many."""

import math
import os
import re

import pytest
from differential import draw, hints

import pyflame as pf
from pyflame.func import grad, vmap

MORE = float(os.environ.get("PYFLAME_VMAP", "1"))
SHARE = float(os.environ.get("PYFLAME_TEST_SHARE", "1")) * MORE
SEED = os.environ.get("PYFLAME_TEST_SEED", "") if MORE > 1 else ""
WANTED = max(int(3 * SHARE), 1)

ROWS = {}
for _row in pf.ops.table():
    if not _row["name"].startswith("test_"):
        ROWS.setdefault(_row["name"], []).append(_row)

# The shape of their result depends on values, or the host reads them.
BY_VALUE = set(
    "nonzero argwhere masked_select unique unique_consecutive bincount histc repeat_interleave "
    "multi_tensor_norm clip_grad_norm_ allclose equal is_nonzero one_hot masked_scatter masked_scatter_ "
    "nonzero_tuple histogram histogramdd corrcoef cov tensor_split combinations index_put_ index_put "
    "_index_put_impl_ packed where index put put_".split()
)
# Random numbers, and what has no tensors or only lists that are written.
LEFT_OUT = {
    name
    for name, rows in ROWS.items()
    if any(r["family"] in ("random", "optimizers") for r in rows)
    or name in hints.RANDOM
    or name in hints.UNDEFINED
    or name.startswith(("_init_", "_clip_"))
} | {
    "as_strided",
    "as_strided_scatter",
    "resize_",
    "resize_as_",
}  # which look at memory, not at a tensor
# Views that some orders of samples in memory do not allow.
BY_LAYOUT = {"view", "view_as", "view_as_complex", "unflatten"}
SAMPLES = 3


def variants(t):
    """The tensor, and others of its values."""
    flat = t.detach().reshape(-1)
    return [t.detach(), flat.flip(0).reshape(t.shape), flat.roll(1).reshape(t.shape)]


def flat(result):
    if isinstance(result, pf.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [t for r in result for t in flat(r)]
    return []


def near(a, b, gradients=False):
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{tuple(a.shape)} {a.dtype}, not {tuple(b.shape)} {b.dtype}"
    if a.dtype.is_complex:
        a, b = pf.view_as_real(a.resolve_conj()), pf.view_as_real(b.resolve_conj())
    if gradients:  # which kind of non-finite number follows from how a quotient is written
        odd = ~b.isfinite()
        if a.isfinite()[odd].any():
            return f"{a.tolist()}, not {b.tolist()}"
        a, b = a.masked_fill(odd, 0), b.masked_fill(odd, 0)
    if a.dtype.is_floating_point:
        digits = {pf.float64: 1e-9, pf.float32: 2e-4}.get(a.dtype, 6e-2)
        if pf.allclose(a.double(), b.double(), rtol=digits, atol=digits, equal_nan=True):
            return None
    elif pf.equal(a, b):
        return None
    return f"{a.tolist()}, not {b.tolist()}"


class Skip(Exception):
    pass


def built(case):
    """What a drawn case calls, as a function of its tensors, and these."""
    space = {"m": pf, "op": pf.ops.get(case.op), "inf": math.inf, "nan": math.nan}
    if "m" in case.names:  # a name in calls, too
        raise Skip
    code = compile(case.call, "<call>", "eval")
    try:
        for line in case.setup:
            exec(line, space)
        tensors = [space[n].detach() for n in case.names]
        eval(code, dict(space))
    except (pf.PyFlameError, TypeError, OverflowError, IndexError):
        raise Skip from None
    return lambda *args: eval(code, dict(space, **dict(zip(case.names, args)))), tensors


def chosen(rng, tensors, first=False):
    """Which of the tensors differ; the first one where that is written."""
    over = [rng.random() < 0.7 for _ in tensors]
    over[0] = over[0] or first
    if not any(over):
        over[rng.randrange(len(over))] = True
    return over


def one_by_one(f, samples):
    try:
        each = [flat(f(*[t.clone() for t in args])) for args in samples]
        for t in (t for e in each for t in e):
            t.cpu()  # a wrong index is raised when the device is waited for
    except (pf.PyFlameError, TypeError, IndexError):
        raise Skip from None
    shapes = {tuple(t.shape for t in e) for e in each}
    if len(shapes) > 1 or not each[0]:
        raise Skip
    return each


def run(f, dims, batch):
    try:
        return f(*[b.clone() for b in batch])
    except ValueError as e:
        if "made outside of vmap" in str(e):
            raise Skip from None
        raise


def loss_of(f, weights):
    def loss(*args):
        terms = [
            (r * w).sum()
            for r, w in zip(flat(f(*args)), weights)
            if r.dtype == pf.float64 and r.numel()
        ]
        return sum(terms) if terms else pf.zeros((), dtype=pf.float64)

    return loss


def check(f, tensors, rng, gradients):
    """What is wrong, or None."""
    over = chosen(rng, tensors, not gradients)
    samples = [variants(t) if o else [t] * SAMPLES for t, o in zip(tensors, over)]
    each = one_by_one(f, list(zip(*samples)))
    dims = tuple(rng.randint(0, t.dim()) if o else None for t, o in zip(tensors, over))
    batch = [s[0] if d is None else pf.stack(s, d) for s, d in zip(samples, dims)]

    def listed(*args):
        return flat(f(*args))

    for i, g in enumerate(run(vmap(listed, in_dims=dims), dims, batch)):
        wrong = near(g, pf.stack([e[i] for e in each]))
        if wrong:
            return f"over {dims}: result {i} is {wrong}"
    wrong = check_nested(listed, tensors, rng, first=not gradients)
    floats = tuple(i for i, t in enumerate(tensors) if t.dtype == pf.float64)
    if wrong or not floats or not gradients:
        return wrong
    loss = loss_of(f, [pf.randn(e.shape, dtype=pf.float64) for e in each[0]])

    def alone(*args):
        args = list(args)
        for i in floats:
            args[i] = args[i].detach().requires_grad_()
        y = loss(*args)
        if not y.requires_grad:
            return [pf.zeros_like(args[i]) for i in floats]
        found = pf.autograd.grad(y, [args[i] for i in floats], allow_unused=True)
        return [pf.zeros_like(args[i]) if g is None else g for i, g in zip(floats, found)]

    try:
        want = [pf.stack(g) for g in zip(*[alone(*args) for args in zip(*samples)])]
    except pf.AutogradError:  # in place
        return None
    inside = vmap(grad(loss, argnums=floats), in_dims=dims)(*batch)
    for i, w, g in zip(floats, want, inside):
        wrong = near(g, w, True)
        if wrong:
            return f"over {dims}: gradient of tensor {i} inside is {wrong}"
    outside = grad(lambda *args: vmap(loss, in_dims=dims)(*args).sum(), argnums=floats)(*batch)
    for i, w, g in zip(floats, want, outside):
        wrong = near(g, w.sum(0) if dims[i] is None else w.movedim(0, dims[i]), True)
        if wrong:
            return f"over {dims}: gradient of tensor {i} outside is {wrong}"
    wrong = check_nested(grad(loss, argnums=floats), tensors, rng, True)
    return f"gradients, {wrong}" if wrong else None


def check_nested(f, tensors, rng, gradients=False, first=False):
    """The same of two levels, of which each tensor may have any."""
    outer, inner = chosen(rng, tensors, first), chosen(rng, tensors, first)
    rows = [variants(t)[:2] if o else [t, t] for t, o in zip(tensors, outer)]
    samples = [[variants(t) if i else [t] * SAMPLES for t in row] for row, i in zip(rows, inner)]
    want = one_by_one(f, [[s[a][b] for s in samples] for a in (0, 1) for b in range(SAMPLES)])
    outside = tuple(0 if o else None for o in outer)
    inside = tuple(rng.randint(0, t.dim()) if i else None for t, i in zip(tensors, inner))
    batch = []
    for s, a, b in zip(samples, outside, inside):
        row = [r[0] if b is None else pf.stack(r, b) for r in s]
        batch.append(row[0] if a is None else pf.stack(row))

    def listed(*args):
        return flat(f(*args))

    got = run(vmap(vmap(listed, in_dims=inside), in_dims=outside), inside, batch)
    for i, g in enumerate(got):
        wrong = near(g.flatten(0, 1), pf.stack([w[i] for w in want]), gradients)
        if wrong:
            return f"two levels over {outside} and {inside}: result {i} is {wrong}"
    return None


def r(*shape):
    return lambda: pf.randn(shape, dtype=pf.float64)


E4M3 = pf.float8_e4m3fn


def _floats(tensors):
    return [t.to(pf.float32) for t in tensors]


def ints(values, dtype=pf.int64):
    return lambda: pf.tensor(values, dtype=dtype)


def spd(a):
    return a @ a.mT + pf.eye(a.shape[-1], dtype=a.dtype)


def gates(n):
    return [r(2, 3), r(2, 4), r(4 * n, 3), r(4 * n, 4), r(4 * n), r(4 * n)]


def recurrent(op):
    def f(x, h, a, b, c, d):
        return op(x, h, [a, b, c, d], True, 1, 0.0, True, False, False)

    return f


def lstm(x, h, s, a, b, c, d):
    return pf.ops.get("lstm")(x, [h, s], [a, b, c, d], True, 1, 0.0, True, False, False)


def layers(n):
    return [r(5, 2, 3), r(1, 2, 4), r(4 * n, 3), r(4 * n, 4), r(4 * n), r(4 * n)]


def op(name, *more, **named):
    def f(*tensors):
        return pf.ops.get(name)(*tensors, *more, **named)

    return f


def lu(a):
    return pf.linalg.lu_factor(a + 3 * pf.eye(a.shape[-1], dtype=a.dtype))


def batch_norm(x, mean, var, w, b):
    return pf.nn.functional.batch_norm(x, mean, var.square(), w, b, False)


# What the generator draws no valid arguments for: functions of tensors, and what makes these.
CASES = {
    "adaptive_max_pool3d": [(op("adaptive_max_pool3d", [2, 1, 2]), [r(2, 3, 4, 3, 5)])],
    "affine_grid_generator": [(op("affine_grid_generator", [2, 3, 4, 5]), [r(2, 2, 3)])],
    "avg_pool1d": [(op("avg_pool1d", [2], [1], [1]), [r(2, 3, 5)])],
    "batch_norm": [
        (batch_norm, [r(3, 2, 4), r(2), r(2), r(2), r(2)]),
        (
            lambda x, w: pf.nn.functional.batch_norm(x, None, None, w, None, True),
            [r(3, 2, 4), r(2)],
        ),
    ],
    "cholesky": [(lambda a: pf.ops.get("cholesky")(spd(a), True), [r(3, 3)])],
    "col2im": [(op("col2im", [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]), [r(2, 8, 12)])],
    "conv3d": [
        (op("conv3d", padding=[1]), [r(2, 4, 3, 4, 3), r(6, 4, 2, 2, 2), r(6)]),
        (op("conv3d", None, groups=2), [r(2, 4, 3, 4, 3), r(6, 2, 2, 2, 2)]),
    ],
    "conv_transpose1d": [(op("conv_transpose1d", [2], [1]), [r(2, 4, 5), r(4, 3, 3), r(3)])],
    "conv_transpose2d": [
        (op("conv_transpose2d", [2], [1], groups=2), [r(2, 4, 5, 3), r(4, 3, 3, 2), r(6)]),
    ],
    "conv_transpose3d": [(op("conv_transpose3d"), [r(1, 2, 3, 2, 3), r(2, 3, 2, 2, 2), r(3)])],
    "flash_attention": [
        (
            lambda q, k, v, m: pf.ops.get("flash_attention")(q, k, v, m, left=2, softcap=1.5)[0],
            [r(2, 2, 4, 3), r(2, 2, 5, 3), r(2, 2, 5, 2), r(2, 4, 5)],
        ),
    ],
    "gradient_at": [
        (
            lambda x, a: pf.ops.get("gradient_at")(x, spacing=[a.exp().cumsum(0)], dim=[0]),
            [r(4, 3), r(4)],
        )  # fmt: skip
    ],
    "grid_sampler": [(op("grid_sampler", "bilinear", "border"), [r(2, 3, 4, 5), r(2, 3, 2, 2)])],
    "gru": [(recurrent(op("gru")), layers(3))],
    "gru_cell": [(op("gru_cell"), gates(3)[:2] + [r(12, 3), r(12, 4), r(12), r(12)])],
    "imag": [(lambda x, y: pf.ops.get("imag")(pf.complex(x, y).square()), [r(3, 2), r(3, 2)])],
    "im2col": [(op("im2col", [2, 2], [1, 1], [0, 1], [1, 2]), [r(2, 3, 4, 5)])],
    "index_add_": [
        (lambda x, i, y: x.clone().index_add_(1, i, y), [r(2, 4), ints([3, 0, 3]), r(2, 3)])
    ],
    "index_copy": [(lambda x, i, y: x.index_copy(1, i, y), [r(2, 4), ints([3, 0]), r(2, 2)])],
    "index_copy_": [
        (lambda x, i, y: x.clone().index_copy_(0, i, y), [r(4, 2), ints([3, 0]), r(2, 2)])
    ],
    "index_reduce_": [
        (
            lambda x, i, y: x.clone().index_reduce_(0, i, y, "amax"),
            [r(4, 2), ints([3, 0, 3]), r(3, 2)],
        )
    ],
    "view_as_complex": [
        (lambda x: pf.view_as_real(pf.view_as_complex(x.contiguous()).square()), [r(3, 2)])
    ],
    "interpolate": [
        (op("interpolate", [5, 7], mode=mode), [r(2, 3, 4, 3)])
        for mode in ("nearest", "bilinear", "bicubic", "area")
    ]
    + [(op("interpolate", [5, 7], mode="lanczos", antialias=True), [r(2, 3, 4, 3)])],
    "linalg_cholesky": [(lambda a: pf.linalg.cholesky(spd(a)), [r(2, 3, 3)])],
    "linalg_eig": [(lambda a: pf.linalg.eig(spd(a)).eigenvalues.real, [r(3, 3)])],
    "linalg_householder_product": [(op("linalg_householder_product"), [r(4, 3), r(3)])],
    "linalg_ldl_factor_ex": [(lambda a: pf.linalg.ldl_factor_ex(spd(a))[0], [r(3, 3)])],
    "linalg_ldl_solve": [
        (lambda a, b: pf.linalg.ldl_solve(*pf.linalg.ldl_factor(spd(a)), b), [r(3, 3), r(3, 2)])
    ],
    "linalg_lu_solve": [(lambda a, b: pf.linalg.lu_solve(*lu(a), b), [r(3, 3), r(3, 2)])],
    "linalg_tensorsolve": [(op("linalg_tensorsolve"), [r(2, 3, 6), r(2, 3)])],
    "lstm": [(lstm, [r(5, 2, 3), r(1, 2, 4), r(1, 2, 4), r(16, 3), r(16, 4), r(16), r(16)])],
    "lstm_cell": [
        (
            lambda x, h, c, *w: pf.ops.get("lstm_cell")(x, [h, c], *w),
            [r(2, 3), r(2, 4), *gates(4)[1:]],
        )
    ],
    "lu_solve": [(lambda a, b: pf.ops.get("lu_solve")(b, *lu(a)), [r(3, 3), r(3, 2)])],
    "lu_unpack": [(lambda a: pf.ops.get("lu_unpack")(*lu(a)), [r(2, 3, 3)])],
    "max_pool1d": [(op("max_pool1d", [2], [1]), [r(2, 3, 5)])],
    "max_pool2d_with_indices": [
        (op("max_pool2d_with_indices", [2, 2], [1, 2], [1, 0]), [r(2, 3, 5, 4)])
    ],
    "max_pool3d": [(op("max_pool3d", [2], [1]), [r(2, 3, 3, 4)])],
    "multilabel_margin_loss": [
        (op("multilabel_margin_loss"), [r(2, 4), ints([[3, 0, -1, 1], [1, -1, 2, 0]])])
    ],
    "orgqr": [(op("orgqr"), [r(4, 3), r(3)])],
    "ormqr": [(op("ormqr"), [r(4, 3), r(3), r(4, 2)])],
    "view_as_real": [(lambda x, y: pf.view_as_real(pf.complex(x, y)), [r(3), r(3)])],
    "embedding_bag": [
        (op("embedding_bag", None, mode), [ints([[1, 4, 1], [0, 0, 2]]), r(5, 3)])
        for mode in ("sum", "mean", "max")
    ],
    "ctc_losses": [
        (
            lambda x, t: pf.ops.get("ctc_losses")(x.log_softmax(-1), t, [5, 4], [2, 3]),
            [r(5, 2, 4), ints([[1, 2, 3], [3, 1, 1]])],
        )
    ],
    "_scaled_mm": [
        (
            lambda a, b, s: pf._scaled_mm(
                a.to(E4M3), b.to(E4M3).t(), s.to(pf.float32), pf.tensor(0.5), out_dtype=pf.float32
            ),
            [r(3, 8), r(5, 8), r(1)],
        )
    ],
    "_to_float8": [(lambda x: _floats(pf.ops.get("_to_float8")(x.float(), E4M3, True)), [r(3, 8)])],
    "_int_mm": [
        (
            op("_int_mm"),
            [ints([[1, 2, 3], [4, 5, 6]], pf.int8), ints([[1, -2], [3, 4], [5, 6]], pf.int8)],
        )
    ],  # fmt: skip
}
for _name in ("rnn_tanh", "rnn_relu"):
    CASES[_name] = [(recurrent(op(_name)), layers(1))]
    CASES[_name + "_cell"] = [(op(_name + "_cell"), gates(1))]
CASES["gru"] = [(recurrent(op("gru")), [r(5, 2, 3), r(1, 2, 4), r(12, 3), r(12, 4), r(12), r(12)])]


@pytest.mark.parametrize("name", sorted(CASES))
def test_chosen_arguments(name):
    rng = draw.generator(name, SEED + "vmap")
    pf.manual_seed(0)
    for f, builders in CASES[name]:
        tensors = [b() for b in builders]
        for _ in range(2):
            try:
                wrong = check(f, tensors, rng, True)
            except NotImplementedError as e:
                if "has no gradient" not in str(e) and "no derivative" not in str(e):
                    raise
                wrong = None
            assert not wrong, wrong


# No tensors to go over; those that write what they are given, and raise (optimizers), or are a GPU's.
NOT_DRAWN = set(
    "_adamw _binned_sums _optim_step _scored_attention _sgd _warmup_cosine allclose arange bartlett_window "
    "blackman_window equal eye fft_fftfreq fft_rfftfreq full hamming_window hann_window "
    "histogramdd_at is_nonzero is_same_size istft kaiser_window linspace logspace ones "
    "scalar_tensor tril_indices triu_indices zeros".split()
)


@pytest.mark.parametrize("name", sorted(set(ROWS) - LEFT_OUT))
def test_operation(name):
    rng = draw.generator(name, SEED + "vmap")
    done, found = 0, []
    for _ in range(int(40 * max(SHARE, 1))):
        if done >= WANTED:
            break
        form = draw.our_form(pf._C._parse_schema, rng.choice(ROWS[name])["schema"])
        case = draw.draw(rng, name, "function", form)
        if case is None or case.bad or case.special or not case.names:
            continue
        case.call = case.call.replace(f"m.{name}(", "op(", 1)
        try:
            wrong = check(*built(case), rng, not name.endswith("_"))
            done += 1
        except Skip:
            continue
        except pf.IndexError as e:
            if "which is empty" in str(e):  # no classes, and targets that are all ignored
                continue
            wrong = str(e)
        except pf.ShapeError as e:
            if name in BY_LAYOUT and re.search("contiguous|order allows", str(e)):
                continue
            wrong = str(e)
        except NotImplementedError as e:
            if "has no gradient" in str(e) or "no derivative" in str(e):
                continue
            if "differ from sample to sample" in str(e) and name in BY_VALUE:
                done += 1
                continue
            wrong = f"{type(e).__name__}: {e}"
        except Exception as e:
            wrong = f"{type(e).__name__}: {e}"
        if wrong:
            found.append(f"{case.program()}\n# {wrong}")
    if MORE == 1 and not done and not found:
        assert name in CASES or name in NOT_DRAWN, "no drawn arguments: write a case into CASES"
    if found:
        pytest.fail(f"{len(found)} wrong:\n\n" + "\n\n".join(found[:3]), pytrace=False)
