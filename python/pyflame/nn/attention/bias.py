"""Causal triangles as masks of attention, with the names of torch.nn.attention.bias."""

import enum

from ... import _C, _ops
from ..._C import Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner of [queries, keys] the triangle ends in."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask of [queries, keys], as attn_mask of scaled_dot_product_attention.

    The triangle begins at the first query and key, or (LOWER_RIGHT) ends at the last ones. It is a bool
    tensor: True where a query sees a key. Attention does not read it: what is beyond the triangle is
    not computed.
    """

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is _ops.scaled_dot_product_attention:
            return _attend(*args, **kwargs)
        plain = [x.materialize() if isinstance(x, cls) else x for x in args]
        return func(
            *plain, **{k: x.materialize() if isinstance(x, cls) else x for k, x in kwargs.items()}
        )

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        variant = CausalVariant(variant)
        lower_right = variant is CausalVariant.LOWER_RIGHT
        ones = _ops.ones((seq_len_q, seq_len_kv), dtype=_ops.bool)
        mask = ones.tril(seq_len_kv - seq_len_q if lower_right else 0)
        made = Tensor._make_subclass(cls, mask)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def __init__(self, variant, seq_len_q, seq_len_kv):
        pass

    def materialize(self, device=None):
        """The mask as a plain tensor."""
        mask = Tensor._make_subclass(Tensor, self)
        return mask if device is None else mask.to(device)

    def __repr__(self):
        return f"CausalBias({self.variant.name}, {self.seq_len_q}, {self.seq_len_kv})"


def causal_upper_left(*size):
    """A triangle from the first query and key on: what is_causal=True means."""
    return CausalBias(CausalVariant.UPPER_LEFT, *_two(size))


def causal_lower_right(*size):
    """A triangle that ends at the last query and key: the last query sees all keys."""
    return CausalBias(CausalVariant.LOWER_RIGHT, *_two(size))


def _two(size):
    if len(size) != 2:
        raise ValueError(
            f"pf.nn.attention.bias: got the size {size}; expected two: queries and keys"
        )
    return size


def _attend(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    *,
    scale=None,
    enable_gqa=False,
):
    """scaled_dot_product_attention with a CausalBias."""
    if not isinstance(attn_mask, CausalBias) or is_causal:
        mask = attn_mask.materialize() if isinstance(attn_mask, CausalBias) else attn_mask
        return _ops.scaled_dot_product_attention(
            query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    sizes = (query.shape[-2], key.shape[-2])
    if sizes != (attn_mask.seq_len_q, attn_mask.seq_len_kv):
        raise _C.ShapeError(
            f"pf.scaled_dot_product_attention: got {attn_mask!r} for {sizes[0]} queries and {sizes[1]} "
            "keys; expected their numbers; make a bias of that size"
        )
    return _ops.flash_attention(
        query, key, value, dropout_p=dropout_p, scale=scale, right=0, enable_gqa=enable_gqa,
        bottom_right=attn_mask.variant is CausalVariant.LOWER_RIGHT,
    )[0]  # fmt: skip
