"""torch.backends.opt_einsum: einsum picks its order of products itself.

`enabled` and `strategy` keep what is assigned and do nothing.
"""

from ._switches import Switch, install


def is_available():
    """False: the package opt_einsum is not used."""
    return False


install(__name__, enabled=Switch(False), strategy=Switch(None, str, type(None)))
