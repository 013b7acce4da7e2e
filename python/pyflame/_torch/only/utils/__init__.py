"""Modules of torch.utils that have no counterpart of the same name."""
