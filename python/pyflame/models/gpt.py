"""A byte-level GPT: pre-norm transformer with rotary positions, RMS norms and tied embeddings."""

import math

from .. import _C, _ops, nn
from .._named_errors import name_errors as _name_errors
from ..autograd import no_grad
from ..nn import functional as F
from .decoding import check_choice, choose
from .loss import next_token_loss


class GPTConfig:
    """Sizes of a GPT. `vars(config)` is a plain dict, GPTConfig(**that) the same config again."""

    def __init__(
        self, vocab=256, layers=4, width=128, heads=4, context=128, hidden=None, dropout=0.0,
        tied=True,
    ):  # fmt: skip
        if width % heads or (width // heads) % 2:
            raise ValueError(
                f"pf.models.GPTConfig: width {width} with {heads} heads; expected width to be a "
                "multiple of twice the number of heads"
            )
        self.vocab = vocab
        self.layers = layers
        self.width = width
        self.heads = heads
        self.context = context
        self.hidden = 4 * width if hidden is None else hidden
        self.dropout = dropout
        self.tied = tied

    def __repr__(self):
        return "GPTConfig(" + ", ".join(f"{k}={v!r}" for k, v in vars(self).items()) + ")"


def rotary_tables(length, size, base=10000.0, device=None):
    """Cosines and sines [length, size // 2] of the angles by which queries and keys turn."""
    steps = _ops.arange(0, size, 2, dtype=_C.float32, device=device) * (1.0 / size)
    rates = (steps * -math.log(base)).exp()
    angles = _ops.arange(length, dtype=_C.float32, device=device).unsqueeze(1) * rates
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """Turns the pairs (x[i], x[i + size / 2]) of the last dimension by their angles."""
    a, b = x.chunk(2, -1)
    return _ops.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)
        self.dropout = config.dropout

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        # Queries and keys turn together: one pass over both.
        qk = rotate(qkv[:, :, :2].permute(2, 0, 3, 1, 4), cos, sin)
        v = qkv[:, :, 2].transpose(1, 2)
        drop = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(qk[0], qk[1], v, dropout_p=drop, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1 = nn.RMSNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.RMSNorm(config.width)
        self.mlp = MLP(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x, cos, sin):
        x = x + self.dropout(self.attention(self.norm1(x), cos, sin))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """Predicts the next token. `GPT(layers=4, width=128, ...)` or `GPT(config)`.

    Input: integers [batch, length ≤ context]; result: logits [batch, length, vocab], or with
    `targets` the mean cross-entropy in nats.
    """

    def __init__(self, config=None, **sizes):
        super().__init__()
        self.config = config = config or GPTConfig(**sizes)
        self.embedding = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        # How much each token sees of the one before it: cheap, and worth 0.05 bits per byte.
        self.mix = nn.Parameter(_ops.zeros((config.width,)))
        self.norm = nn.RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        if config.tied:
            self.head.weight = self.embedding.weight
        cos, sin = rotary_tables(config.context, config.width // config.heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self._start_values()

    def _start_values(self):
        # Variance 1 / inputs; what adds to the residual stream is made smaller with depth.
        residual = (2 * self.config.layers) ** -0.5
        for name, p in self.named_parameters():
            if p.dim() == 2:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, 0.0, p.shape[1] ** -0.5 * (residual if last else 1.0))

    def forward(self, tokens, targets=None):
        length = tokens.shape[1]
        if length > self.config.context:
            raise ValueError(
                f"pf.models.GPT: got {length} tokens; expected at most the context of "
                f"{self.config.context}; cut the input"
            )
        x = self.embedding(tokens)
        x = x + self.mix * F.pad(x[:, :-1], (0, 0, 1, 0))
        cos, sin = self.cos[:length], self.sin[:length]
        for block in self.blocks:
            x = block(x, cos, sin)
        x = self.norm(x)
        return self.head(x) if targets is None else next_token_loss(self.head, x, targets)

    def parameter_groups(self, weight_decay):
        """Groups for AdamW: decay for matrices, none for embeddings and norms."""
        tables = {id(self.embedding.weight)}
        matrices, others = [], []
        for p in self.parameters():
            (matrices if p.dim() == 2 and id(p) not in tables else others).append(p)
        return [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]

    def generate(self, tokens, count, temperature=1.0, top_k=None, top_p=None):
        """Appends `count` sampled tokens to [batch, length] and returns all; beyond the context, its
        last tokens are seen. See :func:`pyflame.models.decoding.choose` for the choice."""
        check_choice(temperature, top_k, top_p, "models.GPT.generate")
        was_training = self.training
        self.eval()
        try:
            with no_grad():
                for _ in range(count):
                    logits = self(tokens[:, -self.config.context :])[:, -1]
                    numbers = _ops.rand((len(tokens),), device=logits.device)
                    chosen = choose(logits, numbers, temperature, top_k, top_p)
                    tokens = _ops.cat([tokens, chosen.to(tokens.dtype).unsqueeze(1)], 1)
        finally:
            self.train(was_training)
        return tokens


_name_errors(__name__)
