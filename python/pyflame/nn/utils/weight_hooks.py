"""weight_norm and spectral_norm as hooks, as older programs have them.

The parametrizations of the same names take their place; state dicts of these have `weight_g`,
`weight_v`, `weight_orig`, `weight_u`.
"""

from ... import _ops
from ..._named_errors import name_errors as _name_errors
from ...autograd import no_grad
from ..parameter import Parameter
from .parametrizations import as_matrix, default_dim, norm_except, unit


def _replace(module, name, **parameters):
    del module._parameters[name]
    for suffix, value in parameters.items():
        module.register_parameter(f"{name}_{suffix}", Parameter(value.detach().clone()))


def _find(module, kind, name):
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            return key, hook
    raise ValueError(
        f"pf.nn.utils: '{name}' of {type(module).__name__} has no {kind.__name__}; expected one to "
        "remove"
    )


def _put_back(module, kind, name):
    key, hook = _find(module, kind, name)
    with no_grad():
        weight = hook.weight_to_keep(module)
    hook.forget(module)
    module.__dict__.pop(name, None)
    module.register_parameter(name, Parameter(weight.detach().clone()))
    del module._forward_pre_hooks[key]
    return module


class WeightNorm:
    """The hook that computes the weight from its norm and direction before each call."""

    def __init__(self, name, dim):
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module):
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except(v, self.dim))

    weight_to_keep = compute_weight

    def forget(self, module):
        del module._parameters[self.name + "_g"], module._parameters[self.name + "_v"]

    @staticmethod
    def apply(module, name, dim):
        if any(
            isinstance(h, WeightNorm) and h.name == name for h in module._forward_pre_hooks.values()
        ):
            raise RuntimeError(f"pf.nn.utils.weight_norm: '{name}' has a WeightNorm already")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        _replace(module, name, g=norm_except(weight.detach(), hook.dim), v=weight)
        object.__setattr__(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def __call__(self, module, inputs):
        object.__setattr__(module, self.name, self.compute_weight(module))


def weight_norm(module, name="weight", dim=0):
    """Takes `name` apart into `name_g`, a norm for each entry of `dim`, and `name_v`, a direction.

    nn.utils.parametrizations.weight_norm does the same without a hook.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module, name="weight"):
    """Puts the weight back in place of norm and direction."""
    return _put_back(module, WeightNorm, name)


class SpectralNorm:
    """The hook that divides the weight by its largest singular value before each call."""

    _version = 1

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                f"pf.nn.utils.spectral_norm: got n_power_iterations {n_power_iterations}; expected at "
                "least 1"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def compute_weight(self, module, do_power_iteration):
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(unit(matrix.detach().t().mv(u), self.eps))
                    u.copy_(unit(matrix.detach().mv(v), self.eps))
            u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def weight_to_keep(self, module):
        return self.compute_weight(module, False)

    def forget(self, module):
        del module._parameters[self.name + "_orig"]
        for suffix in ("_u", "_v"):
            delattr(module, self.name + suffix)

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        if any(
            isinstance(h, SpectralNorm) and h.name == name
            for h in module._forward_pre_hooks.values()
        ):
            raise RuntimeError(f"pf.nn.utils.spectral_norm: '{name}' has a SpectralNorm already")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters.pop(name)
        with no_grad():
            matrix = as_matrix(weight.detach(), dim)
            new = {"dtype": matrix.dtype, "device": matrix.device}
            u = unit(_ops.randn(matrix.shape[0], **new), eps)
            v = unit(_ops.randn(matrix.shape[1], **new), eps)
        module.register_parameter(name + "_orig", weight)
        object.__setattr__(module, name, weight.detach())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        return hook

    def __call__(self, module, inputs):
        weight = self.compute_weight(module, do_power_iteration=module.training)
        object.__setattr__(module, self.name, weight)


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """`name` divided by its largest singular value, from `name_orig`, before each call.

    nn.utils.parametrizations.spectral_norm does the same without a hook.
    """
    SpectralNorm.apply(
        module, name, n_power_iterations, default_dim(module) if dim is None else dim, eps
    )
    return module


def remove_spectral_norm(module, name="weight"):
    """Puts the weight as it is in place of `name_orig`."""
    return _put_back(module, SpectralNorm, name)


_name_errors(__name__)
