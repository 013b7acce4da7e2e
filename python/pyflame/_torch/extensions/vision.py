"""The operators of torchvision that are compiled there: boxes, regions of interest, deformable
convolution.

Regions and deformed kernels are weighted sums of few pixels, that is, bags of `embedding_bag` whose rows
are the pixels and whose vectors are their channels. So they run on every device, and their gradients, of
offsets and masks too, are that function's.
"""

import functools

import numpy as np

import pyflame as pf

_MOST = 1 << 22  # taps of regions that are listed at a time


def _in_full(function):
    """Under autocast in float32, as torchvision has it; the result has the input's dtype."""

    @functools.wraps(function)
    def call(first, *others):
        kind = first.device.type
        if not pf.is_autocast_enabled(kind):
            return function(first, *others)
        with pf.autocast(kind, enabled=False):
            low = lambda v: isinstance(v, pf.Tensor) and v.is_floating_point()  # noqa: E731
            out = function(*(v.float() if low(v) else v for v in (first, *others)))
        back = lambda v: v.to(first.dtype) if v.is_floating_point() else v  # noqa: E731
        return tuple(map(back, out)) if isinstance(out, tuple) else back(out)

    return call


def _check(condition, operation, text):
    if not condition:
        raise RuntimeError(f"torchvision.{operation}: {text}")


# ---- boxes ---------------------------------------------------------------------------------------


def nms(dets, scores, iou_threshold):
    """Which boxes [n, 4] stay, best first, when each that overlaps a better one by more than the
    threshold goes. On the host: each choice hangs on those before it."""
    _check(
        dets.ndim == 2 and dets.shape[1] == 4,
        "nms",
        f"got boxes {list(dets.shape)}; expected [n, 4]",
    )
    _check(
        scores.shape == dets.shape[:1], "nms",
        f"got {list(scores.shape)} scores of {dets.shape[0]} boxes; expected one for each",
    )  # fmt: skip
    left = scores.detach().argsort(stable=True, descending=True).cpu().numpy()
    boxes = _wide(dets).cpu().numpy()[left]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = []
    with np.errstate(invalid="ignore", divide="ignore"):
        while left.size:
            kept.append(left[0])
            first, others = boxes[0], boxes[1:]
            low = np.maximum(first[:2], others[:, :2])
            high = np.minimum(first[2:], others[:, 2:])
            sides = np.maximum(high - low, 0)
            inter = sides[:, 0] * sides[:, 1]
            # Not `<=`: boxes of no area, whose ratio is NaN, stay.
            stay = ~(inter / (areas[0] + areas[1:] - inter) > iou_threshold)
            left, boxes, areas = left[1:][stay], others[stay], areas[1:][stay]
    return pf.tensor(np.array(kept, np.int64), device=dets.device)


def _corners(boxes):
    """Of rotated boxes (x, y, width, height, degrees): [n, 4, 2]."""
    angle = np.deg2rad(boxes[:, 4])
    along = np.stack([np.cos(angle), -np.sin(angle)], -1) * boxes[:, 2:3] / 2
    across = np.stack([np.sin(angle), np.cos(angle)], -1) * boxes[:, 3:4] / 2
    signs = ((1, 1), (-1, 1), (-1, -1), (1, -1))
    return np.stack([boxes[:, :2] + a * along + b * across for a, b in signs], 1)


def _cross(a, b):
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _common_area(p, q):
    """The area common to convex quadrilaterals p and q [..., 4, 2], pair by pair."""
    edges = [np.roll(c, -1, -2) - c for c in (p, q)]
    between = q[..., None, :, :] - p[..., :, None, :]  # from corners of p to those of q
    turn = _cross(edges[0][..., :, None, :], edges[1][..., None, :, :])
    with np.errstate(invalid="ignore", divide="ignore"):
        t = _cross(between, edges[1][..., None, :, :]) / turn
        u = _cross(between, edges[0][..., :, None, :]) / turn
    meets = (abs(turn) > 1e-14) & (t >= 0) & (t <= 1) & (u >= 0) & (u <= 1)
    crossing = p[..., :, None, :] + np.where(meets, t, 0)[..., None] * edges[0][..., :, None, :]

    def inside(points, corners, sides):
        turns = _cross(sides[..., None, :, :], points[..., :, None, :] - corners[..., None, :, :])
        return (turns >= -1e-9).all(-1) | (turns <= 1e-9).all(-1)

    points = np.concatenate([crossing.reshape(*p.shape[:-2], 16, 2), p, q], -2)
    there = np.concatenate(
        [meets.reshape(*p.shape[:-2], 16), inside(p, q, edges[1]), inside(q, p, edges[0])], -1
    )
    count = np.maximum(there.sum(-1), 1)[..., None]
    middle = (points * there[..., None]).sum(-2) / count
    points = np.where(there[..., None], points - middle[..., None, :], 0)
    # In order around the middle, those that are not there in the middle itself, at the end.
    order = np.argsort(np.where(there, np.arctan2(points[..., 1], points[..., 0]), np.inf), -1)
    points = np.take_along_axis(points, order[..., None], -2)
    last = there.sum(-1)[..., None] - 1
    following = np.roll(points, -1, -2)
    at_end = np.arange(24) == last
    following = np.where(at_end[..., None], points[..., :1, :], following)
    return abs(np.where(np.arange(24) <= last, _cross(points, following), 0).sum(-1)) / 2


def box_iou_rotated(boxes1, boxes2):
    """Common area over area of both [n, m] of rotated boxes [n, 5] and [m, 5]; on the host, in float64."""
    first, second = (b.detach().cpu().double().numpy() for b in (boxes1, boxes2))
    out = np.zeros((len(first), len(second)))
    areas = [b[:, 2] * b[:, 3] for b in (first, second)]
    # Moved to the first of two boxes, which is where digits are lost else.
    rows = max(1, (1 << 14) // max(len(second), 1))
    for i in range(0, len(first), rows):
        part = first[i : i + rows]
        at = part[:, None, :2]
        p = _corners(np.concatenate([np.zeros((len(part), 2)), part[:, 2:]], 1))[:, None]
        moved = np.broadcast_to(second, (len(part), *second.shape)).copy()
        moved[..., :2] -= at
        q = _corners(moved.reshape(-1, 5)).reshape(len(part), len(second), 4, 2)
        inter = _common_area(np.broadcast_to(p, q.shape), q)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = inter / (areas[0][i : i + rows, None] + areas[1] - inter)
        small = (areas[0][i : i + rows, None] < 1e-14) | (areas[1] < 1e-14)
        out[i : i + rows] = np.where(small, 0, ratio)
    return pf.tensor(out, dtype=boxes1.dtype, device=boxes1.device)


# ---- regions of interest -------------------------------------------------------------------------


def _checked(x, rois, operation, pooled=None):
    _check(
        rois.ndim == 2 and rois.shape[1] == 5, operation,
        f"got rois {list(rois.shape)}; expected [n, 5]: the image's number and x1, y1, x2, y2",
    )  # fmt: skip
    _check(x.ndim == 4, operation, f"got an input {list(x.shape)}; expected [n, c, h, w]")
    _check(
        x.dtype == rois.dtype, operation,
        f"got an input of {x.dtype} and rois of {rois.dtype}; expected one dtype",
    )  # fmt: skip
    if pooled:
        _check(
            x.shape[1] % (pooled[0] * pooled[1]) == 0, operation,
            f"got {x.shape[1]} channels; expected a multiple of {pooled[0]} * {pooled[1]}",
        )  # fmt: skip


def _wide(rois):
    rois = rois.detach()
    return rois if rois.dtype == pf.float64 else rois.float()


def _rows(x, pooled):
    """Pixels as rows of a table, their channels as columns; with `pooled`, where each bin has channels
    of its own, a row for each bin. Beside it, how many rows lie before an image's and a bin's."""
    n, c, h, w = x.shape
    if pooled is None:
        return x.permute(0, 2, 3, 1).reshape(n * h * w, c), h * w, 0
    bins = pooled[0] * pooled[1]
    table = x.reshape(n, c // bins, bins, h * w).permute(0, 2, 3, 1)
    return table.reshape(n * bins * h * w, c // bins), bins * h * w, h * w


def _bags(x, rois, taps, count, shape, own):
    """For each region and bin the sum of pixels by weight. taps: of both directions, the places
    [k, bins, m] and weights. count: [k] what a sum is divided by."""
    (ys, wy), (xs, wx) = taps
    ph, pw = shape
    k, per_bin = rois.shape[0], ys.shape[2] * xs.shape[2]
    table, per_image, step = _rows(x, shape if own else None)
    of_bin = (pf.arange(ph * pw, device=x.device) * step).reshape(1, ph, pw, 1, 1)
    of_image = rois[:, 0].long() * per_image
    at_once = max(1, _MOST // (ph * pw * per_bin))
    parts = []
    for i in range(0, k, at_once):
        s = slice(i, i + at_once)
        place = ys[s, :, None, :, None] * x.shape[3] + xs[s, None, :, None, :]
        place = place + of_bin + of_image[s].reshape(-1, 1, 1, 1, 1)
        weight = (
            wy[s, :, None, :, None] * wx[s, None, :, None, :] / count[s].reshape(-1, 1, 1, 1, 1)
        )
        parts.append(
            pf.nn.functional.embedding_bag(
                place.reshape(-1, per_bin),
                table,
                mode="sum",
                per_sample_weights=weight.reshape(-1, per_bin).to(x.dtype),
            )  # fmt: skip
        )
    if not k:
        return x.new_zeros((0, table.shape[1], ph, pw)) + 0 * x.sum()
    return pf.cat(parts).reshape(k, ph, pw, table.shape[1]).permute(0, 3, 1, 2)


def _sampled(start, length, bins, size, ratio):
    """The taps of samples between pixels along one direction, and how many samples a bin has [k]."""
    step = length / bins
    if ratio > 0:
        each, most = pf.full_like(start, ratio), ratio
    else:
        each = pf.ceil(step)
        most = max(int(each.max()), 1) if each.numel() else 1
    i = pf.arange(most, device=start.device, dtype=start.dtype)
    first = start[:, None] + pf.arange(bins, device=start.device, dtype=start.dtype) * step[:, None]
    divisor = each.clamp(min=1)[:, None, None]
    at = first[..., None] + (i + 0.5) * step[:, None, None] / divisor
    there = (i < each[:, None, None]) & (at >= -1) & (at <= size)
    at = pf.where(there, at.clamp(min=0), 0)
    low = at.floor().clamp(max=size - 1)
    share = pf.where(low >= size - 1, 0, at - low)
    places = pf.stack([low, (low + 1).clamp(max=size - 1)], -1).long()
    weights = pf.stack([1 - share, share], -1) * there[..., None]
    return (places.flatten(2), weights.flatten(2)), each


def _aligned(x, rois, scale, shape, ratio, own, offset, least):
    with pf.no_grad():
        boxes = _wide(rois)
        sides = []
        for first, last, bins, size in ((2, 4, shape[0], x.shape[2]), (1, 3, shape[1], x.shape[3])):
            start = boxes[:, first] * scale - offset
            length = boxes[:, last] * scale - offset - start
            if least:
                length = length.clamp(min=least)
            sides.append(_sampled(start, length, bins, size, ratio))
        (ys, rows), (xs, columns) = sides
        count = rows * columns
    out = _bags(x, boxes, (ys, xs), count.clamp(min=1), shape, own)
    # Regions of no size: torchvision has 0 or 0 / 0.
    return pf.where(count.reshape(-1, 1, 1, 1) > 0, out, float("nan")) if own else out


@_in_full
def roi_align(x, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """Means of samples in bins of regions [k, c, height, width]."""
    _checked(x, rois, "roi_align")
    shape = (pooled_height, pooled_width)
    offset, least = (0.5, None) if aligned else (0.0, 1.0)
    return _aligned(x, rois, spatial_scale, shape, sampling_ratio, False, offset, least)


def _channels(x, rois, shape):
    """Which channel each bin of each result was read from, as int32."""
    bins = shape[0] * shape[1]
    each = pf.arange(x.shape[1], dtype=pf.int32, device=x.device).reshape(
        1, x.shape[1] // bins, *shape
    )
    return each.expand(rois.shape[0], -1, -1, -1).contiguous()


@_in_full
def ps_roi_align(x, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    """As roi_align, where each bin has channels of its own; and which."""
    shape = (pooled_height, pooled_width)
    _checked(x, rois, "ps_roi_align", shape)
    out = _aligned(x, rois, spatial_scale, shape, sampling_ratio, True, 0.5, None)
    return out, _channels(x, rois, shape)


def _away(v):
    """Rounded, halves away from 0."""
    return pf.trunc(v + pf.where(v < 0, -0.5, 0.5))


def _whole(rois, scale, shape, size, more, last):
    """Of each direction the pixels [k, bins] from which to which (exclusive) bins reach, which end at
    `last` pixels before the image's end."""
    sides = []
    for low, high, bins, limit in ((2, 4, shape[0], size[0]), (1, 3, shape[1], size[1])):
        start = _away(rois[:, low] * scale)
        step = (_away(rois[:, high] * scale) - start + more).clamp(min=1) / bins
        i = pf.arange(bins, device=rois.device, dtype=rois.dtype)
        begin = pf.floor(i * step[:, None] + start[:, None])
        end = pf.ceil((i + 1) * step[:, None] + start[:, None])
        sides.append([v.clamp(0, limit - last).long() for v in (begin, end)])
    return sides


def _windows(begin, end):
    """Places [k, bins, m] of windows, and which of them are within."""
    most = max(int((end - begin).max()), 1) if begin.numel() else 1
    i = pf.arange(most, device=begin.device)
    within = i < (end - begin)[..., None]
    return pf.where(within, begin[..., None] + i, (end - 1).clamp(min=0)[..., None]), within


@_in_full
def ps_roi_pool(x, rois, spatial_scale, pooled_height, pooled_width):
    """Means of pixels in bins of regions, where each bin has channels of its own; and which."""
    shape = (pooled_height, pooled_width)
    _checked(x, rois, "ps_roi_pool", shape)
    with pf.no_grad():
        boxes = _wide(rois)
        sides = _whole(boxes, spatial_scale, shape, x.shape[2:], 0, 1)
        taps = []
        for begin, end in sides:
            places, within = _windows(begin, end)
            weights = within.to(boxes.dtype) / (end - begin).clamp(min=1)[..., None]
            taps.append((places, weights))
        once = boxes.new_ones(boxes.shape[0])
    return _bags(x, boxes, taps, once, shape, True), _channels(x, rois, shape)


@_in_full
def roi_pool(x, rois, spatial_scale, pooled_height, pooled_width):
    """The largest pixel of each bin of regions [k, c, height, width], and where it is in its image, or -1,
    as int32."""
    _checked(x, rois, "roi_pool")
    shape = (pooled_height, pooled_width)
    n, c, h, w = x.shape
    k = rois.shape[0]
    if not k:
        nothing = x.new_zeros((0, c, *shape))
        return nothing + 0 * x.sum(), nothing.to(pf.int32)
    with pf.no_grad():
        boxes = _wide(rois)
        sides = _whole(boxes, spatial_scale, shape, (h, w), 1, 0)
        (ys, in_y), (xs, in_x) = (_windows(*side) for side in sides)
        table, per_image, _ = _rows(x.detach(), None)
        image = boxes[:, 0].long()
        at_once = max(1, _MOST // (ys.shape[1] * ys.shape[2] * xs.shape[1] * xs.shape[2] * c))
        found = []
        for i in range(0, k, at_once):
            s = slice(i, i + at_once)
            place = (ys[s, :, None, :, None] * w + xs[s, None, :, None, :]).flatten(3)
            rows = table[place + image[s].reshape(-1, 1, 1, 1) * per_image]
            best = rows.argmax(3)  # [k, height, width, c]
            found.append(place.gather(3, best))
        where = pf.cat(found).permute(0, 3, 1, 2)
        some = (in_y.any(-1)[:, :, None] & in_x.any(-1)[:, None, :])[:, None]
        channel = pf.arange(c, device=x.device).reshape(1, c, 1, 1)
        flat = (image.reshape(-1, 1, 1, 1) * c + channel) * (h * w) + where
    values = pf.where(some, x.reshape(-1)[flat], 0)
    return values, pf.where(some, where, -1).to(pf.int32)


# ---- deformable convolution ----------------------------------------------------------------------


@_in_full
def deform_conv2d(
    x, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    groups, offset_groups, use_mask,
):  # fmt: skip
    """A convolution whose taps lie where `offset` moves them, weighted by `mask`."""
    n, c, h, w = x.shape
    out, per_group, kh, kw = weight.shape
    taps = kh * kw
    oh = (h + 2 * pad_h - dilation_h * (kh - 1) - 1) // stride_h + 1
    ow = (w + 2 * pad_w - dilation_w * (kw - 1) - 1) // stride_w + 1
    _check(
        c == per_group * groups and out % groups == 0 and c % offset_groups == 0, "deform_conv2d",
        f"got {c} channels and a weight {list(weight.shape)} in {groups} groups, offsets in "
        f"{offset_groups}; expected channels that these divide",
    )  # fmt: skip
    _check(
        tuple(offset.shape) == (n, offset_groups * 2 * taps, oh, ow), "deform_conv2d",
        f"got offsets {list(offset.shape)}; expected {[n, offset_groups * 2 * taps, oh, ow]}",
    )  # fmt: skip
    if use_mask:
        _check(
            tuple(mask.shape) == (n, offset_groups * taps, oh, ow), "deform_conv2d",
            f"got a mask {list(mask.shape)}; expected {[n, offset_groups * taps, oh, ow]}",
        )  # fmt: skip
    own = c // offset_groups
    moved = offset.reshape(n, offset_groups, taps, 2, oh, ow)
    line = functools.partial(pf.arange, device=x.device, dtype=x.dtype)
    rows = (line(oh) * stride_h - pad_h)[:, None] + (line(kh) * dilation_h).repeat_interleave(kw)[
        :, None, None
    ]
    columns = (line(ow) * stride_w - pad_w) + (line(kw) * dilation_w).repeat(kh)[:, None, None]
    corners = []
    for at, size in ((moved[:, :, :, 0] + rows, h), (moved[:, :, :, 1] + columns, w)):
        low = at.detach().floor()
        share = at - low
        both = []
        for place, part in ((low, 1 - share), (low + 1, share)):
            there = (place >= 0) & (place < size)
            both.append((pf.where(there, place, 0).long(), pf.where(there, part, 0)))
        corners.append(both)
    # Four pixels for each tap: [n, groups of offsets, taps, oh, ow, 4].
    pairs = [(y, v) for y in corners[0] for v in corners[1]]
    places = pf.stack([y[0] * w + v[0] for y, v in pairs], -1)
    weights = pf.stack([y[1] * v[1] for y, v in pairs], -1)
    if use_mask:
        weights = weights * mask.reshape(n, offset_groups, taps, oh, ow, 1)
    first = pf.arange(n * offset_groups, device=x.device) * (h * w)
    places = places + first.reshape(n, offset_groups, 1, 1, 1, 1)
    table = x.reshape(n * offset_groups, own, h * w).transpose(1, 2).reshape(-1, own)
    sampled = pf.nn.functional.embedding_bag(
        places.reshape(-1, 4), table, mode="sum", per_sample_weights=weights.reshape(-1, 4)
    )
    sampled = sampled.reshape(n, offset_groups, taps, oh * ow, own).permute(0, 1, 4, 2, 3)
    sampled = sampled.reshape(n, groups, per_group * taps, oh * ow)
    result = weight.reshape(1, groups, out // groups, per_group * taps) @ sampled
    return result.reshape(n, out, oh, ow) + bias.reshape(1, -1, 1, 1)


OPERATORS = {
    "nms": nms,
    "box_iou_rotated": box_iou_rotated,
    "roi_align": roi_align,
    "roi_pool": roi_pool,
    "ps_roi_align": ps_roi_align,
    "ps_roi_pool": ps_roi_pool,
    "deform_conv2d": deform_conv2d,
    "_cuda_version": lambda: -1,
}
