"""Modules of torch.utils that have no counterpart of the same name."""

from .... import _C


def set_module(obj, mod):
    """Says of an object that it is of the module `mod`."""
    if not isinstance(mod, str):
        raise TypeError(f"torch.utils.set_module: got {type(mod).__name__}; expected a name")
    obj.__module__ = mod


def swap_tensors(t1, t2):
    """Exchanges what two tensors are: their elements, gradients and whether they require one. Both must be
    leaves, as nobody may hold what they were."""
    for t in (t1, t2):
        if not isinstance(t, _C.Tensor) or not t.is_leaf:
            raise RuntimeError(
                "torch.utils.swap_tensors: got what is no tensor, or one with a history; expected two "
                "leaves; call detach()"
            )
    (first, grad, wanted), other = [(t.data, t.grad, t.requires_grad) for t in (t1, t2)]
    for t, (data, g, r) in ((t1, other), (t2, (first, grad, wanted))):
        t.grad = None
        t.requires_grad_(False)
        t.data = data
        t.requires_grad_(r)
        t.grad = g
