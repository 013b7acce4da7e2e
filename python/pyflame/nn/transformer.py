"""Transformers: encoders and decoders of attention and two-layer networks."""

import copy

from .. import _C, _ops
from . import functional as F
from . import init
from .containers import ModuleList
from .layers import Dropout, LayerNorm, Linear
from .module import Module
from .multihead import MultiheadAttention

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


def _activation(activation):
    if callable(activation):
        return activation
    if activation in ("relu", "gelu"):
        return getattr(F, activation)
    raise RuntimeError(f"activation should be relu, gelu or a function; got {activation!r}")


def _copies(layer, count):
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class _Layer(Module):
    """What a layer of an encoder and one of a decoder share: attention to itself, and the network."""

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu,
        layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        parts = range(1, len(self._attentions) + 2)
        for i in parts:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
            setattr(self, f"norm{i}", norm)
        for i in parts:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        x = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
            is_causal=is_causal,
        )[0]  # fmt: skip
        return self.dropout1(x)

    def _network(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a two-layer network, each with a residual connection and layer norm.

    Input and result [S, N, d_model], or [N, S, d_model] with batch_first; a nested tensor [N, *, d_model]
    with batch_first, too, which is its own padding mask.
    """

    _attentions = ("self_attn",)

    def _of_nested(self, src, src_mask, src_key_padding_mask, is_causal):
        """The layer over the padded sequences; the result is nested, too."""
        if src_key_padding_mask is not None or not self.self_attn.batch_first:
            given = "batch_first=False" if src_key_padding_mask is None else "src_key_padding_mask"
            raise _C.ValueError(
                f"pf.nn.TransformerEncoderLayer: got a nested tensor and {given}; expected it alone, with "
                "batch_first=True: its lengths say what is padding; leave the mask out, or pass a dense tensor"
            )
        nested = _C._import("pyflame.nested._dispatch")
        padded = nested.to_padded(src, 0.0)
        place = _ops.arange(padded.shape[1], device=padded.device)
        # The first place of a sequence without elements stays: what attends to nothing is NaN.
        behind = (place >= src._rows.lengths.unsqueeze(1)) & (place > 0)
        return nested.from_padded(self.forward(padded, src_mask, behind, is_causal), src)

    def _ff_block(self, x):
        return self.dropout2(self._network(x))

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        if type(src) is not _C.Tensor and getattr(src, "is_nested", False):
            return self._of_nested(src, src_mask, src_key_padding_mask, is_causal)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, and a norm after them if given.

    Padding stays padding within it: enable_nested_tensor and mask_check change nothing.
    """

    def __init__(
        self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True
    ):
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(
                src,
                src_mask=mask,
                src_key_padding_mask=src_key_padding_mask,
                is_causal=bool(is_causal),
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's memory and a two-layer network, each with a residual
    connection and layer norm.

    Target and result [T, N, d_model], memory [S, N, d_model]; N first with batch_first.
    """

    _attentions = ("self_attn", "multihead_attn")

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        x = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
            need_weights=False, is_causal=is_causal,
        )[0]  # fmt: skip
        return self.dropout2(x)

    def _ff_block(self, x):
        return self.dropout3(self._network(x))

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, and a norm after them if given."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder: transformer(src, tgt) gives [T, N, d_model], N first with batch_first.

    Masks: floats are added to the scores, True means "do not attend";
    generate_square_subsequent_mask() makes the one for targets. custom_encoder and custom_decoder
    take the place of the two.
    """

    def __init__(
        self,
        d_model=512,
        nhead=8,
        num_encoder_layers=6,
        num_decoder_layers=6,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        custom_encoder=None,
        custom_decoder=None,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        where = {"device": device, "dtype": dtype}
        how = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias,
        )  # fmt: skip

        def norm():
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)

        self.encoder = custom_encoder
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*how, **where)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*how, **where)
            self.decoder = TransformerDecoder(layer, num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self):
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(
                f"pf.nn.Transformer: got src of shape {list(src.shape)} and tgt of {list(tgt.shape)}; "
                "expected as many sequences; check batch_first"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"pf.nn.Transformer: got src of shape {list(src.shape)} and tgt of {list(tgt.shape)}; "
                f"expected vectors of d_model, {self.d_model}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """[sz, sz]: -inf above the diagonal, 0 elsewhere."""
        full = _ops.full((sz, sz), float("-inf"), dtype=dtype, device=device)
        return full.triu(1)
