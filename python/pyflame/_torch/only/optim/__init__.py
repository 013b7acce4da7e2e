"""Modules of torch.optim that have names beside ours."""
