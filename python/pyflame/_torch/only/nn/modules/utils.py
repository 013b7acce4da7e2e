"""torch.nn.modules.utils: one number as several."""

from .....nn.sizes import (  # noqa: F401
    _ntuple,
    _pair,
    _quadruple,
    _reverse_repeat_tuple,
    _single,
    _triple,
    consume_prefix_in_state_dict_if_present,
)
