"""Multi-head attention."""

from .. import _ops
from .attention_functions import attend
from .layers import NonDynamicallyQuantizableLinear
from .module import Module
from .parameter import Parameter


class MultiheadAttention(Module):
    """Attention of `num_heads` heads over [batch, sequence, embed_dim] (with batch_first=True).

    Without batch_first the sequence is the first dimension; without a batch the input is
    [sequence, embed_dim]. In masks, True means "do not attend"; float masks are added.
    Returns (result, attention weights or None).
    """

    def __init__(
        self,
        embed_dim,
        num_heads,
        dropout=0.0,
        bias=True,
        add_bias_kv=False,
        add_zero_attn=False,
        kdim=None,
        vdim=None,
        batch_first=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            kind = ValueError if embed_dim <= 0 or num_heads <= 0 else AssertionError
            raise kind(
                f"pf.nn.MultiheadAttention: got embed_dim {embed_dim} and num_heads {num_heads}; "
                "expected embed_dim to be a positive multiple of num_heads"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads

        def new(*shape):
            return Parameter(_ops.empty(shape, device=device, dtype=dtype))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = new(3 * embed_dim, embed_dim)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.register_parameter("in_proj_weight", None)
            self.q_proj_weight = new(embed_dim, embed_dim)
            self.k_proj_weight = new(embed_dim, self.kdim)
            self.v_proj_weight = new(embed_dim, self.vdim)
        if bias:
            self.in_proj_bias = new(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k = new(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = new(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (
            self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight,
        ):  # fmt: skip
            if weight is not None:
                _ops._init_xavier_uniform_(weight, 1.0)
        if self.in_proj_bias is not None:
            _ops._init_constant_(self.in_proj_bias, 0.0)
            _ops._init_constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                _ops._init_xavier_normal_(bias, 1.0)

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        projections = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        return attend(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
            self.bias_k, self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight,
            self.out_proj.bias, self.training, key_padding_mask, need_weights, attn_mask,
            None if self._qkv_same_embed_dim else projections, None, None, average_attn_weights,
            is_causal, sequence=int(self.batch_first),
        )  # fmt: skip
