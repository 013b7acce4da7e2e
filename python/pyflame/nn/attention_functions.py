"""Multi-head attention as a function; part of nn.functional."""

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors

__all__ = ["multi_head_attention_forward"]


def _projections(query, key, value, weight, bias, separate):
    """Queries, keys and values; `weight` is one for all three, or `separate` has three."""
    e = query.shape[-1]
    if separate is None:
        if query is key and key is value:
            return _ops.linear(query, weight, bias).chunk(3, -1)
        separate = weight.chunk(3, 0)
    biases = (None,) * 3 if bias is None else [bias.narrow(0, i * e, e) for i in range(3)]
    return [_ops.linear(x, w, b) for x, w, b in zip((query, key, value), separate, biases)]


def _additive(mask, dtype):
    if mask.is_floating_point():
        return mask.to(dtype)
    zeros = _ops.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill(mask, float("-inf"))


def _mask(key_padding_mask, attn_mask, shape, extra, dtype):
    """One additive mask that broadcasts to [batch, heads, queries, keys]; `extra` of the keys at the
    end are seen by all."""
    batch, heads, length, source = shape
    given = source - extra
    mask = None
    if attn_mask is not None:
        mask = _additive(attn_mask, dtype)
        if mask.dim() == 2:
            expected = (length, given)
        elif mask.dim() == 3:
            expected = (batch * heads, length, given)
        else:
            expected = None
        if expected is None or tuple(mask.shape) != expected:
            raise RuntimeError(
                f"pf.nn.MultiheadAttention: got attn_mask of shape {list(mask.shape)}; expected "
                f"{[length, given]} or {[batch * heads, length, given]}"
            )
        if mask.dim() == 3:
            mask = mask.view(batch, heads, length, given)
        if extra:
            mask = _ops.pad(mask, (0, extra))
    if key_padding_mask is not None:
        padding = _additive(key_padding_mask, dtype)
        if tuple(padding.shape) != (batch, given):
            raise RuntimeError(
                f"pf.nn.MultiheadAttention: got key_padding_mask of shape {list(padding.shape)}; "
                f"expected {[batch, given]}"
            )
        if extra:
            padding = _ops.pad(padding, (0, extra))
        padding = padding.view(batch, 1, 1, source)
        mask = padding if mask is None else mask + padding
    return mask


def attend(
    query, key, value, embed_dim, num_heads, weight, bias, bias_k, bias_v, add_zero_attn, drop, out_weight,
    out_bias, training, key_padding_mask, need_weights, attn_mask, separate, static_k, static_v,
    average_attn_weights, is_causal, sequence,
):  # fmt: skip
    """multi_head_attention_forward; `sequence` is the dimension of positions, 0 or 1, the other the
    batch's."""
    batched = query.dim() == 3
    if not batched:
        same = query is key and key is value
        query = query.unsqueeze(1 - sequence)
        if same:
            key = value = query
        else:
            key, value = key.unsqueeze(1 - sequence), value.unsqueeze(1 - sequence)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, embed = query.shape[sequence], query.shape[1 - sequence], query.shape[2]
    if embed != embed_dim:
        raise AssertionError(
            f"pf.nn.MultiheadAttention: got queries of {embed} numbers; expected embed_dim, "
            f"{embed_dim}"
        )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "pf.nn.MultiheadAttention: is_causal is only a hint about attn_mask; pass the mask"
        )
    head, given = embed // num_heads, query.shape
    q, k, v = _projections(query, key, value, weight, bias, separate)
    extra = 0
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise _C.ValueError(
                "pf.nn.MultiheadAttention: got bias_k with static_k or static_v; expected one of them"
            )
        one = (batch, 1, embed) if sequence else (1, batch, embed)
        k, v = (
            _ops.cat([t, b.reshape(1, 1, embed).expand(one)], sequence)
            for t, b in ((k, bias_k), (v, bias_v))
        )
        extra += 1

    def heads(x):  # to [N, heads, S, E / heads]
        x = x.reshape(x.shape[0], x.shape[1], num_heads, head)
        return x.permute(1 - sequence, 2, sequence, 3)

    q = heads(q)
    k = heads(k) if static_k is None else static_k.view(batch, num_heads, -1, head)
    v = heads(v) if static_v is None else static_v.view(batch, num_heads, -1, head)
    if add_zero_attn:
        zeros = _ops.zeros((batch, num_heads, 1, head), dtype=k.dtype, device=k.device)
        k, v = _ops.cat([k, zeros], 2), _ops.cat([v, zeros], 2)
        extra += 1
    shape = (batch, num_heads, length, k.shape[2])
    mask = _mask(key_padding_mask, attn_mask, shape, extra, q.dtype)
    drop = drop if training else 0.0
    weights = None
    if need_weights:
        scores = (q * head**-0.5) @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores + mask
        weights = _ops.softmax(scores, -1)
        if drop:
            weights = _ops.dropout(weights, drop)
        result = weights @ v
        if average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            weights = weights.squeeze(0)
    else:
        result = _ops.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop)
    result = result.permute(0, 2, 1, 3) if sequence else result.permute(2, 0, 1, 3)
    result = _ops.linear(result.reshape(given), out_weight, out_bias)
    return (result if batched else result.squeeze(1 - sequence)), weights


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """nn.MultiheadAttention with its weights as arguments.

    query [L, N, E], key [S, N, K], value [S, N, V], or without N. In masks, True means "do not
    attend"; float masks are added: attn_mask [L, S] or [N heads, L, S], key_padding_mask [N, S].
    bias_k and bias_v [1, 1, E] are one more key and value, add_zero_attn adds one of zeros;
    static_k and static_v [N heads, S, E / heads] take the place of the projected ones. Returns
    (result as query, weights [N, L, S], of each head with average_attn_weights=False, or None).
    """
    return attend(
        query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
        add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training, key_padding_mask,
        need_weights, attn_mask,
        (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None,
        static_k, static_v, average_attn_weights, is_causal, sequence=0,
    )  # fmt: skip


_name_errors(__name__)
