"""xformers.ops.memory_efficient_attention and its parts, where that package is installed: calls of
nn.functional.flash_attention, in any floating dtype and on every device.

Its classes of masks are the package's. Those whose form the kernels know are told by name; any other one
writes itself out (`materialize`).
"""

import pyflame as pf

_TRIANGLE = {"right": 0}
_FROM_END = {"right": 0, "bottom_right": True}
_FORMS = {
    "LowerTriangularMask": _TRIANGLE,
    "LowerTriangularMaskWithTensorBias": _TRIANGLE,
    "LowerTriangularFromBottomRightMask": _FROM_END,
    "LowerTriangularFromBottomRightLocalAttentionMask": _FROM_END,
    "LocalAttentionFromBottomRightMask": {"bottom_right": True},
}
_OF_SEQUENCES = {
    "BlockDiagonalMask": {},
    "BlockDiagonalCausalMask": _TRIANGLE,
    "BlockDiagonalCausalFromBottomRightMask": _FROM_END,
    "BlockDiagonalCausalLocalAttentionMask": _TRIANGLE,
    "BlockDiagonalCausalLocalAttentionFromBottomRightMask": _FROM_END,
    "BlockDiagonalPaddedKeysMask": {},
    "BlockDiagonalCausalWithOffsetPaddedKeysMask": _FROM_END,
}


def _window(bias):
    """What a mask tells of how far is seen."""
    said = {}
    if hasattr(bias, "_window_size"):  # keys that are seen, a query's own among them
        said["left"] = bias._window_size - 1
    if hasattr(bias, "window_left"):
        said |= {"left": bias.window_left, "right": bias.window_right}
    return said


def _sequences(bias):
    q, k = bias.q_seqinfo, bias.k_seqinfo
    said = {
        "cu_seqlens_q": q.seqstart, "cu_seqlens_k": k.seqstart,
        "max_seqlen_q": q.max_seqlen, "max_seqlen_k": k.max_seqlen,
    }  # fmt: skip
    if hasattr(k, "seqlen"):  # behind these keys there is padding
        said["seqused_k"] = k.seqlen
    return said


def _check(query, key, value):
    forms = [list(t.shape) for t in (query, key, value)]
    if query.ndim not in (3, 4, 5) or key.ndim != query.ndim or value.ndim != query.ndim:
        expected = "all [B, M, K], [B, M, heads, K] or [B, M, groups, heads, K]"
    elif any(f[0] != forms[0][0] or f[2:-1] != forms[0][2:-1] for f in forms[1:]):
        expected = "equal batches and heads; expand them"
    else:
        return
    raise ValueError(
        "xformers.ops.memory_efficient_attention: got query {}, key {} and value {}; "
        "expected {}".format(*forms, expected)
    )


def _by_heads(query, key, value):
    """[B, heads, M, K] of tensors [B, M, K], [B, M, heads, K] or [B, M, groups, heads, K]. Of keys that
    are expanded to many heads the first of each group, where no gradient is asked for."""
    if query.ndim == 3:
        return [t.unsqueeze(1) for t in (query, key, value)]
    one = query.shape[-2] > 1 and not (
        pf.is_grad_enabled() and (key.requires_grad or value.requires_grad)
    )
    if one and key.stride(-2) == value.stride(-2) == 0:
        key, value = key[..., :1, :], value[..., :1, :]
    if query.ndim == 5:
        query, key, value = (t.flatten(2, 3) for t in (query, key, value))
    return [t.transpose(1, 2) for t in (query, key, value)]


def _attend(query, key, value, bias, p, scale):
    """Output as the query, and the logarithms of the sums of exponentials [B, heads, M], or
    [B, groups, heads, M]."""
    _check(query, key, value)
    q, k, v = _by_heads(query, key, value)
    how = {"dropout_p": p, "scale": scale, "enable_gqa": True}
    name = type(bias).__name__
    if name in _OF_SEQUENCES:
        if query.shape[0] != 1:
            raise ValueError(
                f"xformers.ops.memory_efficient_attention: got {query.shape[0]} samples and a "
                f"{name}; expected one, of all sequences one behind the other"
            )
        how |= _OF_SEQUENCES[name] | _window(bias) | _sequences(bias)
        out, lse = pf.nn.functional.flash_attention(q[0], k[0], v[0], **how)
        out, lse = out.unsqueeze(0), lse.unsqueeze(0)
    else:
        mask = getattr(bias, "_bias", bias)
        if isinstance(mask, pf.Tensor):
            mask = mask.unsqueeze(1) if mask.ndim == 3 and query.ndim == 3 else mask
            mask = mask.flatten(1, 2) if mask.ndim == 5 else mask
        elif mask is not None and name not in _FORMS:
            shape = (query.shape[1], key.shape[1])
            mask = bias.materialize(shape, dtype=query.dtype, device=query.device)
        else:
            mask = None
        how |= _FORMS.get(name, {}) | (_window(bias) if name in _FORMS else {})
        out, lse = pf.nn.functional.flash_attention(q, k, v, mask, **how)
    out = out.transpose(1, 2)
    if query.ndim == 5:
        lse = lse.unflatten(1, query.shape[2:4])
    return out.reshape(*query.shape[:-1], value.shape[-1]), lse


def memory_efficient_attention(
    query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None
):
    """softmax(scale q k^T + attn_bias) v for [B, M, K], [B, M, heads, K] or [B, M, groups, heads, K].

    attn_bias: a Tensor [B, heads, M, keys] ([B, M, keys] for [B, M, K]) that is added, or a mask of
    xformers; p: dropout of weights; scale: 1 / sqrt(K) by default. `op`, which of their kernels to
    take, changes nothing here.

    Raises:
        ValueError: dimensions, batches or heads differ.
    """
    out = _attend(query, key, value, attn_bias, p, scale)[0]
    return out if output_dtype is None else out.to(output_dtype)


def _no_dropout(p):
    if p != 0.0:
        raise NotImplementedError(
            f"xformers.ops: got p={p}; dropout is not in this function; call "
            "memory_efficient_attention"
        )


def memory_efficient_attention_forward(
    query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None
):
    """memory_efficient_attention without history."""
    with pf.no_grad():
        return memory_efficient_attention(
            query, key, value, attn_bias, p, scale, output_dtype=output_dtype
        )


def memory_efficient_attention_forward_requires_grad(
    query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None
):
    """The same, and the logarithms of the sums of exponentials, as _attend gives them."""
    _no_dropout(p)
    with pf.no_grad():
        out, lse = _attend(query, key, value, attn_bias, p, scale)
        return out if output_dtype is None else out.to(output_dtype), lse


def memory_efficient_attention_partial(
    query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None
):
    """The same for some of the keys, in float32 unless said otherwise: to be merged."""
    if output_dtype is None and query.dtype != pf.float64:
        output_dtype = pf.float32
    return memory_efficient_attention_forward_requires_grad(
        query, key, value, attn_bias, p, scale, output_dtype=output_dtype
    )


def memory_efficient_attention_backward(
    grad, output, lse, query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None
):
    """(dq, dk, dv); the forward pass runs once more."""
    _no_dropout(p)
    with pf.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (query, key, value)]
        out = _attend(*leaves, attn_bias, p, scale)[0]
        return pf.autograd.grad(out, leaves, grad.to(out.dtype))


FUNCTIONS = {
    f.__name__: f
    for f in (
        memory_efficient_attention,
        memory_efficient_attention_forward,
        memory_efficient_attention_forward_requires_grad,
        memory_efficient_attention_partial,
        memory_efficient_attention_backward,
    )
}
