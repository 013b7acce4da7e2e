"""What language models have in common: generating text, and weights from and to files."""

from .. import _C, _ops, nn
from ..amp import get_autocast_dtype, is_autocast_enabled
from ..autograd import no_grad
from . import pretrained
from .decoding import Cache, Decoder, Prompts, Whole, check_choice, uncached
from .loss import next_token_loss

_LOOKS = 16  # steps between looks whether all texts have ended, where nobody reads the tokens


class LanguageModel(nn.Module):
    """A decoder of tokens. Input: integers [batch, length]; result: logits [batch, length, vocab], or
    with `targets` [batch, length] the mean cross-entropy in nats (targets of -100 are left out).

    A class of models has `config` with `vocab`, `context` and `layers`, `hidden(tokens, at)`, which
    gives the vectors behind the last norm, `lm_head`, which makes logits of them, and
    `make_cache(batch, length)`; for files also `layout` and `config_class`, see
    models/pretrained.py. Names in files may begin with `prefix` (what a whole model wrote) or not
    (its decoder alone); those that end as one of `ignored` are no weights.
    """

    def loaded(self, device):
        """Called when weights from files are in place."""

    def logits(self, tokens, at=None, last=None):
        """Logits of all tokens, or [batch, vocab] of those in the columns `last` [batch]."""
        hidden = self.hidden(tokens, Whole(tokens.shape[1], tokens.device) if at is None else at)
        if last is not None:
            hidden = hidden[_ops.arange(hidden.shape[0], device=hidden.device), last]
        return self.lm_head(hidden)

    def forward(self, tokens, targets=None):
        if tokens.dim() != 2 or tokens.shape[1] > self.config.context:
            raise _C.ShapeError(
                f"pf.models.{type(self).__name__}: got tokens of shape {list(tokens.shape)}; "
                f"expected [batch, length] with a length of at most {self.config.context}, the "
                "context; cut the input"
            )
        if targets is None:
            return self.logits(tokens)
        hidden = self.hidden(tokens, Whole(tokens.shape[1], tokens.device))
        return next_token_loss(self.lm_head, hidden, targets)

    def make_cache(self, batch, length):
        """Memory for the keys and values of `batch` texts of `length` tokens."""
        weight = next(self.parameters())
        kind, dtype = weight.device.type, weight.dtype
        if is_autocast_enabled(kind):
            dtype = get_autocast_dtype(kind)
        heads, size = self.config.kept_heads, self.config.head_size
        return Cache(
            self.config.layers, batch, length, heads, size, dtype=dtype, device=weight.device
        )

    def parameter_groups(self, weight_decay):
        """Groups for AdamW: decay for matrices and tables, none for biases and norms."""
        parameters = list(self.parameters())
        return [
            {
                "params": [p for p in parameters if p.dim() >= 2],
                "weight_decay": weight_decay,
            },
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]

    # ---- generating ------------------------------------------------------------------------------

    def decoder(self, batch, length, *, compile=True):
        """Memory and captured steps for `batch` texts of up to `length` tokens, kept between calls of
        generate(..., decoder=...)."""
        return Decoder(self, batch, length, compile=compile)

    def stream(
        self, tokens, count, *, temperature=1.0, top_k=None, top_p=None, seed=None, eos=None,
        pad=None, vocab=None, attention_mask=None, use_cache=True, compile=False, decoder=None,
    ):  # fmt: skip
        """The new tokens one by one: an iterator over lists of one int for each text. Arguments are
        those of :meth:`generate`; it ends when all texts have ended."""
        call = _Call(self, tokens, count, temperature, top_k, top_p, seed, eos, pad, vocab,
                     attention_mask, use_cache, compile, decoder, op="stream")  # fmt: skip
        return call.read()

    def generate(
        self, tokens, count, temperature=1.0, top_k=None, top_p=None, *, seed=None, eos=None,
        pad=None, vocab=None, attention_mask=None, use_cache=True, compile=False, decoder=None,
    ):  # fmt: skip
        """Goes on with texts by up to `count` tokens each.

        Args:
            tokens: integers [batch, length], or a list of texts of different lengths: lists of ints or
                tensors. Each text gets what it would get alone.
            temperature: 0 takes the likeliest token; others divide the logits, and tokens are drawn.
            top_k: draws among the k likeliest.
            top_p: draws among the fewest that together have at least this probability.
            seed: an int, or one for each text; text i of a batch with one seed has seed + i. The same
                seed gives the same text, in whatever batch. None: PyFlame's own generator.
            eos: a token, or several, behind which a text ends.
            pad: what fills a row of a matrix behind its end; eos by default.
            vocab: draws among the first so many tokens (a table may be larger than a vocabulary).
            attention_mask: of a padded matrix (left or right): True, or 1, at tokens.
            use_cache: False reads the whole text again for each token.
            compile: steps are captured (pf.compile, mode="reduce-overhead") while this call runs.
            decoder: what :meth:`decoder` gave, for captures that outlive the call.

        Returns:
            As `tokens`: int64 [batch, length + N], padded left where an attention_mask was given, or
            a list of lists of ints, each cut behind its end.

        Raises:
            ValueError: an argument out of range, prompts and `count` longer than the context, or
                logits that are NaN. IndexError: a token that is not in the vocabulary.
        """
        call = _Call(self, tokens, count, temperature, top_k, top_p, seed, eos, pad, vocab,
                     attention_mask, use_cache, compile, decoder, op="generate")  # fmt: skip
        return call.whole()

    # ---- files -------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(cls, path, *, dtype=None, device=None):
        """The model in a folder of Hugging Face's layout: config.json beside model.safetensors, or
        model.safetensors.index.json and its shards. Nothing is downloaded and no code is run.

        `dtype` is that of the weights (as in the file without it); without `device` they are on the
        current one. The model is in evaluation mode. FileError: what is missing, damaged or does not
        fit its configuration; NotSupportedError: an option that this model does not have.
        """
        return pretrained.load(cls, path, dtype=dtype, device=device)

    def save_pretrained(self, path, *, max_shard_bytes=5 * 10**9, dtype=None):
        """Writes the model into the folder `path` in the same layout; more than `max_shard_bytes` in
        several files with an index."""
        pretrained.save(self, path, max_shard_bytes=max_shard_bytes, dtype=dtype)


class _Call:
    """One call of generate() or stream(): its arguments, checked, and how it is run."""

    def __init__(
        self, model, tokens, count, temperature, top_k, top_p, seed, eos, pad, vocab,
        attention_mask, use_cache, compile, decoder, *, op,
    ):  # fmt: skip
        op = f"models.{type(model).__name__}.{op}"
        self.model, self.op = model, op
        self.prompts = prompts = Prompts(tokens, attention_mask, op)
        config = model.config
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise _C.ValueError(f"pf.{op}: got count={count!r}; expected a whole number from 0 on")
        if prompts.longest + count > config.context:
            raise _C.ValueError(
                f"pf.{op}: got a prompt of {prompts.longest} tokens and count={count}; expected at "
                f"most the context of {config.context} together; shorten one of them"
            )
        check_choice(temperature, top_k, top_p, op)
        self.vocab = self._whole("vocab", vocab, 1, config.vocab)
        prompts.check(config.vocab)
        self.count = count
        self.choice = float(temperature), top_k, top_p
        ends = () if eos is None else (eos,) if isinstance(eos, int) else tuple(eos)
        self.ends = tuple(self._whole("eos", e, 0, config.vocab - 1) for e in ends)
        self.pad = self._whole("pad", pad, 0, config.vocab - 1)
        if self.pad is None:
            self.pad = self.ends[0] if self.ends else 0
        batch = len(prompts.lengths)
        self.seeds = None
        if seed is not None:
            self.seeds = [seed + i for i in range(batch)] if isinstance(seed, int) else list(seed)
            if len(self.seeds) != batch or not all(type(s) is int for s in self.seeds):
                raise _C.ValueError(
                    f"pf.{op}: got seed={seed!r} for {batch} prompts; expected a whole number, or "
                    "one for each"
                )
        self.use_cache, self.compile, self.decoder = use_cache, compile, decoder
        if decoder is not None and (
            decoder.model is not model
            or decoder.batch != batch
            or decoder.length < prompts.longest + count
        ):
            raise _C.ValueError(
                f"pf.{op}: got a decoder for {decoder.batch} texts of up to {decoder.length} tokens; "
                f"expected one of this model for {batch} of {prompts.longest + count}; make it with "
                "model.decoder(batch, length)"
            )

    def _whole(self, name, value, low, high):
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _C.ValueError(
                f"pf.{self.op}: got {name}={value!r}; expected a whole number from {low} to {high}"
            )
        return value

    def _tokens(self):
        """Iterator over tensors; gradients are off only while it computes."""
        how = {"ends": self.ends, "pad": self.pad, "vocab": self.vocab, "seeds": self.seeds}
        if not self.use_cache:
            steps = uncached(self.model, self.prompts, self.count, self.choice, **how)
        else:
            decoder = self.decoder
            if decoder is None:
                length = self.prompts.longest + self.count
                batch = len(self.prompts.lengths)
                decoder = Decoder(self.model, batch, length, compile=self.compile)
            steps = decoder.tokens(self.prompts, self.count, self.choice, **how)
        model = self.model
        for _ in range(self.count):
            was_training = model.training
            if was_training:
                model.eval()
            try:
                with no_grad():
                    made = next(steps)
            finally:
                if was_training:
                    model.train()
            yield made

    def read(self):
        alive = set(range(len(self.prompts.lengths)))
        for made in self._tokens():
            row = made.tolist()
            self._check(row)
            yield row
            if self.ends:
                alive -= {i for i in alive if row[i] in self.ends}
                if not alive:
                    return

    def _check(self, row):
        if min(row, default=0) < 0:
            raise _C.ValueError(
                f"pf.{self.op}: the logits are NaN; expected numbers; check the weights, or take a "
                "dtype with a wider range"
            )

    def whole(self):
        made, ended = [], None
        for i, row in enumerate(self._tokens()):
            made.append(row)
            if self.ends:
                # Looked at rarely: to look is to wait for the device.
                now = row == self.ends[0]
                for end in self.ends[1:]:
                    now = now | (row == end)
                ended = now if ended is None else ended | now
                if i % _LOOKS == _LOOKS - 1 and ended.all().item():
                    break
        if not made:
            made = _ops.zeros((len(self.prompts.lengths), 0), dtype=_C.int64)
        else:
            made = _ops.stack(made, 1)
        rows = made.tolist()
        ends = []
        for row in rows:
            self._check(row)
            ends.append(next((i for i, t in enumerate(row) if t in self.ends), None))
        if rows and rows[0] and None not in ends:
            made = made[:, : max(ends) + 1]
        return self.prompts.result(made, ends, self.pad)
