"""Switching gradients on and off: context managers that also decorate functions."""

import functools
from _thread import _local

from . import _C


class _Recomputation(_local):
    """`on` while a checkpoint runs a function again: it must leave no second trace in the model."""

    on = False


recomputation = _Recomputation()


class _Mode:
    """Base: remembers the mode before `with` and puts it back; decorates functions and generators."""

    def _on(self):
        raise NotImplementedError

    def __enter__(self):
        self._before = _C.is_grad_enabled()
        _C._set_grad_enabled(self._on())
        return self

    def __exit__(self, *unused):
        _C._set_grad_enabled(self._before)

    def _fresh(self):
        return type(self)()

    def __call__(self, fn):
        if isinstance(fn, type):
            fn.__init__ = self(fn.__init__)
            return fn
        # CO_GENERATOR; the module inspect would cost a fifth of our import time.
        if getattr(getattr(fn, "__code__", None), "co_flags", 0) & 0x20:

            @functools.wraps(fn)
            def generator(*args, **kwargs):
                g = fn(*args, **kwargs)
                value, error = None, None
                try:
                    while True:
                        with self._fresh():
                            item = g.throw(error) if error else g.send(value)
                        value, error = None, None
                        try:
                            value = yield item
                        except BaseException as e:
                            error = e
                except StopIteration as stop:
                    return stop.value

            return generator

        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            with self._fresh():
                return fn(*args, **kwargs)

        return wrapper


class no_grad(_Mode):
    """Within it operations are not recorded for gradients: `with pf.no_grad():`, `@pf.no_grad()`."""

    def __new__(cls, fn=None):
        self = object.__new__(cls)
        return self if fn is None else self(fn)  # @pf.no_grad without brackets

    def _on(self):
        return False


class enable_grad(_Mode):
    """Within it gradients are on, also inside of no_grad."""

    def __new__(cls, fn=None):
        self = object.__new__(cls)
        return self if fn is None else self(fn)

    def _on(self):
        return True


class set_grad_enabled(_Mode):
    """Switches gradients at once; as a context manager it also puts the mode back at the end."""

    def __init__(self, mode):
        self.mode = bool(mode)
        self._before = _C.is_grad_enabled()
        _C._set_grad_enabled(self.mode)

    def __enter__(self):
        return self

    def _fresh(self):
        return set_grad_enabled(self.mode)

    def __call__(self, fn):
        _C._set_grad_enabled(self._before)  # a decorator changes nothing now
        return _Mode.__call__(self, fn)


class inference_mode(_Mode):
    """Like no_grad; what is made within it is for inference alone (`is_inference()`): outside, it may not be
    written or require grad, and an operation that would keep it for a gradient raises AutogradError.
    `inference_mode(False)` switches it off and gradients on."""

    def __new__(cls, mode=True):
        self = object.__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        self.mode = bool(mode)
        return self

    def _on(self):
        return not self.mode

    def __enter__(self):
        self._outside = _C.is_inference_mode_enabled()
        _C._set_inference(self.mode)
        return super().__enter__()

    def __exit__(self, *unused):
        _C._set_inference(self._outside)
        super().__exit__(*unused)

    def _fresh(self):
        return inference_mode(self.mode)
