"""torch._vendor: packages that PyTorch has copies of."""
