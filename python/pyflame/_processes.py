"""The group of processes that this one is in, as what shares work out asks for it."""

import sys


def group_module():
    """The module with the names of torch.distributed whose process group is made; None without a group."""
    module = sys.modules.get("pyflame.distributed")  # what makes a group has imported it
    return module if module is not None and module.is_initialized() else None
