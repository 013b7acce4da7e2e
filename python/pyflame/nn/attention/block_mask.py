"""Which blocks of queries see which blocks of keys: BlockMask of flex_attention."""

import contextlib
import inspect
import math
import weakref

from ... import _C, _ops
from ..._C import Tensor
from ..._grad_mode import no_grad
from ..._named_errors import name_errors as _name_errors
from ...func import vmap
from ...streams import synchronize

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_CHUNK = 1 << 24  # elements of a mask that are looked at together


def noop_mask(batch, head, token_q, token_kv):
    """Every query sees every key."""
    return batch.new_ones((), dtype=_ops.bool)


_pointwise = weakref.WeakKeyDictionary()  # functions, and whether they are


def _over_samples(mod, *operands):
    prefix = (0,) * (len(operands) - 4)
    for at in (3, 2, 1, 0):
        dims = [None] * 4
        dims[at] = 0
        mod = vmap(mod, in_dims=(*prefix, *dims))
    return mod(*operands)


def _side_by_side(mod, *operands):
    *scores, b, h, q_idx, kv_idx = operands
    shape = tuple(len(i) for i in (b, h, q_idx, kv_idx))
    at = (
        i.view([-1 if d == n else 1 for d in range(4)]) for n, i in enumerate((b, h, q_idx, kv_idx))
    )
    result = mod(*scores, *at)
    return result.expand(shape) if isinstance(result, Tensor) else result


def is_pointwise(mod, dtype, *indices):
    """Whether a function of one element is one of many that lie side by side, too: as a sample of the
    elements says. Most are; chains of indices (bias[b][h]) are not. dtype: of scores, None for masks."""
    try:
        return _pointwise[mod]
    except (KeyError, TypeError):
        pass
    few, scores = [i[:3] for i in indices], []
    if dtype is not None:
        shape = tuple(len(i) for i in few)
        values = _ops.linspace(-2.0, 2.0, math.prod(shape), dtype=dtype, device=few[0].device)
        scores = [values.view(shape)]
    with no_grad():
        wanted = _over_samples(mod, *scores, *few)
        try:
            got = _side_by_side(mod, *scores, *few)
            same = (
                isinstance(got, Tensor)
                and got.shape == wanted.shape
                and got.dtype == wanted.dtype
                and bool(((got == wanted) | ((got != got) & (wanted != wanted))).all())
            )
        except Exception:
            # Whatever it is, the other way has shown that the function is none of its causes.
            same = False
        if not same:
            with contextlib.suppress(Exception):
                synchronize(few[0].device)  # what a GPU finds wrong is told here, not later
    with contextlib.suppress(TypeError):
        _pointwise[mod] = same
    return same


def over_all(mod, *operands):
    """A score_mod or mask_mod over (scores [B, H, L, S],) b [B], h [H], q_idx [L] and kv_idx [S]."""
    if is_pointwise(mod, operands[0].dtype if len(operands) == 5 else None, *operands[-4:]):
        return _side_by_side(mod, *operands)
    return _over_samples(mod, *operands)


def _combined(name, mask_mods, join):
    if not all(callable(m) for m in mask_mods):
        raise RuntimeError(
            f"pf.nn.attention.flex_attention.{name}: got {mask_mods}; expected functions"
        )

    def mask_mod(b, h, q_idx, kv_idx):
        result = None
        for mod in mask_mods:
            sees = mod(b, h, q_idx, kv_idx)
            result = sees if result is None else join(result, sees)
        return noop_mask(b, h, q_idx, kv_idx) if result is None else result

    return mask_mod


def and_masks(*mask_mods):
    """A mask_mod: what all of these let see."""
    return _combined("and_masks", mask_mods, lambda a, b: a & b)


def or_masks(*mask_mods):
    """A mask_mod: what any of these lets see; none lets see nothing."""
    if not mask_mods:
        return lambda b, h, q_idx, kv_idx: b.new_zeros((), dtype=_ops.bool)
    return _combined("or_masks", mask_mods, lambda a, b: a | b)


def _pair(size):
    pair = (size, size) if isinstance(size, int) else size
    if not (
        isinstance(pair, (tuple, list))
        and len(pair) == 2
        and all(isinstance(n, int) and n > 0 for n in pair)
    ):
        raise _C.ValueError(
            f"pf.nn.attention.flex_attention: got BLOCK_SIZE {size!r}; expected a number from 1 on, or two "
            "of them, for queries and keys"
        )
    return tuple(pair)


def _ordered(dense):
    """Of a map [..., rows, blocks]: how many blocks a row has, and their numbers first."""
    return dense.sum(-1, dtype=_ops.int32), dense.to(_ops.int32).argsort(
        dim=-1, descending=True, stable=True
    ).to(_ops.int32)


def _map_of(counts, indices, blocks):
    """The map of `_ordered`: bool [..., rows, blocks]."""
    listed = _ops.arange(indices.shape[-1], device=indices.device) < counts.unsqueeze(-1)
    zeros = _ops.zeros((*indices.shape[:-1], blocks + 1), dtype=_ops.bool, device=indices.device)
    places = indices.to(_ops.int64).masked_fill(
        ~listed, blocks
    )  # those behind the list, to the end
    return zeros.scatter(-1, places, True)[..., :blocks]


class BlockMask:
    """Blocks of queries and keys of which some pair is seen, and a mask_mod within them.

    kv_num_blocks int32 [B, H, rows] and kv_indices [B, H, rows, columns] list for each block of queries
    the blocks of keys that mask_mod looks at, full_kv_* those that are seen whole; q_* and full_q_* are
    the same by blocks of keys. BLOCK_SIZE is (queries, keys) of a block, seq_lengths (queries, keys).
    What else PyTorch's kernels want to know (dq_*) is accepted.
    create_block_mask makes one from a mask_mod, from_kv_blocks from such lists.
    """

    _TENSORS = (
        "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
        "q_indices", "full_q_num_blocks", "full_q_indices",
    )  # fmt: skip

    def __init__(
        self, seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
        q_num_blocks=None, q_indices=None, full_q_num_blocks=None, full_q_indices=None,
        BLOCK_SIZE=(_DEFAULT_SPARSE_BLOCK_SIZE,) * 2, mask_mod=noop_mask, *, dq_write_order=None,
        dq_write_order_full=None, dq_kv_order=None, dq_kv_order_spt=None,
    ):  # fmt: skip
        if kv_indices.dim() < 2:
            raise _C.ShapeError(
                f"pf.BlockMask: got kv_indices {list(kv_indices.shape)}; expected [..., rows, columns]"
            )
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise _C.ValueError(
                "pf.BlockMask: got one of full_kv_num_blocks and full_kv_indices; pass both"
            )
        self.seq_lengths = tuple(seq_lengths)
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = _pair(BLOCK_SIZE)
        self.mask_mod = mask_mod
        self._says_all = False  # whether mask_mod alone says what is seen
        self._band = None  # (left, right) where that is all: which keys around its own a query sees
        self._rows = None  # `rows()`, on the host

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
        BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, mask_mod=None, seq_lengths=None, compute_q_blocks=True,
    ):  # fmt: skip
        """A mask of lists by blocks of queries; those by blocks of keys are made."""
        size = _pair(BLOCK_SIZE)
        rows, columns = kv_indices.shape[-2:]
        lengths = seq_lengths or (rows * size[0], columns * size[1])
        by_keys = [None] * 4
        if compute_q_blocks:
            for at, counts, indices in (
                (0, kv_num_blocks, kv_indices), (2, full_kv_num_blocks, full_kv_indices)
            ):  # fmt: skip
                if counts is not None:
                    turned = _map_of(counts, indices, columns).transpose(-1, -2)
                    by_keys[at : at + 2] = _ordered(turned)
        return cls(
            lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *by_keys, size,
            mask_mod or noop_mask,
        )  # fmt: skip

    @property
    def shape(self):
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    @property
    def device(self):
        return self.kv_indices.device

    def _maps(self):
        """(blocks that mask_mod looks at, blocks seen whole): bool [B, H, rows, columns]."""
        columns = self.kv_indices.shape[-1]
        part = _map_of(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is None:
            return part, _ops.zeros_like(part)
        return part, _map_of(self.full_kv_num_blocks, self.full_kv_indices, columns)

    def rows(self):
        """For each block of queries the sorted blocks of keys that any batch and head sees."""
        if self._rows is None:
            part, full = self._maps()
            seen = (part | full).flatten(0, -3).any(0).tolist()
            self._rows = [[j for j, on in enumerate(row) if on] for row in seen]
        return self._rows

    def to_dense(self):
        """int32 [B, H, rows, columns]: 1 for a block of which something is seen."""
        part, full = self._maps()
        return (part | full).to(_ops.int32)

    def numel(self):
        """Pairs of queries and keys."""
        return math.prod(self.shape)

    def sparsity(self):
        """Percent of the pairs that are in no block."""
        blocks = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum())
        total = self.numel()
        return 100 * (1 - blocks * math.prod(self.BLOCK_SIZE) / total) if total else 0.0

    def as_tuple(self, flatten=True):
        """seq_lengths, the tensors, BLOCK_SIZE and mask_mod; flatten: the pairs as numbers."""
        tensors = tuple(getattr(self, n) for n in self._TENSORS)
        if flatten:
            return (*self.seq_lengths, *tensors, *self.BLOCK_SIZE, self.mask_mod)
        return (self.seq_lengths, *tensors, self.BLOCK_SIZE, self.mask_mod)

    def _made(self, change, lengths=None, keeps_band=True):
        new = BlockMask(
            lengths or self.seq_lengths,
            *(None if t is None else change(t) for t in (getattr(self, n) for n in self._TENSORS)),
            self.BLOCK_SIZE, self.mask_mod,
        )  # fmt: skip
        new._says_all, new._band = self._says_all, self._band if keeps_band else None
        return new

    def to(self, device):
        """The mask on another device; mask_mod stays what it is."""
        return self._made(lambda t: t.to(device))

    def __getitem__(self, index):
        """The mask of some batches and heads (and blocks of queries); mask_mod stays what it is."""
        index = (index,) if not isinstance(index, tuple) else index
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        if len(index) > 3:
            raise IndexError(
                f"pf.BlockMask: got {len(index)} indices; expected batch, head, block of queries"
            )
        lists = [self.kv_num_blocks[index], self.kv_indices[index]]
        if self.full_kv_num_blocks is not None:
            lists += [self.full_kv_num_blocks[index], self.full_kv_indices[index]]
        new = BlockMask.from_kv_blocks(*lists, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)
        if len(index) < 3:
            new.seq_lengths = self.seq_lengths
        new._says_all = self._says_all
        return new

    def _adjust(self, new_q_len, new_kv_len):
        """The mask for shorter lengths; kv_indices stay for as many blocks as are left."""
        rows, columns = (-(-n // b) for n, b in zip((new_q_len, new_kv_len), self.BLOCK_SIZE))
        part, full = (m[..., :rows, :columns] for m in self._maps())
        lists = [*_ordered(part), *_ordered(full)]
        new = BlockMask.from_kv_blocks(
            *lists,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
        )
        new._says_all, new._band = self._says_all, self._band
        return new

    def to_string(self, grid_size=(20, 20), limit=4):
        """A picture: full blocks, those with more than half of their part, the rest."""
        dense = self.to_dense().flatten(0, -3)
        parts = []
        for n in range(min(limit, dense.shape[0])):
            one = dense[n].float()
            rows, columns = one.shape
            step = [max(1, -(-size // most)) for size, most in zip(one.shape, _pair(grid_size))]
            lines = []
            for i in range(0, rows, step[0]):
                cells = [
                    float(one[i : i + step[0], j : j + step[1]].mean())
                    for j in range(0, columns, step[1])
                ]
                lines.append("".join("██" if x == 1 else "░░" if x > 0 else "  " for x in cells))
            heads = dense.shape[0] // max(1, self.kv_indices.shape[0])
            parts.append(f"({n // heads}, {n % heads})\n" + "\n".join(lines))
        return "\n".join(parts)

    def __repr__(self):
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%,\n{self.to_string()}\n)"
        )


def _check_mod(name, mod, b, h, length, keys):
    for what, n in (("B", b), ("H", h), ("Q_LEN", length), ("KV_LEN", keys)):
        if n is not None and (not isinstance(n, int) or n < 0):
            raise _C.ValueError(
                f"pf.nn.attention.flex_attention.{name}: got {what} {n!r}; expected a number from 0 on"
            )
    if not callable(mod):
        raise TypeError(f"pf.nn.attention.flex_attention.{name}: got {mod!r}; expected a function")


def bool_mask(mask_mod, b, h, q_idx, kv_idx):
    """mask_mod over indices: bool [B, H, L, S]."""
    shape = (b.shape[0], h.shape[0], q_idx.shape[0], kv_idx.shape[0])
    if 0 in shape:
        return _ops.zeros(shape, dtype=_ops.bool, device=q_idx.device)
    mask = over_all(mask_mod, b, h, q_idx, kv_idx)
    if not isinstance(mask, Tensor) or mask.dtype != _ops.bool:
        raise _C.DTypeError(
            f"pf.nn.attention.flex_attention: got {getattr(mask, 'dtype', type(mask).__name__)} from "
            "mask_mod; expected bool: whether the query sees the key"
        )
    return mask.expand(shape)


def _is_score_mod(mod):
    try:
        kinds = [p.kind for p in inspect.signature(mod).parameters.values()]
    except (TypeError, ValueError):
        return False
    return len([k for k in kinds if k in (0, 1)]) == 5


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """The mask of a mask_mod(b, h, q_idx, kv_idx), or where a score_mod(score, b, h, q_idx, kv_idx) is not
    -inf: bool [B, H, Q_LEN, KV_LEN]; None for B or H is 1."""
    _check_mod("create_mask", mod_fn, B, H, Q_LEN, KV_LEN)
    index = [_ops.arange(1 if n is None else n, device=device) for n in (B, H, Q_LEN, KV_LEN)]
    if not _is_score_mod(mod_fn):
        return bool_mask(mod_fn, *index)
    scores = _ops.zeros(tuple(len(i) for i in index), device=device)
    return ~over_all(mod_fn, scores, *index).isneginf()


def create_block_mask(
    mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, _compile=False,
    separate_full_blocks=True, compute_dq_write_order=False, dq_kv_order=True,
):  # fmt: skip
    """The BlockMask of a mask_mod(b, h, q_idx, kv_idx), which says whether a query sees a key.

    B and H are numbers of batches and heads, or None where the mask is the same for all. Every element is
    asked once, some rows of blocks at a time.
    """
    _check_mod("create_block_mask", mask_mod, B, H, Q_LEN, KV_LEN)
    size = _pair(BLOCK_SIZE)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    b, h = (_ops.arange(1 if n is None else n, device=device) for n in (B, H))
    kv_idx = _ops.arange(KV_LEN, device=device)
    heads = len(b) * len(h)
    step = max(1, _CHUNK // max(1, heads * size[0] * KV_LEN))
    some, whole, band = [], [], _Band(Q_LEN, KV_LEN) if heads == 1 else None
    for first in range(0, rows, step):
        n = min(step, rows - first)
        q_idx = _ops.arange(first * size[0], min((first + n) * size[0], Q_LEN), device=device)
        mask = bool_mask(mask_mod, b, h, q_idx, kv_idx)
        if band is not None:
            band.add(mask[0, 0], q_idx, kv_idx)
        mask = _ops.pad(mask, (0, columns * size[1] - KV_LEN, 0, n * size[0] - len(q_idx)))
        sums = mask.unflatten(3, (columns, size[1])).unflatten(2, (n, size[0])).sum((3, 5))
        some.append(sums > 0)
        whole.append(sums == math.prod(size))
    shape = (len(b), len(h), 0, columns)
    some, whole = (
        _ops.cat(x, 2) if x else _ops.zeros(shape, dtype=_ops.bool, device=device)
        for x in (some, whole)
    )
    if separate_full_blocks:
        lists = [*_ordered(some & ~whole), *_ordered(whole)]
    else:
        lists = [*_ordered(some), None, None]
    made = BlockMask.from_kv_blocks(
        *lists, BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )
    made._says_all = True
    made._band = band.found() if band is not None else None
    return made


class _Band:
    """Whether a mask is all that lies between two diagonals: then attention needs no mask."""

    def __init__(self, length, keys):
        self.length, self.keys = length, keys
        self.low, self.high, self.count = [], [], []

    def add(self, mask, q_idx, kv_idx):
        if 0 in mask.shape:
            return
        distance = kv_idx - q_idx.unsqueeze(-1)
        far = self.length + self.keys
        self.low.append(distance.masked_fill(~mask, far).min())
        self.high.append(distance.masked_fill(~mask, -far).max())
        self.count.append(mask.sum())

    def found(self):
        """(left, right), -1 where there is no limit; None where it is another mask."""
        if not self.count:
            return None
        low, high = int(_ops.stack(self.low).min()), int(_ops.stack(self.high).max())
        count = int(_ops.stack(self.count).sum())
        if low > 0 or high < 0:  # none, or a band that leaves out the diagonal
            return None
        inside = sum(
            max(0, min(self.keys - 1, i + high) - max(0, i + low) + 1) for i in range(self.length)
        )
        if inside != count:
            return None
        return (-1 if low <= 1 - self.length else -low), (-1 if high >= self.keys - 1 else high)


_name_errors(__name__)
