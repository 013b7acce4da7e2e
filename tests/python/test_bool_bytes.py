"""A bool is true where its byte is not 0, whatever else the byte is.

Memory of others (NumPy, DLPack, files), uint8 tensors seen as bool and fresh memory hold any byte.
Every operation of the table gives for bytes 2 and 255 what it gives for 1.
"""

import os

import guards
import numpy as np
import pytest

import pyflame as pf

SHARE = float(os.environ.get("PYFLAME_TEST_SHARE", "1"))
ODD = np.array([0, 1, 2, 255, 0, 128, 1, 3], np.uint8)
SHAPES = [(37,), (7, 7), (3, 5, 5), (1,), (2, 3, 3, 3), (129,)]
# Whose values are made by chance, or not at all, or are the bytes themselves.
FREE = (
    "empty",
    "resize_",
    "rand",
    "bernoulli",
    "normal",
    "dropout",
    "multinomial",
    "uniform",
    "exponential",
)


def odd(shape):
    """Bytes of any value, and the same as 0 and 1."""
    n = int(np.prod(shape))
    bytes_ = np.resize(ODD, n).reshape(shape)
    return bytes_, (bytes_ != 0).astype(np.uint8)


def bools(bytes_):
    return pf.tensor(bytes_).view(pf.bool)


def run(row, dtype, shape, seed, turned, normal):
    def tensor(values, kind, front):
        if kind is pf.bool:
            a, b = odd(np.shape(values))
            return bools(b if normal else a)
        return pf.tensor(np.asarray(values)).to(kind)

    old, guards.tensor = guards.tensor, tensor
    try:
        pf.manual_seed(0)
        rng = np.random.default_rng(seed)
        call, made = guards.arguments(row, dtype, shape, False, turned, rng)
        if not any(t.dtype is pf.bool for t in made):
            return None
        results = guards.results_of(pf.ops.get(row["name"])(**call))
        results += [t for t in made if t.dtype is not pf.bool]
        # as Python sees them, and as the next kernel does
        return [
            (r.tolist(), (r.to(pf.int32) if r.dtype is pf.bool else r).tolist()) for r in results
        ]
    except (pf.PyFlameError, TypeError) as error:
        return type(error)
    finally:
        guards.tensor = old


@pytest.mark.parametrize("dtype", [pf.bool, pf.float32, pf.int64, pf.bfloat16], ids=str)
def test_every_operation_takes_any_byte_as_true(dtype):
    dice = np.random.default_rng(0)
    taken = 0
    for row in pf.ops.table():
        name = row["name"]
        if row["family"] == "test" or any(f in name for f in FREE) or name == "combinations":
            continue
        if "dtype dtype)" in row["schema"] and name == "view":
            continue  # shows the bytes
        if dice.random() > SHARE:
            continue
        count = 0
        for k, shape in enumerate(SHAPES):
            args = (row, dtype, shape, k, k % 2 == 1)
            expected = run(*args, normal=True)
            if expected is None:
                continue
            got = run(*args, normal=False)
            assert str(got) == str(expected), (row["schema"], dtype, shape)
            count += isinstance(got, list)
            if count == 3:
                break
        taken += count > 0
    assert taken > (10 if SHARE >= 1 else -1)


def test_masks_of_any_byte():
    raw, plain = odd((1000,))
    mask, values = bools(raw), np.arange(1000, dtype=np.float32)
    x = pf.tensor(values)
    assert x[mask].tolist() == values[plain != 0].tolist()
    assert mask.sum().item() == plain.sum() and mask.nonzero().numel() == plain.sum()
    assert (mask & bools(np.full(1000, 2, np.uint8))).sum().item() == plain.sum()
    assert (~mask).sum().item() == 1000 - plain.sum()
    assert (mask ^ mask.clone()).sum().item() == 0
    assert (mask == bools(plain)).all().item() and pf.equal(mask, bools(plain))
    assert mask.cumsum(0)[-1].item() == plain.sum()
    assert mask.to(pf.uint8).tolist() == mask.float().tolist() == plain.tolist()
    assert mask.sort()[0].to(pf.int64).tolist() == sorted(plain)
    assert mask.unique().tolist() == [False, True]
    assert mask.max().item() is True and int(mask.argmax()) == 1
    x[mask] = -1
    assert (x == -1).sum().item() == plain.sum()
    assert pf.where(mask, 1, 0).tolist() == plain.tolist()
    assert x.masked_fill(mask, 7.0).eq(7).sum().item() == plain.sum()


@pytest.mark.cpu_only
def test_bools_of_others():
    raw, plain = odd((64,))
    shared = pf.from_numpy(raw.view(np.bool_))
    assert shared.sum().item() == plain.sum()
    assert pf.from_dlpack(shared).sum().item() == plain.sum()
    raw[:] = 9  # seen at once
    assert shared.sum().item() == 64 and shared.all().item()
