"""torch.utils.deterministic: whether empty() would be filled; a switch that is kept."""

fill_uninitialized_memory = True
