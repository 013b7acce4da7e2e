"""Averages of models over their training: SWA and EMA. Names and meaning as in torch.optim.swa_utils."""

import copy
import math

from .. import _ops
from .._named_errors import name_errors as _name_errors
from .._named_errors import name_methods as _name_methods
from ..autograd import no_grad
from ..nn.module import Module
from .lr_scheduler import LRScheduler

__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def _check_decay(decay):
    if not 0 <= decay <= 1:
        raise ValueError(
            f"pf.optim.swa_utils: got the decay {decay}; expected a number between 0 and 1"
        )


def get_ema_avg_fn(decay=0.999):
    """decay * average + (1 - decay) * parameter, as `avg_fn` of AveragedModel."""
    _check_decay(decay)

    def ema(averaged, current, num_averaged):
        with no_grad():
            return decay * averaged + (1 - decay) * current

    return ema


def get_swa_avg_fn():
    """The mean of all that were averaged, as `avg_fn` of AveragedModel."""

    def swa(averaged, current, num_averaged):
        with no_grad():
            return averaged + (current - averaged) / (num_averaged + 1)

    return swa


def _moved(averages, currents, share):
    with no_grad():
        for average, current in zip(averages, currents):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current.detach().to(average.dtype), share)
            else:  # counters
                average.copy_(average + (current - average) * share)


def get_ema_multi_avg_fn(decay=0.999):
    """The same over lists of tensors, in place, as `multi_avg_fn` of AveragedModel."""
    _check_decay(decay)
    return lambda averages, currents, num_averaged: _moved(averages, currents, 1 - decay)


def get_swa_multi_avg_fn():
    """The mean of all, over lists of tensors, in place, as `multi_avg_fn` of AveragedModel."""
    return lambda averages, currents, num_averaged: _moved(
        averages, currents, 1 / (int(num_averaged) + 1)
    )


class AveragedModel(Module):
    """A copy of `model`, on `device`, whose parameters are averages over update_parameters() calls.

    The first call copies. By default the average is the mean; `multi_avg_fn(averages, parameters,
    n)` changes lists in place, `avg_fn(average, parameter, n)` returns one new value. With
    `use_buffers` buffers are averaged too, else copied.
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError(
                "pf.optim.swa_utils.AveragedModel: got avg_fn and multi_avg_fn; expected one of them"
            )
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _ops.tensor(0, dtype=_ops.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        """Takes the parameters of `model` into the average."""
        own, new = list(self.module.parameters()), list(model.parameters())
        own_buffers, new_buffers = list(self.module.buffers()), list(model.buffers())
        if self.use_buffers:
            own, new = own + own_buffers, new + new_buffers
        n = int(self.n_averaged.item())
        with no_grad():
            if n == 0:
                for a, p in zip(own, new):
                    a.copy_(p)
            elif self.avg_fn is None:
                average = self.multi_avg_fn or get_swa_multi_avg_fn()
                new = [p.detach().to(a.device) for a, p in zip(own, new)]
                average([a.detach() for a in own], new, self.n_averaged)
            else:
                for a, p in zip(own, new):
                    a.copy_(self.avg_fn(a.detach(), p.detach().to(a.device), self.n_averaged))
            if not self.use_buffers:
                for a, b in zip(own_buffers, new_buffers):
                    a.copy_(b)
            self.n_averaged.add_(1)


def update_bn(loader, model, device=None):
    """Makes the running statistics of the batch norms in `model` anew, as means over a pass.

    A batch of the loader is a tensor, or a list or tuple whose first entry is the input; it goes to
    `device` first. Norms, and the model's mode, are left as they were otherwise.
    """
    norms = {
        m: m.momentum
        for m in model.modules()
        if getattr(m, "running_mean", None) is not None and hasattr(m, "reset_running_stats")
    }
    if not norms:
        return
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    try:
        with no_grad():
            for batch in loader:
                x = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(x if device is None else x.to(device))
    finally:
        for norm, momentum in norms.items():
            norm.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Goes from the rate as it is to `swa_lr` (one, or one for each group) in anneal_epochs, by half
    a cosine ("cos") or in a line ("linear"), and stays there."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(
                f"pf.optim.swa_utils.SWALR: got {len(rates)} rates; expected {len(groups)}, one for "
                "each group"
            )
        for group, rate in zip(groups, rates):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"pf.optim.swa_utils.SWALR: got anneal_strategy {anneal_strategy!r}; expected 'cos' or "
                "'linear'"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(
                f"pf.optim.swa_utils.SWALR: got anneal_epochs {anneal_epochs!r}; expected a number from "
                "0 on"
            )
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t):
        t = max(0, min(1, t / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self):
        step = self._step_count - 1  # from where the averaging began, whatever the epoch was
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            to = group["swa_lr"]
            # What the rate was at the start, from where it stands.
            start = to if before == 1 else (group["lr"] - before * to) / (1 - before)
            rates.append(to * now + start * (1 - now))
        return rates


_name_errors(__name__)
_name_methods(__name__)
