"""What attention can be asked beyond a mask: windows, alignment, soft caps, slopes, learnt biases,
dropout, shared heads, sequences of several lengths, pages; against NumPy in float64."""

import numpy as np
import pytest
from attention_reference import attention as reference
from attention_reference import summed_to
from hypothesis import given, settings
from hypothesis import strategies as st

import pyflame as pf
import pyflame.nn.functional as F

pytestmark = pytest.mark.kernels(0.3)

BOUND = {pf.float64: 1e-12, pf.float32: 2e-5, pf.bfloat16: 2e-2, pf.float16: 3e-3}


def numbers(rng, shape, dtype=pf.float64):
    return pf.tensor(rng.standard_normal(shape)).to(dtype)


def wide(t):
    return t.detach().to(pf.float64).numpy()


def close(got, want, dtype, what, terms=1):
    """`terms`: how many gradients were summed, each with its own rounding."""
    got = wide(got)
    assert got.shape == want.shape, (what, got.shape, want.shape)
    size = max(terms**0.5, np.abs(want[np.isfinite(want)]).max(initial=0))
    np.testing.assert_allclose(got, want, rtol=0, atol=BOUND[dtype] * size, err_msg=what)


def kept_factors(q, k, seed, p, **options):
    """What dropout multiplies weights with: they come to light where values are unit vectors."""
    eye = pf.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:-1], k.shape[-2])
    pf.manual_seed(seed)
    got = wide(F.flash_attention(q.detach(), k.detach(), eye, dropout_p=p, **options)[0])
    dropped = round(p * 65536)  # 16 bits are drawn for each
    return np.where(got != 0, 65536 / (65536 - dropped) if dropped < 65536 else 0, 0.0)


def check(
    rng,
    dtype,
    batch,
    heads,
    groups,
    length,
    keys,
    e,
    ev,
    *,
    mask=None,
    slopes=None,
    p=0.0,
    **options,
):
    """out, lse and all gradients of one combination."""
    shapes = [(batch, heads * groups, length, e), (batch, heads, keys, e), (batch, heads, keys, ev)]
    q, k, v = (numbers(rng, s, dtype).requires_grad_() for s in shapes)
    g = numbers(rng, (batch, heads * groups, length, ev), dtype)
    keyword, mask_array = {}, None
    if mask == "bool":
        mask_array = rng.random((batch, 1, length, keys)) < 0.6
        if length:
            mask_array[:, :, length // 2] = False
        keyword["attn_mask"] = pf.tensor(mask_array)
    elif mask is not None:  # a shape: numbers that are learnt
        keyword["attn_mask"] = numbers(rng, mask, dtype).requires_grad_()
        mask_array = wide(keyword["attn_mask"])
    slope_array = None
    if slopes is not None:
        slope_array = rng.random(slopes)
        keyword["alibi_slopes"] = pf.tensor(slope_array).float()
        slope_array = wide(keyword["alibi_slopes"])[..., None, None]
    keyword |= options | {"enable_gqa": groups > 1}
    kq, kk, kv = (wide(t) for t in (q, k, v))
    factors = None
    if p > 0:
        quiet = {n: x.detach() if isinstance(x, pf.Tensor) else x for n, x in keyword.items()}
        factors = kept_factors(q, k, 5, p, **quiet)
        pf.manual_seed(5)
    out, lse = F.flash_attention(q, k, v, dropout_p=p, **keyword)
    out.backward(g)
    wk, wv = (x.repeat(groups, 1) for x in (kk, kv))
    want = reference(
        kq, wk, wv, wide(g), mask=mask_array, slopes=slope_array, factors=factors,
        **{n: x for n, x in options.items()},
    )  # fmt: skip
    close(out, want[0], dtype, "out")
    close(lse, want[1], dtype, "lse")
    close(q.grad, want[2], dtype, "dq")
    split = (batch, heads, groups, keys)
    close(k.grad, want[3].reshape(*split, e).sum(2), dtype, "dk")
    close(v.grad, want[4].reshape(*split, ev).sum(2), dtype, "dv")
    if mask is not None and mask != "bool":
        terms = want[5].size // max(1, np.prod(mask))
        close(keyword["attn_mask"].grad, summed_to(want[5], mask), dtype, "dmask", terms)


FEATURES = {
    "window": {"left": 5, "right": 3},
    "left": {"left": 7},
    "right": {"right": 4},
    "nothing": {},
    "narrow": {"left": 0, "right": 0},
    "lower right": {"right": 0, "bottom_right": True},
    "window, lower right": {"left": 9, "right": 0, "bottom_right": True},
    "soft cap": {"softcap": 1.5},
    "slopes": {"slopes": (2,)},
    "slopes of samples": {"slopes": (2, 2), "bottom_right": True},
    "bias": {"mask": "full"},
    "bias of keys": {"mask": "keys"},
    "bias of queries": {"mask": "queries"},
    "bias of heads": {"mask": "heads"},
    "dropout": {"p": 0.3},
    "all dropped": {"p": 1.0},
    "bool": {"mask": "bool", "left": 20},
    "everything": {"left": 30, "right": 11, "bottom_right": True, "softcap": 2.0, "slopes": (2,),
                   "mask": "full", "p": 0.2, "scale": -0.7},
}  # fmt: skip
SHAPES = [
    (1, 1, 1, 1),
    (1, 50, 64, 64),
    (17, 17, 5, 7),
    (33, 70, 16, 16),
    (130, 40, 33, 64),
    (70, 129, 128, 100),
]


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("length, keys, e, ev", SHAPES)
@pytest.mark.parametrize("feature", list(FEATURES))
def test_a_feature(feature, length, keys, e, ev, dtype):
    options = dict(FEATURES[feature])
    masks = {"full": (1, 2, length, keys), "keys": (2, 1, 1, keys), "queries": (length, 1),
             "heads": (2, 1, 1)}  # fmt: skip
    if "mask" in options:
        options["mask"] = masks.get(options["mask"], options["mask"])
    check(np.random.default_rng(3), dtype, 2, 2, 1, length, keys, e, ev, **options)


@st.composite
def combinations(draw):
    length, keys = draw(st.integers(1, 90)), draw(st.integers(0, 90))
    groups, heads, batch = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    h = heads * groups
    reach = st.integers(-1, 40)
    options = {
        "left": draw(reach), "right": draw(reach), "bottom_right": draw(st.booleans()),
        "softcap": draw(st.sampled_from([0.0, 0.5, 4.0])),
        "slopes": draw(st.sampled_from([None, (h,), (batch, h)])),
        "scale": draw(st.sampled_from([None, 0.3, -0.2])),
        "p": draw(st.sampled_from([0.0, 0.0, 0.4])),
        "mask": draw(st.sampled_from(
            [None, "bool", (length, keys), (batch, h, length, keys), (h, 1, keys), (batch, 1, length, 1)]
        )),
    }  # fmt: skip
    if keys == 0:
        options["mask"] = options["p"] = None
        options["p"] = 0.0
    e = draw(st.sampled_from([1, 2, 8, 31, 64]))
    return batch, heads, groups, length, keys, e, draw(st.sampled_from([e, 3])), options


@settings(max_examples=60, deadline=None)
@given(combinations(), st.sampled_from(list(BOUND)), st.integers(0, 1 << 30))
def test_combinations(what, dtype, seed):
    *shape, options = what
    check(np.random.default_rng(seed), dtype, *shape, **options)


@pytest.mark.parametrize("e", [96, 130, 160, 192, 256, 300])
@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16])
def test_wide_heads(e, dtype):
    check(np.random.default_rng(1), dtype, 1, 2, 2, 65, 66, e, e, left=40, right=0, softcap=3.0)


def test_many_groups_sum_their_gradients():
    check(np.random.default_rng(2), pf.float32, 8, 2, 3, 20, 30, 8, 8, right=0, bottom_right=True)
    check(np.random.default_rng(2), pf.bfloat16, 8, 2, 3, 20, 30, 8, 8, p=0.25)


def test_operations_drop_what_the_kernel_drops():
    """A gradient of a gradient is made of operations: it needs the same draws."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 2))]
    g = pf.tensor(rng.standard_normal((2, 3, 5, 2)))

    def gradients(create_graph):
        q, k, v = (pf.tensor(a).requires_grad_() for a in arrays)
        pf.manual_seed(1)
        options = {
            "left": 3,
            "softcap": 2.0,
            "alibi_slopes": pf.tensor([0.1, 0.2, 0.3]),
            "right": 2,
        }
        y, _ = F.flash_attention(q, k, v, dropout_p=0.4, **options)
        return pf.autograd.grad(y, [q, k, v], g, create_graph=create_graph), (q, k, v)

    kernel, _ = gradients(False)
    operations, leaves = gradients(True)
    for a, b in zip(kernel, operations):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), atol=1e-13)
    second = pf.autograd.grad((operations[0] ** 2).sum(), leaves)
    weights = [2 * operations[0].detach().numpy(), None, None]
    for n, got in enumerate(second):
        for at in list(np.ndindex(*arrays[n].shape))[::7]:
            before, sides = arrays[n][at], []
            for step in (1e-6, -1e-6):
                arrays[n][at] = before + step
                sides.append((gradients(False)[0][0].numpy() * weights[0]).sum())
            arrays[n][at] = before
            assert abs(got.numpy()[at] - (sides[0] - sides[1]) / 2e-6) < 1e-5


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16])
def test_memory_is_linear_in_the_length(dtype):
    length = 16384  # the scores of a head would be a GiB in float32
    rng = np.random.default_rng(7)
    q, k, v = (numbers(rng, (1, 2, length, 16), dtype).requires_grad_() for _ in range(3))
    slopes = pf.tensor([0.01, 0.0])
    pf.memory.reset_peak_memory_stats()
    before = pf.memory.memory_allocated()
    out, lse = F.flash_attention(
        q, k, v, dropout_p=0.5, left=3000, right=0, softcap=5.0, alibi_slopes=slopes
    )
    out.sum().backward()
    assert pf.memory.max_memory_allocated() - before < 64 << 20
    q, k, v = (wide(t)[0, 0, 9000 - 3000 : 9001] for t in (q, k, v))
    s = 5 * np.tanh(k @ q[-1] / 4 / 5) - wide(slopes)[0] * np.arange(3000, -1, -1)
    top = s.max()
    np.testing.assert_allclose(
        wide(lse)[0, 0, 9000], top + np.log(np.exp(s - top).sum()), atol=2e-2
    )


def test_the_order_of_threads_changes_nothing():
    rng = np.random.default_rng(8)
    arrays = [
        rng.standard_normal(s)
        for s in ((3, 4, 90, 16), (3, 2, 70, 16), (3, 2, 70, 16), (4, 90, 70))
    ]
    threads = pf.get_num_threads()

    def run(n):
        pf.set_num_threads(n)
        leaves = [pf.tensor(a).to(pf.bfloat16).requires_grad_() for a in arrays]
        pf.manual_seed(2)
        out, _ = F.flash_attention(*leaves, dropout_p=0.2, left=40, softcap=3.0, enable_gqa=True)
        out.sum().backward()
        return [wide(t) for t in (out, *(x.grad for x in leaves))]

    try:
        for a, b in zip(run(1), run(2)):
            np.testing.assert_array_equal(a, b)
    finally:
        pf.set_num_threads(threads)


def test_what_vmap_hides_is_a_batch():
    rng = np.random.default_rng(9)
    q, k, v = (numbers(rng, (3, 2, 10, 4), pf.float64) for _ in range(3))
    bias = numbers(rng, (3, 10, 10), pf.float64)
    options = {"left": 4, "right": 1, "softcap": 2.0}
    got = pf.func.vmap(lambda *x: F.flash_attention(*x, **options)[0])(q, k, v, bias)
    for n in range(3):
        want = F.flash_attention(q[n], k[n], v[n], bias[n], **options)[0]
        np.testing.assert_allclose(wide(got[n]), wide(want), atol=1e-14)

    def loss(q, bias):
        return F.flash_attention(q, k[0], v[0], bias, **options)[0].square().sum()

    grads = pf.func.vmap(pf.func.grad(loss, argnums=(0, 1)))(q, bias)
    for n in range(3):
        for a, b in zip(grads, pf.func.grad(loss, argnums=(0, 1))(q[n], bias[n])):
            np.testing.assert_allclose(wide(a[n]), wide(b), atol=1e-13)


def test_saved_lengths_and_slopes_may_not_change():
    q = pf.randn(1, 2, 5, 4).requires_grad_()
    slopes = pf.tensor([0.5, 0.25])
    y, _ = F.flash_attention(q, q, q, alibi_slopes=slopes)
    slopes.add_(1)
    with pytest.raises(pf.AutogradError, match="in place"):
        y.sum().backward()


def test_autocast_lowers_all_but_slopes():
    q = pf.randn(1, 2, 5, 8).requires_grad_()
    slopes = pf.tensor([0.3, 0.1])
    with pf.autocast(q.device.type, dtype=pf.bfloat16):
        y, lse = F.flash_attention(q, q, q, alibi_slopes=slopes)
    assert y.dtype == pf.bfloat16 and lse.dtype == pf.float32
    y.float().sum().backward()
    assert q.grad.dtype == pf.float32


def test_rows_of_no_sequence_are_zeros_and_dense_ones_are_not_cleared():
    rng = np.random.default_rng(9)
    q, k, v = (pf.tensor(rng.standard_normal((4, n, 16))).float() for n in (3, 40, 40))
    starts = pf.tensor([0, 10, 25, 40], dtype=pf.int32)
    used = pf.tensor([7, 15, 1], dtype=pf.int32)
    how = {"cu_seqlens_k": starts, "seqused_k": used, "max_seqlen_q": 1, "max_seqlen_k": 15}
    ones = pf.arange(4, dtype=pf.int32)
    y, lse = F.flash_attention(q, k, v, cu_seqlens_q=ones, **how)
    z, lse_dense = F.flash_attention(q, k, v, cu_seqlens_q=ones, dense=True, **how)
    assert pf.equal(y, z) and pf.equal(lse, lse_dense)
    for i, (first, n) in enumerate(zip((0, 10, 25), (7, 15, 1))):
        cut = slice(first, first + n)
        one = F.scaled_dot_product_attention(q[:, i : i + 1], k[:, cut], v[:, cut])
        assert pf.allclose(z[:, i : i + 1], one, rtol=1e-5, atol=1e-6)
    gap = pf.tensor([0, 1, 1, 2], dtype=pf.int32)
    y, lse = F.flash_attention(q, k, v, cu_seqlens_q=gap, **how)
    assert (y[:, 2] == 0).all() and (lse[:, 2] == float("-inf")).all()


def test_captured_sequences_are_read_anew():
    """A captured step reads starts and lengths at each call, and no further than there are rows."""
    q, k, v = pf.randn(2, 3, 8), pf.randn(2, 30, 8), pf.randn(2, 30, 8)
    starts = pf.tensor([0, 10, 20, 30], dtype=pf.int32)
    used = pf.tensor([1, 1, 1], dtype=pf.int32)
    ones = pf.arange(4, dtype=pf.int32)

    def call(used):
        return F.flash_attention(
            q, k, v, cu_seqlens_q=ones, cu_seqlens_k=starts, seqused_k=used, max_seqlen_q=1,
            max_seqlen_k=10,
        )[0]  # fmt: skip

    step = pf.compile(call, mode="reduce-overhead")
    with pf.no_grad():
        for n in (1, 4, 10, 7, 3, 10):
            used.fill_(n)
            assert pf.equal(step(used), call(used)), n
        want = call(used)
        used.fill_(99)  # of what is there already, the CPU says so
        assert pf.equal(step(used), want)
    assert int(step.report().split()[0]) >= 3
