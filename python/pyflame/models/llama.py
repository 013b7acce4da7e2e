"""Llama: RMS norms, rotary positions, shared heads of keys and values, gated layers."""

import math

from .. import _C, _ops, nn
from .._named_errors import name_errors as _name_errors
from ..nn import functional as F
from . import fields
from .gpt import rotate
from .language import LanguageModel
from .pretrained import Part

_SCALINGS = {
    "default": (),
    "linear": ("factor",),
    "llama3": (
        "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
    ),
}  # fmt: skip


class LlamaConfig:
    """Sizes of a Llama. `kept_heads` are those of keys and values; `scaling` is None or what a
    config.json has as rope_scaling, of the kinds "linear" and "llama3"."""

    def __init__(
        self, vocab=32000, layers=32, width=4096, heads=32, kept_heads=None, head_size=None,
        context=2048, hidden=11008, tied=False, bias=False, mlp_bias=False, epsilon=1e-6,
        base=10000.0, scaling=None,
    ):  # fmt: skip
        self.vocab, self.layers, self.width, self.heads = vocab, layers, width, heads
        self.kept_heads = heads if kept_heads is None else kept_heads
        whole = type(width) is int and type(heads) is int and heads > 0
        self.head_size = (width // heads if whole else 0) if head_size is None else head_size
        self.context, self.hidden, self.tied, self.bias = context, hidden, tied, bias
        self.mlp_bias, self.epsilon, self.base, self.scaling = mlp_bias, epsilon, base, scaling
        op = "models.LlamaConfig"
        fields.check(vars(self), self.FIELDS, op)
        if heads % self.kept_heads or self.head_size % 2:
            raise _C.ValueError(
                f"pf.{op}: got {heads} heads, {self.kept_heads} kept ones of size {self.head_size}; "
                "expected a multiple of the kept ones, and an even size"
            )
        if scaling is not None:
            kind = scaling.get("rope_type", scaling.get("type"))
            if kind not in _SCALINGS:
                raise _C.NotSupportedError(
                    f"pf.{op}: got positions scaled by {str(kind)[:60]!r}; expected one of "
                    f"{', '.join(_SCALINGS)}"
                )
            good = fields.number(0, 1e12, without_low=True)
            why = fields.wrong(scaling, dict.fromkeys(_SCALINGS[kind], good))
            if why is None and kind == "llama3":
                if scaling["low_freq_factor"] >= scaling["high_freq_factor"]:
                    why = "low_freq_factor is not below high_freq_factor"
            if why:
                raise _C.ValueError(f"pf.{op}: got a scaling that cannot be: {why}")

    FIELDS = {
        **fields.SIZES,
        "kept_heads": fields.whole(1, 1 << 17),
        "head_size": fields.whole(1, 1 << 16),
        "tied": fields.flag,
        "bias": fields.flag,
        "mlp_bias": fields.flag,
        "epsilon": fields.number(0, 1),
        "base": fields.number(0, 1e30, without_low=True),
        "scaling": lambda v: v is None or type(v) is dict,
    }

    def __repr__(self):
        return "LlamaConfig(" + ", ".join(f"{k}={v!r}" for k, v in vars(self).items()) + ")"

    @classmethod
    def from_file(cls, given):
        """That of a config.json (see models/fields.py for `given`)."""
        if given.get("hidden_act", "silu") not in ("silu", "swish"):
            raise given.refused("hidden_act", "'silu'")
        if given.get("pretraining_tp", 1) != 1:
            raise given.refused("pretraining_tp", "1")
        # Later files have both in one object.
        rope = given.get("rope_parameters", {})
        scaling = given.get("rope_scaling", rope or None)
        base = given.get("rope_theta", rope.get("rope_theta", 10000.0))
        if scaling is not None and type(scaling) is dict:
            scaling = {k: v for k, v in scaling.items() if k != "rope_theta"}
            if scaling.get("rope_type", scaling.get("type")) == "default":
                scaling = None
        return cls(
            vocab=given["vocab_size"], layers=given["num_hidden_layers"],
            width=given["hidden_size"], heads=given["num_attention_heads"],
            kept_heads=given.get("num_key_value_heads"), head_size=given.get("head_dim"),
            context=given.get("max_position_embeddings", 2048),
            hidden=given["intermediate_size"], tied=given.get("tie_word_embeddings", False),
            bias=given.get("attention_bias", False), mlp_bias=given.get("mlp_bias", False),
            epsilon=given.get("rms_norm_eps", 1e-6), base=base, scaling=scaling,
        )  # fmt: skip

    def to_file(self):
        """What config.json says of it."""
        return {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"],
            "vocab_size": self.vocab, "num_hidden_layers": self.layers, "hidden_size": self.width,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kept_heads,
            "head_dim": self.head_size, "max_position_embeddings": self.context,
            "intermediate_size": self.hidden, "tie_word_embeddings": self.tied,
            "attention_bias": self.bias, "mlp_bias": self.mlp_bias, "rms_norm_eps": self.epsilon,
            "rope_theta": self.base, "rope_scaling": self.scaling, "hidden_act": "silu",
        }  # fmt: skip


def rotary_rates(config):
    """By how much each pair of a head turns from one position to the next: head_size / 2 floats.

    "llama3" leaves quick pairs as they are, divides the rates of slow ones by `factor`, and goes
    evenly from the one to the other between.
    """
    half = config.head_size // 2
    rates = [config.base ** (-i / half) for i in range(half)]
    scaling = config.scaling
    kind = scaling and scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        return [r / scaling["factor"] for r in rates]
    if kind != "llama3":
        return rates
    factor, low, high = (scaling[n] for n in ("factor", "low_freq_factor", "high_freq_factor"))
    made = []
    for rate in rates:
        # How often the pair turns within the context that the model was first trained for.
        turns = scaling["original_max_position_embeddings"] * rate / (2 * math.pi)
        quick = min(max((turns - low) / (high - low), 0.0), 1.0)
        made.append(rate / factor * (1 - quick) + rate * quick)
    return made


class _Attention(nn.Module):
    def __init__(self, config, layer, how):
        super().__init__()
        self.heads, self.kept = config.heads, config.kept_heads
        self.size, self.layer = config.head_size, layer
        outputs = (self.heads + 2 * self.kept) * self.size
        self.qkv = nn.Linear(config.width, outputs, config.bias, **how)
        self.out = nn.Linear(self.heads * self.size, config.width, config.bias, **how)

    def forward(self, x, at, cos, sin):
        batch, length, _ = x.shape
        qkv = self.qkv(x).view(batch, length, -1, self.size)
        turning = self.heads + self.kept
        # Queries and keys turn together: one pass over both, in float32.
        qk = rotate(qkv[:, :, :turning], cos, sin).to(x.dtype)
        q, k = qk[:, :, : self.heads], qk[:, :, self.heads :]
        return self.out(at.attend(self.layer, q, k, qkv[:, :, turning:]))


class _MLP(nn.Module):
    def __init__(self, config, how):
        super().__init__()
        self.gate_up = nn.Linear(config.width, 2 * config.hidden, config.mlp_bias, **how)
        self.down = nn.Linear(config.hidden, config.width, config.mlp_bias, **how)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class _Block(nn.Module):
    def __init__(self, config, layer, how):
        super().__init__()
        self.norm1 = nn.RMSNorm(config.width, eps=config.epsilon, **how)
        self.attention = _Attention(config, layer, how)
        self.norm2 = nn.RMSNorm(config.width, eps=config.epsilon, **how)
        self.mlp = _MLP(config, how)

    def forward(self, x, at, cos, sin):
        x = x + self.attention(self.norm1(x), at, cos, sin)
        return x + self.mlp(self.norm2(x))


class Llama(LanguageModel):
    """Llama 2 and 3 and what has their layout: `Llama.from_pretrained(folder)`, or `Llama(layers=...)`.

    Input: integers [batch, length ≤ context]; result: logits [batch, length, vocab], or with
    `targets` the mean cross-entropy in nats. Projections of queries, keys and values are one product
    here, so are the two of the gated layer; files have them apart.
    """

    config_class = LlamaConfig
    model_type = "llama"
    tied_to = "embedding.weight"
    prefix = "model."
    ignored = (".rotary_emb.inv_freq",)

    def __init__(self, config=None, *, device=None, dtype=None, **sizes):
        super().__init__()
        self.config = config = config or LlamaConfig(**sizes)
        how = {"device": device, "dtype": dtype}
        self.embedding = nn.Embedding(config.vocab, config.width, **how)
        self.blocks = nn.ModuleList(_Block(config, i, how) for i in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=config.epsilon, **how)
        self.lm_head = nn.Linear(config.width, config.vocab, bias=False, **how)
        if config.tied:
            self.lm_head.weight = self.embedding.weight
        if self.lm_head.weight.device.type != "meta":
            for name, p in self.named_parameters():
                if p.dim() == 2:
                    nn.init.normal_(p, 0.0, 0.02)
                elif name.endswith("bias"):
                    nn.init.zeros_(p)
            self.loaded(device)

    def loaded(self, device):
        """Makes what is no weight, on `device`, or where tensors without one are made."""
        rates = _ops.tensor(rotary_rates(self.config), dtype=_C.float32, device=device)
        self.register_buffer("rates", rates, persistent=False)

    def _apply(self, *args, **kwargs):
        super()._apply(*args, **kwargs)
        # Angles of long texts need float32, whatever the weights are.
        if self.rates.dtype != _C.float32:
            self.loaded(self.rates.device)
        return self

    def hidden(self, tokens, at):
        angles = at.positions.unsqueeze(-1).float() * self.rates
        cos, sin = (t.unsqueeze(-2) for t in (angles.cos(), angles.sin()))
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, at, cos, sin)
        return self.norm(x)

    @staticmethod
    def layout(config):
        """(own name, its parts in files, transposed) of each weight, one by one."""
        width, hidden, size = config.width, config.hidden, config.head_size
        rows = (config.heads * size, config.kept_heads * size)

        def linear(own, names, outputs, inputs, bias):
            there = f"layers.{i}."
            parts = [Part(f"{there}{n}.weight", (o, inputs)) for n, o in zip(names, outputs)]
            yield f"{own}.weight", parts, False
            if bias:
                parts = [Part(f"{there}{n}.bias", (o,)) for n, o in zip(names, outputs)]
                yield f"{own}.bias", parts, False

        yield "embedding.weight", [Part("embed_tokens.weight", (config.vocab, width))], False
        for i in range(config.layers):
            own = f"blocks.{i}."
            for norm, name in (("norm1", "input_layernorm"), ("norm2", "post_attention_layernorm")):
                yield f"{own}{norm}.weight", [Part(f"layers.{i}.{name}.weight", (width,))], False
            names = [f"self_attn.{n}_proj" for n in "qkv"]
            outputs = (rows[0], rows[1], rows[1])
            yield from linear(f"{own}attention.qkv", names, outputs, width, config.bias)
            yield from linear(
                f"{own}attention.out", ["self_attn.o_proj"], (width,), rows[0], config.bias
            )
            names = ["mlp.gate_proj", "mlp.up_proj"]
            yield from linear(f"{own}mlp.gate_up", names, (hidden,) * 2, width, config.mlp_bias)
            yield from linear(
                f"{own}mlp.down", ["mlp.down_proj"], (width,), hidden, config.mlp_bias
            )
        yield "norm.weight", [Part("norm.weight", (width,))], False
        if not config.tied:
            yield "lm_head.weight", [Part("lm_head.weight", (config.vocab, width), True)], False


_name_errors(__name__)
