"""A network for tables."""

from contextlib import nullcontext

from .. import _C, nn
from ..amp import autocast


class TabularNet(nn.Module):
    """Linear layers, each but the last followed by SiLU and LayerNorm (and dropout): [N, input_size]
    to [N, output_size], or to [N] with output_size=1.

    `use_mixed_precision` runs the forward pass under autocast to bfloat16, on any device; the result
    is float32 all the same, so a loss outside is calculated in full precision. It may be set at any
    time.
    """

    def __init__(
        self, input_size, hidden_sizes=(128, 64), output_size=1, *, dropout=0.0,
        use_mixed_precision=False,
    ):  # fmt: skip
        super().__init__()
        sizes = [input_size, *hidden_sizes, output_size]
        if not all(isinstance(n, int) and n > 0 for n in sizes):
            raise _C.ValueError(
                f"pf.models.TabularNet: got sizes {sizes}; expected whole numbers above 0"
            )
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.layer_norms = nn.ModuleList(nn.LayerNorm(n) for n in hidden_sizes)
        self.activation = nn.SiLU()
        self.dropout = nn.Dropout(dropout)
        self.use_mixed_precision = use_mixed_precision

    def _autocast(self, x):
        if not self.use_mixed_precision:
            return nullcontext()
        return autocast(x.device.type, dtype=_C.bfloat16)

    def forward(self, x):
        with self._autocast(x):
            for layer, norm in zip(self.layers, self.layer_norms):
                # Norms in float32: under autocast on a CPU they would follow the product.
                x = self.activation(layer(x))
                x = self.dropout(norm(x.float() if self.use_mixed_precision else x))
            x = self.layers[-1](x)
        return x.float().squeeze(-1) if x.shape[-1] == 1 else x.float()
