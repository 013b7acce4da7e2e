"""Public methods of tensors, modules, optimizers, schedulers, data, distributions and graphs with arguments of wrong
classes: as test_wrong_classes.py does with functions."""

import inspect
import random
import warnings

import pytest
from test_wrong_classes import COUNT, VALUES, needed

import pyflame as pf
import pyflame.distributions as D
from pyflame import nn, optim
from pyflame.optim import lr_scheduler as S
from pyflame.utils import data as U

# They act on the process or wait for others, or their errors are PyTorch's: a name that is not there.
ASIDE = ("share_memory", "register", "sync")
CALLED = ("__getitem__", "__contains__", "__add__")
MEANT = ("has no buffer", "has no submodule", "has no parameter", "has no attribute 'text'")


def subclasses(module, base):
    for n in dir(module):
        kind = getattr(module, n)
        if inspect.isclass(kind) and issubclass(kind, base):
            yield n, kind


def made(name, kind, ways):
    """(name, a function that makes one) by the first of some arguments that fit."""
    for arguments in ways:

        def make(arguments=arguments):
            return kind(*arguments())

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                make()
        except Exception:  # the next fits
            continue
        yield name, make
        return


def tensors():
    yield "Tensor", lambda: pf.ones(2, 3)
    yield "Tensor of int64", lambda: pf.ones(2, 3, dtype=pf.int64)
    yield "sparse", lambda: pf.eye(3).to_sparse()
    yield "CSR", lambda: pf.eye(3).to_sparse_csr()
    yield "nested", lambda: pf.nested.nested_tensor([pf.ones(2, 3), pf.ones(1, 3)])
    yield "storage", lambda: pf.ones(2).untyped_storage()
    yield "dtype", lambda: pf.float32
    yield "Generator", pf.Generator
    yield "finfo", lambda: pf.finfo(pf.float32)
    yield "grad_fn", lambda: (pf.ones(2, requires_grad=True) * 2).grad_fn
    yield "packed", lambda: nn.utils.rnn.pack_padded_sequence(pf.ones(2, 2, 2), [2, 1])


def modules():
    sizes = [(), (2,), (2, 2), (4, 2), (4, 2, 1), (4, 2, 1, 1, 8), (2, 2, 2), (4, 2, 8)]
    ways = [lambda s=s: s for s in sizes]
    ways += [lambda: ([nn.Linear(2, 2)],), lambda: (nn.TransformerEncoderLayer(4, 2, 8), 1)]
    for name, kind in subclasses(nn, nn.Module):
        yield from made(name, kind, ways[4:] if name == "Transformer" else ways)
    yield "ParameterDict", lambda: nn.ParameterDict({"a": nn.Parameter(pf.ones(2))})
    yield "GraphModule", lambda: pf.fx.symbolic_trace(nn.Linear(2, 2))
    yield "Graph", lambda: pf.fx.symbolic_trace(nn.Linear(2, 2)).graph
    yield "AveragedModel", lambda: optim.swa_utils.AveragedModel(nn.Linear(2, 2))


def sgd():
    return optim.SGD([nn.Parameter(pf.ones(2))], lr=0.1, momentum=0.9)


def optimizers():
    for name, kind in subclasses(optim, optim.Optimizer):
        yield from made(name, kind, [lambda: ([nn.Parameter(pf.ones(2, 2))],)])
    one = lambda e: 1.0  # noqa: E731 (what such a scheduler gets)
    numbers = [(), (one,), (2,), ([2],), (0.9,), (0.1, 0.2), (0.1, 10)]
    ways = [lambda n=n: (sgd(), *n) for n in numbers]
    for name, kind in subclasses(S, S.LRScheduler):
        yield from made(name, kind, ways)

    def sequence():
        o = sgd()
        return S.SequentialLR(o, [S.ConstantLR(o), S.StepLR(o, 2)], [2])

    yield "SequentialLR", sequence
    yield "ReduceLROnPlateau", lambda: S.ReduceLROnPlateau(sgd())
    yield "ChainedScheduler", lambda: S.ChainedScheduler([S.StepLR(sgd(), 2)])
    yield "SWALR", lambda: optim.swa_utils.SWALR(sgd(), 0.1)
    yield "GradScaler", lambda: pf.amp.GradScaler("cpu")


def rows():
    return U.TensorDataset(pf.ones(4, 2))


def loaders():
    yield "TensorDataset", rows
    yield "DataLoader", lambda: U.DataLoader(rows())
    yield "Subset", lambda: U.Subset(rows(), [0])
    yield "ConcatDataset", lambda: U.ConcatDataset([rows(), rows()])
    yield "StackDataset", lambda: U.StackDataset(rows(), rows())
    yield "RandomSampler", lambda: U.RandomSampler(rows())
    yield "BatchSampler", lambda: U.BatchSampler(U.SequentialSampler(rows()), 2, False)
    yield "WeightedRandomSampler", lambda: U.WeightedRandomSampler([1, 2.0], 2)
    yield "DistributedSampler", lambda: U.distributed.DistributedSampler(rows(), 2, 0)


def distributions():
    half, pair, eye = pf.tensor(0.5), pf.ones(2), pf.eye(2)
    normal = D.Normal(pf.zeros(2), pair)
    ways = [
        lambda: (), lambda: (half,), lambda: (half, half + 0.1), lambda: (pair,), lambda: (pf.zeros(2), eye),
        lambda: (pf.zeros(2), pf.ones(2, 1), pair), lambda: (half + 3, eye), lambda: (2,), lambda: (3, pair),
        lambda: (half, pair), lambda: ((2,), (1, 2)),
    ]  # fmt: skip
    made_of = {
        "Independent": (normal, 1), "TransformedDistribution": (normal, [D.ExpTransform()]),
        "MixtureSameFamily": (D.Categorical(pair), normal), "CumulativeDistributionTransform": (normal,),
        "IndependentTransform": (D.ExpTransform(), 1), "ComposeTransform": ([D.ExpTransform()],),
        "CatTransform": ([D.ExpTransform()],), "StackTransform": ([D.ExpTransform()],),
        "MultivariateNormal": (pf.zeros(2), eye), "ReshapeTransform": ((2,), (1, 2)),
    }  # fmt: skip
    for base in (D.Distribution, D.Transform):
        for name, kind in subclasses(D, base):
            given = made_of.get(name)
            yield from made(name, kind, [lambda g=given: g] if given else ways)


KINDS = {
    "tensors": (tensors, 10), "modules": (modules, 150), "optimizers": (optimizers, 25), "loaders": (loaders, 9),
    "distributions": (distributions, 50),
}  # fmt: skip


def methods(objects):
    """(name, maker, method): one of each class that defines it."""
    seen = set()
    for name, make in objects:
        thing = make()
        for n in dir(thing):
            if (n.startswith("_") and n not in CALLED) or any(a in n for a in ASIDE):
                continue
            home = next((c for c in type(thing).__mro__ if n in vars(c)), None)
            try:
                value = getattr(thing, n)
            except Exception:  # a property that this one has not
                continue
            if (home, n) in seen or not callable(value) or inspect.isclass(value):
                continue
            seen.add((home, n))
            # Modules are called, not their forward().
            yield name, make, "__call__" if n == "forward" else n, needed(value)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_classes_are_named(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    r = random.Random(kind)
    objects, least = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        objects = list(objects())
        assert len(objects) >= least, [n for n, _ in objects]
        calls, bad = 0, []
        for name, make, method, counts in methods(objects):
            for count in counts:
                for value in r.sample(list(VALUES), min(COUNT, len(VALUES))):
                    calls += 1
                    try:
                        getattr(make(), method)(*[VALUES[value]() for _ in range(count)])
                    except (AttributeError, RecursionError, SystemError, NameError) as e:
                        if not any(m in str(e) for m in MEANT):
                            bad.append(
                                f"{name}.{method}({value} * {count}): {type(e).__name__}: {e}"
                            )
                    except (Exception, SystemExit):  # typed: which one is tested elsewhere
                        pass
    assert calls > least
    assert not bad, f"{len(bad)} of {calls}:\n" + "\n".join(bad)


def test_errors_of_a_programs_own_modules_stay():
    class Net(nn.Module):
        def forward(self, x):
            return x.nothing_of_this_name

    for net in (Net(), nn.Sequential(nn.Linear(2, 2), Net())):
        with pytest.raises(AttributeError, match="nothing_of_this_name"):
            net(pf.ones(2, 2))
    with pytest.raises(TypeError, match=r"pf\.nn\.LSTM: got str as or in 'input'"):
        nn.LSTM(2, 2)("text")
    with pytest.raises(TypeError, match=r"Gumbel\.icdf: got dict as or in 'value'"):
        D.Gumbel(0.0, 1.0, validate_args=False).icdf({"a": 1})
    with pytest.raises(AttributeError, match="no submodule"):
        nn.Linear(2, 2).get_submodule("text")
