"""torch._inductor.decomposition: rules for PyTorch's compiler are accepted."""

decompositions = {}


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe=False):
    """A decorator that returns the function."""
    return lambda function: function
