"""Multi-head attention and the transformer layers built on it."""

import copy

from .. import _ops
from . import functional as F
from .containers import ModuleList
from .layers import Dropout, LayerNorm, Linear
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
            raise ValueError(
                f"pf.nn.MultiheadAttention: got embed_dim {embed_dim} and num_heads {num_heads}; "
                "expected embed_dim to be a positive multiple of num_heads"
            )
        if add_bias_kv or add_zero_attn:
            raise NotImplementedError(
                "pf.nn.MultiheadAttention: add_bias_kv and add_zero_attn are not supported"
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
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
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

    def _project(self, query, key, value):
        e, bias = self.embed_dim, self.in_proj_bias
        if self._qkv_same_embed_dim:
            if query is key and key is value:
                return _ops.linear(query, self.in_proj_weight, bias).chunk(3, -1)
            weights = self.in_proj_weight.chunk(3, 0)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if bias is None else [bias.narrow(0, i * e, e) for i in range(3)]
        return [_ops.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]

    def _mask(self, key_padding_mask, attn_mask, batch, length, source, dtype):
        """One additive float mask that broadcasts to [batch, heads, length, source]."""

        def additive(mask):
            if mask.is_floating_point():
                return mask.to(dtype)
            zeros = _ops.zeros(mask.shape, dtype=dtype, device=mask.device)
            return zeros.masked_fill(mask, float("-inf"))

        mask = None
        if attn_mask is not None:
            mask = additive(attn_mask)
            if mask.dim() == 3:
                mask = mask.view(batch, self.num_heads, length, source)
            elif mask.dim() != 2:
                raise RuntimeError(
                    f"pf.nn.MultiheadAttention: attn_mask has {mask.dim()} dimensions; expected "
                    "[length, source] or [batch * heads, length, source]"
                )
        if key_padding_mask is not None:
            padding = additive(key_padding_mask).view(batch, 1, 1, source)
            mask = padding if mask is None else mask + padding
        return mask

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
        batched = query.dim() == 3
        if not batched:
            same = query is key and key is value
            query = query.unsqueeze(0)
            key, value = (query, query) if same else (key.unsqueeze(0), value.unsqueeze(0))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            same = query is key and key is value
            query = query.transpose(0, 1)
            key, value = (query, query) if same else (key.transpose(0, 1), value.transpose(0, 1))
        batch, length, _ = query.shape
        source = key.shape[1]
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "pf.nn.MultiheadAttention: is_causal is only a hint about attn_mask; pass the mask"
            )
        heads = [
            x.reshape(batch, -1, self.num_heads, self.head_dim).transpose(1, 2)
            for x in self._project(query, key, value)
        ]
        q, k, v = heads
        mask = self._mask(key_padding_mask, attn_mask, batch, length, source, q.dtype)
        drop = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = (q * self.head_dim**-0.5) @ k.transpose(-2, -1)
            if mask is not None:
                scores = scores + mask
            weights = F.softmax(scores, -1)
            if drop:
                weights = F.dropout(weights, drop)
            result = weights @ v
            if average_attn_weights:
                weights = weights.mean(1)
            if not batched:
                weights = weights.squeeze(0)
        else:
            result = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop)
        result = result.transpose(1, 2).reshape(batch, length, self.embed_dim)
        result = self.out_proj(result)
        if not batched:
            result = result.squeeze(0)
        elif not self.batch_first:
            result = result.transpose(0, 1)
        return result, weights


def _activation(activation):
    if callable(activation):
        return activation
    if activation in ("relu", "gelu"):
        return getattr(F, activation)
    raise RuntimeError(f"activation should be relu, gelu or a function; got {activation!r}")


class TransformerEncoderLayer(Module):
    """Self-attention and a two-layer MLP, each with residual connection and layer norm."""

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation="relu",
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation(activation)

    def _attend(self, x, mask, padding):
        x = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False
        )[0]  # fmt: skip
        return self.dropout1(x)

    def _feed_forward(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = src
        if self.norm_first:
            x = x + self._attend(self.norm1(x), src_mask, src_key_padding_mask)
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(x + self._attend(x, src_mask, src_key_padding_mask))
        return self.norm2(x + self._feed_forward(x))


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, and a norm after them if given."""

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True,
                 mask_check=True):  # fmt: skip
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)
