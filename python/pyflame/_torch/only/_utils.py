"""torch._utils: tensors as one."""

from ... import _ops


def _flatten_dense_tensors(tensors):
    """All elements in one tensor of one dimension."""
    return _ops.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of what _flatten_dense_tensors() gave, shaped as the tensors are."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors))


def _take_tensors(tensors, size_limit):
    """Lists of tensors of one dtype, each of about `size_limit` bytes."""
    groups = {}
    for t in tensors:
        group = groups.setdefault(t.dtype, [])
        group.append(t)
        if sum(x.numel() * x.element_size() for x in group) >= size_limit:
            yield groups.pop(t.dtype)
    yield from filter(None, groups.values())
