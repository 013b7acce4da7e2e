"""Attention of one query for each head on the stand-in, at both widths of a warp."""

import re

import pytest
import standin
from standin import cache, run  # noqa: F401

GPUS = {"64 lanes": {"PYFLAME_STANDIN_ARCH": "gfx942"}, "32 lanes": standin.AS_NVIDIA}

CODE = '''
from pyflame.nn import functional as F
rng = np.random.default_rng(1)

def reference(q, k, v):
    """(softmax(q k^T / sqrt(E)) v, logarithms of sums) in float64."""
    s = np.einsum("...ld,...sd->...ls", q, k) * q.shape[-1] ** -0.5
    if not s.shape[-1]:
        return np.zeros(q.shape), np.full(q.shape[:-1], -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - top)
    return np.einsum("...ls,...sd->...ld", p / p.sum(-1, keepdims=True), v), (
        top + np.log(p.sum(-1, keepdims=True)))[..., 0]

for dtype, tol in ((pf.bfloat16, 1e-2), (pf.float16, 2e-3)):
    for e in (8, 64, 128, 256):
        for batch, heads, kept, length in ((1, 2, 2, 1), (2, 3, 3, 7), (1, 4, 2, 33), (1, 1, 1, 300), (2, 2, 1, 129),
                                           (2, 1, 1, 1030)):
            if length > 1000 and (e > 64 or dtype is pf.float16):
                continue  # several blocks of a head
            q = pf.tensor(rng.standard_normal((batch, 1, heads, e))).to(dtype)
            kv = pf.tensor(rng.standard_normal((batch, length, 2, kept, e))).to(dtype)
            exact = q.double().numpy().transpose(0, 2, 1, 3)
            k, v = (kv.double().numpy()[:, :, i].transpose(0, 2, 1, 3).repeat(heads // kept, 1) for i in (0, 1))
            q, kv = q.to("gpu"), kv.to("gpu")
            got = F.scaled_dot_product_attention(
                *(t.transpose(1, 2) for t in (q, kv[:, :, 0], kv[:, :, 1])), enable_gqa=True)
            want = reference(exact, k, v)[0]
            assert np.allclose(got.cpu().double().numpy(), want, rtol=tol, atol=tol), (e, length)
            # Of sequences a part, down to none, from a cache in which they lie apart.
            used = [length] + [max(0, length // 2 - 4)] * (batch - 1)
            starts = pf.arange(batch + 1, dtype=pf.int32).to("gpu")
            rows = kv.flatten(0, 1)
            how = dict(enable_gqa=True, bottom_right=True, cu_seqlens_q=starts,
                       cu_seqlens_k=starts * length, max_seqlen_q=1, max_seqlen_k=length,
                       seqused_k=pf.tensor(used, dtype=pf.int32).to("gpu"))
            given = [t.transpose(0, 1) for t in (q.flatten(0, 1), rows[:, 0], rows[:, 1])]
            y, lse = F.flash_attention(*given, dense=True, **how)
            z, _ = F.flash_attention(*given, **how)
            assert pf.equal(y, z)
            for b, n in enumerate(used):
                want, sums = reference(exact[b], k[b][:, :n], v[b][:, :n])
                assert np.allclose(y[:, b].cpu().double().numpy(), want[:, 0], rtol=tol, atol=tol)
                assert np.allclose(lse[:, b].cpu().double().numpy(), sums[:, 0], rtol=1e-3, atol=1e-3)

# As many used keys give the same bits, whatever room there is behind them, in one block or several.
q = pf.tensor(rng.standard_normal((1, 2, 64))).bfloat16().to("gpu")
kv = pf.tensor(rng.standard_normal((1100, 2, 2, 64))).bfloat16().to("gpu")
def used(keys, room):
    starts = pf.tensor([0, 1], dtype=pf.int32).to("gpu")
    given = [t.transpose(0, 1) for t in (q, kv[:room, 0], kv[:room, 1])]
    return F.flash_attention(
        *given, bottom_right=True, cu_seqlens_q=starts, cu_seqlens_k=starts * room, max_seqlen_q=1,
        max_seqlen_k=room, seqused_k=pf.tensor([keys], dtype=pf.int32).to("gpu"), dense=True)
for keys in (0, 1, 500, 512, 513, 1024):
    results = [used(keys, room) for room in (512, 600, 1024, 1100) if room >= keys]
    for y, lse in results[1:]:
        assert pf.equal(y, results[0][0]) and pf.equal(lse, results[0][1]), keys

# Large scores, no number, infinities: what is behind the used keys does not matter.
q = pf.ones(1, 1, 1, 64).bfloat16().to("gpu")
kv = pf.zeros(1, 40, 2, 1, 64).bfloat16()
kv[0, 3, 0], kv[0, 3, 1], kv[0, 39, 1] = 1e4, 2.0, 5.0
def first(kv, keys=40):
    k, v = (kv[:, :keys, i].transpose(1, 2).to("gpu") for i in (0, 1))
    return F.scaled_dot_product_attention(q.transpose(1, 2), k, v).cpu().flatten()[0].item()
assert first(kv) == 2.0
kv[0, 5, 0, 0, 0] = float("-inf")
assert first(kv) == 2.0
kv[0, 30, 0, 0, 0] = float("nan")
assert np.isnan(first(kv)) and first(kv, 30) == 2.0
'''


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("gpu", GPUS)
def test_one_query(run, gpu, tmp_path):  # noqa: F811
    if gpu == "32 lanes" and not standin.CUDA.exists():
        pytest.skip("no CUDA plug-in")
    texts = tmp_path / "texts"
    texts.mkdir()
    run(CODE, **GPUS[gpu], PYFLAME_STANDIN_KEEP=texts, XDG_CACHE_HOME=texts / "cache")
    options = [
        dict(re.findall(r"-D(\w+)=(\S+)", f.read_text().split("\n", 1)[0]))
        for f in texts.glob("*.cpp")
    ]
    wide = {o.get("PF_D") for o in options if "PF_D" in o and "PF_OWN" not in o}
    assert wide == {"8", "64", "128", "256"}
