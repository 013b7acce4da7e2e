"""The kernels of sparse tensors: rows of any length, elements outside, sums that follow nothing."""

import numpy as np
import pytest

import pyflame as pf

F64 = pf.float64


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def csr_of_lengths(rng, lengths, columns):
    """A matrix with so many elements in its rows, and what it is (several may be at one place)."""
    starts = np.concatenate([[0], np.cumsum(lengths)])
    at, values = rng.integers(0, columns, starts[-1]), rng.normal(size=starts[-1])
    whole = np.zeros((len(lengths), columns))
    np.add.at(whole, (np.repeat(np.arange(len(lengths)), lengths), at), values)
    return starts, at, values, whole


LENGTHS = [
    [0, 0, 5000, 0, 1],
    [513, 512, 511, 700, 0, 0, 1024, 3],
    [255, 513, 513, 0, 2000],
    [1] * 300 + [600] + [2] * 300,
    [0] * 9,
]


@pytest.mark.races
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("dtype", [F64, pf.float32, pf.float16, pf.bfloat16])
def test_products_of_rows_of_any_length(rng, lengths, dtype):
    tolerance = {F64: 1e-11, pf.float32: 1e-5, pf.float16: 4e-3, pf.bfloat16: 3e-2}[dtype]
    starts, at, values, whole = csr_of_lengths(rng, lengths, 37)
    values, parts = pf.tensor(values, dtype=dtype), (pf.tensor(starts), pf.tensor(at))
    exact = np.zeros_like(whole)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    np.add.at(exact, (rows, at), np.asarray(values.to(F64).cpu()))
    scale = np.sqrt(max(lengths)) + 1
    for width in (1, 3, 4, 33, 136, 260):
        x = pf.tensor(rng.normal(size=(37, width)), dtype=dtype)
        wide = np.asarray(x.to(F64).cpu())
        got = pf._C._sparse_product(*parts, values, None, x)
        assert got.dtype == dtype
        np.testing.assert_allclose(
            np.asarray(got.to(F64).cpu()), exact @ wide, tolerance, tolerance * scale
        )
        # The elements in another order, which says where they are; and all values 1.
        order = rng.permutation(len(at))
        mixed = values.new_empty(values.shape).index_copy_(0, pf.tensor(order), values)
        again = pf._C._sparse_product(*parts, mixed, pf.tensor(order), x)
        assert np.array_equal(np.asarray(again.to(F64).cpu()), np.asarray(got.to(F64).cpu()))
        g = pf.tensor(rng.normal(size=(len(lengths), width)), dtype=dtype)
        dots = pf._C._sparse_dots(*parts, g, x)
        want = (np.asarray(g.to(F64).cpu())[rows] * wide[at]).sum(1)
        np.testing.assert_allclose(
            np.asarray(dots.to(F64).cpu()), want, tolerance, tolerance * np.sqrt(width)
        )
    ones = pf._C._sparse_product(*parts, None, None, pf.ones(37, 2, dtype=F64))
    assert ones.tolist() == [[n, n] for n in lengths]
    assert pf._C._sparse_rows(parts[0], len(at)).tolist() == rows.tolist()
    assert pf._C._sparse_starts(pf.tensor(rows), len(lengths)).tolist() == starts.tolist()


@pytest.mark.races
def test_rows_become_coordinates(rng):
    """Rows that are empty by the hundred, begin where a warp's part does, and are longer than one."""
    few, many = rng.integers(0, 2, 3000) * (rng.random(3000) < 0.1), rng.integers(0, 40, 200)
    for lengths in (*LENGTHS, few, many, [256, 512, 0, 256, 1], [1] * 700, [2047], [0] * 50 + [3]):
        rows = np.repeat(np.arange(len(lengths)), lengths)
        columns = np.concatenate([np.sort(rng.choice(6000, n, replace=False)) for n in lengths])
        starts = pf.tensor(np.concatenate([[0], np.cumsum(lengths)]))
        columns = pf.tensor(columns.astype(np.int64))
        assert pf._C._sparse_rows(starts, len(rows)).tolist() == rows.tolist()
        t = pf.sparse_csr_tensor(starts, columns, pf.ones(len(rows)), (len(lengths), 6000))
        for _ in range(2):  # whether it is in order is looked at once
            coo = t.to_sparse_coo()
            assert coo.is_coalesced() and coo.indices().tolist() == [
                rows.tolist(),
                columns.tolist(),
            ]
    mixed = pf.sparse_csr_tensor(starts, columns.flip(0), pf.ones(len(rows)), (len(lengths), 6000))
    assert not mixed.to_sparse_coo().is_coalesced() and not mixed.to_sparse_coo().is_coalesced()


def test_elements_outside_are_errors(rng):
    starts, columns = pf.tensor([0, 2, 3]), pf.tensor([0, 4, 1])
    for bad in (
        lambda: pf._C._sparse_product(starts, columns, pf.ones(3), None, pf.ones(4, 3)),
        lambda: pf._C._sparse_product(starts, -columns, pf.ones(3), None, pf.ones(5, 3)),
        lambda: pf._C._sparse_product(starts, columns, pf.ones(4), columns, pf.ones(5, 3)),
        lambda: pf._C._sparse_dots(starts, columns, pf.ones(2, 3), pf.ones(4, 3)),
        lambda: pf._C._sparse_order(columns, 4)[0],
        lambda: pf._C._sparse_order(columns - 1, 4)[0],
    ):
        with pytest.raises(IndexError):
            bad().tolist()
    # Starts that are none read nothing outside.
    for wrong in ([0, 9, -3], [-5, 100, 100], [3, 2, 1]):
        pf._C._sparse_product(pf.tensor(wrong), columns, pf.ones(3), None, pf.ones(5, 3)).tolist()
        pf._C._sparse_dots(pf.tensor(wrong), columns, pf.ones(2, 3), pf.ones(5, 3)).tolist()


@pytest.mark.parametrize("dtype", [pf.bool, pf.float16, pf.int32, F64, pf.complex128])
@pytest.mark.parametrize("width", [(), (1,), (3,), (8,)])
def test_elements_that_are_there_once(rng, dtype, width):
    at = np.sort(rng.choice(35 * 40, 333, replace=False))
    values = rng.integers(0, 5, (333, *width))
    whole = np.zeros((35 * 40, *width))
    whole[at] = values != 0 if dtype == pf.bool else values
    t = pf.sparse_coo_tensor(
        np.stack([at // 40, at % 40]),
        pf.tensor(values).to(dtype),
        (35, 40, *width),
        is_coalesced=True,
    )
    assert t.to_dense().dtype == dtype
    assert t.to_dense().tolist() == whole.reshape(35, 40, *width).tolist()
    if not width:
        assert t.to_sparse_csr().to_dense().tolist() == whole.reshape(35, 40).tolist()


def test_results_do_not_follow_the_number_of_threads(rng):
    indices = np.stack([rng.integers(0, n, 9000) for n in (300, 200)])
    t = pf.sparse_coo_tensor(
        indices, pf.tensor(rng.normal(size=9000), dtype=pf.float32), (300, 200)
    )
    x = pf.tensor(rng.normal(size=(200, 37)), dtype=pf.float32)
    before, found = pf.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            pf.set_num_threads(threads)
            v = t.detach().requires_grad_()
            y = x.clone().requires_grad_()
            (v @ y).square().sum().backward()
            found.append([(t @ x).numpy(), v.grad._values().numpy(), y.grad.numpy()])
    finally:
        pf.set_num_threads(before)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other))
