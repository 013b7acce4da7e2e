"""torch.backends.cusparselt: not here."""


def is_available():
    """False."""
    return False


def version():
    """None."""


get_max_alg_id = version
