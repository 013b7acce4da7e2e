"""torch.nn.parallel.comm: names only."""

from ..._absent import absent as _absent

_needs = _absent("torch.nn.parallel.comm", "copies among several devices are not there yet")
broadcast, broadcast_coalesced, reduce_add, reduce_add_coalesced, scatter, gather = map(
    _needs,
    ("broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced", "scatter", "gather"),
)
