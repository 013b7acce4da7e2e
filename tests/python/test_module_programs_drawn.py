"""Short programs around modules, drawn at random and run by both: pruning, parametrizations, hooks that come and
go during a call, groups of optimizers with names, masks of transformers, bags, packed sequences, clipping.
Values, gradients, names, order of hooks and errors are PyTorch's.

PYFLAME_PROGRAMS says how many of each kind are drawn (by default 40).
"""

# ruff: noqa: B023 (what is drawn in a loop is used in its turn)
import copy
import math
import os
import random
import warnings

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")
pytest.importorskip("torch.nn.utils.prune")

COUNT = int(os.environ.get("PYFLAME_PROGRAMS", "40"))


def drawn(m, r, *shape, low=-2.0, high=2.0, dtype="float64", grad=False):
    n = math.prod(shape)
    if dtype == "bool":
        values = [r.random() < 0.5 for _ in range(n)]
    elif dtype == "int64":
        values = [r.randint(int(low), int(high)) for _ in range(n)]
    else:
        values = [r.uniform(low, high) for _ in range(n)]
    return m.tensor(values, dtype=getattr(m, dtype)).reshape(shape).requires_grad_(grad)


def filled(module, m, r):
    with m.no_grad():
        for p in module.parameters():
            p.copy_(drawn(m, r, *p.shape, low=-0.5, high=0.5))
    return module


def gradients(m, r, y, of):
    s = (y * drawn(m, r, *y.shape)).sum()
    return m.autograd.grad(s, of, allow_unused=True) if y.requires_grad else None


def plain(v):
    """What can be compared: nested lists, numbers, texts."""
    if isinstance(v, (pf.Tensor, torch.Tensor)):
        return [str(v.dtype).rpartition(".")[2], v.requires_grad, list(v.shape), v.tolist()]
    if isinstance(v, dict):
        return [[k, plain(x)] for k, x in v.items()]
    return [plain(x) for x in v] if isinstance(v, (list, tuple)) else v


def same(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))
    return a == b


def kind(error):
    """The first class of Python's own, with which programs catch it."""
    return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")


class Log(list):
    def trying(self, act):
        """Notes what `act` gives, or the error."""
        try:
            self.append(plain(act()))
        except Exception as e:
            self.append(kind(e))


def pruning(m, r, log):
    prune, layer = m.nn.utils.prune, filled(m.nn.Linear(3, 4, dtype=m.float64), m, r)
    for _ in range(r.randint(1, 4)):
        act, name = (
            r.choice(["l1", "ln", "mask", "identity", "remove", "global", "call"]),
            r.choice(["weight", "bias"]),
        )
        amount = r.choice([0.3, 2, 0, 1.0])
        mask = drawn(m, r, *getattr(layer, name).shape, dtype="bool")
        acts = {
            "l1": lambda: prune.l1_unstructured(layer, name, amount),
            "ln": lambda: prune.ln_structured(layer, "weight", 0.5, n=2, dim=r.choice([0, 1, -1])),
            "mask": lambda: prune.custom_from_mask(layer, name, mask),
            "identity": lambda: prune.identity(layer, name),
            "remove": lambda: prune.remove(layer, name),
            "global": lambda: prune.global_unstructured(
                [(layer, "weight"), (layer, "bias")], prune.L1Unstructured, amount=0.4
            ),
            "call": lambda: layer(drawn(m, r, 2, 3)),
        }
        log.trying(lambda: acts[act]() if act == "call" else acts[act]() and None)
        log += [act, plain([layer.weight, layer.bias]), list(layer.state_dict())]
        log += [[type(h).__name__ for h in layer._forward_pre_hooks.values()]]
    y = layer(drawn(m, r, 2, 3))
    log += plain([y, gradients(m, r, y, list(layer.parameters()))])


def parametrizations(m, r, log):
    tools = m.nn.utils.parametrize
    layer = filled(m.nn.Linear(3, 4, dtype=m.float64), m, r)
    inverse = r.random() < 0.7

    class Square(m.nn.Module):
        def forward(self, w):
            return w * w

        if inverse:

            def right_inverse(self, w):
                return w.abs().sqrt()

    class Two(m.nn.Module):
        def forward(self, a, b):
            return a * 2 + b

        def right_inverse(self, w):
            return w / 4, w / 2

    tools.register_parametrization(layer, "weight", r.choice([Square, Two])())
    for _ in range(r.randint(0, 2)):
        tools.register_parametrization(layer, r.choice(["weight", "bias"]), Square())
    x = drawn(m, r, 2, 3)
    log += [type(layer).__name__, list(layer.state_dict()), plain(list(layer.parameters()))]
    y = layer(x)
    log += plain([y, gradients(m, r, y, list(layer.parameters()))])
    with tools.cached():
        log += [layer.weight is layer.weight]
    if r.random() < 0.5:
        new = drawn(m, r, 4, 3, low=0.1)
        log.trying(lambda: setattr(layer, "weight", new))
        log += plain([layer.weight, list(layer.parameters())])
    if r.random() < 0.3:
        layer = copy.deepcopy(layer)
    keep = r.random() < 0.5
    log.trying(lambda: type(tools.remove_parametrizations(layer, "weight", keep)).__name__)
    log += [plain(layer.weight), sorted(layer.state_dict())]


def hooks(m, r, log):
    """Hooks that add and remove hooks and raise; not the order of parameters' own hooks among them."""
    net = filled(m.nn.Sequential(m.nn.Linear(3, 2, dtype=m.float64), m.nn.Tanh()), m, r)
    handles, x = [], drawn(m, r, 2, 3, grad=r.random() < 0.5)
    fails = [r.random() < 0.3 for _ in range(40)]

    def failing(*_):
        if fails.pop():
            raise ValueError("drawn")

    def once(at):
        def hook(*_):
            log.append("once")
            box[0].remove()

        box = [at.register_forward_hook(hook)]
        return box[0]

    def adding(at, i, register):
        def hook(module, args):
            log.append(("adds", i))
            handles.append(getattr(module, register)(lambda *_: log.append(("added", i))))

        return at.register_forward_pre_hook(hook)

    def always(at, i):
        def hook(module, args, kwargs, out):
            log.append(("always", i, out is None))

        return at.register_forward_hook(hook, always_call=True, with_kwargs=True)

    for i in range(r.randint(1, 6)):
        at = r.choice([net, *net])
        note = lambda *_, i=i: log.append(i)  # noqa: E731
        prepend = r.random() < 0.4
        made = {
            "forward": lambda: at.register_forward_hook(note, prepend=prepend),
            "before": lambda: at.register_forward_pre_hook(note, prepend=prepend),
            "backward": lambda: at.register_full_backward_hook(note, prepend=prepend),
            "before backward": lambda: at.register_full_backward_pre_hook(note, prepend=prepend),
            "change": lambda: at.register_forward_hook(lambda *a: a[-1] * 2),
            "change before": lambda: at.register_forward_pre_hook(lambda _, a: a[0] / 2),
            "once": lambda: once(at),
            "adding": lambda: adding(at, i, "register_forward_hook"),
            "adding before": lambda: adding(at, i, "register_forward_pre_hook"),
            "always": lambda: always(at, i),
            "failing": lambda: at.register_forward_hook(failing),
            "failing before": lambda: at.register_forward_pre_hook(failing),
        }
        handles.append(made[r.choice(list(made))]())
    for _ in range(3):
        log.trying(lambda: net(x))
        log.trying(lambda: net(x).sum().backward())
        if handles and r.random() < 0.5:
            handles.pop(r.randrange(len(handles))).remove()
    log += plain([[p.grad for p in net.parameters()], x.grad])
    log += [[len(t._forward_hooks) + len(t._forward_pre_hooks) for t in net.modules()]]


def groups(m, r, log):
    """Groups that are added midway, with names and without."""
    ps = [drawn(m, r, 2, 2, grad=True) for _ in range(4)]
    named = r.random() < 0.5
    first = [(f"p{i}", p) for i, p in enumerate(ps[:2])] if named else ps[:2]
    cls = getattr(m.optim, r.choice(["SGD", "Adam", "RMSprop", "Adagrad"]))
    o = cls(first if r.random() < 0.5 else [{"params": first, "lr": 0.05}], lr=0.1)
    for i in range(r.randint(2, 5)):
        act = r.choice(["step", "add", "add named", "load"])
        if act == "step":
            for p in ps:
                p.grad = None
            sum((p**2).sum() for p in ps).backward()
            log.trying(o.step)
        elif act == "load":
            other = cls([{"params": g["params"]} for g in o.param_groups], lr=0.3)
            log.trying(lambda: other.load_state_dict(copy.deepcopy(o.state_dict())))
            log += [sorted(k) for k in other.param_groups]
        elif len(o.param_groups) < 3:
            p = ps[1 + len(o.param_groups)]
            log.trying(
                lambda: o.add_param_group({"params": [(f"q{i}", p)] if act == "add named" else [p]})
            )
        log += [repr(o), plain(ps), [g.get("param_names") for g in o.param_groups]]


def transformers(m, r, log):
    encoder, first = r.random() < 0.6, r.random() < 0.5
    cls = m.nn.TransformerEncoderLayer if encoder else m.nn.TransformerDecoderLayer
    layer = cls(4, 2, 5, 0.0, batch_first=first, norm_first=r.random() < 0.5, dtype=m.float64)
    net = filled(layer, m, r)
    causal = m.nn.Transformer.generate_square_subsequent_mask(3, dtype=m.float64)
    masks = [None, causal, m.ones(3, 3, dtype=m.bool).triu(1), drawn(m, r, 3, 3)]
    padding = drawn(m, r, 2, 3, dtype="bool")
    padding[:, 0] = False
    mask = r.choice([0, 1, 2, 3])
    hint = r.random() < 0.3 and mask != 3  # a hint that is wrong means nothing
    x = drawn(
        m, r, *((2, 3, 4) if first else (3, 2, 4)), grad=True
    )  # gradients: no path of inference
    pad = padding if r.random() < 0.4 and mask != 1 else None

    def call():
        if encoder:
            y = net(x, src_mask=masks[mask], src_key_padding_mask=pad, is_causal=hint)
        else:
            y = net(x, x * 2, tgt_mask=masks[mask], tgt_key_padding_mask=pad, tgt_is_causal=hint)
        return [y, gradients(m, r, y, [x, *net.parameters()])]

    log.trying(call)


def bags(m, r, log):
    kind, last = r.choice(["sum", "mean", "max"]), r.random() < 0.3
    layer = m.nn.EmbeddingBag(
        4,
        3,
        mode=kind,
        include_last_offset=last,
        padding_idx=r.choice([None, 0, -1]),
        dtype=m.float64,
    )
    filled(layer, m, r)
    n = r.choice([0, 0, 1, 5])
    offsets = sorted([0, r.randint(0, n), n if last else r.randint(0, n)])
    rows = drawn(m, r, n, low=0, high=3, dtype="int64")
    y = layer(rows, m.tensor(offsets))
    log += plain([y, gradients(m, r, y, [layer.weight])])


def sequences(m, r, log):
    name, size = r.choice(["RNN", "LSTM", "GRU"]), r.randint(2, 3)
    how = {
        "bidirectional": r.random() < 0.4,
        "batch_first": r.random() < 0.4,
        "bias": r.random() < 0.7,
    }
    if name == "LSTM" and r.random() < 0.4:
        how["proj_size"] = size - 1
    net = filled(getattr(m.nn, name)(2, size, r.randint(1, 2), dtype=m.float64, **how), m, r)
    x = drawn(m, r, *((2, 4, 2) if how["batch_first"] else (4, 2, 2)), grad=True)
    lengths = [r.randint(1, 4), r.randint(1, 4)]
    given = x
    if packed := r.random() < 0.6:
        given = m.nn.utils.rnn.pack_padded_sequence(
            x, lengths, how["batch_first"], enforce_sorted=False
        )
    y, state = net(given)
    if packed:
        log += plain([y.batch_sizes, y.sorted_indices, y.unsorted_indices])
        y, n = m.nn.utils.rnn.pad_packed_sequence(y, total_length=5, padding_value=-1.0)
        log += plain([n])
    log += plain([y, state, gradients(m, r, y, [x, *net.parameters()])])


def clipping(m, r, log):
    ps = [drawn(m, r, 2, grad=True) for _ in range(3)]
    for p in ps:
        p.grad = drawn(m, r, 2) if r.random() < 0.8 else None
    if r.random() < 0.3 and ps[0].grad is not None:
        ps[0].grad[0] = r.choice([math.inf, math.nan, 0.0])
    order = r.choice([1, 2.0, math.inf, "inf", 0.5, -math.inf, 0, "2"])
    strict = r.random() < 0.4
    log.trying(
        lambda: m.nn.utils.clip_grad_norm_(
            ps, r.choice([0.5, 1e3]), order, error_if_nonfinite=strict
        )
    )
    log += plain([p.grad for p in ps])


@pytest.mark.parametrize(
    "program",
    [pruning, parametrizations, hooks, groups, transformers, bags, sequences, clipping],
    ids=lambda f: f.__name__,
)
def test_programs(program):
    for seed in range(COUNT):
        logs = []
        for m in (pf, torch):
            logs.append(Log())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program(m, random.Random(seed), logs[-1])
        ours, theirs = logs
        for i, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            assert same(a, b), f"seed {seed}, entry {i}: {a} beside {b}"
        assert len(ours) == len(theirs), seed
