"""Attention with the call forms of the package flash-attn: [batch, rows, heads, columns].

Each is a call of nn.functional.flash_attention, in any floating dtype and on every device. Under
`pyflame run`, `import flash_attn` gives this module.
"""

from .bert_padding import index_first_axis, pad_input, unpad_input
from .interface import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)
from .kvcache import flash_attn_with_kvcache

__version__ = "2.8.3"  # whose call forms these are

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "index_first_axis",
    "pad_input",
    "unpad_input",
]
