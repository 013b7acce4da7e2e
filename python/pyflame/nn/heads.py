"""Losses with the weights of their classes: many classes by frequency, a linear layer and its loss."""

from collections import namedtuple
from dataclasses import dataclass

from .. import _ops
from . import functional as F
from .containers import ModuleList, Sequential
from .layers import Linear
from .losses import _WeightedLoss
from .module import Module

ASMoutput = namedtuple("ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """log_softmax over many classes of falling frequency (Grave and others, 2017).

    Classes below cutoffs[0] stand in the head, those of each interval behind it in a cluster, whose
    vectors are div_value times as short as those of the one before. forward(input [N, in_features],
    target [N]) gives (log-probabilities of the targets [N], their mean loss).
    """

    def __init__(
        self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None,
        dtype=None,
    ):  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if (
            not cutoffs
            or cutoffs != sorted(set(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                f"pf.nn.AdaptiveLogSoftmaxWithLoss: got cutoffs {cutoffs} for {n_classes} classes; "
                "expected rising integers between 1 and n_classes - 1"
            )
        where = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            width = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **where),
                    Linear(width, high - low, bias=False, **where),
                )
            )

    def reset_parameters(self):
        self.head.reset_parameters()
        for down, out in self.tail:
            down.reset_parameters()
            out.reset_parameters()

    def forward(self, input, target):
        batched = target.dim() > 0
        x = input if batched else input.unsqueeze(0)
        y = target if batched else target.unsqueeze(0)
        if x.shape[0] != y.shape[0] or y.dim() != 1:
            raise RuntimeError(
                f"pf.nn.AdaptiveLogSoftmaxWithLoss: got input of shape {list(input.shape)} and target "
                f"of {list(target.shape)}; expected a class for each row"
            )
        if y.numel() and bool(((y < 0) | (y >= self.n_classes)).any()):
            raise RuntimeError(
                f"pf.nn.AdaptiveLogSoftmaxWithLoss: got targets from {y.min().item()} to "
                f"{y.max().item()}; expected 0 to {self.n_classes - 1}"
            )
        head = F.log_softmax(self.head(x), 1)
        place = y.clamp(max=self.shortlist_size - 1)  # in the head: of a class, or of its cluster
        total = None
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((y >= low) & (y < high)).nonzero().squeeze(1)
            if not rows.numel():
                continue
            place = place.index_fill(0, rows, self.shortlist_size + i)
            inside = F.log_softmax(self.tail[i](x.index_select(0, rows)), 1)
            own = inside.gather(1, (y.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            base = (
                _ops.zeros(y.shape, dtype=own.dtype, device=own.device) if total is None else total
            )
            total = base.index_add(0, rows, own)
        output = head.gather(1, place.unsqueeze(1)).squeeze(1)
        if total is not None:
            output = output + total
        loss = (-output).mean()
        return ASMoutput(output if batched else output.squeeze(0), loss)

    def _full(self, input, head):
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            inside = F.log_softmax(cluster(input), 1)
            parts.append(inside + head[:, self.shortlist_size + i].unsqueeze(1))
        return _ops.cat(parts, 1)

    def log_prob(self, input):
        """Log-probabilities of all classes, [N, n_classes]."""
        return self._full(input, F.log_softmax(self.head(input), 1))

    def predict(self, input):
        """The likeliest class of each row; clusters are looked at where one may have it."""
        return self.log_prob(input).argmax(1)


@dataclass
class LinearCrossEntropyOptions:
    """How linear_cross_entropy cuts its batch: batch_chunk_size rows at a time, by default as many as
    take 512 MiB of logits (128 on the CPU). The others are PyTorch's, and have no effect."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: object = None


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer to `num_classes` logits and the cross-entropy of those with targets.

    With out_features (d1, ...) so many losses of each sample. See nn.functional.linear_cross_entropy.
    """

    def __init__(
        self, in_features, num_classes, *, out_features=(), bias=False, device=None, dtype=None,
        reduction="mean", weight=None, ignore_index=None, label_smoothing=0.0, options=None,
    ):  # fmt: skip
        super().__init__(weight, reduction=reduction)
        self.in_features = in_features
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        many = num_classes
        for n in self.out_features:
            many *= n
        self.linear = Linear(in_features, many, bias=bias, device=device, dtype=dtype)

    def forward(self, input, target):
        weight = self.linear.weight
        if self.out_features:
            weight = weight.reshape(self.num_classes, *self.out_features, self.in_features)
        return F.linear_cross_entropy(
            input, weight, target, linear_bias=self.linear.bias, weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip
