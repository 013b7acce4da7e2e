"""Modules of torch.nn that have no counterpart of the same name."""
