"""Functions that PyTorch has twice, as torch.name and as torch.nn.functional.name, with arguments in another
order or in other words: here one function takes both, and tells them apart by what it is given."""

from . import _C, _ops
from ._named_errors import name_errors as _name_errors
from .nn import functional as F

_REDUCTIONS = ("none", "mean", "sum")


def _named(reduction):
    """The name of a reduction that PyTorch's own functions have a number for."""
    if isinstance(reduction, int) and not isinstance(reduction, bool) and 0 <= reduction <= 2:
        return _REDUCTIONS[reduction]
    return reduction


def _is_number(args, at):
    return len(args) > at and isinstance(args[at], int) and not isinstance(args[at], bool)


def _in_their_order(args, kwargs, order):
    """Arguments by name where all of torch.batch_norm's form are given, which needs the last, a switch
    of a vendor's library; None for the other form."""
    if len(args) + len(kwargs) < len(order):
        return None
    given = dict(zip(order, args)) | kwargs
    given.pop(order[-1], None)
    return given


_BATCH = (
    "input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps",
    "cudnn_enabled",
)  # fmt: skip


def batch_norm(*args, **kwargs):
    """batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1,
    eps=1e-5), as nn.functional.batch_norm; or with all nine arguments of torch.batch_norm: input, weight,
    bias, running_mean, running_var, training, momentum, eps, cudnn_enabled."""
    given = _in_their_order(args, kwargs, _BATCH)
    return F.batch_norm(*args, **kwargs) if given is None else F.batch_norm(**given)


_INSTANCE = (*_BATCH[:5], "use_input_stats", *_BATCH[6:])


def instance_norm(*args, **kwargs):
    """instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None,
    use_input_stats=True, momentum=0.1, eps=1e-5), as nn.functional.instance_norm; or with all nine
    arguments of torch.instance_norm: input, weight, bias, running_mean, running_var, use_input_stats,
    momentum, eps, cudnn_enabled."""
    given = _in_their_order(args, kwargs, _INSTANCE)
    return F.instance_norm(*args, **kwargs) if given is None else F.instance_norm(**given)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True):
    """nn.functional.group_norm; a vendor's switch changes nothing."""
    return F.group_norm(input, num_groups, weight, bias, eps)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True):
    """nn.functional.layer_norm; a vendor's switch changes nothing."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def _picks_rows(t):
    return isinstance(t, _C.Tensor) and not (t.is_floating_point() or t.is_complex())


def embedding(*args, **kwargs):
    """embedding(input, weight, padding_idx=None, ...), as nn.functional.embedding; or the weight first, as
    torch.embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False). Which of the
    two holds integers says what the indices are."""
    if "indices" in kwargs or (args and not _picks_rows(args[0])):
        return _ops.embedding(*args, **kwargs)
    return F.embedding(*args, **kwargs)


def embedding_bag(*args, **kwargs):
    """nn.functional.embedding_bag."""
    return F.embedding_bag(*args, **kwargs)


def kl_div(input, target, *args, **kwargs):
    """nn.functional.kl_div; a reduction behind the target may be its name, or PyTorch's number for it."""
    if args and (_is_number(args, 0) or isinstance(args[0], str)):
        return F.kl_div(input, target, None, None, _named(args[0]), *args[1:], **kwargs)
    if "reduction" in kwargs:
        kwargs["reduction"] = _named(kwargs["reduction"])
    return F.kl_div(input, target, *args, **kwargs)


def binary_cross_entropy_with_logits(input, target, weight=None, *args, **kwargs):
    """nn.functional.binary_cross_entropy_with_logits; or with pos_weight and a reduction (its name, or
    PyTorch's number for it) behind the weight."""
    if args and (isinstance(args[0], _C.Tensor) or _is_number(args, 1) or len(args) == 1):
        kwargs["pos_weight"] = args[0]
        if len(args) > 1:
            kwargs["reduction"] = args[1]
        args = ()
    if "reduction" in kwargs:
        kwargs["reduction"] = _named(kwargs["reduction"])
    return F.binary_cross_entropy_with_logits(input, target, weight, *args, **kwargs)


def poisson_nll_loss(input, target, log_input=True, full=False, *args, **kwargs):
    """nn.functional.poisson_nll_loss; or with eps and PyTorch's number for a reduction behind `full`."""
    if _is_number(args, 1) and len(args) == 2:
        kwargs["eps"], kwargs["reduction"] = args
        args = ()
    if "reduction" in kwargs:
        kwargs["reduction"] = _named(kwargs["reduction"])
    return F.poisson_nll_loss(input, target, log_input, full, *args, **kwargs)


_name_errors(__name__)
