"""Modules of torch.cuda that have no counterpart of the same name."""
