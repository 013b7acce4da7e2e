"""Values at the edges of operations beside PyTorch: copies of views, complex sums and products, integers masked."""

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")
BOTH = (pf, torch)


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return (
        value.detach().resolve_conj().tolist()
        if isinstance(value, torch.Tensor)
        else value.tolist()
    )


def alike(f, loose=1e-5):
    """What `f(module)` gives, in both."""
    ours, theirs = (f(m) for m in BOTH)
    if isinstance(ours, pf.Tensor):
        assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    pf.testing.assert_close(
        *(pf.tensor(plain(v)) if not isinstance(v, (list, tuple)) else [pf.tensor(p) for p in plain(v)]
          for v in (ours, theirs)),
        rtol=loose, atol=loose, equal_nan=True,
    )  # fmt: skip


def gradient(m, f, values, dtype):
    x = m.tensor(values, dtype=getattr(m, dtype), requires_grad=True)
    y = f(x)
    y = m.view_as_real(y) if y.is_complex() else y
    weights = m.arange(1, y.numel() + 1, dtype=y.dtype).reshape(y.shape)
    return m.autograd.grad((y * weights).sum(), [x])[0]


COPIES = {
    "alias_copy": (), "as_strided_copy": ((2, 3), (1, 2), 1), "detach_copy": (), "diagonal_copy": (1,),
    "expand_copy": ((2, 3, 4),), "permute_copy": ((1, 0),), "select_copy": (1, 2), "slice_copy": (1, 0, 4, 2),
    "split_copy": (2, 1), "split_with_sizes_copy": ((1, 3), 1), "squeeze_copy": (), "t_copy": (),
    "transpose_copy": (0, 1), "unbind_copy": (1,), "unfold_copy": (1, 2, 1), "unsqueeze_copy": (1,),
    "view_as_real_copy": (), "view_as_complex_copy": (), "view_copy": ((4, 3),),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_views(name):
    dtype = "complex64" if name == "view_as_real_copy" else "float32"
    values = [[[1.0, 2.0], [3.0, 4.0]]] if name == "view_as_complex_copy" else None

    def made(m):
        x = m.arange(12.0).reshape(3, 4) if values is None else m.tensor(values)
        return x.to(getattr(m, dtype)).requires_grad_()

    alike(lambda m: getattr(m, name)(made(m).detach(), *COPIES[name]))
    x = made(pf)
    result = getattr(pf, name)(x, *COPIES[name])
    outs = result if isinstance(result, tuple) else [result]
    for o in outs:
        assert o.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
        assert o.requires_grad == (name != "detach_copy")
    given = [pf.empty(0, dtype=o.dtype) for o in outs]
    with pf.no_grad():
        out = tuple(given) if isinstance(result, tuple) else given[0]
        getattr(pf, name)(x, *COPIES[name], out=out)
    for a, b in zip(given, outs):
        assert a.tolist() == b.tolist()
    with pytest.raises(TypeError, match=name):
        getattr(pf, name)("text", *COPIES[name])


def test_every_copy_of_pytorchs_is_here():
    inner = {"ccol_indices_copy", "row_indices_copy"}  # of layouts that are not here
    names = {n for n in dir(torch) if n.endswith("_copy") and n[0] != "_"}
    assert {n for n in names - inner if not hasattr(pf, n)} == set()


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["logcumsumexp", "cumsum", "cumprod"])
def test_complex_scans(name, dim):
    rows = [[1 + 2j, 2 - 1j, -0.3 + 0j], [0.5j, 30 + 1j, -1 + 1j], [2 + 0j, 0.1 + 0.2j, -20 + 3j]]
    for m_values in (rows, [[1j]], [row[:1] for row in rows]):
        alike(lambda m, v=m_values: getattr(m, name)(m.tensor(v, dtype=m.complex128), dim))
        alike(
            lambda m, v=m_values: gradient(m, lambda x: getattr(m, name)(x, dim), v, "complex128")
        )


@pytest.mark.parametrize("shape", [(0,), (0, 2), (2, 0)])
def test_complex_products_of_nothing_have_a_history(shape):
    x = pf.zeros(shape, dtype=pf.complex64, requires_grad=True)
    y = x.prod(shape.index(0))
    assert y.requires_grad and (y == 1).all()
    assert x.prod().requires_grad and pf.autograd.grad(x.prod().real, [x])[0].shape == x.shape


@pytest.mark.parametrize("dtype", ["bool", "complex64"])
def test_columns_of_other_dtypes(dtype):
    def image(m):
        x = m.arange(50).reshape(1, 2, 5, 5)
        return (x % 3 == 0) if dtype == "bool" else x * (1 - 2j)

    alike(lambda m: m.nn.functional.unfold(image(m), 2, dilation=2, padding=1))
    alike(
        lambda m: m.nn.functional.fold(
            m.nn.functional.unfold(image(m), 3, stride=2), 5, 3, stride=2
        )
    )
    if dtype == "complex64":

        def columns(m):
            return lambda x: m.nn.functional.unfold(x.reshape(1, 1, 2, 2), 2, padding=1)

        alike(lambda m: gradient(m, columns(m), [1 + 1j, 2j, 3 + 0j, -1j], dtype))


def test_the_next_float_of_itself_has_no_gradient():
    y = [1.0, 3.0, -2.0, 0.0]
    alike(
        lambda m: gradient(
            m, lambda x: m.nextafter(x, m.tensor(y)), [1.0, 2.0, 5.0, 0.0], "float32"
        )
    )


@pytest.mark.parametrize(
    "bounds",
    [(-0.9, 2.1, 2.0), (0.5, 5.5), (1.0, -5.000001, -2.0), (5.9, 0.2, -1.0), (0.1, 0.9), (3.7,)],
)
def test_fractional_bounds_of_integers(bounds):
    for dtype in ("int64", "int32"):
        alike(lambda m, d=dtype: m.arange(*bounds, dtype=getattr(m, d)))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_masked_statistics_of_integers(dtype):
    from pyflame import masked

    rows, mask = (
        [[1, 2, 3, 9], [4, 5, 7, 200]],
        [[True, False, True, True], [False, True, True, False]],
    )
    for name in ("var", "std", "median"):

        def f(m, name=name):
            here = torch.masked if m is torch else masked
            x = m.tensor(rows, dtype=getattr(m, dtype))
            return getattr(here, name)(x, 1, mask=m.tensor(mask))

        alike(f)
    with pytest.raises(ValueError, match="leaves nothing"):
        masked.median(pf.tensor(rows), 1, mask=pf.zeros(2, 4, dtype=pf.bool))


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_lbfgs_of_complex_parameters(line_search):
    def end(m):
        p = m.nn.Parameter(m.tensor([1 + 2j, -1 + 1j, 0.5j], dtype=m.complex128))
        q = m.nn.Parameter(m.tensor([[0.3, -2.0]], dtype=m.float64))
        goal = m.tensor([2 - 1j, 0j, 1 + 1j], dtype=m.complex128)
        optimizer = m.optim.LBFGS([p, q], lr=0.3, max_iter=4, line_search_fn=line_search)

        def loss():
            optimizer.zero_grad()
            far = (p - goal).abs()
            total = (far**2).sum() + (far**4).sum() + (q * q.cos()).sum() + (p.real[:2] * q).sum()
            total.backward()
            return total

        for _ in range(3):
            optimizer.step(loss)
        return [m.view_as_real(p.detach()).flatten(), q.detach()[0]]

    alike(end, 1e-7)


def test_what_has_another_half_is_not_read_by_istft():
    parts = torch.randn(2, 8, 6, 2, generator=torch.Generator().manual_seed(0))

    def wave(m):
        z = m.view_as_complex(m.tensor(parts.tolist()))
        return m.istft(z, 8, 2, window=m.hann_window(8), onesided=False)

    alike(wave)


def test_a_bags_weight_may_come_first():
    weight, rows = pf.arange(15.0).reshape(5, 3), pf.tensor([[1, 2], [3, 4]])
    with pytest.warns(UserWarning, match="embedding_bag"):
        found = pf.nn.functional.embedding_bag(weight, rows)
    assert found.tolist() == pf.nn.functional.embedding_bag(rows, weight).tolist()


@pytest.mark.parametrize("beta,alpha", [(3, 2), (0, 1), (2, 0), (False, True), (-2, 2)])
def test_factors_of_bools_are_bools(beta, alpha):
    def f(m):
        x, a, b = ([[True, False], [True, True]], [True, False], [True, True])
        return m.addr(m.tensor(x), m.tensor(a), m.tensor(b), beta=beta, alpha=alpha)

    alike(f)
