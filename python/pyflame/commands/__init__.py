"""What commands of `pyflame` do that is no training."""
