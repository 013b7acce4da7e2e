"""torch.utils._triton: whether PyTorch's compiler could use triton, which it is not here to do."""


def has_triton():
    """False."""
    return False


has_triton_package = has_triton_tma = has_triton_tma_device = has_triton


def get_triton_version(fallback=(0, 0)):
    """What was given."""
    return fallback
