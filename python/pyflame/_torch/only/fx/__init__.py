"""Of torch.fx, what exists under that name only."""
