"""torch.backends.openmp: the CPU's threads."""


def is_available():
    """True: operations run in as many threads as get_num_threads() says."""
    return True
