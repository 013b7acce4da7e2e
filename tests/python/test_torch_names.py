"""Names of PyTorch that few programs call, beside PyTorch's own where it is installed."""

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")


def both(call, *arrays):
    """The same call under both modules, of the same numbers."""
    theirs = [torch.tensor(a) for a in arrays]
    ours = [pf.tensor(a) for a in arrays]
    got, want = call(pf, *ours), call(torch, *theirs)
    assert tuple(got.shape) == tuple(want.shape)
    assert str(got.dtype).rsplit(".")[-1] == str(want.dtype).rsplit(".")[-1]
    torch.testing.assert_close(
        torch.tensor(got.tolist(), dtype=torch.float64), want.double(), rtol=1e-4, atol=1e-5
    )
    return got


def grid(*shape):
    n = 1
    for s in shape:
        n *= s
    flat = [((7 * i) % 11 - 5) / 4 for i in range(n)]
    for s in reversed(shape[1:]):
        flat = [flat[i : i + s] for i in range(0, len(flat), s)]
    return flat


FUNCTIONS = {
    "batch_norm": (
        lambda t, x, w: t.batch_norm(x, w, w, None, None, True, 0.1, 1e-5, True), grid(4, 3, 2), grid(3),
    ),
    "instance_norm": (
        lambda t, x, w: t.instance_norm(x, w, w, None, None, True, 0.1, 1e-5, True),
        grid(4, 3, 2), grid(3),
    ),
    "group_norm": (lambda t, x: t.group_norm(x, 2), grid(3, 4, 2)),
    "constant_pad_nd": (lambda t, x: t.constant_pad_nd(x, (1, 2, 0, 1), 0.5), grid(2, 3)),
    "convolution": (
        lambda t, x, w, b: t.convolution(x, w, b, [2, 1], [1, 0], [1, 1], False, [0, 0], 2),
        grid(2, 4, 6, 5), grid(6, 2, 3, 2), grid(6),
    ),
    "transposed": (
        lambda t, x, w: t.convolution(x, w, None, [2], [1], [1], True, [1], 1),
        grid(2, 4, 6), grid(4, 3, 3),
    ),
    "conv_tbc": (lambda t, x, w, b: t.conv_tbc(x, w, b, 1), grid(6, 2, 3), grid(3, 3, 4), grid(4)),
    "affine_grid_generator": (lambda t, x: t.affine_grid_generator(x, [2, 1, 3, 4], True), grid(2, 2, 3)),
    "grid_sampler": (
        lambda t, x, g: t.grid_sampler(x, g, 0, 1, True) + t.grid_sampler_2d(x, g, 1, 0, False),
        grid(1, 2, 4, 5), grid(1, 3, 3, 2),
    ),
    "norm_except_dim": (lambda t, x: t.norm_except_dim(x, 2, 1), grid(3, 4, 2)),
    "norm_except_none": (lambda t, x: t.norm_except_dim(x, 2, -1), grid(3, 4, 2)),
    "frobenius_norm": (lambda t, x: t.frobenius_norm(x, (0, 1), True), grid(3, 4, 2)),
    "cosine_embedding_loss": (
        lambda t, x, y, z: t.cosine_embedding_loss(x, y, z, 0.1, 2), grid(2, 3), grid(2, 3), [1, -1],
    ),
    "ctc_loss": (
        lambda t, x: t.ctc_loss(
            x.log_softmax(2), t.tensor([[1, 2], [2, 2]]), t.tensor([5, 5]), t.tensor([2, 1]), 0, 0
        ),
        grid(5, 2, 3),
    ),
    "hinge_embedding_loss": (lambda t, x, z: t.hinge_embedding_loss(x, z, 0.5, 1), grid(4), [1, -1, 1, -1]),
    "margin_ranking_loss": (
        lambda t, x, y, z: t.margin_ranking_loss(x, y, z, 0.1, 0), grid(3), [0.5, 0.1, -0.3], [1, -1, 1],
    ),
    "poisson_nll_loss": (
        lambda t, x, y: t.poisson_nll_loss(x, y, True, True, 1e-8, 1), grid(4), [1.0, 2.0, 5.0, 0.0],
    ),
    "triplet_margin_loss": (
        lambda t, x, y: t.triplet_margin_loss(x, y, x * 0.5, 1.0, 2, 1e-6, True, 0), grid(3, 4), grid(3, 4),
    ),
    "nonzero_static": (lambda t, x: t.nonzero_static(x, size=3), [[0.0, 1], [0, 0]]),
    "nonzero_static cut": (lambda t, x: x.nonzero_static(size=1, fill_value=7), [[0.0, 1], [1, 1]]),
    "range": (lambda t: t.range(1, 2.25, 0.5) + t.range(3, 1, -1)),
    "fill": (lambda t, x: t.fill(x, 3) + t.fill(x, t.tensor(0.5)), grid(2, 3)),
    "as_strided_scatter": (
        lambda t, x, y: t.as_strided_scatter(x, y, (2, 2), (1, 3), 1), grid(3, 4), grid(2, 2),
    ),
    "masked_scatter": (lambda t, x: t.masked_scatter(x, x > 0, -x), grid(3, 4)),
    "in place": (
        lambda t, x: t.fill_(x, 2).add_(t.i0_(x.clone())) + t.zero_(x.clone()) + t.conj_physical_(x), grid(4),
    ),
    "addmv_": (lambda t, x, m: t.addmv_(x.clone(), m, x, beta=0.5), grid(3), grid(3, 3)),
    "index_put_": (lambda t, x: t.index_put_(x, [t.tensor([0, 0])], t.tensor(1.5), True), grid(3)),
    "cumprod_": (lambda t, x: x.cumprod_(0), grid(3, 2)),
    "ldexp_": (lambda t, x: x.ldexp_(t.tensor([1, -2, 3])), grid(3)),
    "new": (lambda t, x: x.new([1, 2]) + x.new(2).fill_(1) + x.new(t.Size([2])).zero_(), grid(3)),
    "new_empty_strided": (lambda t, x: x.new_empty_strided((2, 3), (1, 4)).fill_(2), grid(3)),
    "fake_quantize_per_tensor_affine": (
        lambda t, x: t.fake_quantize_per_tensor_affine(x, 0.125, 3, 0, 7), grid(3, 4),
    ),
    "fake_quantize of tensors": (
        lambda t, x: t.fake_quantize_per_tensor_affine(x, t.tensor(0.25), t.tensor(-1).int(), -2, 1), grid(5),
    ),
    "fake_quantize_per_channel_affine": (
        lambda t, x: t.fake_quantize_per_channel_affine(
            x, t.tensor([0.125, 0.5, 0.25]), t.tensor([0, 1, -1]).int(), 1, -2, 3
        ),
        grid(2, 3, 2),
    ),
    **{
        f"segment_reduce {how} {initial}": (
            lambda t, x, how=how, initial=initial: t.nan_to_num(
                t.segment_reduce(x, how, lengths=t.tensor([2, 0, 3]), initial=initial), 7.0
            ),
            grid(5, 2),
        )
        for how in ("sum", "mean", "max", "min", "prod") for initial in (None, 0.5)
    },
    "segment_reduce of rows": (
        lambda t, x: t.segment_reduce(x, "max", lengths=t.tensor([[1, 2], [3, 0]]), axis=1, initial=9.0),
        grid(2, 3, 2),
    ),
    "segment_reduce by offsets": (
        lambda t, x: t.segment_reduce(x, "mean", offsets=t.tensor([0, 1, 4])), grid(4),
    ),
    "gcd": (lambda t, x, y: t.gcd(x, y), [12, -18, 0, 0, 7], [[18], [0], [-5]]),
    "gcd_": (lambda t, x: x.gcd_(t.tensor([4, 6, 9])), [8, 9, 3]),
    "lcm": (lambda t, x, y: t.lcm(x, y) + x.lcm_(y), [12, -18, 0, 4], [18, 4, 3, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_pytorch(name):
    entry = FUNCTIONS[name]
    both(*entry) if isinstance(entry, tuple) else both(entry)


def test_quantizing_and_segments_refuse():
    x = pf.ones(3)
    for call, what in [
        (lambda: pf.fake_quantize_per_tensor_affine(x, 1.0, 0, 3, 2), "above quant_max"),
        (lambda: pf.fake_quantize_per_channel_affine(x, x[:2], x[:2], 0, 0, 1), "3 channels"),
        (lambda: pf.segment_reduce(x, "avg", lengths=pf.tensor([3])), "'avg'"),
        (lambda: pf.segment_reduce(x, "sum"), "lengths or offsets"),
        (lambda: pf.segment_reduce(x, "sum", lengths=pf.tensor([1, 1])), "the sum 3"),
        (lambda: pf.segment_reduce(x, "sum", lengths=pf.tensor([[3]])), r"\[\[?'parts'\]"),
    ]:
        with pytest.raises(ValueError, match=what):
            call()


def test_common_divisors():
    import math
    import random

    rng = random.Random(1)
    top = 2**62
    a = [rng.randrange(-top, top) for _ in range(50)] + [7540113804746346429, 0, 2**62]
    b = [rng.randrange(-top, top) for _ in range(50)] + [4660046610375530309, 0, -6]
    got = pf.gcd(pf.tensor(a), pf.tensor(b))  # neighbours of Fibonacci's numbers take longest
    assert got.tolist() == [math.gcd(x, y) for x, y in zip(a, b)]
    small = pf.tensor([120, 100], dtype=pf.uint8)
    assert pf.gcd(small, pf.tensor(45)).dtype == pf.uint8
    assert pf.lcm(pf.tensor([2, 3], dtype=pf.int8), pf.tensor([3, 5], dtype=pf.int32)).tolist() == [
        6,
        15,
    ]
    assert pf.gcd(pf.zeros(0, dtype=pf.int64), pf.tensor([1])).shape == (0,)
    for wrong in (pf.tensor([1.0]), pf.tensor([True])):
        with pytest.raises(TypeError, match="expected integers"):
            pf.gcd(wrong, wrong)


def test_layouts_of_new_tensors():
    x = pf.empty_strided((2, 3), (1, 4), dtype=pf.float64)
    assert x.stride() == (1, 4) and x.dtype == pf.float64 and x.dim_order() == (1, 0)
    assert pf.empty_strided((0, 3), (1, 4)).shape == (0, 3)
    y = pf.empty_permuted((2, 3, 4), (0, 2, 1), requires_grad=True)
    assert y.shape == (2, 3, 4) and y.stride() == (12, 1, 3) and y.requires_grad
    assert y.dim_order() == (0, 2, 1) and pf.ones(2, 3).dim_order(ambiguity_check=True) == (0, 1)
    with pytest.raises(RuntimeError, match="several orders"):
        pf.ones(1, 3).dim_order(ambiguity_check=True)
    with pytest.raises(ValueError, match="each once"):
        pf.empty_permuted((2, 3), (0, 0))
    with pytest.raises(ValueError, match="strides"):
        pf.empty_strided((2, 3), (1,))


def test_a_tensor_that_looks_at_another():
    a, b = pf.zeros(3), pf.arange(6.0)
    assert a.set_(b) is a and a.tolist() == b.tolist()
    a[0] = 9
    assert b[0] == 9
    assert a.set_(b, 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    assert a.set_(b.untyped_storage(), 2, (3,)).tolist() == [2, 3, 4]
    assert a.set_().shape == (0,)


@pytest.mark.cpu_only
def test_tensors_of_files(tmp_path):
    name = str(tmp_path / "numbers")
    x = pf.from_file(name, shared=True, size=4)
    x.copy_(pf.arange(4.0))
    pf.synchronize()
    assert open(name, "rb").read() == pf.arange(4.0).numpy().tobytes()
    y = pf.from_file(name, shared=False, size=2, dtype=pf.float32)
    y.add_(5)
    assert y.tolist() == [5, 6] and x.tolist() == [0, 1, 2, 3]
    assert pf.from_file(name, size=0).shape == (0,)
    with pytest.raises((OSError, ValueError)):
        pf.from_file(name, shared=False, size=50)


def test_switches_and_questions():
    pf.set_deterministic_debug_mode("warn")
    assert pf.get_deterministic_debug_mode() == 1
    assert pf.is_deterministic_algorithms_warn_only_enabled()
    pf.use_deterministic_algorithms(True)
    assert pf.get_deterministic_debug_mode() == 2
    assert (
        not pf.is_deterministic_algorithms_warn_only_enabled() and not pf.is_warn_always_enabled()
    )
    pf.set_warn_always(True)
    assert pf.is_warn_always_enabled()
    pf.set_warn_always(False)
    assert pf.is_signed(pf.ones(1)) and not pf.is_signed(pf.ones(1, dtype=pf.uint8))
    assert not pf.is_inference(pf.ones(1)) and not pf.is_distributed(pf.ones(1))
    assert not pf.ones(1).is_distributed() and not pf.set_flush_denormal(True)
    assert pf.cdouble is pf.complex128 and pf.AcceleratorError is pf.BackendError
    x = pf.ones(2, requires_grad=True) * 2
    assert pf.detach_(x) is x and not x.requires_grad
    with pytest.raises(ValueError, match="debug_mode"):
        pf.set_deterministic_debug_mode("loud")
    with pytest.raises(ValueError, match="reduction"):
        pf.hinge_embedding_loss(pf.ones(2), pf.ones(2), 1.0, 3)
    with pytest.raises(TypeError, match="float64"):
        pf.ones(2).float_power_(2)
    assert pf.full((2,), 3.0, dtype=pf.float64).float_power_(2).tolist() == [9, 9]


def test_names_of_gpus():
    if pf.cuda.is_available():
        assert pf.cuda.get_arch_list() and pf.cuda.device_memory_used() >= 0
    else:
        with pytest.raises(pf.DeviceError, match="init"):
            pf.cuda.init()
        assert pf.cuda.get_arch_list() == []
    assert pf.cuda.get_sync_debug_mode() == 0 and not pf.cuda.is_current_stream_capturing()
    with pytest.raises(ValueError, match="debug_mode"):
        pf.cuda.set_sync_debug_mode("loud")
    assert pf.cpu.is_initialized() and pf.cpu.get_capabilities()["architecture"]
    nested = pf.cuda.memory_stats_as_nested_dict("cpu")
    assert isinstance(nested, dict) and nested


def test_what_a_view_looks_at():
    x = pf.ones(4, 3, requires_grad=True) * 2
    assert x._base is None and not x._is_view()
    assert x[0]._base is x and x.t()[1]._base is x and x[1:]._is_view()
    y = pf.arange(6.0)
    assert y.as_strided_((2, 2), (1, 2), 1) is y and y.tolist() == [[1, 3], [2, 4]]
    with pytest.raises(pf.AutogradError, match="as_strided_"):
        x.as_strided_((2,), (1,))
    assert bool(pf.tensor([True])._is_all_true()) and not bool(pf.tensor([False])._is_any_true())


def test_untyped_storages_are_written_and_copied():
    x = pf.tensor([1, 2, 3], dtype=pf.int16)
    s = x.untyped_storage()
    other = s.clone()
    assert s.element_size() == 1 and s.device == x.device and s.is_cuda == x.is_cuda
    assert s.fill_(0) is s and x.tolist() == [0, 0, 0]
    assert other.tolist() == [1, 0, 2, 0, 3, 0] and s.copy_(other) is s and x.tolist() == [1, 2, 3]
    typed = x.storage()
    assert typed.device == x.device and typed.element_size() == 2
    kept = typed.clone()
    assert kept.tolist() == [1, 2, 3] and typed.fill_(7) is typed and x.tolist() == [7, 7, 7]
    assert typed.copy_(kept) is typed and x.tolist() == typed.cpu().tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="expected a storage of this class"):
        typed.copy_(s)


def test_storages_are_converted():
    for t in (torch, pf):
        x = t.tensor([1.5, -2.0])
        assert x.storage().int().tolist() == [1, -2] and x.storage().double().dtype == t.float64
        assert x.untyped_storage().float().tolist() == [
            float(b) for b in x.untyped_storage().tolist()
        ]
        assert x.storage().complex_float().tolist() == [1.5, -2.0]
        s = x.untyped_storage()
        assert s.to(device="cpu").tolist() == s.tolist() and not s.is_sparse
        assert s.get_device() == s.device.index


def test_dtypes_of_parts():
    for name in "float32 float64 bfloat16 complex64 complex128 int64 bool float16".split():
        ours, theirs = getattr(pf, name), getattr(torch, name)
        assert str(ours.to_real()).rpartition(".")[2] == str(theirs.to_real()).rpartition(".")[2]
        try:
            want = str(theirs.to_complex()).rpartition(".")[2]
        except RuntimeError:
            want = None
        if want in (None, "complex32"):
            with pytest.raises(pf.DTypeError, match="to_complex"):
                ours.to_complex()
        else:
            assert str(ours.to_complex()).rpartition(".")[2] == want


def test_places_of_generators():
    g = pf.Generator().manual_seed(5)
    pf.rand(7, generator=g)
    place = g.get_offset()
    assert place > 0
    first = pf.rand(4, generator=g)
    g.set_offset(place)
    assert pf.equal(pf.rand(4, generator=g), first) and g.initial_seed() == 5
    with pytest.raises(ValueError, match="set_offset"):
        g.set_offset(-1)


def test_what_a_parameter_loads():
    for t in (torch, pf):
        x, y = t.zeros(2, requires_grad=True), t.ones(2)
        with t.no_grad():
            kept = x.module_load(y)
        assert kept.tolist() == [1, 1] and x.tolist() == [1, 1] and not kept.requires_grad
        assert kept.data_ptr() == x.data_ptr()
        assert x.module_load(y, assign=True).data_ptr() == y.data_ptr()
        z = t.arange(6.0)
        assert t.as_strided_(z, (2, 2), (1, 2), 1) is z and z.tolist() == [[1, 3], [2, 4]]
