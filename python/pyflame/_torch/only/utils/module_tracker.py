"""torch.utils.module_tracker: which modules run, forward or backward."""

import weakref as _weakref

from .... import _C
from ....autograd.graph import register_multi_grad_hook as _register_multi_grad_hook
from ....nn import module as _module
from ....utils import _pytree

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A block in which `parents` has the names of the modules that run, and "Global". A module that no
    other calls has its class as its name; those in it are named as in a state_dict behind that."""

    def __init__(self):
        self.parents = {"Global"}
        self._names = _weakref.WeakKeyDictionary()
        self._seen = _weakref.WeakSet()
        self._hooks = []
        self._waits = False

    @property
    def is_bw(self):
        """Whether this is within a backward pass."""
        return _C._current_pass(())[0] != 0

    def _name(self, module):
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._seen:
            self._seen.add(module)
            for child, submodule in module.named_children():
                self._names[submodule] = f"{name}.{child}"
                self._name(submodule)
        return name

    def _change(self, change):
        """Changes `parents`; who counts by them looks at what was before."""
        change()

    def _end(self):
        self._waits = False
        self._change(lambda: self.parents.intersection_update({"Global"}))

    def _entered_backward(self, name):
        if not self._waits:
            self._waits = True
            _C._when_pass_ends(self._end)
        self._change(lambda: self.parents.add(name))

    def _hook(self, values, function):
        tensors = [
            t for t in _pytree.tree_leaves(values) if isinstance(t, _C.Tensor) and t.requires_grad
        ]
        if tensors:
            self._hooks.append(_register_multi_grad_hook(tensors, function))

    def _before(self, module, args):
        name = self._name(module)
        self._change(lambda: self.parents.add(name))
        self._hook(args, lambda _: self._change(lambda: self.parents.discard(name)))

    def _behind(self, module, args, output):
        name = self._name(module)
        self._change(lambda: self.parents.discard(name))
        self._hook(output, lambda _: self._entered_backward(name))

    def __enter__(self):
        self._hooks = [
            _module.register_module_forward_pre_hook(self._before),
            _module.register_module_forward_hook(self._behind),
        ]
        return self

    def __exit__(self, *unused):
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
