"""Modules of torch.utils.data that have no counterpart of the same name."""
