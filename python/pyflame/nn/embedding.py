"""Tables of vectors, picked by integers."""

from .. import _ops
from .._named_errors import named as _named
from . import functional as F
from .module import Module
from .parameter import Parameter
from .sizes import whole_numbers


def _named_rows(method):
    return _named(method, "nn.Embedding.from_pretrained", True)


def _row(name, padding_idx, num_embeddings):
    """padding_idx as a row from 0 on, or None."""
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise ValueError(
            f"pf.nn.{name}: padding_idx is {padding_idx}; expected a row of the {num_embeddings} in "
            "the table"
        )
    return padding_idx % num_embeddings


def _table(name, given, num_embeddings, embedding_dim, device, dtype):
    """The weight: a given one, or memory for it."""
    if given is None:
        return Parameter(_ops.empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
    if tuple(given.shape) != (num_embeddings, embedding_dim):
        raise ValueError(
            f"pf.nn.{name}: got a table of {list(given.shape)}; expected "
            f"{[num_embeddings, embedding_dim]}"
        )
    return Parameter(given)


class _Table(Module):
    def reset_parameters(self):
        _ops._init_embedding_(self.weight, -1 if self.padding_idx is None else self.padding_idx)

    def extra_repr(self):
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, default in self._shown.items():
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value!r}"
        return text


class Embedding(_Table):
    """A table of vectors, picked by integers. Input [...], result [..., embedding_dim].

    The row `padding_idx` starts at zero and gets no gradient. With max_norm rows that are picked are
    scaled first, in place, to at most this norm (of order norm_type); scale_grad_by_freq divides the
    gradient of a row by how often it was picked. With sparse=True the gradient of the weight is a sparse
    tensor of the rows that were picked (for optim.SGD, Adagrad and SparseAdam).
    """

    _shown = {
        "padding_idx": None,
        "max_norm": None,
        "norm_type": 2.0,
        "scale_grad_by_freq": False,
        "sparse": False,
    }

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
        _weight=None,
        _freeze=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        whole_numbers(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _row("Embedding", padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self.weight = _table("Embedding", _weight, num_embeddings, embedding_dim, device, dtype)
        if _weight is None:
            self.reset_parameters()
        if _freeze:
            self.weight.requires_grad_(False)

    @classmethod
    @_named_rows
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
    ):
        """An Embedding around an existing table."""
        rows, columns = embeddings.shape
        return cls(
            rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            _weight=embeddings, _freeze=freeze,
        )  # fmt: skip

    def forward(self, input):
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )


class EmbeddingBag(_Table):
    """The sum, mean or maximum (`mode`) of bags of rows, without the rows themselves.

    Input [bags, indices], or [indices] with `offsets` where bags begin; result [bags,
    embedding_dim]. See nn.functional.embedding_bag.
    """

    _shown = {
        "max_norm": None,
        "norm_type": 2.0,
        "scale_grad_by_freq": False,
        "mode": None,
        "padding_idx": None,
    }

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        _weight=None,
        include_last_offset=False,
        padding_idx=None,
        device=None,
        dtype=None,
    ):
        super().__init__()
        whole_numbers(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _row("EmbeddingBag", padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self.weight = _table("EmbeddingBag", _weight, num_embeddings, embedding_dim, device, dtype)
        if _weight is None:
            self.reset_parameters()

    @classmethod
    @_named_rows
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        include_last_offset=False,
        padding_idx=None,
    ):
        """An EmbeddingBag around an existing table."""
        rows, columns = embeddings.shape
        bag = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
            include_last_offset, padding_idx,
        )  # fmt: skip
        bag.weight.requires_grad_(not freeze)
        return bag

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )
