"""A score_mod in attention's kernels: each kind of GPU of the stand-in against float64, and what is left to
operations."""

import pytest
import standin
from standin import cache, run  # noqa: F401

GPUS = {
    "64 lanes": {"PYFLAME_STANDIN_ARCH": "gfx942"},
    "64 lanes, CDNA 4": {"PYFLAME_STANDIN_ARCH": "gfx950"},
    "32 lanes": {"PYFLAME_STANDIN_ARCH": "gfx1100"},
    "ampere": {**standin.AS_NVIDIA, "PYFLAME_STANDIN_SM": 80},
    "hopper": {**standin.AS_NVIDIA, "PYFLAME_STANDIN_SM": 90},
}
pytestmark = standin.MARKS

BEGIN = """
from pyflame.nn.attention import score_text
from pyflame.nn.attention.flex_attention import create_block_mask, flex_attention
inf = float("inf")
rng = np.random.default_rng(3)

def place(x, dtype=pf.float32):
    return pf.tensor(x).to(dtype).to("gpu")

slopes, table = rng.standard_normal(4).astype("f"), rng.standard_normal((2, 4, 41)).astype("f")
S, T = place(slopes), place(table)
KEYS = place(np.arange(300).astype("f") % 7)
AS_IT_IS = {"kernel_options": {"BACKEND": "OPERATIONS"}}

# By name: the function, and the same of arrays.
MODS = {
    "alibi": lambda s, b, h, i, j: s + S[h] * (j - i),
    "causal": lambda s, b, h, i, j: pf.where(i >= j, s, -inf),
    "cap": lambda s, b, h, i, j: 3 * pf.tanh(s / 3),
    "table": lambda s, b, h, i, j: s * 0.5 + T[b, h, pf.clamp(i - j + 20, 0, 40)],
    "many": lambda s, b, h, i, j: (pf.nn.functional.gelu(s).sin() + (i // 2 == j % 5).float() * (b + 1)
                                   + pf.exp(-(i - j).abs() * 0.1) - KEYS[j] ** 2 / 9),
    "branches": lambda s, b, h, i, j: pf.where((h > 1) & ~(j < 3), pf.maximum(s, S[h]), s * 2 - 1),
}

def both(mod, q, k, v, g, **options):
    got = []
    for more in ({}, AS_IT_IS):
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        out = flex_attention(*leaves, mod, **options, **more)
        out.backward(g)
        got.append([t.cpu().double().numpy() for t in (out.detach(), *(x.grad for x in leaves))])
    return got

def near(got, want, tol, what):
    for name, x, y in zip(("out", "dq", "dk", "dv"), got, want):
        assert np.isfinite(y).all(), what
        assert np.abs(x - y).max() <= tol * max(1, np.abs(y).max()), (what, name, np.abs(x - y).max())
"""

CODE = (
    BEGIN
    + """
first, one, deep = (67, 130, 40), (1, 33, 64), (130, 70, 128)
cases = [(pf.bfloat16, name, first) for name in (MODS if WHOLE else ("many", "causal"))]
cases += [(pf.bfloat16, "many", one), (pf.bfloat16, "table", deep), (pf.float32, "many", first)]
cases += [(pf.float16, "cap", first), (pf.float32, "branches", one)] if WHOLE else []
for dtype, name, (length, keys, depth) in cases:
    tol = {pf.bfloat16: 2e-2, pf.float16: 3e-3, pf.float32: 2e-5}[dtype]
    q, k, v, g = (place(rng.standard_normal(s), dtype) for s in
                  ((2, 4, length, depth), (2, 4, keys, depth), (2, 4, keys, depth), (2, 4, length, depth)))
    assert score_text.kernel_score(MODS[name], q, keys) is not None, name
    with pf.explain() as report:
        got, want = both(MODS[name], q, k, v, g)
    near(got, want, tol, (str(dtype), name, length, keys, depth))
    by = re.findall(r"flash_attention: (our kernels[^\\n]*?)  ", str(report))
    expected = SERVED
    if dtype is pf.float32:
        expected = "our kernels" + " on matrix units, in float32 by parts of bfloat16" * PARTS
    assert by and all(x == expected for x in by), (by, str(report))
print("served")
"""
)


@pytest.mark.parametrize("gpu", GPUS)
def test_kernels_compute_it(run, gpu):  # noqa: F811
    served = "our kernels for Hopper" if gpu == "hopper" else "our kernels on matrix units"
    assert "served" in run(
        f"import re\nSERVED, WHOLE = {served!r}, {gpu in ('64 lanes', 'hopper')}\n"
        f"PARTS = {gpu in ('ampere', 'hopper')}\n" + CODE,
        **GPUS[gpu],
    )


WITH = (
    BEGIN
    + """
q = place(rng.standard_normal((2, 4, 64, 32)), pf.bfloat16)
k, v = (place(rng.standard_normal((2, 2, 64, 32)), pf.bfloat16) for _ in "kv")
g = place(rng.standard_normal((2, 4, 64, 32)), pf.bfloat16)
masks = {
    "none": None,
    "band": lambda b, h, i, j: (i >= j) & (i - j <= 9),
    "documents": lambda b, h, i, j: (i >= j) & (i // 16 == j // 16),
    "apart": lambda b, h, i, j: (j // 16) % 3 != 1,
    "nothing": lambda b, h, i, j: (i < 0) & (j > 0),
}
for name, mask in masks.items():
    block = mask and create_block_mask(mask, None, None, 64, 64, device=q.device, BLOCK_SIZE=16)
    for mod in ("alibi", "many", "causal"):
        # Shared heads; strided operands.
        got, want = both(MODS[mod], q, k, v, g, block_mask=block, enable_gqa=True)
        near(got, want, 4e-2, (name, mod))
        wide = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, q, q)]
        got, want = both(MODS[mod], *wide, g, block_mask=block)
        near(got, want, 4e-2, (name, mod, "strided"))

# Extremes: what a function makes of large scores, and numbers that are none.
large = q * 1e4
got, want = both(MODS["cap"], large, q, q, g)
near(got, want, 3e-2, "large")
q[0, 0, 3, 5] = float("nan")
out = flex_attention(q, k, v, MODS["alibi"], enable_gqa=True).cpu().float().numpy()
assert np.isnan(out[0, 0, 3]).all() and np.isfinite(np.delete(out[0, 0], 3, 0)).all() and np.isfinite(out[1]).all()
# Nothing to look at.
none = place(np.zeros((2, 4, 0, 32)), pf.bfloat16)
assert flex_attention(none, k, v, MODS["cap"], enable_gqa=True).shape == (2, 4, 0, 32)

# lse without gradients comes from the kernel, too.
with pf.no_grad():
    q = place(rng.standard_normal((2, 4, 20, 32)))
    (a, x), (b, y) = (flex_attention(q, q, q, MODS["many"], return_lse=True, **more) for more in ({}, AS_IT_IS))
    assert np.allclose(x.cpu(), y.cpu(), atol=1e-5) and np.allclose(a.cpu(), b.cpu(), atol=1e-5)

# A gradient of a gradient says what to do.
q = q.detach().requires_grad_()
y = flex_attention(q, q, q, MODS["cap"])
raises(pf.NotSupportedError, "OPERATIONS", lambda: pf.autograd.grad(y.sum(), q, create_graph=True))
y = flex_attention(q, q, q, MODS["cap"], **AS_IT_IS)
(d,) = pf.autograd.grad(y.sum(), q, create_graph=True)
d.square().sum().backward()
assert q.grad.isfinite().all()
# A number of the closure that changes is seen.
c = 1.0
mod = lambda s, b, h, i, j: s * c
first = flex_attention(q, q, q, mod).detach().cpu()
c = 2.0
assert not np.allclose(first, flex_attention(q, q, q, mod).detach().cpu())
print("done")
"""
)


@pytest.mark.parametrize("gpu", ["64 lanes", "hopper"])
def test_masks_heads_and_extremes(run, gpu):  # noqa: F811
    assert "done" in run(WITH, **GPUS[gpu])


LEFT = (
    BEGIN
    + """
q = place(rng.standard_normal((2, 4, 20, 16)))
B = S.detach().requires_grad_()
big = place(np.zeros(10).astype("f"))
left = {
    "a branch": lambda s, b, h, i, j: s if h > 1 else s * 2,
    "a chain": lambda s, b, h, i, j: s + T[b][h][0],
    "a gradient of a table": lambda s, b, h, i, j: s + B[h],
    "an index outside": lambda s, b, h, i, j: s + big[i],
    "whole numbers that float32 has not": lambda s, b, h, i, j: s + (i * 9_000_000 + j == 9_000_001),
    "integers": lambda s, b, h, i, j: s + pf.ones(4, dtype=pf.int64, device=s.device)[h],
    "another dtype": lambda s, b, h, i, j: s.to(pf.float16),
    "many tables": lambda s, b, h, i, j: s + S[h] + T[b, h, i] + T[b, h, j] + KEYS[i] + KEYS[j],
    "no function": lambda s, b, h: s,
    "an error": lambda s, b, h, i, j: 1 / 0,
}
for name, mod in left.items():
    assert score_text.kernel_score(mod, q, 20) is None, name
assert score_text.kernel_score(MODS["cap"], q.double(), 20) is None
assert score_text.kernel_score(MODS["cap"], q.cpu(), 20) is None
flex_attention(q, q, q, left["a gradient of a table"]).sum().backward()
assert B.grad.isfinite().all() and B.grad.abs().sum() > 0
# A number that a tensor has is a table of one.
assert np.allclose(flex_attention(q, q, q, lambda s, b, h, i, j: s + S.sum()).cpu(), flex_attention(q, q, q).cpu(), atol=1e-5)
raises(ZeroDivisionError, "", lambda: flex_attention(q, q, q, left["an error"]))
raises(IndexError, "", lambda: (flex_attention(q, q, q, left["an index outside"]), pf.cuda.synchronize()))
out = pf.func.vmap(lambda x: flex_attention(x, x, x, MODS["cap"]))(pf.stack([q, q]))
assert np.allclose(out[1].cpu(), flex_attention(q, q, q, MODS["cap"]).cpu(), atol=1e-5)

# What is no call of flex_attention's.
scored = pf.ops.get("_scored_attention")
raises(ValueError, "score function", lambda: scored(q, q, q, 10_000, []))
n = pf._C._define_score("s * 2", [])
assert n == pf._C._define_score("s * 2", [])
raises(pf.NotSupportedError, "flex_attention", lambda: scored(q.cpu(), q.cpu(), q.cpu(), n, []))
raises(pf.DTypeError, "float32", lambda: scored(q, q, q, n, [S.double()]))
for text, at in (("s +", []), ("s + t0", []), ("s > 0", []), ("s + t0", ["s"]), ("s", ["0"] * 5)):
    raises(ValueError, "", lambda: pf._C._define_score(text, at))
# Numbers that go on changing are not a program each for ever.
kinds = {bool(score_text.kernel_score(lambda s, b, h, i, j: s * x, q, 20)) for x in np.arange(300) / 7}
assert kinds == {True, False}
print("left")
"""
)


def test_what_operations_compute(run):  # noqa: F811
    assert "left" in run(LEFT)


def test_what_stands_for_positions_is_asked():
    import pyflame as pf
    from pyflame import fx

    table = pf.arange(12.0).view(3, 4)
    traced = fx.symbolic_trace(lambda i, j: table[i, j] * 2 + table[i][1:].sum())
    i, j = pf.tensor(2), pf.tensor(1)
    assert traced(i, j) == table[2, 1] * 2 + table[2, 1:].sum()
