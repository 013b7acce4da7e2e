"""torch.nn.attention.flex_attention: attention whose scores a function changes is not there; the names
are here."""

from ..._absent import absent as _absent

_needs = _absent(
    "torch.nn.attention.flex_attention",
    "scores are not changed by functions; use scaled_dot_product_attention with a mask",
)
_DEFAULT_SPARSE_BLOCK_SIZE = 128
globals().update((name, _needs(name)) for name in """
    AuxOutput AuxRequest BlockMask and_masks create_block_mask create_mask create_nested_block_mask
    flex_attention noop_mask or_masks
""".split())  # fmt: skip
