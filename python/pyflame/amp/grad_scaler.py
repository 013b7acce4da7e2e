"""GradScaler: keeps small float16 gradients from becoming zero, and skips steps that overflow."""

import warnings
from enum import Enum

from .. import _C, _ops
from .._grad_mode import no_grad
from .._live import live
from .._named_errors import name_methods as _name_methods
from .autocast_mode import _GPU, _gpu_is_there, _kind

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """How far an optimizer has come in this iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Multiplies the loss by a scale that adapts itself: halved when a gradient overflows, doubled
    after `growth_interval` steps without.

        scaler.scale(loss).backward()
        scaler.step(optimizer)     # divides the gradients; skips the step when one is inf or NaN
        scaler.update()

    Only float16 needs it: bfloat16 has the range of float32. The scale, its counter and what was
    found of overflow live on the gradients' device. step() reads one bool from it, because whether
    an optimizer steps (and counts the step) is decided in Python: one copy a step, which
    debug.stats() counts as copies_to_host.

    Args:
        device: where the loss is, "cuda" or "cpu"; by default wherever the first loss is. "cuda"
            without a GPU warns and makes the scaler pass everything through.
        enabled: False: scale() returns its argument, step() steps.
    """

    def __init__(
        self,
        device=None,
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        self._device = device
        self._enabled = bool(enabled)
        if device is not None and _kind(device, "GradScaler") == _GPU:
            if self._enabled and not _gpu_is_there():
                warnings.warn(
                    f"pf.GradScaler: got device {device!r} and there is no usable GPU; the scaler "
                    "passes everything through",
                    stacklevel=2,
                )
                self._enabled = False
        if self._enabled:
            if not growth_factor > 1.0:
                raise _C.ValueError(
                    f"pf.GradScaler: got growth_factor {growth_factor}; expected more than 1"
                )
            if not backoff_factor < 1.0:
                raise _C.ValueError(
                    f"pf.GradScaler: got backoff_factor {backoff_factor}; expected less than 1"
                )
        self._init_scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_tracker = 0
        self._scale = None  # 0-d, made when the device is known
        self._tracker = None
        self._optimizers = {}  # id -> {"stage": ..., "found": 0-d bools}

    def _lazy(self, device):
        if self._scale is None:
            self._scale = _C.tensor(self._init_scale, dtype=_C.float32, device=device)
            self._tracker = _C.tensor(self._init_tracker, dtype=_C.int32, device=device)

    def _state(self, optimizer):
        return self._optimizers.setdefault(id(optimizer), {"stage": OptState.READY, "found": []})

    def scale(self, outputs):
        """The loss (or a list or tuple of tensors) times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _C.Tensor):
            self._lazy(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(o) for o in outputs]
            return type(outputs)(*scaled) if hasattr(outputs, "_fields") else type(outputs)(scaled)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise TypeError(
            f"pf.GradScaler.scale: got a {type(outputs).__name__}; expected a Tensor or an "
            "iterable of Tensors; pass the loss"
        )

    @live
    def unscale_(self, optimizer):
        """Divides the gradients of an optimizer by the scale; call it before clipping them."""
        if not self._enabled:
            return
        state = self._state(optimizer)
        if state["stage"] is not OptState.READY:
            when = "before" if state["stage"] is OptState.UNSCALED else "after step()"
            raise RuntimeError(
                f"pf.GradScaler.unscale_: was called {when} for this optimizer since the last "
                "update(); expected one call in each iteration; drop this one"
            )
        grads = {}  # by device and dtype
        for group in optimizer.param_groups:
            for p in group["params"]:
                g = p.grad
                if g is None:
                    continue
                if g.dtype == _C.float16:
                    raise _C.ValueError(
                        "pf.GradScaler.unscale_: got float16 gradients; expected float32, as "
                        "division brings back what float16 loses; keep the parameters in float32"
                    )
                grads.setdefault((str(g.device), g.dtype), []).append(g)
        with no_grad():
            found = []
            inverse = None
            for same in grads.values():
                self._lazy(same[0].device)
                if inverse is None:
                    inverse = self._scale.double().reciprocal().float()
                found.append(_ops._found_nonfinite(same))
                here = inverse.to(same[0].device)
                for g in same:
                    g.mul_(here)
        state["found"] = found
        state["stage"] = OptState.UNSCALED

    @live
    def step(self, optimizer, *args, **kwargs):
        """Divides the gradients, if unscale_() has not, and steps unless one was inf or NaN.

        Returns what ``optimizer.step(*args, **kwargs)`` returns, None for a step that is skipped.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or args:
            raise RuntimeError(
                "pf.GradScaler.step: got a closure; expected none, as the loss would be computed "
                "anew with another scale; call optimizer.step(closure) without a scaler"
            )
        state = self._state(optimizer)
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError(
                "pf.GradScaler.step: was called before since the last update(); expected one call "
                "in each iteration; call update()"
            )
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found"]:
            raise AssertionError(
                "pf.GradScaler.step: the optimizer's parameters have no gradients; expected at "
                "least one; call scale(loss).backward() first"
            )
        state["stage"] = OptState.STEPPED
        if self._any(state["found"]).item():
            return None
        return optimizer.step(*args, **kwargs)

    def _any(self, found):
        total = found[0]
        for f in found[1:]:
            total = _C._functions["logical_or"](total, f.to(total.device))
        return total

    @live
    def update(self, new_scale=None):
        """Adapts the scale after all optimizers have stepped; `new_scale` sets it instead."""
        if not self._enabled:
            return
        if self._scale is None:
            raise AssertionError(
                "pf.GradScaler.update: nothing was scaled yet; call scale(loss) and step() first"
            )
        if new_scale is not None:
            if isinstance(new_scale, _C.Tensor):
                self._scale.copy_(new_scale.detach().reshape(()))
            else:
                self._scale.fill_(float(new_scale))
        else:
            found = [f for s in self._optimizers.values() for f in s["found"]]
            if not found:
                raise AssertionError(
                    "pf.GradScaler.update: no optimizer's gradients were looked at since the last "
                    "update(); call step(optimizer) first"
                )
            with no_grad():
                self._adapt(self._any(found).to(self._scale.device))
        self._optimizers = {}

    def _adapt(self, overflow):
        """Recorded operations only: nothing is read back from the device."""
        where = _C._functions["where"]
        count = where(overflow, 0, self._tracker + 1)
        due = count >= self._growth_interval
        grown = self._scale * self._growth_factor
        grown = where(_C._functions["isfinite"](grown), grown, self._scale)
        scale = where(due, grown, self._scale)
        self._scale = where(overflow, self._scale * self._backoff_factor, scale)
        self._tracker = where(due, 0, count).to(_C.int32)

    # ---- settings -----------------------------------------------------------------------------

    def get_scale(self):
        """The scale as a number; waits for the device. 1.0 when the scaler is not enabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        """What the scale is multiplied by after `growth_interval` steps without overflow."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """Sets the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """What the scale is multiplied by after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """Sets the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """Steps without overflow before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """Sets the growth interval."""
        self._growth_interval = new_interval

    def is_enabled(self):
        """False: the scaler passes everything through."""
        return self._enabled

    def _growth_tracker(self):
        return self._init_tracker if self._tracker is None else int(self._tracker.item())

    def state_dict(self):
        """Scale, factors, interval and counter as numbers; {} when not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker(),
        }

    def load_state_dict(self, state_dict):
        """Takes over a state_dict()."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "pf.GradScaler.load_state_dict: got an empty state; expected that of a scaler "
                "which was enabled; make this one with enabled=False"
            )
        self._init_scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_tracker = int(state_dict["_growth_tracker"])
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._tracker.fill_(self._init_tracker)

    def __getstate__(self):
        if self._optimizers:
            raise RuntimeError(
                "pf.GradScaler: can be copied or stored between update() and scale() only; call "
                "update() first"
            )
        state = self.__dict__.copy()
        if self._scale is not None:
            state["_init_scale"] = self.get_scale()
            state["_init_tracker"] = self._growth_tracker()
            state["_scale"] = state["_tracker"] = None
        return state


_name_methods(__name__)
