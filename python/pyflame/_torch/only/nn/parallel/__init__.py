"""Modules of torch.nn.parallel that have no counterpart of the same name."""
