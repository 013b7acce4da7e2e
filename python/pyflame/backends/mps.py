"""torch.backends.mps: there is no backend for Apple's GPUs."""


def is_available():
    """False."""
    return False


def is_built():
    """False."""
    return False
