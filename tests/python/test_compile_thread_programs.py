"""pf.compile: threads that do at random, and at once, what may be done with captured functions that they
share. A switch of threads after every few steps of Python's makes rare orders common."""

import random

import pytest
from captured_steps import CAPTURED, model, same
from test_compile_threads import together

import pyflame as pf

SHAPES = [(3, 13), (5, 13), (1, 13)]
pytestmark = pytest.mark.usefixtures("hasty_switches")


def functions(draw):
    """Pairs of (as always, captured)."""
    m = model(0.0)
    scale = pf.randn(13, 13, requires_grad=True)
    how = {
        **CAPTURED,
        "options": {"verify_every": draw.choice([2, 3, 100])},
        "dynamic": draw.random() < 0.3,
    }
    bodies = [
        lambda x: m(x).square(),
        lambda x: (x @ scale).tanh().sum(),
        lambda x: ((x @ scale).sigmoid(), x.exp() * scale[0]),
    ]
    if draw.random() < 0.3:
        how["recompile_limit"] = 2
    return [(f, pf.compile(f, **how)) for f in bodies], [*m.parameters(), scale]


def call(f, x, want, parameters):
    """What a thread does with a call: its results and gradients, as one list."""
    if want == "nothing":
        with pf.no_grad():
            return listed(f(x))
    x = x.clone().requires_grad_()
    results = listed(f(x))
    if want == "no pass":
        return [r.detach() for r in results]
    total = sum(r.sum() for r in results)
    sources = [x, *parameters]

    def gradients(**how):
        return list(pf.autograd.grad(total, sources, materialize_grads=True, **how))

    if want == "one pass":
        return results + gradients()
    if want == "two passes":
        return results + gradients(retain_graph=True) + gradients()
    return results + gradients(create_graph=True)


def listed(result):
    return list(result) if isinstance(result, tuple) else [result]


WANTS = [
    "nothing",
    "no pass",
    "one pass",
    "one pass",
    "one pass",
    "two passes",
    "second derivatives",
]


@pytest.mark.parametrize("seed", range(12))
def test_random_calls(seed):
    draw = random.Random(seed)
    pf.manual_seed(seed)
    pairs, parameters = functions(draw)
    inputs = [pf.randn(s) for s in SHAPES]
    cases = [(c, x, w) for c in range(len(pairs)) for x in range(len(inputs)) for w in WANTS]
    expected = {
        case: call(pairs[case[0]][0], inputs[case[1]], case[2], parameters) for case in cases
    }
    # Some programs repeat few kinds of calls, so that captures come about; others draw all.
    cases = draw.sample(cases, draw.choice([2, 5, len(cases)]))

    def work(number):
        mine = random.Random(100 * seed + number)
        for _ in range(40):
            case = mine.choice(cases)
            f = pairs[case[0]][1]
            chance = mine.random()
            if chance < 0.02:
                f._step.forget()
            elif chance < 0.04:
                pf.compiler.report(f)
            assert same(expected[case], call(f, inputs[case[1]], case[2], parameters)), case

    together(work)
