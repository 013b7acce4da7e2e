"""GPT-2: layer norms, learnt positions, and the names that its weights have elsewhere."""

from .. import _C, nn
from .._named_errors import name_errors as _name_errors
from ..nn import functional as F
from . import fields
from .language import LanguageModel
from .pretrained import Part

SIZES = {
    "gpt2": {"layers": 12, "width": 768, "heads": 12},
    "gpt2-medium": {"layers": 24, "width": 1024, "heads": 16},
    "gpt2-large": {"layers": 36, "width": 1280, "heads": 20},
    "gpt2-xl": {"layers": 48, "width": 1600, "heads": 25},
}
_ACTIVATIONS = {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu": "none"}


class GPT2Config:
    """Sizes of a GPT-2: `GPT2Config.preset("gpt2-medium")`, or each by itself."""

    def __init__(
        self, vocab=50257, layers=12, width=768, heads=12, context=1024, hidden=None, dropout=0.0,
        tied=True, bias=True, epsilon=1e-5, activation="gelu_new", scaled=True,
        scaled_by_layer=False,
    ):  # fmt: skip
        self.vocab, self.layers, self.width, self.heads = vocab, layers, width, heads
        self.context, self.dropout, self.tied, self.bias = context, dropout, tied, bias
        self.hidden = 4 * width if hidden is None else hidden
        self.epsilon, self.activation = epsilon, activation
        self.scaled, self.scaled_by_layer = scaled, scaled_by_layer
        fields.check(vars(self), self.FIELDS, "models.GPT2Config")
        if width % heads:
            raise _C.ValueError(
                f"pf.models.GPT2Config: got width {width} with {heads} heads; expected a multiple of "
                "the number of heads"
            )

    FIELDS = {
        **fields.SIZES,
        "dropout": fields.number(0, 1),
        "tied": fields.flag,
        "bias": fields.flag,
        "epsilon": fields.number(0, 1),
        "activation": lambda v: type(v) is str and v in _ACTIVATIONS,
        "scaled": fields.flag,
        "scaled_by_layer": fields.flag,
    }

    @classmethod
    def preset(cls, name, **others):
        """The sizes of "gpt2", "gpt2-medium", "gpt2-large" or "gpt2-xl", but for `others`."""
        if name not in SIZES:
            raise _C.ValueError(
                f"pf.models.GPT2Config: got {name!r}; expected one of {', '.join(SIZES)}"
            )
        return cls(**SIZES[name] | others)

    def __repr__(self):
        return "GPT2Config(" + ", ".join(f"{k}={v!r}" for k, v in vars(self).items()) + ")"

    @property
    def head_size(self):
        return self.width // self.heads

    @property
    def kept_heads(self):
        """Heads of keys and values."""
        return self.heads

    @classmethod
    def from_file(cls, given):
        """That of a config.json (see models/fields.py for `given`)."""
        if given.get("add_cross_attention", False):
            raise given.refused("add_cross_attention", "a decoder alone")
        return cls(
            vocab=given["vocab_size"], layers=given["n_layer"], width=given["n_embd"],
            heads=given["n_head"], context=given.get("n_positions", given.get("n_ctx", 1024)),
            hidden=given.get("n_inner"), dropout=given.get("resid_pdrop", 0.1),
            tied=given.get("tie_word_embeddings", True),
            epsilon=given.get("layer_norm_epsilon", 1e-5),
            activation=given.get("activation_function", "gelu_new"),
            scaled=given.get("scale_attn_weights", True),
            scaled_by_layer=given.get("scale_attn_by_inverse_layer_idx", False),
        )  # fmt: skip

    def to_file(self):
        """What config.json says of it."""
        if not self.bias:
            raise _C.NotSupportedError(
                "pf.models.GPT2: got a model without biases; expected one with them: the layout of "
                "Hugging Face has no other; use pf.save(model.state_dict(), ...)"
            )
        return {
            "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": self.vocab,
            "n_layer": self.layers, "n_embd": self.width, "n_head": self.heads,
            "n_positions": self.context, "n_ctx": self.context, "n_inner": self.hidden,
            "resid_pdrop": self.dropout, "embd_pdrop": self.dropout, "attn_pdrop": self.dropout,
            "tie_word_embeddings": self.tied, "layer_norm_epsilon": self.epsilon,
            "activation_function": self.activation, "scale_attn_weights": self.scaled,
            "scale_attn_by_inverse_layer_idx": self.scaled_by_layer,
        }  # fmt: skip


class _Norm(nn.LayerNorm):
    def __init__(self, config, how):
        super().__init__(config.width, eps=config.epsilon, bias=config.bias, **how)


class _Attention(nn.Module):
    def __init__(self, config, layer, how):
        super().__init__()
        self.c_attn = nn.Linear(config.width, 3 * config.width, config.bias, **how)
        self.c_proj = nn.Linear(config.width, config.width, config.bias, **how)
        self.layer, self.heads, self.dropout = layer, config.heads, config.dropout
        self.scale = config.head_size**-0.5 if config.scaled else 1.0
        if config.scaled_by_layer:
            self.scale /= layer + 1

    def forward(self, x, at):
        batch, length, width = x.shape
        qkv = self.c_attn(x).view(batch, length, 3, self.heads, width // self.heads)
        drop = self.dropout if self.training else 0.0
        how = {"both": qkv[:, :, 1:], "scale": self.scale, "dropout": drop}
        y = at.attend(self.layer, *qkv.unbind(2), **how)
        return self.c_proj(y)


class _MLP(nn.Module):
    def __init__(self, config, how):
        super().__init__()
        self.c_fc = nn.Linear(config.width, config.hidden, config.bias, **how)
        self.c_proj = nn.Linear(config.hidden, config.width, config.bias, **how)
        self.approximate = _ACTIVATIONS[config.activation]

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate=self.approximate))


class _Block(nn.Module):
    def __init__(self, config, layer, how):
        super().__init__()
        self.ln_1 = _Norm(config, how)
        self.attn = _Attention(config, layer, how)
        self.ln_2 = _Norm(config, how)
        self.mlp = _MLP(config, how)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x, at):
        x = x + self.dropout(self.attn(self.ln_1(x), at))
        return x + self.dropout(self.mlp(self.ln_2(x)))


class GPT2(LanguageModel):
    """GPT-2 with nanoGPT's names of weights: `GPT2(GPT2Config.preset("gpt2"))`, `GPT2(layers=...)`, or
    `GPT2.from_pretrained(folder)`.

    Input: integers [batch, length ≤ context]; result: logits [batch, length, vocab], or with
    `targets` the mean cross-entropy in nats.
    """

    config_class = GPT2Config
    model_type = "gpt2"
    tied_to = "transformer.wte.weight"
    prefix = "transformer."
    ignored = (".attn.bias", ".attn.masked_bias")  # masks, in old files

    def __init__(self, config=None, *, device=None, dtype=None, **sizes):
        super().__init__()
        self.config = config = config or GPT2Config(**sizes)
        how = {"device": device, "dtype": dtype}
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab, config.width, **how),
                "wpe": nn.Embedding(config.context, config.width, **how),
                "drop": nn.Dropout(config.dropout),
                "h": nn.ModuleList(_Block(config, i, how) for i in range(config.layers)),
                "ln_f": _Norm(config, how),
            }
        )
        self.lm_head = nn.Linear(config.width, config.vocab, bias=False, **how)
        if config.tied:
            self.lm_head.weight = self.transformer.wte.weight
        if self.lm_head.weight.device.type != "meta":
            self._start_values()

    def _start_values(self):
        # What adds to the residual stream is made smaller with depth.
        last = 0.02 * (2 * self.config.layers) ** -0.5
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0.0, last if name.endswith("c_proj.weight") else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def hidden(self, tokens, at):
        t = self.transformer
        x = t.drop(t.wte(tokens) + t.wpe(at.positions))
        for block in t.h:
            x = block(x, at)
        return t.ln_f(x)

    @staticmethod
    def layout(config):
        """(own name, its parts in files, transposed) of each weight, one by one."""
        width, hidden = config.width, config.hidden
        yield "transformer.wte.weight", [Part("wte.weight", (config.vocab, width))], False
        yield "transformer.wpe.weight", [Part("wpe.weight", (config.context, width))], False

        def linear(name, inputs, outputs):
            # Files have the weights of GPT-2's linear layers as [inputs, outputs].
            yield f"transformer.{name}.weight", [Part(f"{name}.weight", (inputs, outputs))], True
            if config.bias:
                yield f"transformer.{name}.bias", [Part(f"{name}.bias", (outputs,))], False

        def norm(name):
            yield f"transformer.{name}.weight", [Part(f"{name}.weight", (width,))], False
            if config.bias:
                yield f"transformer.{name}.bias", [Part(f"{name}.bias", (width,))], False

        for i in range(config.layers):
            yield from norm(f"h.{i}.ln_1")
            yield from linear(f"h.{i}.attn.c_attn", width, 3 * width)
            yield from linear(f"h.{i}.attn.c_proj", width, width)
            yield from norm(f"h.{i}.ln_2")
            yield from linear(f"h.{i}.mlp.c_fc", width, hidden)
            yield from linear(f"h.{i}.mlp.c_proj", hidden, width)
        yield from norm("ln_f")
        if not config.tied:
            yield "lm_head.weight", [Part("lm_head.weight", (config.vocab, width), top=True)], False


_name_errors(__name__)
