"""torch._inductor: PyTorch's compiler, whose settings are kept without effect."""
