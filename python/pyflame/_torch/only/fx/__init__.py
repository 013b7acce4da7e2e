"""torch.fx: wrap() for programs that mark functions at import."""

try:
    from ....fx import wrap
except ImportError:

    def wrap(fn_or_name):
        """What it is given: functions are not traced."""
        return fn_or_name
