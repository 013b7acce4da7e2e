"""torchvision's compiled operators: values and gradients of drawn boxes, regions and offsets."""

import numpy as np
import torch
import torchvision.ops as ops
from made_up import report

rng = np.random.RandomState(0)


def tensor(*shape, grad=False):
    return torch.tensor(rng.randn(*shape).astype(np.float32), requires_grad=grad)


def boxes(n, size, scale=1.0):
    corners = rng.rand(n, 4) * size * scale
    low, high = (
        np.minimum(corners[:, :2], corners[:, 2:]),
        np.maximum(corners[:, :2], corners[:, 2:]),
    )
    return np.concatenate([low, high], 1).astype(np.float32)


for n in (0, 1, 40, 300):
    b, scores = torch.tensor(boxes(n, 30)), torch.tensor(rng.rand(n).astype(np.float32).round(1))
    for threshold in (0.1, 0.5):
        report(f"nms {n} {threshold}", ops.nms(b, scores, threshold))
    groups = torch.tensor(rng.randint(0, 3, n))
    report(f"batched_nms {n}", ops.batched_nms(b, scores, groups, 0.3))

regions = np.concatenate([rng.randint(0, 2, (9, 1)), boxes(9, 28) - 4], 1).astype(np.float32)
regions[0, 1:] = [3, 3, 3, 3]  # of no area
regions[1, 1:] = [-20, -20, -15, -15]  # outside
regions[2, 1:] = [5, 9, 60, 70]
regions[3, 1:] = [4, 4, 2, 1]  # turned around
regions = torch.tensor(regions)
for name, function, channels in (
    ("roi_align", ops.roi_align, 3),
    ("roi_pool", ops.roi_pool, 3),
    ("ps_roi_align", ops.ps_roi_align, 12),
    ("ps_roi_pool", ops.ps_roi_pool, 12),
):
    if name == "ps_roi_pool":
        # At the last row and column torchvision's gradient is not that of its values.
        regions = regions.clone()
        regions[2, 1:] = torch.tensor([2.0, 3, 11, 9])
        regions[3:, 1:] = (regions[3:, 1:] + 4) / 3
    ways = [{}]
    if "align" in name:
        ways = [{"sampling_ratio": r} for r in (-1, 1, 3)]
    if name == "roi_align":
        ways += [{"aligned": True, **w} for w in ways]
    for i, way in enumerate(ways):
        for scale in (1.0, 0.5):
            x = tensor(2, channels, 13, 17, grad=True)
            factor = tensor(9, 3, 2, 2)
            out = function(x, regions, (2, 2), spatial_scale=scale, **way)
            (out * factor).sum().backward()
            report(f"{name} {i} {scale}", out, x.grad)
none = ops.roi_align(tensor(1, 2, 4, 4), torch.zeros(0, 5), 3)
report("no regions", torch.tensor(none.shape))
pyramid = ops.MultiScaleRoIAlign(["a", "b"], 3, 2)
levels = {"a": tensor(1, 2, 16, 16), "b": tensor(1, 2, 8, 8)}
report("pyramid", pyramid(levels, [torch.tensor(boxes(5, 60))], [(64, 64)]))

for i, (groups, offset_groups, stride, padding, dilation, masked) in enumerate(
    [
        (1, 1, 1, 1, 1, False),
        (2, 1, 2, 1, 1, True),
        (1, 2, (1, 2), (2, 0), (2, 1), True),
        (2, 4, 1, 0, 1, False),
    ]
):
    x, w = tensor(2, 4, 7, 8, grad=True), tensor(6, 4 // groups, 3, 2, grad=True)
    bias = tensor(6, grad=True)
    s, p, d = (v if isinstance(v, tuple) else (v, v) for v in (stride, padding, dilation))
    h, wide = (
        (n + 2 * q - e * (k - 1) - 1) // t + 1 for n, q, e, k, t in zip((7, 8), p, d, (3, 2), s)
    )
    offset, mask = (
        tensor(2, offset_groups * 12, h, wide, grad=True),
        tensor(2, offset_groups * 6, h, wide, grad=True),
    )
    if i == 0:
        with torch.no_grad():
            offset.zero_()  # as layers begin: taps on pixels and on the edge
    out = ops.deform_conv2d(x, offset, w, bias, s, p, d, mask if masked else None)
    (out * tensor(*out.shape)).sum().backward()
    report(
        f"deform_conv2d {i}",
        out,
        x.grad,
        w.grad,
        bias.grad,
        offset.grad,
        *([mask.grad] if masked else []),
    )

turned = np.concatenate([rng.rand(12, 2) * 10, rng.rand(12, 2) * 6 + 0.5, rng.rand(12, 1) * 360], 1)
turned[1], turned[2] = turned[0], turned[0] + [0, 0, 0, 0, 90]
turned = torch.tensor(turned.astype(np.float32))
report("box_iou rotated", ops.box_iou(turned, turned[:7], fmt="cxcywhr"))
report("box_iou", ops.box_iou(torch.tensor(boxes(6, 9)), torch.tensor(boxes(4, 9))))
report("giou", ops.generalized_box_iou(torch.tensor(boxes(6, 9)), torch.tensor(boxes(4, 9))))
