"""Public functions and classes with arguments of wrong classes: what they raise names them, and never comes from
somewhere inside as an AttributeError, RecursionError or SystemError.

PYFLAME_WRONG_CLASSES says with how many kinds of values each is called (by default 2, drawn; 9 is all).
"""

import importlib
import inspect
import os
import pkgutil
import random
import types
import warnings

import numpy as np
import pytest

import pyflame as pf

COUNT = int(os.environ.get("PYFLAME_WRONG_CLASSES", "2"))
# Not called by programs as they are, or they act on the process, the disk or the network.
INSIDES = (
    "cli", "commands", "run", "training", "compiler", "torch_files", "optim.narrow", "kernel_cache", "tuning",
    "hub", "models", "backend", "debug", "nn.attention.score_text", "fx.code", "fx.proxy", "utils.hooks",
    "utils.data.workers", "nn.multihead.attend", "nn.module.is_hooked", "utils.data.dataset.batcher",
)  # fmt: skip
ACTS = (
    "set_", "seed", "spawn", "synchronize", "profile", "install", "enable_", "disable_", "inference_mode",
    "no_grad", "reset", "clear", "empty_cache", "start", "Timer", "load_state_dict_from_url", "exit", "limit",
    "register_",
)  # fmt: skip
# What they raise says what is asked for: a name that is not there, a model that is no Module.
OTHERWISE = {"pyflame.ops.get", "pyflame.ops.support", "pyflame.optim.swa_utils.AveragedModel"}
VALUES = {  # made anew for each call: some are changed
    "None": lambda: None, "str": lambda: "text", "int": lambda: 3, "float": lambda: 2.5,
    "list": lambda: [1, "a"], "dict": lambda: {"a": 1}, "object": object,
    "array": lambda: np.zeros(2, dtype="S3"), "class": lambda: int,
}  # fmt: skip


def public():
    """(name, function or class), each once."""
    found = {}
    names = ["pyflame"]
    for m in pkgutil.walk_packages(pf.__path__, "pyflame."):
        inside = m.name.partition(".")[2]
        if not any(part.startswith("_") for part in inside.split(".")) and not any(
            inside == i or inside.startswith(i + ".") for i in INSIDES
        ):
            names.append(m.name)
    for name in names:
        module = importlib.import_module(name)
        for n in getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]:
            value = getattr(module, n, None)
            home = getattr(value, "__module__", None) or ""
            if (
                callable(value)
                and not isinstance(value, types.ModuleType)
                and home.startswith("pyflame")
                and not any(f"{home}.{n}".startswith("pyflame." + i) for i in INSIDES)
                and not any(a in n for a in ACTS)
            ):
                found.setdefault(id(value), (f"{name}.{n}", value))
    return sorted(found.values(), key=lambda pair: pair[0])


def needed(value):
    """How many arguments it must have, and one more where it takes that."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return [1]
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = max(1, sum(p.default is inspect.Parameter.empty for p in placed))
    return sorted({least, max(least, min(len(placed), least + 1))})


@pytest.mark.parametrize("part", range(4))
def test_wrong_classes_are_named(part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    r = random.Random(part)
    calls, bad = 0, []
    everything = public()
    assert len(everything) > 1200
    for name, value in everything[part::4]:
        for count in needed(value):
            for kind in r.sample(list(VALUES), min(COUNT, len(VALUES))):
                calls += 1
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        value(*[VALUES[kind]()] * count)
                except (AttributeError, RecursionError, SystemError, NameError) as e:
                    if name not in OTHERWISE:
                        bad.append(f"{name}({kind} * {count}): {type(e).__name__}: {e}")
                except (Exception, SystemExit):
                    pass
    assert not bad, f"{len(bad)} of {calls}:\n" + "\n".join(bad)


def test_errors_of_a_programs_own_stay():
    """Only what is about an argument's class, and only from code of ours."""

    class Net(pf.nn.Module):
        def forward(self, x):
            return x.nothing_of_this_name + self.missing

    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        pf.func.functional_call(Net(), {}, (pf.ones(1),))
    with pytest.raises(
        TypeError, match=r"pf\.nn\.utils\.clip_grad\.\w+: got str as or in 'parameters'"
    ):
        pf.nn.utils.clip_grad_norm_("ab", 1.0)
    with pytest.raises(TypeError, match=r"pf\.numel: got NoneType .*expected a Tensor"):
        pf.numel(None)
    assert inspect.signature(pf.numel) == inspect.signature(pf.numel.__wrapped__)
