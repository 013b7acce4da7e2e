"""Packages with libraries compiled against PyTorch, under `pyflame run`: nothing of these is loaded, what
they compiled raises by name, and where PyFlame has the operation it answers.

What ours calculate is compared with the definitions, written as loops; tests/programs compares them with
the packages' own.
"""

import functools
import itertools
import shutil
import subprocess

import numpy as np
import pytest
import test_torch_run
from conftest import DEVICE

import pyflame as pf
from pyflame._torch import extensions
from pyflame._torch.extensions import audio, image, vision

LIBRARY = """
#include <stdlib.h>
extern int of_torch(void);
/* Runs if anybody loads it. */
__attribute__((constructor)) static void loaded(void) { abort(); }
const char* schemas[] = {"fancy_attention(Tensor q) -> Tensor", "cuda_version"};
int calls(void) { return of_torch(); }
"""
PROGRAM = """
import importlib.util, sys
import torch

from package import _C, other
import package

try:
    _C.fancy_attention(torch.ones(1))
except NotImplementedError as e:
    print(e)
assert isinstance(_C.fancy_attention, type) and not hasattr(_C, "nothing_of_it")
assert _C.__name__ == "package._C" and _C.__file__ == other

torch.ops.load_library(other)
assert other in torch.ops.loaded_libraries
operator = torch.ops.fancy.fancy_attention
assert not hasattr(torch.ops.fancy, "nothing_of_it") and operator.default is operator.Tensor is operator
try:
    operator(torch.ones(1))
except NotImplementedError as e:
    print(e)

torch.classes.load_library(other)
try:
    torch.classes.fancy.fancy_attention(3)
except NotImplementedError as e:
    assert "torch.classes.fancy.fancy_attention: it is compiled in" in str(e)
assert not hasattr(torch.classes.fancy, "nothing_of_it")

# A package gives it a function and a gradient in Python.
@torch.library.register_fake("fancy::fancy_attention")
def shapes(q):
    raise AssertionError("nobody asks")

torch.library.impl("fancy::fancy_attention", "cpu", lambda q: q * 2)
torch.library.register_autograd("fancy::fancy_attention", lambda ctx, g: g * 5)
q = torch.ones(1, requires_grad=True)
operator(q).backward()
assert q.grad.item() == 5

library = torch.library.Library("fancy", "FRAGMENT")
library.define("cuda_version(int x) -> int")
library.impl("cuda_version", lambda x: x + 1, "CompositeExplicitAutograd")
assert torch.ops.fancy.cuda_version(2) == 3

# torchvision's own gradients of what is ours are not asked.
def backward(ctx, g):
    raise AssertionError("nobody asks")

torch.library.register_autograd("torchvision::roi_align", backward, setup_context=backward)
x = torch.ones(1, 1, 4, 4, requires_grad=True)
torch.ops.torchvision.roi_align(x, torch.tensor([[0.0, 0, 0, 3, 3]]), 1.0, 1, 1, 2, False).backward()
assert abs(x.grad.sum().item() - 1) < 1e-6

try:
    torch.ops.load_library("nowhere.so")
except OSError as e:
    print(e)
import math, array, _json  # others are loaded as always
assert math.pi > 3
"""


@pytest.mark.cpu_only
def test_libraries_stay_outside(tmp_path):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "source.c").write_text(LIBRARY)
    (tmp_path / "empty.c").write_text("int of_torch(void) { return 0; }")
    made = tmp_path / "package" / "_C.so"
    for command in (
        ["-o", "libtorch_cpu.so", "-Wl,-soname,libtorch_cpu.so", "empty.c"],
        ["-o", made, "package/source.c", "-L.", "-ltorch_cpu"],
    ):
        subprocess.run([compiler, "-shared", "-fPIC", *command], cwd=tmp_path, check=True)
    (tmp_path / "package" / "__init__.py").write_text(f"other = {str(made)!r}\n")
    assert extensions.is_against_torch(str(made))
    assert not extensions.is_against_torch(pf._C.__file__)
    lines = test_torch_run.run(PROGRAM, cwd=tmp_path).splitlines()
    assert lines[0].startswith(
        f"package._C.fancy_attention: it is compiled in {made} against PyTorch"
    )
    assert lines[1].startswith(f"torch.ops.fancy.fancy_attention: it is compiled in {made} against")
    assert lines[2].startswith("torch.ops.load_library: got 'nowhere.so'; expected a file")


@pytest.mark.cpu_only
def test_files_that_are_no_libraries(tmp_path):
    path = tmp_path / "x.so"
    rng = np.random.RandomState(0)
    with open(pf._C.__file__, "rb") as f:
        head = f.read(4096)
    texts = [b"", b"\x7fELF", b"text", head, *(head[:n] for n in (20, 63, 64, 70, 300))]
    for _ in range(200):
        broken = bytearray(head)
        for _ in range(4):
            broken[rng.randint(6, 600)] = rng.randint(256)
        texts.append(bytes(broken))
    for text in texts:
        path.write_bytes(text)
        extensions.is_against_torch(str(path))
    assert not extensions.is_against_torch(str(tmp_path / "nowhere"))
    path.write_bytes(b"")
    assert not extensions.holds(str(path), "name")
    path.write_bytes(b"some names(Tensor x)\0nms.overload\0a_long_on\1e")
    for name, there in (
        ("names", True),
        ("nms", True),
        ("name", False),
        ("a_long_one", True),
        ("other", False),
    ):
        assert extensions.holds(str(path), name) is there


class On:
    """Functions that make tensors, on the device of the tests."""

    def __getattr__(self, name):
        return functools.partial(getattr(pf, name), device=DEVICE)


on = On()


# ---- torchvision ---------------------------------------------------------------------------------


def boxes(rng, n, size):
    corners = rng.rand(n, 2, 2) * size
    return np.concatenate([corners.min(1), corners.max(1)], 1).astype(np.float32)


def overlap(a, b):
    sides = [min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1)]
    common = max(sides[0], 0) * max(sides[1], 0)
    area = sum((v[2] - v[0]) * (v[3] - v[1]) for v in (a, b))
    return common / (area - common)


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_nms(n):
    rng = np.random.RandomState(n)
    b, scores = boxes(rng, n, 10), rng.rand(n).astype(np.float32).round(1)
    order = sorted(range(n), key=lambda i: -scores[i])
    kept = []
    for i in order:
        if all(overlap(b[i], b[j]) <= 0.3 for j in kept):
            kept.append(i)
    found = vision.nms(on.tensor(b.reshape(n, 4)), on.tensor(scores), 0.3)
    assert found.tolist() == kept and found.dtype == pf.int64
    with pytest.raises(RuntimeError, match="expected \\[n, 4\\]"):
        vision.nms(on.ones(3, 5), on.ones(3), 0.3)


def sample(plane, y, x):
    """Between pixels; 0 further than one from the picture, the edge's value within that."""
    h, w = plane.shape
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0.0
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    i, j = min(int(y), h - 2), min(int(x), w - 2)
    a, b = y - i, x - j
    return (plane[i, j] * (1 - a) * (1 - b) + plane[i, j + 1] * (1 - a) * b
            + plane[i + 1, j] * a * (1 - b) + plane[i + 1, j + 1] * a * b)  # fmt: skip


def regions(rng, n, size):
    return np.concatenate([rng.randint(0, 2, (n, 1)), boxes(rng, n, size) - 2], 1).astype(
        np.float64
    )


def pooled(x, rois, bins, ratio, offset, least, own):
    """roi_align, by its definition."""
    c = x.shape[1] // (bins * bins if own else 1)
    out = np.zeros((len(rois), c, bins, bins))
    for k, (number, x1, y1, x2, y2) in enumerate(rois):
        high, wide = (max(v, least) for v in (y2 - y1, x2 - x1))
        gy, gx = (ratio if ratio > 0 else int(np.ceil(v / bins)) for v in (high, wide))
        for q, i, j in itertools.product(range(c), range(bins), range(bins)):
            plane = x[int(number), (q * bins + i) * bins + j if own else q]
            values = [
                sample(plane, y1 - offset + high / bins * (i + (a + 0.5) / gy),
                       x1 - offset + wide / bins * (j + (b + 0.5) / gx))
                for a in range(gy) for b in range(gx)
            ]  # fmt: skip
            out[k, q, i, j] = sum(values) / max(len(values), 1)
    return out


@pytest.mark.parametrize("ratio", [-1, 2])
def test_regions_of_interest(ratio):
    rng = np.random.RandomState(0)
    x, rois = rng.randn(2, 8, 6, 7), regions(rng, 5, 9)
    t, r = on.tensor(x), on.tensor(rois)
    for aligned in (False, True):
        found = vision.roi_align(t, r, 1.0, 2, 2, ratio, aligned)
        least, offset = (0, 0.5) if aligned else (1, 0)
        np.testing.assert_allclose(
            found.cpu().numpy(), pooled(x, rois, 2, ratio, offset, least, False), atol=1e-12
        )
    found, channels = vision.ps_roi_align(t, r, 1.0, 2, 2, ratio)
    np.testing.assert_allclose(
        found.cpu().numpy(), pooled(x, rois, 2, ratio, 0.5, 0, True), atol=1e-12
    )
    assert channels.shape == (5, 2, 2, 2) and channels[3].flatten().tolist() == list(range(8))
    half = vision.roi_align(t, on.tensor(rois * [1, 2, 2, 2, 2]), 0.5, 2, 2, ratio, True)
    assert pf.allclose(half, vision.roi_align(t, r, 1.0, 2, 2, ratio, True))
    few = on.tensor(x[:, :4], requires_grad=True)
    call = lambda v: vision.roi_align(v, r, 1.0, 2, 2, ratio, True)  # noqa: E731
    assert pf.autograd.gradcheck(call, (few,))
    with pytest.raises(RuntimeError, match="expected \\[n, 5\\]"):
        vision.roi_align(t, r[:, 1:], 1.0, 2, 2, ratio, True)
    with pytest.raises(RuntimeError, match="multiple of 3"):
        vision.ps_roi_align(t, r, 1.0, 3, 3, ratio)


def test_regions_are_taken_in_parts(monkeypatch):
    rng = np.random.RandomState(0)
    x, rois = on.tensor(rng.randn(2, 3, 6, 7)), on.tensor(regions(rng, 5, 9))
    calls = (
        lambda: vision.roi_align(x, rois, 1.0, 2, 2, -1, False),
        lambda: vision.roi_pool(x, rois, 1.0, 2, 2)[1],
    )
    whole = [call() for call in calls]
    monkeypatch.setattr(vision, "_MOST", 1)
    assert all(call().equal(w) for call, w in zip(calls, whole))


def test_largest_and_mean_of_bins():
    rng = np.random.RandomState(1)
    x, rois = rng.randn(2, 8, 6, 7), regions(rng, 6, 9)
    rois[0, 1:] = [-9, -9, -7, -7]
    t, r = on.tensor(x, requires_grad=True), on.tensor(rois)
    largest, where = vision.roi_pool(t, r, 1.0, 2, 2)
    means, _ = vision.ps_roi_pool(t, r, 1.0, 2, 2)

    def reach(a, b, more, i, limit):
        a, b = (int(np.floor(abs(v) + 0.5) * np.sign(v)) for v in (a, b))
        step = max(b - a + more, 1) / 2
        ends = np.floor(i * step + a), np.ceil((i + 1) * step + a)
        return slice(*(int(min(max(v, 0), limit)) for v in ends))

    for k, (number, x1, y1, x2, y2) in enumerate(rois):
        for i, j, c in itertools.product(range(2), range(2), range(8)):
            plane = x[int(number), c]
            part = plane[reach(y1, y2, 1, i, 6), reach(x1, x2, 1, j, 7)]
            assert largest[k, c, i, j].item() == (part.max() if part.size else 0)
            at = where[k, c, i, j].item()
            assert at == -1 if not part.size else plane.reshape(-1)[at] == part.max()
            part = plane[reach(y1, y2, 0, i, 5), reach(x1, x2, 0, j, 6)]
            if c % 4 == 2 * i + j:
                expected = part.mean() if part.size else 0
                assert means[k, c // 4, i, j].item() == pytest.approx(expected, abs=1e-12)
    assert pf.autograd.gradcheck(lambda v: vision.roi_pool(v, r, 1.0, 2, 2)[0], (t,))
    assert pf.autograd.gradcheck(lambda v: vision.ps_roi_pool(v, r, 1.0, 2, 2)[0], (t,))
    assert vision.roi_pool(t, r[:0], 1.0, 2, 2)[0].shape == (0, 8, 2, 2)


def test_deformed_convolution_by_its_definition():
    rng = np.random.RandomState(0)
    x, w, b = rng.randn(2, 4, 5, 6), rng.randn(6, 2, 3, 2), rng.randn(6)
    offset, mask = rng.randn(2, 24, 5, 3) * 1.5, rng.rand(2, 12, 5, 3)
    expected = np.zeros((2, 6, 5, 3)) + b[:, None, None]

    def pixel(plane, y, x):
        """0 outside, and between pixels as if these 0 were there."""
        return sample(np.pad(plane, 2), min(max(y, -2), 6) + 2, min(max(x, -2), 7) + 2)

    for n, o, i, j in itertools.product(range(2), range(6), range(5), range(3)):
        for q, u, v in itertools.product(range(2), range(3), range(2)):
            c, tap = (o // 3) * 2 + q, u * 2 + v
            group = c // 2
            dy, dx = offset[n, group * 12 + tap * 2 : group * 12 + tap * 2 + 2, i, j]
            value = pixel(x[n, c], i - 1 + u + dy, 2 * j + v + dx)
            expected[n, o, i, j] += w[o, q, u, v] * value * mask[n, group * 6 + tap, i, j]
    args = [on.tensor(v, requires_grad=True) for v in (x, w, offset, mask, b)]
    numbers = (1, 2, 1, 0, 1, 1, 2, 2, True)
    np.testing.assert_allclose(
        vision.deform_conv2d(*args, *numbers).detach().cpu().numpy(), expected, atol=1e-12
    )
    small = [
        a.detach()[:1].requires_grad_() if a.ndim == 4 and a.shape[0] == 2 else a for a in args
    ]
    assert pf.autograd.gradcheck(lambda *a: vision.deform_conv2d(*a, *numbers), small)
    with pytest.raises(RuntimeError, match="expected \\[2, 24, 5, 3\\]"):
        vision.deform_conv2d(args[0], args[1], args[2][:, :12], *args[3:], *numbers)


def test_offsets_of_zero_are_a_convolution():
    x, w = on.randn(2, 4, 5, 6), on.randn(3, 4, 3, 3)
    offset, mask = on.zeros(2, 18, 5, 6), on.ones(2, 9, 5, 6)
    found = vision.deform_conv2d(x, w, offset, mask, on.zeros(3), 1, 1, 1, 1, 1, 1, 1, 1, True)
    assert pf.allclose(found, pf.nn.functional.conv2d(x, w, padding=1), atol=1e-4)


def test_autocast_is_float32_inside():
    x, rois = on.randn(1, 2, 6, 6).bfloat16(), on.tensor([[0, 0.0, 0, 4, 4]]).bfloat16()
    with pf.autocast(x.device.type, dtype=pf.bfloat16):
        out = vision.roi_align(x, rois, 1.0, 2, 2, 2, False)
    assert out.dtype == pf.bfloat16
    assert out.equal(vision.roi_align(x.float(), rois.float(), 1.0, 2, 2, 2, False).bfloat16())


def test_turned_boxes():
    """Against areas counted on a fine grid."""
    rng = np.random.RandomState(0)
    b = np.concatenate([rng.rand(5, 2) * 3 + 3, rng.rand(5, 2) * 4 + 0.5, rng.rand(5, 1) * 360], 1)
    b[4] = b[3] + [0, 0, 0, 0, 90]
    found = vision.box_iou_rotated(on.tensor(b), on.tensor(b)).cpu().numpy()
    grid = np.stack(np.meshgrid(*[np.arange(0, 10, 0.01)] * 2), -1)

    def inside(x, y, w, h, angle):
        c, s = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        d = grid - [x, y]
        return (abs(c * d[..., 0] - s * d[..., 1]) <= w / 2) & (
            abs(s * d[..., 0] + c * d[..., 1]) <= h / 2
        )

    parts = [inside(*v) for v in b]
    counted = [[(p & q).sum() / (p | q).sum() for q in parts] for p in parts]
    np.testing.assert_allclose(found, counted, atol=5e-3)
    np.testing.assert_allclose(np.diag(found), 1)
    nothing = on.zeros(0, 5)
    assert vision.box_iou_rotated(nothing, on.tensor(b)).shape == (0, 5)


@pytest.mark.cpu_only
def test_pictures(tmp_path):
    pytest.importorskip("PIL")
    picture = pf.tensor(np.random.RandomState(0).randint(0, 256, (3, 5, 7)).astype(np.uint8))
    call = image.OPERATORS  # on the CPU, as torchvision's
    packed = call["encode_png"](picture, 6)
    assert call["decode_png"](packed).equal(picture) and call["decode_image"](
        packed, 3, True
    ).equal(picture)
    assert (
        call["decode_png"](packed, 1).shape == (1, 5, 7)
        and call["decode_png"](packed, 4).shape[0] == 4
    )
    smooth = pf.full((3, 16, 16), 100).to(pf.uint8)
    lossy = call["decode_jpeg"](call["encode_jpeg"](smooth, 95), 0)
    assert (lossy.int() - 100).abs().max() <= 2
    assert call["encode_png"](picture[:1], 1).ndim == 1
    call["write_file"](str(tmp_path / "x.png"), packed)
    assert call["read_file"](str(tmp_path / "x.png")).equal(packed)
    for bad in (lambda: call["decode_jpeg"](packed, 0), lambda: call["decode_png"](packed[:40]),
                lambda: call["decode_png"](packed.float()), lambda: call["encode_png"](picture.float(), 1)):  # fmt: skip
        with pytest.raises(RuntimeError, match="torchvision.io"):
            bad()


# ---- torchaudio ----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 3, 256, 257, 700])
@pytest.mark.parametrize("order", [0, 1, 4])
def test_recursive_filters(length, order):
    rng = np.random.RandomState(length)
    x, a = rng.randn(2, 3, length), rng.randn(3, order) * 0.3
    before = rng.randn(2, 3, order)
    expected = np.concatenate([before, x], 2)
    for t in range(length):
        for k in range(order):
            expected[:, :, order + t] -= a[:, k] * expected[:, :, order + t - 1 - k]
    found = audio.recursion(on.tensor(x), on.tensor(a), on.tensor(before))
    np.testing.assert_allclose(found.cpu().numpy(), expected[:, :, order:], rtol=1e-9, atol=1e-9)


def test_filters_that_overflow():
    """Infinity and NaN come where they come sample by sample, and not before."""
    x = np.zeros((1, 1, 600))
    x[0, 0, 0], x[0, 0, 400] = 1, np.inf
    found = (
        audio.recursion(on.tensor(x), on.tensor([[-0.5]]), on.zeros(1, 1, 1)).cpu().numpy()[0, 0]
    )
    np.testing.assert_allclose(found[:30], 0.5 ** np.arange(30))
    assert np.isfinite(found[:400]).all() and np.isinf(found[400:]).all()
    steep = (
        audio.recursion(on.ones(1, 1, 600), on.tensor([[-1e4]]), on.zeros(1, 1, 1))
        .cpu()
        .numpy()[0, 0]
    )
    assert np.isfinite(steep[:70]).all() and np.isinf(steep[-1])


def test_overdrive():
    rng = np.random.RandomState(0)
    wave, temp = (rng.randn(2, 300).astype(np.float32) for _ in range(2))
    last_in, last_out = (rng.randn(2).astype(np.float32) for _ in range(2))
    args = [on.tensor(v) for v in (wave, temp, last_in, last_out)]
    out = on.zeros(2, 300)
    audio._overdrive_core_loop(*args, out)
    for t in range(300):
        last_out = temp[:, t] - last_in + 0.995 * last_out
        last_in = temp[:, t]
        np.testing.assert_allclose(
            out[:, t].cpu().numpy(), wave[:, t] / 2 + last_out * 0.75, atol=1e-5
        )
    np.testing.assert_allclose(args[2].cpu().numpy(), last_in)
    np.testing.assert_allclose(args[3].cpu().numpy(), last_out, atol=1e-5)


def collapsed(path, blank):
    return [k for k, _ in itertools.groupby(path) if k != blank]


@pytest.mark.parametrize("labels", [[1], [1, 2], [2, 2], [1, 2, 1]])
@pytest.mark.parametrize("blank", [0, 3])
def test_forced_alignment(labels, blank):
    """The likeliest of all paths."""
    rng = np.random.RandomState(0)
    for frames in (4, 5):
        logs = np.log(rng.dirichlet(np.ones(4), frames))
        paths = [
            p for p in itertools.product(range(4), repeat=frames) if collapsed(p, blank) == labels
        ]
        best = max(paths, key=lambda p: sum(logs[t, v] for t, v in enumerate(p)))
        found, same = audio.forced_align(
            on.tensor(logs[None]), on.tensor([labels]), on.tensor([frames]), on.tensor([len(labels)]), blank
        )  # fmt: skip
        assert found.tolist() == [list(best)] and same.shape == (1, frames, 4)
    with pytest.raises(RuntimeError, match="2 frames for 2 labels with 1 repeats"):
        few = on.zeros(1, 2, 4)
        audio.forced_align(few, on.tensor([[1, 1]]), on.tensor([2]), on.tensor([2]), 0)


def transducer(logits, labels, blank):
    """The loss over all paths of one sequence, in differentiable operations."""
    logs = logits.log_softmax(-1)
    frames, places = logs.shape[:2]
    paths = []
    for at in itertools.combinations(range(frames - 1 + places - 1), places - 1):
        t = u = 0
        total = 0.0
        for i in range(frames - 1 + places - 1):
            if i in at:
                total, u = total + logs[t, u, labels[u]], u + 1
            else:
                total, t = total + logs[t, u, blank], t + 1
        paths.append(total + logs[t, u, blank])
    return -pf.stack(paths).logsumexp(0)


@pytest.mark.parametrize("clamp", [-1.0, 0.01])
def test_the_transducers_loss(clamp):
    rng = np.random.RandomState(0)
    logits = on.tensor(rng.randn(3, 4, 3, 5), requires_grad=True)
    targets = on.tensor([[1, 3], [2, 2], [4, 0]], dtype=pf.int32)
    frames, labels = [4, 3, 1], [2, 1, 2]
    found, grad = audio.rnnt_loss_forward(
        logits, targets, on.tensor(frames), on.tensor(labels), 0, clamp, True
    )
    for i, (t, u) in enumerate(zip(frames, labels)):
        part = logits[i, :t, : u + 1]
        expected = transducer(part, targets[i].tolist(), 0)
        assert found[i].item() == pytest.approx(expected.item(), rel=1e-12)
        expected.backward()
    wanted = logits.grad.clamp(-clamp, clamp) if clamp > 0 else logits.grad
    np.testing.assert_allclose(grad.cpu().numpy(), wanted.cpu().numpy(), atol=1e-12)
    logs = logits.detach().log_softmax(-1).requires_grad_()
    loss, raw = audio.rnnt_loss_forward(
        logs, targets, on.tensor(frames), on.tensor(labels), 0, -1.0, False
    )  # fmt: skip
    assert pf.allclose(loss, found)
    through = pf.autograd.grad(logits.log_softmax(-1), logits, raw)[0]
    np.testing.assert_allclose(through.cpu().numpy(), logits.grad.cpu().numpy(), atol=1e-12)
