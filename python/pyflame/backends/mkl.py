"""torch.backends.mkl: PyFlame does not use MKL."""


def is_available():
    """False."""
    return False
