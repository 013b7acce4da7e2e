#!/usr/bin/env python3
"""Finds out what each operation takes and runs on, and writes python/pyflame/_support.json.

    python tools/operation_support.py [--check]

Every operation is called as in benchmarks/operations.py, on the CPU, with operands of each dtype: those
that are not refused are its dtypes, and what ran (`pf.explain`) is its implementation. Whether a GPU
has the kernels follows from the launchers in src/gpu. `--check` writes nothing and says what differs.
"""

import argparse
import json
import os
import re
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:0] = [str(ROOT), str(ROOT / "python")]
KERNELS = ROOT / "src" / "table" / "kernels"
FILE = ROOT / "python" / "pyflame" / "_support.json"

DTYPES = ("float64", "float32", "float16", "bfloat16", "complex128", "complex64", "int64", "int32")
DTYPES += ("int16", "int8", "uint8", "bool")
N = 256
# Kernels of the CPU, and those that GPUs do the same with, beside programs.
ELSEWHERE = {"cell_scales": "cell_moments"}


# Calls that benchmarks/operations.py has not: of layers, which are timed as such, of decompositions,
# and of what takes hardly any time.
X4, X3, K4 = "d.a.reshape(1, 4, 8, 8)", "d.a.reshape(2, 4, 32)", "d.b.reshape(4, 4, 4, 4)"
SQUARE = "d.square"
MORE = {
    "batch_norm": f"F.batch_norm({X4}, None, None, training=True)",
    "instance_norm": f"F.instance_norm({X4})",
    "group_norm": f"F.group_norm({X4}, 2)",
    "local_response_norm": f"F.local_response_norm({X4}, 2)",
    "view_as_complex": "t.view_as_complex(d.a.reshape(128, 2))",
    "conv1d": f"F.conv1d({X3}, d.b.reshape(16, 4, 4))",
    "conv_transpose1d": f"F.conv_transpose1d({X3}, d.b.reshape(4, 16, 4))",
    "conv2d": f"F.conv2d({X4}, {K4})",
    "conv_transpose2d": f"F.conv_transpose2d({X4}, {K4})",
    "conv3d": "F.conv3d(d.a.reshape(1, 4, 4, 4, 4), d.b.reshape(8, 4, 2, 2, 2))",
    "conv_transpose3d": "F.conv_transpose3d(d.a.reshape(1, 4, 4, 4, 4), d.b.reshape(4, 8, 2, 2, 2))",
    "as_strided_scatter": "t.as_strided_scatter(d.a, d.b[:2, :2], (2, 2), (1, 3))",
    **{
        f"linalg_{n}": f"o.linalg_{n}(d.square)"
        for n in (
            *("inv", "inv_ex", "det", "slogdet", "lu_factor", "lu_factor_ex", "lu", "pinv", "matrix_rank"),
            *("cond", "matrix_exp", "qr", "svd", "svdvals", "eig", "eigvals"),
        )
    },
    **{
        f"linalg_{n}": f"o.linalg_{n}(d.definite)"
        for n in ("cholesky", "cholesky_ex", "eigh", "eigvalsh", "ldl_factor", "ldl_factor_ex")
    },
    **{f"linalg_{n}": f"o.linalg_{n}(d.square, d.b)" for n in ("solve", "solve_ex", "lstsq")},
    "linalg_solve_triangular": "o.linalg_solve_triangular(d.square, d.b, upper=True)",
    "linalg_lu_solve": "o.linalg_lu_solve(*d.factored, d.b)",
    "linalg_ldl_solve": "o.linalg_ldl_solve(*d.decomposed, d.b)",
    "linalg_tensorinv": "o.linalg_tensorinv(d.square.reshape(4, 4, 16))",
    "linalg_tensorsolve": "o.linalg_tensorsolve(d.square, d.b[0])",
    "linalg_vander": "o.linalg_vander(d.a)",
    "linalg_householder_product": "o.linalg_householder_product(*d.reflected)",
    "fft_fftfreq": "o.fft_fftfreq(16)",
    "fft_rfftfreq": "o.fft_rfftfreq(16)",
    "flash_attention": "F.flash_attention(d.heads, d.heads, d.heads, left=8, softcap=2.0)[0]",
    "embedding_bag": "F.embedding_bag(d.few, d.a, d.start)",
    "ctc_losses": "F.ctc_loss(d.a[:, None], d.few[None], [16], [2])",
    "grid_sampler": "F.grid_sample(d.a.reshape(1, 1, 16, 16), d.b[:, :2].reshape(1, 4, 4, 2))",
    "affine_grid_generator": "F.affine_grid(d.a[:2, :3].reshape(1, 2, 3), (1, 1, 4, 4))",
    "gradient_at": "o.gradient_at(d.a, spacing=[d.line, d.line])",
    "histogramdd": "o.histogramdd(d.a[:, :2], 2)",
    "histogramdd_at": "o.histogramdd_at(d.a[:, :2], [d.line, d.line])",
    "im2col": "F.unfold(d.a.reshape(1, 1, 16, 16), 2)",
    "col2im": "F.fold(d.a.reshape(1, 16, 16), (5, 5), 2)",
    "fill": "t.fill(d.x, 1)",
    "embedding_renorm_": "t.embedding_renorm_(w, d.few, 1.0, 2.0)",
    "stft": "t.stft(d.x, 16, return_complex=True, window=d.window)",
    "istft": "t.istft(d.spectrum, 16, window=d.window)",
    "polygamma_": "w.polygamma_(1)",
    "index_reduce": "t.index_reduce(d.a, 0, d.order, d.b, 'amax')",
    "index_reduce_": "w.index_reduce_(0, d.order, d.b, 'amax')",
    "addmm_": "w.addmm_(d.a, d.b)",
    "addbmm_": "w.addbmm_(d.a[None], d.b[None])",
    "put_": "w.put_(d.order, d.b[0])",
    "cholesky": "t.cholesky(d.definite)",
    "cholesky_solve": f"t.cholesky_solve(d.b, {SQUARE})",
    "cholesky_inverse": f"t.cholesky_inverse({SQUARE})",
    "inverse": f"t.inverse({SQUARE})",
    "triangular_solve": f"t.triangular_solve(d.b, {SQUARE})",
    "det": f"t.det({SQUARE})",
    "slogdet": f"t.slogdet({SQUARE})",
    "logdet": f"t.logdet({SQUARE})",
    "lu": f"t.lu({SQUARE})",
    "lu_solve": "t.lu_solve(d.b, *d.factored)",
    "lu_unpack": "t.lu_unpack(*d.factored)",
    "pinverse": f"t.pinverse({SQUARE})",
    "matrix_exp": "t.matrix_exp(d.square)",
    "qr": f"t.qr({SQUARE})",
    "geqrf": f"t.geqrf({SQUARE})",
    "orgqr": "t.orgqr(*d.reflected)",
    "ormqr": "t.ormqr(*d.reflected, d.b)",
    "svd": f"t.svd({SQUARE})",
    "multilabel_margin_loss": "F.multilabel_margin_loss(d.a, d.none)",
    "alpha_dropout_": "t.alpha_dropout_(w, 0.5, True)",
    "feature_alpha_dropout_": "t.feature_alpha_dropout_(w, 0.5, True)",
    "feature_dropout": "t.feature_dropout(d.a, 0.5, True)",
    "feature_dropout_": "t.feature_dropout_(w, 0.5, True)",
    "dropout_": "t.dropout_(w, 0.5, True)",
    "renorm": "t.renorm(d.a, 2, 0, 1.0)",
    "renorm_": "w.renorm_(2, 0, 1.0)",
    "resize_": "w.resize_(4)",
    "resize_as_": "w.resize_as_(d.x)",
    "pixel_shuffle": f"F.pixel_shuffle({X4}, 2)",
    "pixel_unshuffle": f"F.pixel_unshuffle({X4}, 2)",
    "channel_shuffle": f"F.channel_shuffle({X4}, 2)",
    "native_channel_shuffle": f"F.channel_shuffle({X4}, 2)",
    "gru_cell": "t.gru_cell(d.a, d.b, d.w3, d.w3)",
    "rnn_tanh_cell": "t.rnn_tanh_cell(d.a, d.b, d.c, d.c)",
    "rnn_relu_cell": "t.rnn_relu_cell(d.a, d.b, d.c, d.c)",
    "lstm_cell": "t.lstm_cell(d.a, (d.b, d.b), d.w4, d.w4)",
    "lstm": "t.lstm(d.a[None], (d.b[None], d.b[None]), [d.w4, d.w4], False, 1, 0.0, False, False, False)",
    "gru": "t.gru(d.a[None], d.b[None], [d.w3, d.w3], False, 1, 0.0, False, False, False)",
    "rnn_tanh": "t.rnn_tanh(d.a[None], d.b[None], [d.c, d.c], False, 1, 0.0, False, False, False)",
    "rnn_relu": "t.rnn_relu(d.a[None], d.b[None], [d.c, d.c], False, 1, 0.0, False, False, False)",
    "expit_": "w.expit_()",
    "interpolate": f"F.interpolate({X4}, scale_factor=2)",
    "poisson": "t.poisson(d.positive)",
    "binomial": "t.binomial(d.positive, d.unit)",
    "cauchy_": "w.cauchy_()",
    "log_normal_": "w.log_normal_()",
    "geometric_": "w.geometric_(0.5)",
    "mvlgamma": "t.mvlgamma(d.large, 2)",
    "mvlgamma_": "d.large.mvlgamma_(2)",
    **{f"{n}_window": f"t.{n}_window(16, dtype=d.x.dtype)" for n in ("hann", "hamming", "blackman", "bartlett", "kaiser")},
    **{f"{kind}_pool{n}d": f"F.{kind}_pool{n}d(d.a.reshape({shape}), 2)"
       for kind in ("max", "avg", "adaptive_max", "adaptive_avg")
       for n, shape in ((1, "1, 4, 64"), (2, "1, 4, 8, 8"), (3, "1, 4, 4, 4, 4"))},
    **{f"max_pool{n}d_with_indices": f"F.max_pool{n}d(d.a.reshape({shape}), 2, return_indices=True)"
       for n, shape in ((1, "1, 4, 64"), (2, "1, 4, 8, 8"), (3, "1, 4, 4, 4, 4"))},
}  # fmt: skip


def operands(pf, dtype, typed):
    """Data of benchmarks/operations.py where the operands `typed` are of a dtype."""
    from benchmarks.operations import Data

    class Typed(Data):
        def __getitem__(self, name):
            value = super().__getitem__(name)
            if name in typed and isinstance(value, pf.Tensor):
                whole = value.is_floating_point() and not (
                    dtype.is_floating_point or dtype.is_complex
                )
                value = ((value * 4).round() if whole else value).to(dtype)
                self.__dict__[name] = value
            return value

        def make_square(self):
            return (self.a / 8 + pf.eye(16) * 4).to(dtype)

        def make_definite(self):
            return (self.square @ self.square.mH).to(dtype)

        def make_factored(self):
            return tuple(pf.linalg.lu_factor(self.square))

        def make_reflected(self):
            return tuple(pf.geqrf(self.square))

        def make_large(self):
            return self.positive.to(dtype) + 2

        def make_window(self):
            return pf.ones(16, dtype=dtype).abs()

        def make_spectrum(self):
            return pf.complex(self.a[:9], self.b[:9])

        def make_decomposed(self):
            return tuple(pf.linalg.ldl_factor(self.definite))

        def make_line(self):
            return pf.arange(16.0).to(dtype)

        def make_few(self):
            return pf.tensor([1, 2])

        def make_start(self):
            return pf.tensor([0])

        def make_order(self):
            return pf.arange(16)

        def make_none(self):
            return pf.zeros(16, 16, dtype=pf.int64)

        def make_w3(self):
            return self.c.repeat(3, 1)

        def make_w4(self):
            return self.c.repeat(4, 1)

    return Typed(pf, N, "cpu")


def launchers():
    """Names of the kernels that src/gpu launches."""
    names, found = {}, set()
    for path in KERNELS.glob("*.h"):
        before, *parts = re.split(r'kInfo\{\s*"', path.read_text())
        for part in parts:
            names[re.findall(r"struct (\w+)", before)[-1]] = part.partition('"')[0]
            before = part
    for path in (ROOT / "src" / "gpu").glob("*.cpp"):
        for m in re.finditer(r"PF_GPU_\w*KERNEL\(\s*(?:kernels::)?(\w+)::kInfo", path.read_text()):
            found.add(names.get(m[1], m[1]))
    return found


def calls(pf):
    """name -> (expression, operand that is written) of the public operations with a call."""
    from benchmarks.operations import call_of

    found = {}
    for row in pf._C._table():
        if row["name"][0] == "_" or row["name"] in found:
            continue
        parameters = [
            (p["name"], p["annotation"], p["default"] is not None)
            for p in pf._C._parse_schema(row["schema"])["params"]
        ]
        name = row["name"]
        if name in MORE:
            written = "d.a" if re.search(r"\bw\b", MORE[name]) else None
            found[name] = MORE[name], written
        elif name.startswith(("fft_", "special_")):
            count = sum(p[1] == "Tensor" and not p[2] for p in parameters)
            operand = "d.a" if name[0] == "f" else "d.positive"
            found[name] = f"o.{name}({', '.join([operand] * count)})", None
        else:
            found[name] = call_of(pf, name, parameters)
    return found


def probe(pf, name, call, dtype):
    """(kernels that ran, whether programs did) with operands of a dtype; None when they are refused."""
    from benchmarks.operations import Data, function

    text, written = call
    names = {*re.findall(r"\bd\.(\w+)", f"{text} {written}")}
    made = names & {"square", "definite", "factored", "reflected", "large", "window", "spectrum"}
    # Indices stay int64 where something else has a dtype.
    d = operands(pf, getattr(pf, dtype), Data.FLOATS if made or names & {*Data.FLOATS} else names)
    if not names - {"n", "side"} and any(
        "dtype" in r["schema"] for r in pf._C._table() if r["name"] == name
    ):
        text = re.sub(r"\)$", f", dtype=t.{dtype})", text)
    scope = {"t": pf, "F": pf.nn.functional, "o": pf._ops, "d": d, "f": function(pf, name)}
    try:
        if written:
            scope["w"] = eval(written, scope).clone()
        for word in names:  # made before anything is watched
            getattr(d, word)
        pf.flush()
        with pf.explain() as report:
            result = eval(text, scope)  # noqa: F841 (what nobody holds is not calculated)
            pf.flush()
    except (pf.PyFlameError, RuntimeError, TypeError, ValueError):
        return None
    said = report.to_dict()
    kernels = {k["kernel"] for k in said["kernels"]}
    kernels |= {g["anchor"] for g in said["groups"] if g.get("anchor")}
    programs = any(g.get("epilogue") or g.get("prologue") for g in said["groups"])
    return kernels, programs


def support(pf):
    """name -> [dtypes, kernels, whether pointwise programs run, kernels that GPUs have not, and those of
    LAPACK]"""
    gpu, table = launchers(), {}
    lapack = re.findall(r'kInfo\{\s*"(\w+)"', (KERNELS / "linalg.h").read_text())
    for name, call in sorted(calls(pf).items()):
        ran = {d: r for d in DTYPES if call and (r := probe(pf, name, call, d))}
        if not ran:
            raise SystemExit(
                f"{name}: no dtype is taken; give it a call in benchmarks/operations.py"
            )
        kernels = sorted(set().union(*(k for k, _ in ran.values())))
        missing = [k for k in kernels if ELSEWHERE.get(k, k) not in gpu]
        programs = any(p for _, p in ran.values())
        table[name] = [list(ran), kernels, programs, missing, [k for k in kernels if k in lapack]]
    return table


def text_of(table):
    dtypes = sorted({tuple(row[0]) for row in table.values()})
    rows = {"": dtypes} | {n: [dtypes.index(tuple(row[0])), *row[1:]] for n, row in table.items()}
    return (
        "{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(r)}" for n, r in rows.items()) + "\n}\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    import pyflame as pf

    pf.set_device("cpu")
    found = support(pf)
    if not args.check:
        FILE.write_text(text_of(found))
        return 0
    said = pf.ops._supported()
    differ = [n for n in {**found, **said} if found.get(n) != said.get(n)]
    if differ:
        print(f"run tools/operation_support.py: {', '.join(differ[:20])}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
