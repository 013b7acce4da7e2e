"""Setting weights to zero by masks, with the names of torch.nn.utils.prune.

A pruned parameter `name` becomes `name_orig`; a buffer `name_mask` has its zeros, and before each call
the attribute `name` is their product.
"""

import numbers
from abc import ABC, abstractmethod

from ... import _ops
from ..._named_errors import name_errors as _name_errors
from ...autograd import no_grad

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """A way to choose what becomes zero: subclasses define `compute_mask(t, default_mask)` and
    PRUNING_TYPE, "unstructured", "structured" or "global"."""

    PRUNING_TYPE = None

    def __call__(self, module, inputs):
        object.__setattr__(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask for a tensor that has `default_mask` already: ones where it stays."""

    def apply_mask(self, module):
        """The parameter times its mask."""
        mask = getattr(module, self._tensor_name + "_mask")
        return mask.to(getattr(module, self._tensor_name + "_orig").dtype) * getattr(
            module, self._tensor_name + "_orig"
        )

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes `name` of a module; what was pruned before stays so."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = None
        for key, hook in list(module._forward_pre_hooks.items()):
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
                before = hook
                del module._forward_pre_hooks[key]
        if before is not None:
            container = before
            if not isinstance(before, PruningContainer):
                container = PruningContainer(before)
                container._tensor_name = name
            container.add_pruning_method(method)
            method = container
        tensor = getattr(module, name)
        scores = tensor if importance_scores is None else importance_scores
        if scores.shape != tensor.shape:
            raise AssertionError(
                f"pf.nn.utils.prune: got importance_scores of shape {list(scores.shape)}; expected "
                f"{list(tensor.shape)}"
            )
        if before is None:
            original = module._parameters.pop(name)
            module.register_parameter(name + "_orig", original)
            default = _ops.ones_like(original.detach())
        else:
            default = getattr(module, name + "_mask").detach().clone()
        try:
            with no_grad():
                mask = method.compute_mask(scores.detach(), default)
        except Exception:
            if before is None:
                original = module._parameters.pop(name + "_orig")
                module.register_parameter(name, original)
            raise
        module.register_buffer(name + "_mask", mask)
        object.__setattr__(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """`t` times its mask, without a module."""
        scores = t if importance_scores is None else importance_scores
        default = _ops.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default)

    def remove(self, module):
        """Makes the zeros the parameter's own."""
        name = self._tensor_name
        value = self.apply_mask(module).detach()
        original = module._parameters.pop(name + "_orig")
        original.data = value
        del module._buffers[name + "_mask"]
        module.__dict__.pop(name, None)
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Several methods for one tensor, one after the other, each over what the others left."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, *args):
        self._pruning_methods = ()
        methods = args[0] if len(args) == 1 and not isinstance(args[0], BasePruningMethod) else args
        if methods:
            self._tensor_name = methods[0]._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._pruning_methods and method._tensor_name != self._tensor_name:
            raise ValueError(
                f"pf.nn.utils.prune: got a method for '{method._tensor_name}'; expected one for "
                f"'{self._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, index):
        return self._pruning_methods[index]

    def compute_mask(self, t, default_mask):
        method = self._pruning_methods[-1]
        mask = default_mask
        if method.PRUNING_TYPE == "unstructured":
            index = mask == 1
        elif method.PRUNING_TYPE == "structured":  # channels that have something left
            dim = method.dim % t.dim()
            others = [d for d in range(t.dim()) if d != dim]
            left = mask.sum(others) != 0
            index = left.nonzero().squeeze(1)
            part = method.compute_mask(t.index_select(dim, index), mask.index_select(dim, index))
            return mask.index_copy(dim, index, part.to(mask.dtype))
        elif method.PRUNING_TYPE == "global":
            return method.compute_mask(t, mask)
        else:
            raise ValueError(f"pf.nn.utils.prune: unknown PRUNING_TYPE {method.PRUNING_TYPE!r}")
        part = method.compute_mask(t[index], mask[index])
        return mask.masked_scatter(index, part.to(mask.dtype))


class Identity(BasePruningMethod):
    """Prunes nothing; the mask of ones is there to be changed."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask


def _check_amount(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"pf.nn.utils.prune: got amount {amount!r}; expected a number")
    if (isinstance(amount, numbers.Integral) and amount < 0) or (
        not isinstance(amount, numbers.Integral) and not 0.0 <= amount <= 1.0
    ):
        raise ValueError(
            f"pf.nn.utils.prune: got amount {amount}; expected a share between 0 and 1, or a count"
        )


def _count(amount, size):
    n = amount if isinstance(amount, numbers.Integral) else round(amount * size)
    if n > size:
        raise ValueError(
            f"pf.nn.utils.prune: got amount {amount} for {size} entries; expected at most so many"
        )
    return n


class RandomUnstructured(BasePruningMethod):
    """Elements chosen by chance."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        return _without_lowest(_ops.rand(t.numel(), device=t.device), default_mask, self.amount)


class L1Unstructured(RandomUnstructured):
    """The elements that are least."""

    def compute_mask(self, t, default_mask):
        return _without_lowest(t.abs().reshape(-1), default_mask, self.amount)


def _without_lowest(scores, default_mask, amount):
    n = _count(amount, scores.numel())
    if n == 0:
        return default_mask.clone()
    lowest = scores.topk(n, largest=False)[1]
    flat = default_mask.reshape(-1).index_fill(0, lowest, 0)
    return flat.reshape(default_mask.shape)


class RandomStructured(BasePruningMethod):
    """Whole entries of dimension `dim` chosen by chance."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def _scores(self, t, dim):
        return _ops.rand(t.shape[dim], device=t.device)

    def compute_mask(self, t, default_mask):
        if t.dim() <= 1:
            raise ValueError(
                f"pf.nn.utils.prune: got a tensor of shape {list(t.shape)}; expected two dimensions "
                "or more to prune whole entries of one"
            )
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(
                f"pf.nn.utils.prune: got dim {self.dim} for shape {list(t.shape)}; expected one of its "
                "dimensions"
            )
        dim = self.dim % t.dim()
        n = _count(self.amount, t.shape[dim])
        if n == 0:
            return default_mask.clone()
        lowest = self._scores(t, dim).topk(n, largest=False)[1]
        return default_mask.index_fill(dim, lowest, 0)


class LnStructured(RandomStructured):
    """The entries of dimension `dim` whose norm of order `n` is least."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t, dim):
        return _ops.norm(t, self.n, [d for d in range(t.dim()) if d != dim])


class CustomFromMask(BasePruningMethod):
    """What a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if self.mask.shape != default_mask.shape:  # the elements that were left
            raise ValueError(
                f"pf.nn.utils.prune: got a mask of shape {list(self.mask.shape)}; expected "
                f"{list(default_mask.shape)}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module, name):
    """A mask of ones for `name`; returns the module, as all of these do."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Zeroes a share, or a count, of elements by chance."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Zeroes the elements that are least, in absolute value or by importance_scores."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Zeroes whole entries of dimension `dim` by chance."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Zeroes the entries of dimension `dim` whose norm of order n is least."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Zeroes where the mask is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes over several (module, name) at once, as if they were one tensor."""
    parameters = list(parameters)
    scores = importance_scores or {}
    if not isinstance(scores, dict):
        raise TypeError("pf.nn.utils.prune: global_unstructured(): expected a dict of scores")
    flat = _ops.cat([scores.get((m, n), getattr(m, n)).detach().reshape(-1) for m, n in parameters])
    masks = [getattr(m, n + "_mask", None) for m, n in parameters]
    default = _ops.cat(
        [
            (_ops.ones_like(getattr(m, n).detach()) if mask is None else mask).reshape(-1)
            for (m, n), mask in zip(parameters, masks)
        ]
    )
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'pf.nn.utils.prune: global_unstructured(): expected a method of PRUNING_TYPE "unstructured"'
        )
    container.add_pruning_method(method)
    with no_grad():
        final = container.compute_mask(flat, default)
    at = 0
    for module, name in parameters:
        tensor = getattr(module, name)
        part = final[at : at + tensor.numel()].view(tensor.shape)
        custom_from_mask(module, name, part)
        at += tensor.numel()


def remove(module, name):
    """Makes the zeros of `name` the parameter's own, and forgets the mask."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"pf.nn.utils.prune: '{name}' of {type(module).__name__} is not pruned; expected a pruned one"
    )


def is_pruned(module):
    """Whether a parameter of the module, or of one in it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for m in module.modules()
        for hook in m._forward_pre_hooks.values()
    )


_name_errors(__name__)
