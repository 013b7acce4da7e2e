"""torch.backends.kleidiai: not used."""


def is_available():
    """False."""
    return False
