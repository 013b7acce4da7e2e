"""The loss of a language model."""

from .. import nn
from .._named_errors import name_errors as _name_errors
from ..nn import functional as F
from ..nn.module import is_hooked


def next_token_loss(head, hidden, targets):
    """Mean cross-entropy in nats of head(hidden), [..., vocab], with `targets` [...]; targets of -100
    are left out. A plain Linear's logits are never all in memory."""
    targets = targets.reshape(-1)
    if type(head) is nn.Linear and not is_hooked(head):
        hidden = hidden.reshape(-1, hidden.shape[-1])
        return F.linear_cross_entropy(hidden, head.weight, targets, linear_bias=head.bias)
    logits = head(hidden)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets)


_name_errors(__name__)
