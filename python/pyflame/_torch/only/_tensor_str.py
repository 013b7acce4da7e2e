"""torch._tensor_str: the parts of how tensors are printed."""

from ..._format import _Options as PRINT_OPTS
from ..._format import tensor_text, with_suffixes


def _tensor_str(self, indent):
    return tensor_text(self.detach().cpu(), indent)


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    return with_suffixes(tensor_str, suffixes, indent, force_newline)


def _str(self, *, tensor_contents=None):
    return repr(self)


__all__ = ["PRINT_OPTS"]
