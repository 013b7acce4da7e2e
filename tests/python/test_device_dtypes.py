"""Dtypes that PyTorch has on GPUs alone or on CPUs alone: each is taken on every device here, or stands in
the table of docs/pytorch_differences.md with its reason.

tests/python/pytorch_device_dtypes.json is PyTorch's own table (of its tests), where its two columns differ;
tools/pytorch_device_dtypes.py writes it.
"""

import json
import re
from pathlib import Path

import pytest
from conftest import DEVICE

import pyflame as pf

HERE = Path(__file__).parent
TABLE = json.loads((HERE / "pytorch_device_dtypes.json").read_text())
PAGE = (HERE.parents[1] / "docs" / "pytorch_differences.md").read_text()
F = pf.nn.functional


def v(dtype, *shape):
    """Small numbers from 1 on, so that every function is defined and sums of products fit in int8."""
    count = 1
    for n in shape:
        count *= n
    values = pf.arange(count, device=DEVICE) % 3 + 1
    return values.reshape(shape).to(getattr(pf, dtype))


def conv(n, transposed=False):
    def call(d):
        x, w = v(d, 1, 2, *(4,) * n), v(d, 2, 2, *(2,) * n)
        return getattr(F, f"conv_transpose{n}d" if transposed else f"conv{n}d")(x, w)

    return call


def unary(function, *args):
    return lambda d: function(v(d, 4), *args)


CALLS = {
    "abs": unary(pf.abs),
    "addmm": lambda d: pf.addmm(v(d, 2, 2), v(d, 2, 3), v(d, 3, 2)),
    "addmm.decomposed": lambda d: pf.addmm(v(d, 2, 2), v(d, 2, 3), v(d, 3, 2), beta=2, alpha=3),
    "addmv": lambda d: pf.addmv(v(d, 2), v(d, 2, 3), v(d, 3)),
    "addbmm": lambda d: pf.addbmm(v(d, 2, 2), v(d, 2, 2, 3), v(d, 2, 3, 2)),
    "baddbmm": lambda d: pf.baddbmm(v(d, 2, 2, 2), v(d, 2, 2, 3), v(d, 2, 3, 2)),
    "dot": lambda d: pf.dot(v(d, 3), v(d, 3)),
    "vdot": lambda d: pf.vdot(v(d, 3), v(d, 3)),
    "bmm": lambda d: pf.bmm(v(d, 2, 2, 3), v(d, 2, 3, 2)),
    "mv": lambda d: pf.mv(v(d, 2, 3), v(d, 3)),
    "mm": lambda d: pf.mm(v(d, 2, 3), v(d, 3, 2)),
    "matmul": lambda d: pf.matmul(v(d, 2, 2, 3), v(d, 3, 2)),
    "__rmatmul__": lambda d: v(d, 3, 2).__rmatmul__(v(d, 2, 3)),
    "einsum": lambda d: pf.einsum("ij,jk->ik", v(d, 2, 3), v(d, 3, 2)),
    "inner": lambda d: pf.inner(v(d, 2, 3), v(d, 2, 3)),
    "tensordot": lambda d: pf.tensordot(v(d, 2, 3), v(d, 3, 2), 1),
    "linalg.multi_dot": lambda d: pf.linalg.multi_dot([v(d, 2, 3), v(d, 3, 2), v(d, 2, 2)]),
    "nn.functional.linear": lambda d: F.linear(v(d, 2, 3), v(d, 2, 3), v(d, 2)),
    "nn.functional.bilinear": lambda d: F.bilinear(v(d, 2, 2), v(d, 2, 3), v(d, 2, 2, 3)),
    "nn.functional.avg_pool1d": lambda d: F.avg_pool1d(v(d, 1, 2, 4), 2),
    "nn.functional.avg_pool2d": lambda d: F.avg_pool2d(v(d, 1, 2, 4, 4), 2),
    "nn.functional.avg_pool3d": lambda d: F.avg_pool3d(v(d, 1, 2, 4, 4, 4), 2),
    "nn.functional.max_pool2d": lambda d: F.max_pool2d(v(d, 1, 2, 4, 4), 2),
    "nn.functional.max_pool3d": lambda d: F.max_pool3d(v(d, 1, 2, 4, 4, 4), 2),
    "nn.functional.local_response_norm": lambda d: F.local_response_norm(v(d, 1, 4, 4), 2),
    **{f"nn.functional.conv{n}d": conv(n) for n in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{n}d": conv(n, True) for n in (1, 2, 3)},
    **{
        f"nn.functional.interpolate.{m}": lambda d, m=m: F.interpolate(
            v(d, 1, 1, 4, 4), (3, 6), mode=m
        )
        for m in ("bilinear", "bicubic")
    },
    "nn.functional.upsample_bilinear": lambda d: F.interpolate(
        v(d, 1, 1, 4, 4), (3, 6), mode="bilinear", align_corners=True
    ),
    "_upsample_bilinear2d_aa": lambda d: F.interpolate(
        v(d, 1, 1, 4, 4), (3, 6), mode="bilinear", antialias=True
    ),
    "nn.functional.multi_margin_loss": lambda d: F.multi_margin_loss(v(d, 2, 3), v("int64", 2) % 3),
    "nn.functional.multilabel_margin_loss": lambda d: F.multilabel_margin_loss(
        v(d, 2, 3), v("int64", 2, 3) % 3
    ),
    "nn.functional.rrelu": unary(F.rrelu),
    "nn.functional.softsign": unary(F.softsign),
    "nn.functional.batch_norm.without_cudnn": lambda d: F.batch_norm(
        v(d, 2, 3, 4), None, None, training=True
    ),
    "igamma": lambda d: pf.igamma(v(d, 4), v(d, 4)),
    "igammac": lambda d: pf.igammac(v(d, 4), v(d, 4)),
    "round.decimals_3": lambda d: pf.round(v(d, 4), decimals=3),
    "round.decimals_neg_3": lambda d: pf.round(v(d, 4), decimals=-3),
    "angle": unary(pf.angle),
    **{f"polygamma.polygamma_n_{n}": lambda d, n=n: pf.polygamma(n, v(d, 4)) for n in (1, 2, 3, 4)},
    "histc": lambda d: pf.histc(v(d, 9), 3),
    "histogram": lambda d: pf.histogram(v(d, 9), 3),
    "histogramdd": lambda d: pf.histogramdd(v(d, 9, 2), [3, 3]),
    "trace": lambda d: pf.trace(v(d, 3, 3)),
    "nanmean": unary(pf.nanmean),
    "nansum": unary(pf.nansum),
    **{
        f"scatter_reduce.{r}": lambda d, r=r: v(d, 4).scatter_reduce(
            0, v("int64", 4) % 3, v(d, 4), r
        )
        for r in ("prod", "amin", "amax")
    },
    **{
        f"fft.{n}": lambda d, n=n: getattr(pf.fft, n)(v(d, 4, 4))
        for n in (
            *("fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "rfft", "rfft2", "rfftn", "ifft"),
            *("ifft2", "ifftn", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn"),
        )
    },
}


def listed():
    """Rows of the page's table: which of the dtypes of one device are refused."""
    table = PAGE.split("## Dtypes of one device", 1)[1].split("\n## ", 1)[0]
    found = {}
    for names, dtypes, reason in re.findall(r"^\| (`.*?) \| (`.*?) \| (.+?) \|$", table, re.M):
        assert len(reason) > 20
        for name in re.findall(r"`([^`]+)`", names):
            found.setdefault(name, set()).update(re.findall(r"`([^`]+)`", dtypes))
    return found


@pytest.mark.parametrize("name", sorted(TABLE))
def test_both_columns(name):
    refused = set()
    for dtype in TABLE[name]:
        try:
            result = CALLS[name](dtype)
        except (TypeError, NotImplementedError):
            refused.add(dtype)
        else:
            for t in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(t, pf.Tensor):
                    t.cpu()  # kernels that are compiled now may refuse, too
    assert refused == listed().get(name, set())


def test_the_page_has_no_other_rows():
    assert listed().keys() <= TABLE.keys() and TABLE.keys() <= CALLS.keys()
    for name, dtypes in listed().items():
        assert dtypes <= set(TABLE[name])


def test_integers_in_bins():
    """Whole numbers, exactly: a count for each class that a mixture of experts chose from."""
    chosen = v("int64", 30) * 2 - 2
    for dtype in ("int8", "int16", "int32", "int64", "uint8"):
        counts = chosen.to(getattr(pf, dtype)).histc(5, 0, 4)
        assert counts.dtype == getattr(pf, dtype) and counts.tolist() == [10, 0, 10, 0, 10]
    big = pf.tensor([2**60, 2**60 + 1, 2**60 + 2], device=DEVICE)
    assert big.histc(2).tolist() == [1, 2]
    assert pf.tensor([3, 3], device=DEVICE).histc(2).tolist() == [0, 2]
    assert pf.zeros(0, dtype=pf.int64, device=DEVICE).histc(3).tolist() == [0, 0, 0]
    assert pf.tensor([-5, -1, 0, 9], device=DEVICE).histc(2, min=-4, max=4).tolist() == [1, 1]
    with pytest.raises(ValueError, match="range 3 to 1"):
        chosen.histc(2, 3, 1)
    with pytest.raises(TypeError, match="got dtype bool"):
        (chosen > 1).histc(2)
