"""state_dict and load_state_dict of a Module, with what modules may override."""

from collections import OrderedDict, namedtuple

from .._C import Tensor
from ..autograd import no_grad
from .parameter import Parameter

# How often a parameter, buffer, module, hook or mode of any module was set: who depends on a model's
# structure looks whether this has moved.
changes = [0]

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict found; both lists are empty when everything matched."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()


class _InPlace:
    """A hook of register_state_dict_post_hook(): what it returned would be lost, so it is refused."""

    def __init__(self, hook):
        if not callable(hook):
            raise TypeError(
                f"pf.nn.Module.register_state_dict_post_hook: got {type(hook).__name__}; expected a function"
            )
        self.hook = hook

    def __call__(self, *args):
        if self.hook(*args) is not None:
            raise RuntimeError(
                "pf.nn.Module.state_dict: a hook of register_state_dict_post_hook() returned a value; "
                "expected None; change the state in place"
            )


class _Metadata(dict):
    """What a state dict says of one module, and the loading that it belongs to."""

    loading = None


class _Loading:
    """One load_state_dict: puts values in when all are known to fit, or takes them out again.

    Modules that override nothing are filled at the end. Those whose own code may look at what was
    loaded are filled at once, and old values are kept for the case that something does not fit.
    """

    def __init__(self, assign, now):
        self.assign, self.now = assign, now
        self.later, self.undo = [], []

    def put(self, module, table, name, value):
        def do():
            values = module.__dict__[table]
            old = values[name]
            if not self.assign:
                if self.now:
                    copy = old.detach().clone()
                    self.undo.append(lambda: old.detach().copy_(copy))
                with no_grad():
                    old.copy_(value)
                return
            new = value
            if table == "_parameters" and not isinstance(value, Parameter):
                new = Parameter(value, old.requires_grad)
            self.undo.append(lambda: values.__setitem__(name, old))
            values[name] = new
            changes[0] += 1

        self.run(do)

    def run(self, do):
        if self.now:
            do()
        else:
            self.later.append(do)

    def finish(self):
        self.now = False  # all fits: nothing needs to be kept
        for do in self.later:
            do()

    def take_back(self):
        for undo in reversed(self.undo):
            undo()


class _WithState:
    """The part of Module that turns it into a dictionary, and back."""

    _version = 1

    def _own_tensors(self):
        """(table, name, value) of the parameters and persistent buffers of this module alone."""
        for name, value in self._parameters.items():
            if value is not None:
                yield "_parameters", name, value
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                yield "_buffers", name, value

    def _overrides(self, name):
        return getattr(type(self), name) is not getattr(_WithState, name)

    # ---- out ----------------------------------------------------------------------------------

    def get_extra_state(self):
        """What else belongs into the state; override it together with set_extra_state()."""
        raise NotImplementedError(
            f"pf.nn.{type(self).__name__}.get_extra_state: not defined; expected both "
            "get_extra_state() and set_extra_state(state) in the class; define them"
        )

    def set_extra_state(self, state):
        """Takes what get_extra_state() has returned."""
        raise NotImplementedError(
            f"pf.nn.{type(self).__name__}.set_extra_state: not defined; expected both "
            "get_extra_state() and set_extra_state(state) in the class; define them"
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Puts this module's own state, without children, into `destination`; may be overridden."""
        for _, name, value in self._own_tensors():
            destination[prefix + name] = value if keep_vars else value.detach()
        if self._overrides("get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """Parameters and persistent buffers by dotted name. Tied weights appear under each name.

        Modules may override `_save_to_state_dict`, or `get_extra_state` for what is no tensor.
        """
        if args:  # as older programs pass them to their children
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            return self.state_dict(
                **{"destination": destination, "prefix": prefix, "keep_vars": keep_vars, **given}
            )
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
                )
        for hook in list(self._state_dict_hooks.values()):
            changed = hook(self, destination, prefix, metadata)
            if changed is not None:
                destination = changed
        return destination

    # ---- in -----------------------------------------------------------------------------------

    def _load_from_state_dict(
        self,
        state_dict,
        prefix,
        local_metadata,
        strict,
        missing_keys,
        unexpected_keys,
        error_msgs,
    ):
        """Takes this module's own state, without children, from `state_dict`; may be overridden.

        The lists are added to; an override that ends with this method may change `state_dict` first.
        """
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        loading = getattr(local_metadata, "loading", None)
        if loading is None:  # called by somebody else than load_state_dict
            loading = _Loading(local_metadata.get("assign_to_params_buffers", False), now=True)
        known = set()
        for table, name, target in list(self._own_tensors()):
            key = prefix + name
            known.add(name)
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            value = state_dict[key]
            if not isinstance(value, Tensor):
                error_msgs.append(f'"{key}" is a {type(value).__name__}, not a tensor')
            elif tuple(value.size()) != tuple(target.size()):  # a lazy parameter has no shape
                error_msgs.append(
                    f'"{key}": size mismatch: got {list(value.size())}; expected '
                    f"{list(target.size())}"
                )
            elif value.is_complex() and not target.is_complex() and not loading.assign:
                error_msgs.append(
                    f'"{key}": got {value.dtype}; expected real numbers, for {target.dtype} has no '
                    "place for others"
                )
            else:
                loading.put(self, table, name, value)
        if self._overrides("set_extra_state"):
            known.add(_EXTRA_STATE_KEY_SUFFIX)
            if prefix + _EXTRA_STATE_KEY_SUFFIX in state_dict:
                extra = state_dict[prefix + _EXTRA_STATE_KEY_SUFFIX]
                loading.run(lambda: self.set_extra_state(extra))
            elif strict:
                missing_keys.append(prefix + _EXTRA_STATE_KEY_SUFFIX)
        if strict:
            children = {name for name, child in self._modules.items() if child is not None}
            for key in state_dict.keys():
                if not key.startswith(prefix):
                    continue
                first, dot, _ = key[len(prefix) :].partition(".")
                if first not in (children if dot else known):
                    unexpected_keys.append(key)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies values into parameters and buffers; with `assign` their tensors take the place of
        the old ones, with dtype and device, where a Parameter keeps its requires_grad.

        Nothing is changed when any shape differs, or when `strict` and a key is missing or
        unexpected: the error lists every key. Returns (missing_keys, unexpected_keys). Modules may
        override `_load_from_state_dict`, or `set_extra_state` for what is no tensor.
        """
        if not hasattr(state_dict, "keys"):
            raise TypeError(
                "pf.nn.Module.load_state_dict: expected state_dict to be dict-like; got "
                f"{type(state_dict).__name__}"
            )
        metadata = getattr(state_dict, "_metadata", None) or {}
        state_dict = OrderedDict((key, state_dict[key]) for key in state_dict.keys())
        missing, unexpected, problems = [], [], []
        # Code that runs when a module has been loaded, or is being, must find it loaded.
        watched = any(m._load_state_dict_post_hooks for m in self.modules())
        loading = _Loading(assign, watched)

        def load(module, state, prefix):
            local = _Metadata(metadata.get(prefix[:-1], {}))
            if assign:
                local["assign_to_params_buffers"] = True
            local.loading = loading
            loading.now = watched or module._overrides("_load_from_state_dict")
            module._load_from_state_dict(state, prefix, local, True, missing, unexpected, problems)
            for name, child in module._modules.items():
                if child is not None:
                    below = prefix + name + "."
                    part = OrderedDict((k, v) for k, v in state.items() if k.startswith(below))
                    load(child, part, below)
            for hook in list(module._load_state_dict_post_hooks.values()):
                if hook(module, _IncompatibleKeys(missing, unexpected)) is not None:
                    raise TypeError(
                        "pf.nn.Module.load_state_dict: a post hook returned a value; expected None; "
                        "change missing_keys and unexpected_keys in place"
                    )

        try:
            load(self, state_dict, "")
            if strict and unexpected:
                problems.insert(0, "unexpected keys: " + ", ".join(f'"{k}"' for k in unexpected))
            if strict and missing:
                problems.insert(0, "missing keys: " + ", ".join(f'"{k}"' for k in missing))
            if problems:
                raise RuntimeError(
                    f"pf.nn.Module.load_state_dict: error(s) for {type(self).__name__}:\n\t"
                    + "\n\t".join(problems)
                    + "\n; expected the state of a model of the same structure"
                    + (
                        "; pass strict=False to ignore missing and unexpected keys"
                        if strict
                        else ""
                    )
                )
            loading.finish()
        except BaseException:
            loading.take_back()
            raise
        return _IncompatibleKeys(missing, unexpected)

    # ---- hooks --------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook):
        """hook(module, prefix, keep_vars) before the module's state is collected."""
        return self._add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata) when it has been; changes it in place."""
        return self._add_hook(self._state_dict_hooks, _InPlace(hook))

    def _register_state_dict_hook(self, hook):
        """As register_state_dict_post_hook(); what the hook returns takes the state's place."""
        return self._add_hook(self._state_dict_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        """hook([module,] state_dict, prefix, local_metadata, strict, missing, unexpected, errors)."""
        bound = (lambda *args: hook(self, *args)) if with_module else hook
        return self._add_hook(self._load_state_dict_pre_hooks, bound)

    def register_load_state_dict_pre_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs) before the module takes its state; may change state_dict."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """hook(module, incompatible_keys) when the module has been loaded; may change the lists."""
        return self._add_hook(self._load_state_dict_post_hooks, hook)
