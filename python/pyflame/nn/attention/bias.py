"""Causal triangles as masks of attention, with the names of torch.nn.attention.bias."""

import enum

from ... import _ops

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner of [queries, keys] the triangle ends in."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias:
    """A causal mask of [queries, keys], as attn_mask of scaled_dot_product_attention.

    The triangle begins at the first query and key, or (LOWER_RIGHT) ends at the last ones.
    """

    def __init__(self, variant, seq_len_q, seq_len_kv):
        self.variant = CausalVariant(variant)
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv

    @property
    def shape(self):
        return (self.seq_len_q, self.seq_len_kv)

    def materialize(self, device=None):
        """The mask as a bool tensor: True where a query sees a key."""
        ones = _ops.ones(self.shape, dtype=_ops.bool, device=device)
        lower_right = self.variant is CausalVariant.LOWER_RIGHT
        return ones.tril(self.seq_len_kv - self.seq_len_q if lower_right else 0)

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
