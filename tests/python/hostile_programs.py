"""Short programs that mean nothing, for hostile.py: what one hostile call left is what the next one takes.

chain    operations one after another, on results, on views of them, in place, with out=, on tensors
         that get other memory (.data), and a backward pass at the end
objects  modules, optimizers, schedulers, distributions and samplers, made of sizes that fit or do not,
         then their methods with hostile arguments, gradients and states
"""

import contextlib
import copy
import inspect

import hostile

import pyflame as pf

# ---- chains ---------------------------------------------------------------------------------------

VIEWS = [
    lambda t, i: t.transpose(0, i % max(t.dim(), 1)),
    lambda t, i: t[..., : i % 5],
    lambda t, i: t[i % 3 :: 2],
    lambda t, i: t.expand(i % 4, *t.shape),
    lambda t, i: t.as_strided((i % 7, 3), (i % 2, 1)),
    lambda t, i: t.as_strided((i % 5,), (0,), i % 11),
    lambda t, i: t.as_strided((2, 0), (1, 1), 2 ** (i % 63)),
    lambda t, i: t.view([pf.uint8, pf.int16, pf.float32, pf.complex64, pf.int64][i % 5]),
    lambda t, i: t.narrow(-1, i % 3, 0),
    lambda t, i: t.unfold(0, 1 + i % 3, 1 + i % 4),
    lambda t, i: t.diagonal(i % 5 - 2),
    lambda t, i: t.detach(),
    lambda t, i: t.conj(),
    lambda t, i: pf.view_as_real(t) if t.is_complex() else t.real,
    lambda t, i: t.flip(0),
    lambda t, i: t.reshape(-1, 1 + i % 4),
    lambda t, i: t.squeeze().unsqueeze(i % 3 - 1),
    lambda t, i: t.swapdims(-1, 0).contiguous(),
    lambda t, i: t.to_sparse(),
    lambda t, i: t.clone().requires_grad_(),
    lambda t, i: t.permute(*range(t.dim())[::-1]),
    lambda t, i: t.to("meta"),
]
IN_PLACE = [
    n
    for n in dir(pf.Tensor)
    if n.endswith("_") and not n.startswith("_") and n not in hostile.LEFT_OUT
]


def _tensors(result):
    some = result if isinstance(result, (list, tuple)) else [result]
    return [t for t in some if isinstance(t, pf.Tensor)]


def _view(rng, t):
    """Of the same memory, where there is such a view."""
    with contextlib.suppress(Exception):
        return rng.choice(VIEWS)(t, rng.randrange(60))
    return t


def chain(rng, call, number):
    pool = [hostile.tensor(rng) for _ in range(2)]
    for _ in range(rng.choice([2, 3, 4])):
        form = rng.random()
        made = []
        if rng.random() < 0.15:
            t, other = (
                _view(rng, rng.choice(pool)),
                _view(rng, rng.choice([*pool, hostile.tensor(rng)])),
            )
            call(rng, "set data", _set_data, [t, other.detach()], {})
            pool.append(t)
        if form < 0.25:  # in place, on a view of what others still hold
            name, t = rng.choice(IN_PLACE), _view(rng, rng.choice(pool))
            args = [
                _view(rng, rng.choice(pool)) if rng.random() < 0.5 else hostile.anything(rng)
                for _ in range(rng.choice([0, 1, 1, 2, 3]))
            ]
            if call(rng, f"Tensor.{name}", getattr(pf.Tensor, name), [t, *args], {}):
                made = _tensors(call.result)
        else:
            row = rng.choice(hostile.ROWS)
            try:
                named, types = hostile.drawn(rng, row)
            except (pf.PyFlameError, TypeError):
                continue
            for n in named:
                if types[n] == "Tensor" and rng.random() < 0.5:
                    named[n] = _view(rng, rng.choice(pool))
                elif types[n] == "Tensor[]" and rng.random() < 0.5:
                    named[n] = [_view(rng, t) for t in pool]
            function = pf.ops.get(row["name"])
            public = getattr(pf, row["name"], None)
            if form < 0.5 and callable(public):
                function, out = (
                    public,
                    [_view(rng, rng.choice(pool)) for _ in range(rng.choice([1, 1, 1, 2, 3]))],
                )
                named["out"] = out[0] if len(out) == 1 else tuple(out)
            if call(rng, row["name"], function, [], named):
                made = _tensors(call.result)
        pool += made[:3]
    ends = [t for t in pool if t.device.type == "cpu" and t.requires_grad and t.numel() < 10**5]
    if ends:
        call(rng, "backward", _backward, [ends], {})


def _set_data(t, other):
    t.data = other


def _backward(ends):
    sum((t.abs() if t.is_complex() else t).float().sum() for t in ends).backward()


# ---- objects --------------------------------------------------------------------------------------


def _classes(module, base):
    found = {n: c for n, c in vars(module).items() if inspect.isclass(c) and not n.startswith("_")}
    return [c for _, c in sorted(found.items()) if issubclass(c, base) and c is not base]


LAYERS = _classes(pf.nn, pf.nn.Module)
OPTIMIZERS = _classes(pf.optim, pf.optim.Optimizer)
SCHEDULERS = _classes(pf.optim.lr_scheduler, pf.optim.lr_scheduler.LRScheduler)
DISTRIBUTIONS = _classes(pf.distributions, pf.distributions.Distribution)
TRANSFORMS = _classes(pf.distributions, pf.distributions.Transform)
SAMPLERS = _classes(pf.utils.data, pf.utils.data.Sampler)
# What starts processes, waits for others or moves the object to devices that are not there.
QUIET = {"share_memory", "register_module", "compile", "cuda", "expand", "set_extra_state"}


def _likely(rng, name):
    """What an argument of this name may well be."""
    if name in ("bias", "affine", "batch_first", "elementwise_affine", "inplace", "replacement"):
        return rng.random() < 0.5
    if name in ("padding_mode", "mode", "reduction", "nonlinearity", "activation"):
        return rng.choice(["zeros", "mean", "sum", "none", "relu", "tanh", "nearest", "reflect"])
    if name in ("base_distribution", "mixture_distribution", "component_distribution"):
        return pf.distributions.Categorical(pf.rand(3, 2) + 0.1)
    if any(w in name for w in ("layer", "module", "modules", "model", "encoder")):
        return pf.nn.Linear(4, 4)
    return rng.choice([1, 2, 3, 4, 4, 4, 8])


def _made(rng, call, cls, first=None, likely=_likely):
    """An object of the class, or None."""
    try:
        known = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return None
    args, named = [] if first is None else [first], {}
    for p in list(known)[len(args) :]:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if p.default is p.empty or rng.random() < 0.15:
            bad = rng.random() < 0.12
            named[p.name] = hostile.anything(rng) if bad else likely(rng, p.name)
    if not call(rng, cls.__name__, cls, args, named):
        return None
    return call.result


def _call_some(rng, call, what, object_, count, give):
    """Some methods of the object, with what `give` gives."""
    methods = [n for n in dir(object_) if not n.startswith("_") and n not in QUIET]
    methods = [n for n in methods if n not in hostile.LEFT_OUT]
    for name in rng.sample(methods, min(len(methods), count)):
        with contextlib.suppress(Exception):
            method = getattr(object_, name)
            if callable(method):
                args = [give() for _ in range(rng.choice([0, 1, 1, 2]))]
                call(rng, f"{what}.{name}", method, args, {})


def _layer(rng, call):
    layer = _made(rng, call, rng.choice(LAYERS))
    if layer is None:
        return
    name = type(layer).__name__
    for p in layer.parameters():
        if rng.random() < 0.08:  # a weight that someone set
            with contextlib.suppress(Exception):
                p.data = hostile.tensor(rng)
    for _ in range(3):
        wanted = rng.choice([1, 1, 2, 3])

        def value():
            if rng.random() < 0.25:
                return hostile.anything(rng)
            shape = [
                rng.choice([0, 1, 2, 4, 4, 4, 8]) for _ in range(rng.choice([1, 2, 2, 3, 3, 4, 5]))
            ]
            t = pf.randn(shape) if rng.random() < 0.8 else pf.randint(0, 4, shape)
            return t.requires_grad_() if t.is_floating_point() and rng.random() < 0.5 else t

        call(rng, f"{name} of", layer, [value() for _ in range(wanted)], {})
    if rng.random() < 0.3:
        _call_some(rng, call, name, layer, 3, lambda: hostile.anything(rng))
    if rng.random() < 0.3:
        state = {}
        with contextlib.suppress(Exception):  # a hook that was registered may be anything
            state = layer.state_dict()
        for key in list(state):
            if rng.random() < 0.3:
                state[key] = hostile.anything(rng)
        call(
            rng,
            f"{name}.load_state_dict",
            layer.load_state_dict,
            [state],
            {"assign": rng.random() < 0.5},
        )
        call(rng, f"{name} of", layer, [pf.randn(2, 4, 4)], {})


def _optimizer(rng, call):
    weights = [
        pf.nn.Parameter(pf.randn(4, 3)),
        pf.nn.Parameter(pf.randn(3)),
        pf.nn.Parameter(pf.randn(())),
    ]
    if rng.random() < 0.4:
        with contextlib.suppress(Exception):
            weights.append(pf.nn.Parameter(hostile.tensor(rng)))

    def number(rng, name):
        if name == "betas":
            return (0.9, rng.choice([0.99, 1.0, 0.0]))
        return rng.choice([0.1, 1e-3, 0.0, 0.9, 1, True, False, pf.tensor(0.1)])

    made = _made(rng, call, rng.choice(OPTIMIZERS), weights, number)
    if made is None:
        return
    name = type(made).__name__
    for _ in range(3):
        for w in weights:
            with contextlib.suppress(Exception):
                grad = rng.random()
                w.grad = (
                    pf.randn(w.shape, dtype=w.dtype)
                    if grad < 0.7
                    else None
                    if grad < 0.8
                    else pf.randn(w.shape).to_sparse()
                    if grad < 0.9
                    else _view(rng, hostile.tensor(rng))
                )
            if rng.random() < 0.05:
                with contextlib.suppress(Exception):
                    w.data = hostile.tensor(rng)
        args = [] if rng.random() < 0.7 else [lambda: (weights[0] ** 2).sum()]
        call(rng, f"{name}.step", made.step, args, {})
        if rng.random() < 0.3 and call(rng, f"{name}.state_dict", made.state_dict, [], {}):
            state = call.result
            with contextlib.suppress(pf.PyFlameError):  # of what has a history
                state = copy.deepcopy(state)
            for entry in state["state"].values():
                for key in list(entry):
                    if rng.random() < 0.4:
                        entry[key] = hostile.anything(rng)
            call(rng, f"{name}.load_state_dict", made.load_state_dict, [state], {})
        if rng.random() < 0.1:
            made.param_groups[0][rng.choice(list(made.param_groups[0]))] = hostile.anything(rng)
    if SCHEDULERS and rng.random() < 0.5:
        scheduler = _made(rng, call, rng.choice(SCHEDULERS), made, number)
        if scheduler is not None:
            for _ in range(3):
                call(rng, f"{type(scheduler).__name__}.step", scheduler.step, [], {})
    _call_some(rng, call, name, made, 2, lambda: hostile.anything(rng))


def _distribution(rng, call):
    shape = rng.choice([(), (3,), (0,), (2, 3), (3, 3), (1,), (2, 0)])

    def parameter(rng, name):
        if name in ("base_distribution", "mixture_distribution", "component_distribution"):
            return _likely(rng, name)
        if name in ("validate_args",):
            return rng.random() < 0.5
        if any(w in name for w in ("matrix", "tril", "factor")):
            return pf.eye(rng.choice([0, 1, 3, 3]))
        if name in ("transforms", "transform"):
            return [pf.distributions.ExpTransform()]
        t = pf.rand(shape) + rng.choice([0.0, 0.1, 1.0])
        return t.requires_grad_() if rng.random() < 0.4 else t

    cls = rng.choice(DISTRIBUTIONS + TRANSFORMS)
    made = _made(rng, call, cls, None, parameter)
    if made is None:
        return

    def value():
        if rng.random() < 0.3:
            return hostile.anything(rng)
        return pf.rand(rng.choice([shape, (), (3,), (2, 3), (0,)]))

    _call_some(rng, call, cls.__name__, made, 8, value)
    if isinstance(made, pf.distributions.Transform):
        call(rng, f"{cls.__name__} of", made, [value()], {})
    else:
        other = _made(rng, call, rng.choice([cls, *DISTRIBUTIONS]), None, parameter)
        if other is not None:
            call(rng, "kl_divergence", pf.distributions.kl_divergence, [made, other], {})


def _sampler(rng, call):
    data = pf.utils.data.TensorDataset(pf.randn(rng.choice([0, 1, 7]), 2))

    def argument(rng, name):
        if name in ("sampler", "data_source", "dataset"):
            return data
        if name in ("weights", "indices"):
            return [rng.choice([0.0, 1.0, 2.0]) for _ in range(rng.choice([0, 1, 5]))]
        return rng.choice([1, 2, 3, True, False])

    made = _made(rng, call, rng.choice(SAMPLERS), None, argument)
    if made is not None:
        call(rng, f"list of {type(made).__name__}", _first, [made], {})


def _first(some, count=50):
    return [x for x, _ in zip(some, range(count), strict=False)]


def objects(rng, call, number):
    kind = rng.choice([_layer, _layer, _layer, _optimizer, _distribution, _distribution, _sampler])
    kind(rng, call)
