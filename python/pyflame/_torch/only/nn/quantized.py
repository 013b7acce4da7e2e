"""torch.nn.quantized: of its names the one that plain models use."""

from .... import _ops
from ....nn import Module


class FloatFunctional(Module):
    """Operations as methods, which a quantizer could replace; here they are the operations."""

    def add(self, x, y):
        """x + y."""
        return x + y

    add_scalar = add

    def mul(self, x, y):
        """x * y."""
        return x * y

    mul_scalar = mul

    def matmul(self, x, y):
        """x @ y."""
        return x @ y

    def cat(self, x, dim=0):
        """The tensors of a list, one behind the other."""
        return _ops.cat(x, dim)

    def add_relu(self, x, y):
        """relu(x + y)."""
        return _ops.relu(x + y)
