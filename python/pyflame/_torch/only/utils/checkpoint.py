"""torch.utils.checkpoint: beside ours, a set that xformers adds operators to."""

SAC_IGNORED_OPS = set()
_ignored_ops = SAC_IGNORED_OPS
