"""Modules of torch.nn.attention that are not there."""
