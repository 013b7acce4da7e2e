"""Attention through a stand-in for cuDNN (tests/standin), and what happens where that fails."""

import standin
from standin import cache, run  # noqa: F401

pytestmark = [*standin.MARKS, standin.NEEDS_CUDA]
CUDNN = standin.FOLDER / "standin" / "products" / "libcudnn.so"
ENVIRONMENT = standin.AS_NVIDIA | {"PYFLAME_CUDNN_LIBRARY": str(CUDNN)}

START = f"""
F = pf.nn.functional
from pyflame.nn.attention import SDPBackend, sdpa_kernel
from pyflame.nn.attention.bias import causal_lower_right
library = ctypes.CDLL({str(CUDNN)!r})
library.standin_library_fails.restype = ctypes.c_int64
fails = lambda nth=0: library.standin_library_fails(ctypes.c_int64(nth))
rng = np.random.default_rng(5)
bf16 = pf.bfloat16

def values(*shape, dtype=bf16):
    return pf.tensor(rng.standard_normal(shape)).to(dtype).to("gpu")

def wide(t):
    return t.detach().cpu().double().numpy()

def reference(q, k, v, dout, causal=None, scale=None):
    '''The result and its gradients in float64; causal: how far behind its own key a query sees.'''
    q, k, v, dout = (wide(t) for t in (q, k, v, dout))
    g = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    K, V = (np.repeat(t, g, axis=-3) if g > 1 else t for t in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s = q @ K.swapaxes(-1, -2) * scale
    if causal is not None:
        s = np.where(np.tri(*s.shape[-2:], causal, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    out = p @ V
    dv, dp = p.swapaxes(-1, -2) @ dout, dout @ V.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    dk = ds.swapaxes(-1, -2) @ q
    if g > 1:
        join = lambda t: t.reshape(*t.shape[:-3], -1, g, *t.shape[-2:]).sum(-3)
        dk, dv = join(dk), join(dv)
    return out, ds @ K, dk, dv

def attend(q, k, v, dout, **how):
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, **how)
    return [y.detach(), *pf.autograd.grad(y, (q, k, v), dout)]

def close(got, want, dtype=bf16, most=0.02):
    for g, w in zip(got, want):
        assert g.shape == w.shape and not pf.isnan(g).any()
        worst = np.abs(wide(g) - w).max() / max(np.abs(w).max(), 1e-3)
        assert worst < (most if dtype is bf16 else 0.003), worst

def reasons(report):
    return [line for line in report.to_text().splitlines() if "our own kernels" in line]

def served(report):
    return [s["by"] for s in report.served for _ in range(s["count"])]
"""


def test_results(run):  # noqa: F811
    """Lengths of all kinds, heads that share keys, both triangles, a scale, more batch dimensions or none,
    both dtypes, operands that are slices of one tensor or lie at odd places: all by cuDNN, and right."""
    run(
        START
        + """
pf.use_deterministic_algorithms(False)
def pieces(b, h, l, d):  # as GPT-2 has them
    x = values(b, l, 3, h, d)
    return [x[:, :, i].transpose(1, 2) for i in range(3)]
def odd(*shape):  # rows at multiples of 2 bytes
    return values(*shape[:-1], shape[-1] + 1)[..., 1:]
cases = [
    ((values(2, 3, 33, 16), values(2, 3, 33, 16), values(2, 3, 33, 16)), {}),
    ((values(2, 3, 40, 24), values(2, 3, 17, 24), values(2, 3, 17, 8)), {}),
    (pieces(2, 3, 21, 16), dict(is_causal=True)),
    ((values(3, 17, 8), values(3, 17, 8), values(3, 17, 8)), dict(is_causal=True, scale=0.5)),
    ((values(9, 8), values(12, 8), values(12, 16)), {}),
    ((values(2, 2, 3, 9, 8), values(2, 2, 3, 5, 8), values(2, 2, 3, 5, 8)), {}),
    ((values(2, 2, 9, 3, 8).transpose(2, 3), values(2, 3, 2, 5, 8).transpose(1, 2), values(2, 2, 3, 5, 8)), {}),
    ((odd(2, 2, 11, 16), odd(2, 2, 7, 16), odd(2, 2, 7, 8)), dict(is_causal=True)),
    ((values(1, 1, 2, 8), values(1, 1, 1, 8), values(1, 1, 1, 8)), {}),
    ((values(2, 6, 19, 16), values(2, 6, 23, 16), values(2, 6, 23, 16)),
     dict(attn_mask=causal_lower_right(19, 23))),
    ([t.to(pf.float16) for t in (values(2, 3, 33, 16), values(2, 3, 33, 16), values(2, 3, 33, 16))], {}),
    ((values(2, 3, 9, 16), values(1, 3, 9, 16).expand(2, 3, 9, 16), values(2, 3, 9, 16)), {}),
]
for (q, k, v), how in cases:
    dout = values(*q.shape[:-1], v.shape[-1]).to(q.dtype)
    causal = 0 if how.get("is_causal") else 4 if "attn_mask" in how else None
    want = reference(q, k, v, dout, causal, how.get("scale"))
    fails()
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), pf.explain() as report:
        got = attend(q, k, v, dout, **how)
        pf.synchronize()
    assert not reasons(report), (q.shape, reasons(report))
    assert fails() > 100 and served(report) == ["cuDNN 91900"] * 2, (q.shape, report)
    close(got, want, q.dtype)
    close(attend(q, k, v, dout, **how), want, q.dtype)  # ours

# Heads that share keys: as many blocks of keys as have their gradients summed at once.
q, k, v, dout = values(64, 4, 65, 8), values(64, 2, 258, 8), values(64, 2, 258, 8), values(64, 4, 65, 8)
for h in (2, 1):
    K, V = k[:, :h], v[:, :h]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), pf.explain() as report:
        got = attend(q, K, V, dout, enable_gqa=True)
        pf.synchronize()
    assert not reasons(report) and served(report) == ["cuDNN 91900"] * 2, report
    close(got, reference(q, K, V, dout))
""",
        **ENVIRONMENT,
    )


def test_who_computes_it(run):  # noqa: F811
    """Gradients are ours unless they need not repeat; switches ask for cuDNN or leave it out; one makes
    what the other one's gradient reads; what it does not take is ours, with a reason where it was named."""
    run(
        START
        + """
q, k, v, dout = (values(2, 3, 33, 16) for _ in range(4))
want = reference(q, k, v, dout, 0)

def go(**how):
    with pf.explain() as report:
        got = attend(q, k, v, dout, is_causal=True)
        pf.synchronize()
    close(got, want)
    return served(report), reasons(report)

ours, theirs = "our kernels for Hopper", "cuDNN 91900"
assert pf.are_deterministic_algorithms_enabled()
assert go() == ([ours, ours], []), "small ones are ours"
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    assert go() == ([theirs, ours], []), "gradients repeat"
    pf.use_deterministic_algorithms(False)
    assert not pf.are_deterministic_algorithms_enabled() and pf.get_deterministic_debug_mode() == 0
    assert go() == ([theirs, theirs], [])
    pf.set_deterministic_debug_mode("error")
    assert go() == ([theirs, ours], [])
    pf.use_deterministic_algorithms(False)
    # recorded within, asked for without
    x = [t.detach().requires_grad_() for t in (q, k, v)]
    y = F.scaled_dot_product_attention(*x, is_causal=True)
with pf.explain() as report:
    grads = pf.autograd.grad(y, x, dout)
    pf.synchronize()
assert served(report) == [theirs]
close(grads, want[1:])
from pyflame.flash_attn import flash_attn_func
for deterministic in (False, True):
    x = [t.transpose(1, 2).detach().requires_grad_() for t in (q, k, v)]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), pf.explain() as report:
        y = flash_attn_func(*x, causal=True, deterministic=deterministic)
        pf.autograd.grad(y, x, dout.transpose(1, 2))
        pf.synchronize()
    assert served(report) == [theirs, ours if deterministic else theirs], report
    assert not pf.are_deterministic_algorithms_enabled()
with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
    assert go() == ([ours, ours], [])
pf.backends.cuda.enable_cudnn_sdp(False)
assert go() == ([ours, ours], [])
pf.backends.cuda.enable_cudnn_sdp(True)

# our forward pass, their gradients
x = [t.detach().requires_grad_() for t in (q, k, v)]
with pf.explain() as report:
    y = F.scaled_dot_product_attention(*x, is_causal=True)
    pf.synchronize()
assert served(report) == [ours]

with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    for how, why in (
        (dict(attn_mask=pf.ones(33, 33, dtype=pf.bool, device="gpu")), "no masks"),
        (dict(dropout_p=0.5), "no masks"),
        (dict(attn_mask=causal_lower_right(33, 20)), "no triangle"),
    ):
        keys = 20 if why == "no triangle" else 33
        with pf.explain() as report:
            y = F.scaled_dot_product_attention(q, k[:, :, :keys], v[:, :, :keys], **how)
            pf.synchronize()
        assert served(report)[0].startswith("our kernels") and why in reasons(report)[0], report
    for shape, dtype, why in (((2, 9, 12), bf16, "multiples of 8"), ((2, 9, 16), pf.float32, "16-bit"),
                              ((2, 1, 16), bf16, "")):
        x = values(*shape, dtype=dtype)
        with pf.explain() as report:
            y = F.scaled_dot_product_attention(x, x, x)
            pf.synchronize()
        assert served(report)[0].startswith("our kernel") and (not why or why in reasons(report)[0]), report
    for shape in ((0, 2, 9, 16), (2, 2, 0, 16), (2, 0, 9, 16)):
        x = values(*shape)
        assert F.scaled_dot_product_attention(x, x, x).shape == shape
""",
        **ENVIRONMENT,
    )


def test_flash_attention_gives_its_logarithms(run):  # noqa: F811
    run(
        START
        + """
q, k, v = (values(2, 3, 33, 16) for _ in range(3))
s = wide(q) @ wide(k).swapaxes(-1, -2) / 4
s = np.where(np.tri(33, dtype=bool), s, -np.inf)
want = np.log(np.exp(s).sum(-1))
for kind in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
    with sdpa_kernel(kind):
        y, logs = F.flash_attention(q, k, v, right=0)
    assert np.abs(wide(logs) - want).max() < 1e-4
""",
        **ENVIRONMENT,
    )


def test_sources(run):  # noqa: F811
    """PYFLAME_GPU_ATTENTION; no library, an old one."""
    code = START + "q, k, v, dout = (values(2, 3, 33, 16) for _ in range(4))\n"
    code += "want = reference(q, k, v, dout)\n"
    code += "with sdpa_kernel(NAMED), pf.explain() as report:\n"
    code += "    got = attend(q, k, v, dout)\n    pf.synchronize()\n"
    code += "close(got, want)\n"
    named = code.replace("NAMED", "SDPBackend.CUDNN_ATTENTION")
    free = code.replace("NAMED", "list(SDPBackend)[1:5]")
    run(
        free + "assert served(report) == ['cuDNN 91900', 'our kernels for Hopper']",
        **ENVIRONMENT | {"PYFLAME_GPU_ATTENTION": "library"},
    )
    run(
        named + "assert served(report) == ['our kernels for Hopper'] * 2 and not reasons(report)",
        **ENVIRONMENT | {"PYFLAME_GPU_ATTENTION": "own"},
    )
    run(
        named + "assert '/nowhere/lib.so' in reasons(report)[0]",
        **ENVIRONMENT | {"PYFLAME_CUDNN_LIBRARY": "/nowhere/lib.so"},
    )
    for version, reason in (("90100", "is too old for it"), ("91001", "is too old for it")):
        run(
            named + f"assert 'cuDNN {version} {reason}' in reasons(report)[0]",
            **ENVIRONMENT | {"STANDIN_CUDNN_VERSION": version},
        )
    loose = "pf.use_deterministic_algorithms(False)\n"
    run(
        named.replace("q, k, v, dout = (values", loose + "q, k, v, dout = (values", 1)
        + "assert served(report) == ['cuDNN 91400', 'our kernels for Hopper']\n"
        + "assert 'too old for gradients of 33 keys' in reasons(report)[0]",
        **ENVIRONMENT | {"STANDIN_CUDNN_VERSION": "91400"},
    )
    strict = (
        START
        + """
q = values(2, 3, 33, 16)
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    raises(RuntimeError, "strict mode", lambda: F.scaled_dot_product_attention(q, q, q).cpu())
"""
    )
    run(strict, **ENVIRONMENT | {"PYFLAME_CUDNN_LIBRARY": "/nowhere/lib.so", "PYFLAME_STRICT": "1"})


def test_every_call_fails_once(run):  # noqa: F811
    """The nth call fails, for every n: the result is right, and where our own kernels made it the report
    says why. Strides differ, so that each is prepared anew."""
    run(
        START
        + """
pf.use_deterministic_algorithms(False)

def attempt(backward, far, nth):
    q, k, v, dout = (values(1, 1, 5, 8 * far)[..., :8] for _ in range(4))
    want = reference(q, k, v, dout, 0)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), pf.explain() as report:
        x = [t.detach().requires_grad_() for t in (q, k, v)]
        if not backward:
            fails(nth)
        y = F.scaled_dot_product_attention(*x, is_causal=True)
        pf.synchronize()
        calls = fails(nth if backward else 0)
        grads = pf.autograd.grad(y, x, dout)
        pf.synchronize()
        if backward:
            calls = fails()
    close([y.detach(), *grads], want, most=0.06)  # of few numbers
    return calls, reasons(report), served(report)

far, ours = 5, 0
for backward in (False, True):
    calls, why, by = attempt(backward, far, 0)
    assert not why and by == ["cuDNN 91900"] * 2
    nth = 0
    while nth < calls:
        nth, far = nth + 1, far + 1
        _, why, by = attempt(backward, far, nth)
        assert len(why) <= 1 and all("gave status" in w and "as asked" in w for w in why), why
        assert by.count("our kernels for Hopper") == len(why), (by, why)
        ours += len(why)
    calls, why, _ = attempt(backward, far + 1, 0)
    assert not why, "the library is used again"
    far += 2
assert ours > 300, ours
""",
        **ENVIRONMENT | {"PYFLAME_COMPILE_THREADS": "0"},
    )


def test_measured_choices(run, tmp_path):  # noqa: F811
    """pf.tune() measures ours beside cuDNN's; gradients that repeat are not measured. Without it nothing
    is."""
    run(
        START
        + """
q, k, v, dout = (values(2, 3, 33, 16) for _ in range(4))
want = reference(q, k, v, dout, 0)
go = lambda: close(attend(q, k, v, dout, is_causal=True), want)
go()
cache = pf.get_tuning_cache()
assert len(cache) == 0
with pf.tune():
    go()
(entry,) = cache.entries()
assert entry["product"] == "attention bfloat16 2x3 33x33 16 causal", entry
assert entry["library"] == "cuDNN 91900" and {"library 0", "own -1"} <= set(entry["timed"]), entry
assert entry["choice"] == min(entry["timed"], key=entry["timed"].get)
pf.use_deterministic_algorithms(False)
with pf.tune():
    go()
assert len(cache) == 2
hits = cache.hits
with pf.explain() as report:
    go()
    pf.synchronize()
assert cache.hits == hits + 2
for e, by in zip(sorted(cache.entries(), key=lambda e: e["product"]), served(report)):
    assert (e["choice"] == "own -1") == by.startswith("our"), (e, by)
attend(q[:, :, 1:], k, v, dout[:, :, 1:])
pf.synchronize()
assert len(cache) == 2, "nothing is measured unasked"
""",
        **ENVIRONMENT | {"XDG_CACHE_HOME": str(tmp_path)},
    )
