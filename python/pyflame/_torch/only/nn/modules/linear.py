"""torch.nn.modules.linear: names of it that torch.nn does not have."""

from .....nn import Linear

NonDynamicallyQuantizableLinear = Linear  # which MultiheadAttention has at its end
