"""Text from a language model, token by token: keys and values that are kept, choices, prompts."""

import itertools

from .. import _C, _ops
from ..compiler import compile as _compile
from ..nn import functional as F
from ..random import Generator

# ---- how attention sees the tokens --------------------------------------------------------------
# Each has `positions` of the tokens it is given, and attend(layer, q, k, v) for queries [B, L, H, D],
# keys and values [B, L, K, D] with K dividing H, which gives [B, L, H D]. `both` is [B, L, 2, K, D] where
# keys and values lie so: then they go into a cache at once.


class Whole:
    """All tokens of the text at once, each of which sees itself and those before it."""

    def __init__(self, length, device=None):
        self.positions = _ops.arange(length, device=device)

    def attend(self, layer, q, k, v, *, both=None, scale=None, dropout=0.0):
        return _attention(q, k, v, scale=scale, dropout_p=dropout, is_causal=True)


class Prompt(Whole):
    """The same for the first tokens of texts, whose keys and values go into an empty cache."""

    def __init__(self, length, cache):
        super().__init__(length, cache.device)
        self.cache, self.length = cache, length

    def attend(self, layer, q, k, v, *, both=None, scale=None, dropout=0.0):
        self.cache.kept[layer][:, : self.length].copy_(_both(k, v, both))
        return super().attend(layer, q, k, v, scale=scale)


class Next:
    """One more token for each row, at a column of its own: the last of those that the cache has `used`.

    `upto` says how many columns every row has then; without it that follows from the numbers on the
    device, so that the step is the same for texts of any lengths.
    """

    def __init__(self, cache, upto=None):
        self.cache, self.upto = cache, upto
        self.positions = cache.used.unsqueeze(1).to(_C.int64) - 1
        self.places = cache.firsts + self.positions.squeeze(1)

    def attend(self, layer, q, k, v, *, both=None, scale=None, dropout=0.0):
        cache, kept = self.cache, self.cache.kept[layer]
        rows = kept.flatten(0, 1)
        # A cache that was made outside of autocast is wider than what comes within.
        rows.index_copy_(0, self.places, _both(k, v, both).flatten(0, 1).to(rows.dtype))
        q = q.to(rows.dtype)
        if self.upto:
            return _attention(q, *kept[:, : self.upto].unbind(2), scale=scale)
        y, _ = _ops.flash_attention(
            *(t.transpose(0, 1) for t in (q.flatten(0, 1), *rows.unbind(1))), scale=scale,
            enable_gqa=True, bottom_right=True, cu_seqlens_q=cache.ones, cu_seqlens_k=cache.starts,
            seqused_k=cache.used, max_seqlen_q=1, max_seqlen_k=cache.length, dense=True,
        )  # fmt: skip
        return y.transpose(0, 1).reshape(cache.batch, 1, -1)


def _both(k, v, both):
    return _ops.stack([k, v], 2) if both is None else both


def _attention(q, k, v, **how):
    batch, length, heads, _ = q.shape
    y = F.scaled_dot_product_attention(
        *(t.transpose(1, 2) for t in (q, k, v)), enable_gqa=k.shape[2] != heads, **how
    )
    return y.transpose(1, 2).reshape(batch, length, -1)


class Cache:
    """Keys and values of `batch` texts of up to `length` tokens, in memory that is taken once."""

    def __init__(self, layers, batch, length, heads, size, *, dtype=None, device=None):
        self.batch, self.length = batch, length
        shape = batch, length, 2, heads, size  # keys and values of a token side by side
        self.kept = [_ops.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        # Columns of each text, the next token's included: as attention reads them, which knows its keys
        # early since no step writes this before its end.
        self.used = _ops.ones((batch,), dtype=_C.int32, device=device)
        self.firsts = _ops.arange(batch, device=device) * length  # rows of the cache as one list
        # As attention wants them: where queries and keys of each text begin, and the end of the last.
        self.ones = _ops.arange(batch + 1, dtype=_C.int32, device=device)
        self.starts = self.ones * length
        self.device = device

    def clear(self):
        # What is hidden is multiplied by 0: a NaN of an earlier text must not be there.
        for t in self.kept:
            t.zero_()
        self.used.fill_(1)


# ---- choosing -----------------------------------------------------------------------------------


def choose(logits, numbers=None, temperature=1.0, top_k=None, top_p=None):
    """One token for each row of `logits` [B, V]: int64 [B], and -1 where they are NaN.

    With temperature 0 the likeliest; else drawn with probabilities softmax(logits / temperature) among
    the `top_k` likeliest, and of these among the fewest that together have at least `top_p`. What
    is as likely as the last of the k is among them. `numbers` [B] in [0, 1) say which token it is.
    """
    logits = logits.float()
    if temperature < 1e-9:
        best, token = logits.max(-1)
        return _ops.where(best == best, token, -1)
    # In this order no quotient is too large.
    logits = (logits - logits.amax(-1, keepdim=True)) * (1.0 / temperature)
    if top_k is not None and top_k < logits.shape[-1]:
        lowest = logits.topk(top_k, -1)[0][:, -1:]
        logits = logits.masked_fill(logits < lowest, float("-inf"))
    p = F.softmax(logits, -1)
    if top_p is not None and top_p < 1.0:
        ordered = p.sort(-1, descending=True)[0]
        before = ordered.cumsum(-1) - ordered
        # The least probability that stays; the first one always does.
        last = (before < top_p).sum(-1, keepdim=True) - 1
        p = p.masked_fill(p < ordered.gather(-1, last.clamp(min=0)), 0.0)
    upto = p.cumsum(-1)
    total = upto[:, -1:]
    token = (upto <= numbers.unsqueeze(1).to(upto.dtype) * total).sum(-1)
    return _ops.where(total.squeeze(1) == total.squeeze(1), token, -1)


def check_choice(temperature, top_k, top_p, op):
    """ValueError unless choose() can work with these."""
    for name, value, good, words in (
        ("temperature", temperature, lambda v: 0 <= v < float("inf"), "0 (the likeliest) or more"),
        ("top_k", top_k, lambda v: v == int(v) and v >= 1, "a whole number from 1 on, or None"),
        ("top_p", top_p, lambda v: 0 < v <= 1, "a number above 0 and up to 1, or None"),
    ):
        if value is None and name != "temperature":
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not good(value):
            raise _C.ValueError(f"pf.{op}: got {name}={value!r}; expected {words}")


# ---- prompts ------------------------------------------------------------------------------------


class Prompts:
    """Texts of any lengths [1, ...) as a matrix, each from column 0 on."""

    def __init__(self, tokens, mask=None, op="generate"):
        self.op = op
        self.given = tokens
        self.width = None  # columns of a padded matrix that was given
        if isinstance(tokens, _C.Tensor):
            if tokens.dim() != 2 or not tokens.shape[0] or not tokens.shape[1]:
                raise _C.ShapeError(
                    f"pf.{op}: got tokens of shape {list(tokens.shape)}; expected [batch, length], "
                    "each 1 or more; use tokens.unsqueeze(0) for one text"
                )
            rows = None if mask is None else self._unpadded(tokens, mask)
            lengths = [tokens.shape[1]] * tokens.shape[0] if rows is None else list(map(len, rows))
            self.matrix = tokens.long() if rows is None else None
        else:
            if mask is not None:
                raise _C.ValueError(
                    f"pf.{op}: got attention_mask with a list of prompts; expected it with one tensor"
                )
            rows = [self._row(r) for r in tokens]
            lengths = list(map(len, rows))
            self.matrix = None
            if not rows or not min(lengths):
                raise _C.ValueError(
                    f"pf.{op}: got {'an empty prompt' if rows else 'no prompts'}; expected at "
                    "least one token in each; begin with the token that begins texts"
                )
        self.lengths = lengths
        self.longest = max(lengths)
        if self.matrix is None:
            filled = [r + [0] * (self.longest - len(r)) for r in rows]
            self.matrix = _ops.tensor(filled, dtype=_C.int64)
        self.rows = rows

    def _row(self, row):
        if isinstance(row, _C.Tensor):
            row = row.reshape(-1).tolist()
        row = [row] if isinstance(row, int) else list(row)
        for t in row:
            if isinstance(t, bool) or not isinstance(t, int):
                raise TypeError(
                    f"pf.{self.op}: got {type(t).__name__} as a token; expected whole numbers; "
                    "turn text into tokens first"
                )
        return row

    def _unpadded(self, tokens, mask):
        if tuple(mask.shape) != tuple(tokens.shape):
            raise _C.ShapeError(
                f"pf.{self.op}: got attention_mask of shape {list(mask.shape)} for tokens of "
                f"{list(tokens.shape)}; expected the same shape"
            )
        self.width = tokens.shape[1]
        rows = []
        for row, kept in zip(tokens.tolist(), mask.bool().tolist()):
            seen = list(itertools.compress(row, kept))
            first = kept.index(True) if seen else 0
            if not seen or not all(kept[first : first + len(seen)]):
                raise _C.ValueError(
                    f"pf.{self.op}: got an attention_mask with a row that has "
                    f"{'gaps' if seen else 'no token'}; expected padding on one side alone"
                )
            rows.append(seen)
        return rows

    def check(self, vocab):
        low, high = (int(f(self.matrix).item()) for f in (_ops.amin, _ops.amax))
        if low < 0 or high >= vocab:
            raise _C.IndexError(
                f"pf.{self.op}: got token {low if low < 0 else high}; expected 0 to {vocab - 1}"
            )

    def result(self, made, ends, pad):
        """The texts with the tokens `made` [B, N], in the form in which prompts were given."""
        if self.rows is None:
            return _ops.cat([self.given.long(), made.to(self.given.device)], 1)
        new = made.tolist()
        if self.width is None:
            return [r + (n if e is None else n[: e + 1]) for r, n, e in zip(self.rows, new, ends)]
        whole = [[pad] * (self.width - len(r)) + r + n for r, n in zip(self.rows, new)]
        return _ops.tensor(whole, dtype=_C.int64, device=self.given.device)


# ---- the loop -----------------------------------------------------------------------------------


class Decoder:
    """Makes texts with a model; `batch` texts of up to `length` tokens, prompts included.

    Its memory (the cache) is taken once, and with `compile` a step that was captured is used again
    by every text that it makes. `model.generate` makes one for a call, or keeps the last compiled one.
    """

    def __init__(self, model, batch, length, *, compile=False):
        self.model, self.batch, self.length = model, batch, length
        self.cache = model.make_cache(batch, length)
        device = self.cache.device
        self.numbers = _ops.zeros((length, batch), device=device)  # that choose
        self.cursor = _ops.zeros((1,), dtype=_C.int64, device=device)
        self.ended = _ops.zeros((batch,), dtype=_C.bool, device=device)
        # Tensors are named here, where a capture looks for what the step reaches.
        self.kept = self.cache.kept
        self.places = [self.cache.used, self.cache.firsts, self.cache.ones, self.cache.starts]
        self.compiled = compile
        self._step = _compile(self._one, mode="reduce-overhead") if compile else self._one

    def report(self):
        """How the steps have run."""
        return self._step.report() if self.compiled else "not compiled"

    def _one(self, tokens, upto, how):
        """The tokens after `tokens` [B]; all that changes from step to step is in tensors."""
        at = Next(self.cache, upto)
        logits = self.model.logits(tokens.clamp(min=0).unsqueeze(1), at)[:, 0]
        made = self._chosen(logits, *how)
        self.cache.used.add_(1)
        return made

    def _chosen(self, logits, choice, ends, pad, vocab):
        numbers = None
        if choice[0] > 0:
            numbers = self.numbers.index_select(0, self.cursor)[0]
        made = choose(logits[:, :vocab], numbers, *choice)
        self.cursor.add_(1)
        if ends:
            made = _ops.where(self.ended, pad, made)
            for end in ends:
                self.ended.logical_or_(made == end)
        return made

    def tokens(self, prompts, count, choice, *, ends=(), pad=0, vocab=None, seeds=None):
        """Iterator over `count` int64 tensors [B]: the next token of each text. See Choice in
        models/language.py for the arguments."""
        how = choice, ends, pad, vocab
        cache, model = self.cache, self.model
        cache.clear()
        self.cursor.zero_()
        self.ended.zero_()
        if choice[0] > 0:
            self.numbers[:count].copy_(_drawn(seeds, count, self.batch))
        lengths = _ops.tensor(prompts.lengths)
        matrix = prompts.matrix.to(cache.used.device)
        alike = min(prompts.lengths) == prompts.longest
        last = (lengths - 1).to(cache.used.device)
        logits = model.logits(matrix, Prompt(prompts.longest, cache), last)
        cache.used.copy_(lengths + 1)
        made = self._chosen(logits, *how)
        yield made
        for i in range(1, count):
            cut = alike and not self.compiled
            made = self._step(made, prompts.longest + i if cut else None, how)
            yield made


def _drawn(seeds, count, batch):
    """Uniform numbers [count, batch] on the CPU; those of a row follow from its seed alone."""
    if seeds is None:
        return _ops.rand((count, batch), device="cpu")
    columns = [
        _ops.rand((count,), device="cpu", generator=Generator().manual_seed(s & (2**63 - 1)))
        for s in seeds
    ]
    return _ops.stack(columns, 1)


def uncached(model, prompts, count, choice, *, ends=(), pad=0, vocab=None, seeds=None):
    """What Decoder.tokens gives, with all of the text read again for each token."""
    device = next(model.parameters()).device
    numbers = _drawn(seeds, count, len(prompts.lengths)).to(device) if choice[0] > 0 else None
    rows = _ops.arange(len(prompts.lengths), device=device)
    matrix = prompts.matrix.to(device)
    lengths = _ops.tensor(prompts.lengths).to(device)
    ended = _ops.zeros((len(prompts.lengths),), dtype=_C.bool, device=device)
    for i in range(count):
        logits = model.logits(matrix, Whole(matrix.shape[1], device), lengths - 1)[:, :vocab]
        made = choose(logits, None if numbers is None else numbers[i], *choice)
        if ends:
            made = _ops.where(ended, pad, made)
            for end in ends:
                ended = ended | (made == end)
        yield made
        if i + 1 < count:
            matrix = F.pad(matrix, (0, 1))
            matrix[rows, lengths] = made.clamp(min=0)
            lengths = lengths + 1
