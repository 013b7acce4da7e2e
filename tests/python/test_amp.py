"""Autocast, GradScaler and the precision of products, against NumPy."""

import threading

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn.functional as F

RNG = np.random.default_rng(5)


@pytest.fixture
def kind(device):
    """The device_type of the device that the suite runs on."""
    return str(device).split(":")[0]


@pytest.fixture(autouse=True)
def _off(kind):
    yield
    assert not pf.is_autocast_enabled(kind)
    assert pf.is_autocast_cache_enabled()


def tensor(*shape, dtype=pf.float32, grad=False):
    return pf.tensor(RNG.standard_normal(shape)).to(dtype).requires_grad_(grad)


def values(t):
    return t.detach().to(pf.float64).numpy()


def bf16(x):
    """Rounded to bfloat16: half to even in the upper 16 bits."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


# ---- classes ------------------------------------------------------------------------------------

LOWER = {
    "matmul": lambda x: x @ x,
    "mm": lambda x: pf.mm(x, x),
    "bmm": lambda x: pf.bmm(x[None], x[None]),
    "mv": lambda x: pf.mv(x, x[0]),
    "addmm": lambda x: pf.addmm(x, x, x),
    "addmv": lambda x: pf.addmv(x[0], x, x[1]),
    "addr": lambda x: pf.addr(x, x[0], x[1]),
    "addbmm": lambda x: pf.addbmm(x, x[None], x[None]),
    "baddbmm": lambda x: pf.baddbmm(x[None], x[None], x[None]),
    "linear": lambda x: F.linear(x, x, x[0]),
    "einsum": lambda x: pf.einsum("ij,jk->ik", x, x),
    "chain_matmul": lambda x: pf.chain_matmul(x, x, x),
    "multi_dot": lambda x: pf.linalg.multi_dot([x, x, x]),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(
        x[None], x[None], x[None]
    ),
    "prelu": lambda x: F.prelu(x, x[0, :1]),
}
STEEP = {  # in float32 on GPUs, as they come on the CPU
    "exp": pf.exp, "expm1": pf.expm1, "log": pf.log, "log2": pf.log2, "log10": pf.log10,
    "log1p": pf.log1p, "pow": lambda x: x**2, "pow_number": lambda x: 2**x,
    "pow_tensor": lambda x: x**x, "reciprocal": pf.reciprocal, "rsqrt": pf.rsqrt, "tan": pf.tan,
    "sinh": pf.sinh, "cosh": pf.cosh, "acos": pf.acos, "asin": pf.asin, "softplus": F.softplus,
    "erfinv": pf.erfinv, "sum": pf.sum, "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(0), "norm": pf.norm, "logsumexp": lambda x: x.logsumexp(0),
    "softmax": lambda x: x.softmax(0), "log_softmax": lambda x: F.log_softmax(x, dim=1),
    "layer_norm": lambda x: F.layer_norm(x, (4,)), "rms_norm": lambda x: F.rms_norm(x, (4,)),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x), "group_norm": lambda x: F.group_norm(x, 2),
    "dist": lambda x: pf.dist(x, -x), "pdist": F.pdist, "square": pf.square,
    "normalize": F.normalize, "renorm": lambda x: pf.renorm(x, 2, 0, 1.0),
    "local_response_norm": lambda x: F.local_response_norm(x[None], 2),
}  # fmt: skip
RAISE = {
    "prod": pf.prod, "cdist": lambda x: pf.cdist(x, x),
    "mse_loss": lambda x: F.mse_loss(x, x), "l1_loss": lambda x: F.l1_loss(x, x),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x), "kl_div": lambda x: F.kl_div(x, x),
    "huber_loss": lambda x: F.huber_loss(x, x),
    "cross_entropy": lambda x: F.cross_entropy(x, pf.tensor([0, 1, 2, 3])),
    "nll_loss": lambda x: F.nll_loss(x, pf.tensor([0, 1, 2, 3])),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
}  # fmt: skip
ON_CPU = {  # in float32 there alone
    "trace": pf.trace, "quantile": lambda x: pf.quantile(x, 0.3), "nanquantile": lambda x: pf.nanquantile(x, 0.3),
    "avg_pool3d": lambda x: F.avg_pool3d(x.reshape(1, 1, 4, 2, 2), 2),
    "reflect": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x[None], (1, 1, 1, 1), mode="replicate"),
}  # fmt: skip
FOLLOW = {
    "add": lambda x: x + x, "mul": lambda x: x * 2, "relu": F.relu, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish,
    "sigmoid": pf.sigmoid, "tanh": pf.tanh, "elu": F.elu, "selu": F.selu, "celu": F.celu,
    "leaky_relu": F.leaky_relu, "logsigmoid": F.logsigmoid, "hardswish": F.hardswish,
    "softsign": F.softsign, "sqrt": pf.sqrt, "sin": pf.sin, "abs": pf.abs, "mean": pf.mean,
    "amax": lambda x: x.amax(0), "nansum": pf.nansum, "dropout": F.dropout, "erf": pf.erf,
    "div": lambda x: x / x, "atan": pf.atan, "logaddexp": lambda x: pf.logaddexp(x, x),
    "exp_": lambda x: x.clone().exp_(),
}  # fmt: skip


@pytest.mark.parametrize("name", LOWER)
def test_lower(name, kind):
    for dtype in (pf.bfloat16, pf.float16):
        with pf.autocast(kind, dtype=dtype):
            widest = kind == "cpu" and name in ("mv", "addmv", "addr")
            assert LOWER[name](tensor(4, 4)).dtype == (pf.float32 if widest else dtype)
            assert LOWER[name](tensor(4, 4, dtype=dtype)).dtype == dtype
            assert LOWER[name](tensor(4, 4, dtype=pf.float64)).dtype == pf.float64
        assert LOWER[name](tensor(4, 4)).dtype == pf.float32


@pytest.mark.parametrize("name", [*RAISE, *STEEP, *ON_CPU])
def test_raise(name, kind):
    f = {**RAISE, **STEEP, **ON_CPU}[name]
    raised = name not in (STEEP if kind == "cpu" else ON_CPU)
    for dtype in (pf.bfloat16, pf.float16):
        x = pf.tensor(RNG.uniform(0.1, 0.9, (4, 4))).to(dtype)
        plain = f(x)
        assert plain.dtype == dtype
        with pf.autocast(kind, dtype=dtype):
            y = f(x)
        assert y.dtype == (pf.float32 if raised else dtype)
        # cross_entropy reads the 16 bits itself, with their own exp on a GPU
        rtol = 1e-6 if name == "cross_entropy" else 0
        want = f(x.float()) if raised else plain
        np.testing.assert_allclose(values(y), values(want), rtol=rtol)


@pytest.mark.cpu_only
def test_the_classes_of_the_cpu_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    x = RNG.uniform(0.1, 0.9, (4, 4)).astype(np.float32)
    theirs = torch.nn.functional
    calls = {
        "softmax": lambda t, f: t.softmax(0), "exp": lambda t, f: t.exp(), "pow": lambda t, f: t**2,
        "sum": lambda t, f: t.sum(), "norm": lambda t, f: t.norm(), "cumsum": lambda t, f: t.cumsum(0),
        "prod": lambda t, f: t.prod(), "layer_norm": lambda t, f: f.layer_norm(t, (4,)),
        "rms_norm": lambda t, f: f.rms_norm(t, (4,)), "group_norm": lambda t, f: f.group_norm(t, 2),
        "logsumexp": lambda t, f: t.logsumexp(0), "mse_loss": lambda t, f: f.mse_loss(t, t),
        "softplus": lambda t, f: f.softplus(t), "matmul": lambda t, f: t @ t,
        "mv": lambda t, f: t.mv(t[0]), "addmv": lambda t, f: t[0].addmv(t, t[0]),
        "addr": lambda t, f: t.addr(t[0], t[0]), "trace": lambda t, f: t.trace(),
        "quantile": lambda t, f: t.quantile(0.5), "prelu": lambda t, f: f.prelu(t, t[0, :1]),
        "reflect": lambda t, f: f.pad(t, (1, 1), mode="reflect"),
        "pool": lambda t, f: f.avg_pool3d(t.reshape(1, 1, 4, 2, 2), 2),
        "grid": lambda t, f: f.grid_sample(t[None, None], t.reshape(1, 4, 2, 2), align_corners=False),
        "cosine_similarity": lambda t, f: f.cosine_similarity(t, t),
    }  # fmt: skip
    for name, call in calls.items():
        for dtype in ("float32", "bfloat16"):
            with pf.autocast("cpu"):
                ours = call(pf.tensor(x).to(getattr(pf, dtype)), F)
            with torch.autocast("cpu"):
                want = call(torch.tensor(x).to(getattr(torch, dtype)), theirs)
            assert str(ours.dtype).split(".")[-1] == str(want.dtype)[6:], (name, dtype)


ALIKE = """square exp exp2 std var mean nansum sinc trace sqrt asinh acosh atanh erfc sigmoid tan norm amax
prod histc sum nanmean median diff reciprocal rsqrt float_power:2 cumsum:0 cumprod:0 logcumsumexp:0 cummax:0
logsumexp:0 softmax:0 log_softmax:0 quantile:.5 nanquantile:.5 renorm:2,0,1. special.expm1 special.log1p
special.softmax:0 std_mean var_mean logaddexp2:x atan2:x hypot:x pow:x fmod:x cdist:x dist:x matmul:x mv:x[0]
addcdiv:x,x addcmul:x,x addmm:x,x addr:x[0],x[0] copysign:x remainder:x logaddexp:x cosine_similarity:x
chain_matmul:x,x inverse pinverse geqrf cholesky_inverse cholesky_solve:x triangular_solve:x linalg.norm
linalg.vector_norm linalg.matrix_norm linalg.matrix_exp linalg.inv linalg.svdvals linalg.svd linalg.eigvalsh
linalg.eigh linalg.eigvals linalg.eig linalg.qr linalg.cholesky linalg.cholesky_ex linalg.cond linalg.matrix_rank
linalg.solve:x linalg.lstsq:x linalg.vecdot:x fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fft2
fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn fft.hfft2 nn.functional.softmin:0
nn.functional.normalize nn.functional.gelu nn.functional.logsigmoid nn.functional.softplus nn.functional.celu
nn.functional.softsign nn.functional.mse_loss:x nn.functional.l1_loss:x nn.functional.smooth_l1_loss:x
nn.functional.huber_loss:x nn.functional.kl_div:x nn.functional.poisson_nll_loss:x nn.functional.soft_margin_loss:x
nn.functional.binary_cross_entropy_with_logits:x nn.functional.cosine_embedding_loss:x,x[0]
nn.functional.hinge_embedding_loss:x nn.functional.triplet_margin_loss:x,x nn.functional.multilabel_soft_margin_loss:x
nn.functional.prelu:x[0,:1] nn.functional.layer_norm:(4,) nn.functional.rms_norm:(4,) nn.functional.group_norm:2
""".split()
# What has another dtype here, and why.
APART = {"exp2": "raised on GPUs as exp is"}  # of 16 bits, on GPUs


def dtype_of(package, name, x):
    """The dtype that a call gives, or None where it raises."""
    name, _, others = name.partition(":")
    f = package
    for part in name.split("."):
        f = getattr(f, part)
    try:
        y = f(*eval(f"(x,{others})"))
    except (RuntimeError, NotImplementedError, AssertionError, pf.DTypeError):
        return None  # AssertionError: what wants to know more of a card than that it is pretended
    while not hasattr(y, "dtype"):
        y = y[0]
    return str(y.dtype).rpartition(".")[2]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_classes_are_those_of_pytorch(dtype, kind):
    """Of names of the most kinds; what GPUs do PyTorch says for tensors that are only pretended."""
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = RNG.uniform(0.1, 0.9, (4, 4)).astype(np.float32)
    x = x @ x.T + np.eye(4, dtype=np.float32)
    found = {}
    for name in ALIKE:
        if kind == "cpu":
            with torch.autocast("cpu", torch.bfloat16):
                want = dtype_of(torch, name, torch.tensor(x).to(getattr(torch, dtype)))
        else:
            torch.set_autocast_dtype("cuda", torch.bfloat16)
            torch.set_autocast_enabled("cuda", True)
            try:
                with FakeTensorMode():
                    given = torch.empty(4, 4, device="cuda", dtype=getattr(torch, dtype))
                    want = dtype_of(torch, name, given)
            finally:
                torch.set_autocast_enabled("cuda", False)
        with pf.autocast(kind, dtype=pf.bfloat16):
            ours = dtype_of(pf, name, pf.tensor(x).to(getattr(pf, dtype)))
        decomposed = kind != "cpu" and name.startswith(
            ("linalg.", "cholesky_", "geqrf", "triangular")
        )
        if (
            want and ours != want and not (decomposed and ours is None)
        ):  # which raise there, on a card
            found[name] = ours, want
    apart = APART if kind != "cpu" and dtype == "bfloat16" else {}
    assert found.keys() == apart.keys(), found


@pytest.mark.parametrize("name", FOLLOW)
def test_follow(name, kind):
    with pf.autocast(kind, dtype=pf.bfloat16):
        for dtype in (pf.bfloat16, pf.float16, pf.float32, pf.float64):
            assert FOLLOW[name](tensor(4, 4, dtype=dtype)).dtype == dtype


def test_promote(kind):
    low, high = tensor(4, dtype=pf.bfloat16), tensor(4)
    with pytest.raises(pf.DTypeError):
        pf.dot(low, high)
    with pf.autocast(kind, dtype=pf.bfloat16):
        assert pf.dot(low, high).dtype == pf.float32
        assert pf.dot(low, low).dtype == pf.bfloat16
        assert pf.dot(low, low.half()).dtype == pf.float32
        assert pf.cat([low, high]).dtype == pf.float32
        assert pf.stack([low, high]).dtype == pf.float32
        assert pf.where(high > 0, low, high).dtype == pf.float32
        assert pf.tensordot(low, high, 1).dtype == pf.float32
        index = pf.tensor([0, 1])
        assert pf.scatter_add(high, 0, index, low[:2]).dtype == pf.float32


def test_integers_and_other_dtypes_take_no_part(kind):
    i = pf.arange(4)
    with pf.autocast(kind):
        assert i.sum().dtype == pf.int64
        assert i.cumsum(0).dtype == pf.int64
        assert pf.exp(i).dtype == pf.float32
        assert tensor(4, dtype=pf.float16).sum(dtype=pf.float64).dtype == pf.float64
        assert tensor(0, 4).matmul(tensor(4, 0)).shape == (0, 0)


def test_classes_are_in_the_table():
    rows = {r["name"]: r["autocast"] for r in pf.ops.table()}
    assert rows["matmul"] == rows["linear"] == "lower"
    assert rows["exp"] == rows["softplus"] == rows["layer_norm"] == rows["mse_loss"] == "raise"
    assert rows["arccos"] == "raise"
    assert rows["dot"] == "promote" and rows["trace"] == ""
    on_cpu = {r["name"]: r["autocast_cpu"] for r in pf.ops.table()}
    assert on_cpu["exp"] == on_cpu["layer_norm"] == "" and on_cpu["mv"] == "promote"
    assert on_cpu["matmul"] == "lower" and on_cpu["mse_loss"] == on_cpu["trace"] == "raise"
    assert rows["gelu"] == rows["elu"] == rows["add"] == rows["mean"] == ""


def test_defined_rows_have_a_class(kind):
    if not hasattr(pf, "amp_steep"):
        pf.ops.define("amp_steep", "exp(x) * 0.5")
        pf.ops.define("amp_flat", "x * sigmoid(x) + exp(-abs(x))")
    x = tensor(4, dtype=pf.bfloat16)
    with pf.autocast(kind, dtype=pf.bfloat16):
        assert pf.amp_steep(x).dtype == (pf.bfloat16 if kind == "cpu" else pf.float32)
        assert pf.amp_flat(x).dtype == pf.bfloat16


# ---- regions ------------------------------------------------------------------------------------


def test_default_dtypes():
    assert pf.get_autocast_dtype("cpu") == pf.bfloat16
    for gpu in ("cuda", "rocm", "hip", "gpu"):
        assert pf.get_autocast_dtype(gpu) == pf.float16
    assert pf.amp.is_autocast_available("cpu") and not pf.amp.is_autocast_available("abacus")


def test_nesting(kind):
    x = tensor(3, 3)
    dtype = pf.get_autocast_dtype(kind)
    assert not pf.is_autocast_enabled(kind)
    with pf.autocast(kind, dtype=pf.bfloat16) as region:
        assert isinstance(region, pf.autocast)
        assert pf.is_autocast_enabled(kind)
        assert (x @ x).dtype == pf.bfloat16
        with pf.autocast(kind, enabled=False):
            assert not pf.is_autocast_enabled(kind)
            assert (x @ x).dtype == pf.float32
            with pf.autocast(kind, dtype=pf.float16, cache_enabled=False):
                assert not pf.is_autocast_cache_enabled()
                assert (x @ x).dtype == pf.float16
        assert pf.get_autocast_dtype(kind) == pf.bfloat16
        with pytest.raises(ZeroDivisionError), pf.amp.autocast(device_type=kind, dtype=pf.float16):
            raise ZeroDivisionError
        assert (x @ x).dtype == pf.bfloat16
    assert (x @ x).dtype == pf.float32
    assert pf.get_autocast_dtype(kind) == dtype


def test_decorator(kind):
    @pf.autocast(kind, dtype=pf.bfloat16)
    def product(x, depth):
        """Doc."""
        return product(x, depth - 1) if depth else x @ x

    assert product.__doc__ == "Doc."
    assert product(tensor(2, 2), 3).dtype == pf.bfloat16


def test_settings(kind):
    before = pf.get_autocast_dtype(kind)
    try:
        pf.set_autocast_dtype(kind, pf.float16)
        pf.set_autocast_enabled(kind, True)
        assert (tensor(2, 2) @ tensor(2, 2)).dtype == pf.float16
    finally:
        pf.set_autocast_enabled(kind, False)
        pf.set_autocast_dtype(kind, before)
    with pytest.raises(pf.DTypeError):
        pf.set_autocast_dtype(kind, pf.float64)
    with pytest.raises(pf.DeviceError):
        pf.autocast("abacus")
    with pytest.raises(TypeError):
        pf.autocast(3)
    with pytest.warns(UserWarning, match="float32"), pf.autocast(kind, dtype=pf.float32):
        assert not pf.is_autocast_enabled(kind)


def test_other_device_types_stay_as_they_are(kind):
    other = "cpu" if kind != "cpu" else "paranoid"
    with pf.autocast(other):
        assert pf.is_autocast_enabled(other)
        assert (tensor(2, 2) @ tensor(2, 2)).dtype == pf.float32


@pytest.mark.cpu_only
def test_gpu_regions_without_a_gpu():
    if pf.cuda.is_available():
        pytest.skip("there is a GPU")
    for make in (lambda: pf.autocast("cuda"), pf.cuda.amp.autocast):
        with pytest.warns(UserWarning, match="GPU"):
            region = make()
        with region:
            assert not pf.is_autocast_enabled()
    with pytest.warns(UserWarning, match="GPU"):
        region = pf.cuda.amp.autocast(device_type="cuda", dtype=pf.bfloat16)
    with pytest.warns(UserWarning, match="GPU"):
        scaler = pf.cuda.amp.GradScaler()
    assert not scaler.is_enabled() and scaler.state_dict() == {} and scaler.get_scale() == 1.0


def test_names_of_torch():
    from pyflame.cpu.amp import autocast as cpu_autocast
    from pyflame.cuda.amp import GradScaler, autocast

    assert issubclass(autocast, pf.autocast) and issubclass(GradScaler, pf.amp.GradScaler)
    with cpu_autocast(dtype=pf.float16):
        assert pf.is_autocast_cpu_enabled() and pf.get_autocast_cpu_dtype() == pf.float16
    assert pf.cpu.amp.autocast is cpu_autocast and pf.cuda.amp.autocast is autocast
    assert pf.amp.GradScaler is pf.GradScaler


def test_threads_have_their_own(kind):
    seen = {}

    def look():
        seen["here"] = pf.is_autocast_enabled(kind)
        with pf.autocast(kind, enabled=False):
            pass

    with pf.autocast(kind):
        t = threading.Thread(target=look)
        t.start()
        t.join()
        assert pf.is_autocast_enabled(kind)
    assert seen == {"here": False}


# ---- gradients ----------------------------------------------------------------------------------


def test_gradients_come_home_in_float32(kind):
    x, w, b = tensor(6, 5, grad=True), tensor(3, 5, grad=True), tensor(3, grad=True)
    with pf.autocast(kind, dtype=pf.bfloat16):
        y = F.linear(x, w, b)
        loss = F.mse_loss(y, pf.zeros(6, 3))
    assert y.dtype == pf.bfloat16 and loss.dtype == pf.float32
    loss.backward()
    X, W, B = (bf16(values(t)) for t in (x, w, b))
    Y = bf16(X @ W.T + B)
    G = bf16(2 * Y / Y.size)
    for t, expected in ((x, G @ W), (w, G.T @ X), (b, G.sum(0))):
        assert t.grad.dtype == pf.float32
        np.testing.assert_allclose(values(t.grad), bf16(expected), rtol=2**-7, atol=1e-6)


def test_backward_within_the_region_is_the_same(kind):
    def gradient(inside):
        w = pf.tensor(np.linspace(-1, 1, 12).reshape(3, 4), dtype=pf.float32, requires_grad=True)
        x = pf.tensor(np.linspace(0, 2, 8).reshape(2, 4), dtype=pf.float32)
        with pf.autocast(kind, dtype=pf.bfloat16):
            loss = F.gelu(F.linear(x, w)).exp().sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        return values(w.grad)

    assert np.array_equal(gradient(True), gradient(False))


def test_weights_are_cast_once_in_a_region(kind):
    w, x = tensor(4, 4, grad=True), tensor(2, 4)

    with pf.autocast(kind, dtype=pf.bfloat16):
        a = F.linear(x, w)
        b = F.linear(x, w)
        assert a.grad_fn.next_functions[1][0] is not None
        # one cast node under both products
        assert a.grad_fn.next_functions[1][0] == b.grad_fn.next_functions[1][0]
    with pf.autocast(kind, dtype=pf.bfloat16, cache_enabled=False):
        a, b = F.linear(x, w), F.linear(x, w)
        assert a.grad_fn.next_functions[1][0] != b.grad_fn.next_functions[1][0]


def test_a_cast_sees_a_changed_weight(kind):
    w, x = pf.ones(2, 2, requires_grad=True), pf.ones(1, 2)
    with pf.autocast(kind, dtype=pf.bfloat16):
        assert F.linear(x, w).tolist() == [[2, 2]]
        with pf.no_grad():
            w.mul_(3)
        assert F.linear(x, w).tolist() == [[6, 6]]
        w.data = pf.full((2, 2), 5.0)
        assert F.linear(x, w).tolist() == [[10, 10]]
        w.data = pf.full((3, 2), 1.0)
        assert F.linear(x, w).shape == (1, 3)


def test_a_cast_made_without_gradients_is_not_used_with_them(kind):
    w, x = pf.ones(2, 2, requires_grad=True), pf.ones(1, 2)
    with pf.autocast(kind, dtype=pf.bfloat16):
        with pf.no_grad():
            F.linear(x, w)
        F.linear(x, w).sum().backward()
    assert w.grad.tolist() == [[1, 1], [1, 1]]


def test_two_passes_in_one_region(kind):
    w, x = pf.ones(2, 2, requires_grad=True), pf.ones(1, 2)
    with pf.autocast(kind, dtype=pf.bfloat16):
        for _ in range(2):
            F.linear(x, w).sum().backward()
    assert w.grad.tolist() == [[2, 2], [2, 2]]


def test_second_derivative(kind):
    x = pf.tensor([1.0, 2.0], requires_grad=True)
    with pf.autocast(kind, dtype=pf.bfloat16):
        y = (x * x).exp().sum()
        (g,) = pf.autograd.grad(y, x, create_graph=True)
        (h,) = pf.autograd.grad(g.sum(), x)
    v = values(x)
    np.testing.assert_allclose(values(h), (2 + 4 * v**2) * np.exp(v**2), rtol=1e-5)


def test_training_is_close_to_float32(kind):
    def losses(enabled):
        pf.manual_seed(3)
        model = pf.nn.Sequential(
            pf.nn.Linear(16, 64), pf.nn.GELU(), pf.nn.LayerNorm(64), pf.nn.Linear(64, 4)
        )
        opt = pf.optim.AdamW(model.parameters(), lr=1e-2)
        x, y = pf.randn(64, 16), pf.randint(0, 4, (64,))
        out = []
        for _ in range(30):
            opt.zero_grad()
            with pf.autocast(kind, dtype=pf.bfloat16, enabled=enabled):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            out.append(loss.item())
        assert all(p.dtype == p.grad.dtype == pf.float32 for p in model.parameters())
        return np.array(out)

    low, full = losses(True), losses(False)
    assert full[-1] < 0.5 * full[0]
    assert not np.array_equal(low, full)
    np.testing.assert_allclose(low, full, atol=0.05)


def test_custom_function(kind):
    states = []

    class Product(pf.autograd.Function):
        @staticmethod
        @pf.amp.custom_fwd(device_type=kind)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @pf.amp.custom_bwd(device_type=kind)
        def backward(ctx, g):
            states.append(pf.is_autocast_enabled(kind))
            a, b = ctx.saved_tensors
            return g @ b.t(), a.t() @ g

    class Exact(pf.autograd.Function):
        @staticmethod
        @pf.amp.custom_fwd(device_type=kind, cast_inputs=pf.float32)
        def forward(ctx, x, more):
            states.append(pf.is_autocast_enabled(kind))
            assert x.dtype == more[0].dtype == pf.float32 and more[1] == 2
            return x * more[1]

        @staticmethod
        @pf.amp.custom_bwd(device_type=kind)
        def backward(ctx, g):
            states.append(pf.is_autocast_enabled(kind))
            return g * 2, None

    a, b = tensor(3, 3, grad=True), tensor(3, 3, grad=True)
    with pf.autocast(kind, dtype=pf.bfloat16):
        y = Product.apply(a, b)
    assert y.dtype == pf.bfloat16
    y.sum().backward()
    assert states == [True] and a.grad.dtype == b.grad.dtype == pf.float32
    states.clear()
    x = tensor(2, dtype=pf.bfloat16, grad=True)
    with pf.autocast(kind, dtype=pf.bfloat16):
        z = Exact.apply(x, (x.detach(), 2))
    z.sum().backward()
    assert states == [False, False] and x.grad.tolist() == [2, 2]


def test_float32_matmul_precision():
    assert pf.get_float32_matmul_precision() == "highest"
    try:
        for p in ("high", "medium", "highest"):
            pf.set_float32_matmul_precision(p)
            assert pf.get_float32_matmul_precision() == p
    finally:
        pf.set_float32_matmul_precision("highest")
    with pytest.raises(pf.ValueError):
        pf.set_float32_matmul_precision("low")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float16])
def test_cross_entropy_of_16_bits_is_that_of_float32(reduction, smoothing, dtype, device):
    """The logits are not widened in memory; loss and gradient are as if they were."""
    x = (pf.randn(70, 1003) * 4).to(dtype).requires_grad_()
    wide = x.detach().float().requires_grad_()
    target = pf.randint(0, 1003, (70,))
    target[::7] = -100
    how = {"reduction": reduction, "label_smoothing": smoothing}
    with pf.autocast(device.type, pf.bfloat16):
        loss = F.cross_entropy(x, target, **how)
    want = F.cross_entropy(wide, target, **how)
    assert loss.dtype == pf.float32
    np.testing.assert_allclose(loss.detach().cpu().numpy(), want.detach().cpu().numpy(), rtol=2e-6)
    (g,) = pf.autograd.grad(loss.sum() * 3, x, create_graph=True)
    (h,) = pf.autograd.grad(want.sum() * 3, wide, create_graph=True)
    assert g.dtype == dtype
    a, b = (t.detach().float().cpu().numpy() for t in (g, h))
    np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-3 * np.abs(b).max())
    assert np.mean(a != h.detach().to(dtype).float().cpu().numpy()) < 0.01  # one rounding
    (g.float() ** 2).sum().backward()
    (h**2).sum().backward()
    a, b = x.grad.float().cpu().numpy(), wide.grad.cpu().numpy()
    np.testing.assert_allclose(a, b, rtol=5e-2, atol=1e-2 * np.abs(b).max())
    weight = pf.rand(1003) + 0.5
    with pf.autocast(device.type, pf.bfloat16):
        weighted = F.cross_entropy(x, target, weight, **how)
    same = F.cross_entropy(wide, target, weight, **how)
    np.testing.assert_array_equal(weighted.detach().cpu().numpy(), same.detach().cpu().numpy())


@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float16])
def test_gradients_of_weights_are_rounded_once_on_gpus(dtype, device):
    """A weight's gradient becomes float32 in the product that makes it."""
    x = pf.ones(1003, 5)
    x[:, 1] = 2**-9
    w = pf.ones(7, 5, requires_grad=True)
    with pf.autocast(device.type, dtype):
        y = F.linear(x, w)
        z = (x @ w.T).sum(dtype=pf.float32)  # its cast is of a view: rounded once, too
    rounded = device.type in ("cpu", "paranoid")
    want = np.broadcast_to([1003, 1003 / 512, 1003, 1003, 1003], (7, 5))
    want = pf.tensor(want).to(dtype if rounded else pf.float32).float().cpu().numpy()
    for loss in (y.sum(dtype=pf.float32), z):
        (g,) = pf.autograd.grad(loss, w, retain_graph=True)
        assert g.dtype == pf.float32
        np.testing.assert_array_equal(g.cpu().numpy(), want)
    # So is that of a bias.
    b = pf.zeros(7, requires_grad=True)
    with pf.autocast(device.type, dtype):
        y = (
            F.linear(x, w.detach(), b)
            * pf.tensor([1.0, 2**-9])[(pf.arange(1003) % 2 == 1).long()][:, None]
        )
    (g,) = pf.autograd.grad(y.sum(dtype=pf.float32), b)
    want = pf.full((7,), 502 + 501 / 512).to(dtype if rounded else pf.float32).float()
    assert g.dtype == pf.float32 and pf.equal(g, want)
    # With a history of its own it has the dtype of what it is made of, and is rounded.
    h = w.detach().requires_grad_()
    with pf.autocast(device.type, dtype):
        y = F.linear(x, h)
    (g,) = pf.autograd.grad((y.float() ** 2).sum(), h, create_graph=True)
    (second,) = pf.autograd.grad(g.sum(), h)
    square = (x.to(dtype).double().T @ x.to(dtype).double()).sum(0).cpu().numpy()
    np.testing.assert_allclose(second.cpu().numpy(), np.broadcast_to(2 * square, (7, 5)), rtol=2e-2)
