"""Every public name is there, and every public function says what is wrong in our words."""

import importlib
import inspect
import json
import os
import pkgutil
import re
import resource
import subprocess
import sys
import types

import pytest
from hangs import HANG

import pyflame as pf

# Not imported: the first runs the command line.
MODULES = [
    name
    for name in ["pyflame", *(m.name for m in pkgutil.walk_packages(pf.__path__, "pyflame."))]
    if not name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_what_dir_lists_is_there(name):
    module = importlib.import_module(name)
    listed = {*dir(module), *getattr(module, "__all__", ())}
    missing = [n for n in sorted(listed) if not hasattr(module, n)]
    assert not missing, missing


class Odd:
    """Nothing that any function takes."""

    def __repr__(self):
        return "Odd()"


def values():
    return (
        Odd(), "no such thing", -1, 2**70, 1.5, float("nan"), b"\\xff", {"a": 1}, [Odd()], (1, "a"),
        None, pf.ones(2), pf.ones(2, 3) > 0, pf.float32, {1: pf.ones(1)},
    )  # fmt: skip


# What would wait, end the process, write files, or change how the tests run.
LEFT_OUT = re.compile(
    r"(^|\.)(main|command|train|generate|serve|set_.*|use_.*|manual_seed.*|seed|fork_rng|kernel|"
    r"define|exit|warmup_.*|apply_|share_memory_|reset_.*|empty_cache|enable_.*|clear.*|install|"
    r"inject.*|_.*)$"
)
WRONG = re.compile(
    r"std::|nb_|nanobind|bad_cast|incompatible function arguments|Invoked with|\bpf\.(\w+): pf\.|"
    r"\b(\w+): \2: |SystemError|pyflame\._C|basic_string|unordered_map|object at 0x|vector::"
)


def functions():
    seen = set()
    for name in MODULES:
        if "training" in name or name.endswith((".cli", "_common_programs", "_einops")):
            continue
        module = importlib.import_module(name)
        for attribute in dir(module):
            value = getattr(module, attribute)
            if attribute.startswith("_") or not callable(value) or id(value) in seen:
                continue
            if isinstance(value, (types.ModuleType, type)) and issubclass(
                value if isinstance(value, type) else type(None), BaseException
            ):
                continue
            if not str(getattr(value, "__module__", "") or "pyflame").startswith("pyflame"):
                continue
            full = f"{name}.{attribute}"
            if not LEFT_OUT.search(full):
                seen.add(id(value))
                yield full, value
    for attribute in dir(pf.Tensor):
        if not LEFT_OUT.search("Tensor." + attribute):
            value = getattr(pf.Tensor, attribute)
            if callable(value):
                yield "pyflame.Tensor." + attribute, value


FUNCTIONS = dict(functions())


def is_method(name):
    return name.startswith("pyflame.Tensor.")


def calls(name):
    """Argument lists that mostly do not fit: none, one odd value, two, and odd keywords."""
    first = (pf.ones(2, 3),) if is_method(name) else ()
    yield first, {}
    yield first, {"odd": Odd()}
    for i, value in enumerate(values()):
        yield (*first, value), {}
        if i % 2 == 0:
            yield (*first, pf.ones(2), value), {}
    yield (*first, *[pf.ones(1)] * 9), {}


def bad_words():
    """(name, arguments, error) of calls whose errors are not in our words."""
    found = []
    for name, function in FUNCTIONS.items():
        for args, kwargs in calls(name):
            try:
                result = function(*args, **kwargs)
                if inspect.isgenerator(result):
                    result.close()
            except (SystemExit, RecursionError, SystemError) as e:
                found.append((name, str(args), repr(e)))
            except Exception as e:
                if WRONG.search(f"{e}"):
                    found.append((name, str(args), f"{type(e).__name__}: {e}"[:300]))
    return found


@pytest.mark.cpu_only
def test_errors_are_in_our_words(tmp_path):
    """In a process of its own: calls like these switch things, write files and ask for memory."""
    env = dict(os.environ, PYTHONWARNINGS="ignore", PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(
        [sys.executable, __file__], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert not found, "\n".join(map(str, found[:20]))


def test_some_messages():
    for call, words in (
        (lambda: pf.tensor([1], 2), ["pf.tensor", "got (list of int, int)", "expected"]),
        (lambda: pf.tensor([1], dtype=pf.float32, odd=1), ["odd=int", "requires_grad"]),
        (lambda: pf.set_num_threads("two"), ["pf.set_num_threads", "str", "expected an integer"]),
        (lambda: pf.promote_types(1, 2), ["pf.", "int"]),
        (lambda: pf.from_numpy([1]), ["pf.from_numpy", "list"]),
        (lambda: pf.safetensors.save_file({}, "x", {"a": 1}), ["metadata", "'a': 1", "text"]),
        (lambda: pf.safetensors.save_file([1], "x"), ["save_file", "list"]),
    ):
        with pytest.raises(TypeError) as e:
            call()
        assert all(w in str(e.value) for w in words), str(e.value)


HUGE = 2**44
BIG = {
    "ones": lambda: pf.ones(HUGE),
    "zeros": lambda: pf.zeros(HUGE),
    "full": lambda: pf.full((HUGE,), 2.0),
    "zeros_like": lambda: pf.zeros_like(pf.ones(1).expand(HUGE)),
    "new_zeros": lambda: pf.ones(1).new_zeros(HUGE),
    "exp": lambda: pf.ones(1).expand(HUGE).exp(),
    "add": lambda: pf.ones(1).expand(HUGE) + 1,
    "mul": lambda: pf.mul(pf.ones(1).expand(HUGE), 3.0),
    "gt": lambda: pf.ones(HUGE >> 22, 1) > pf.ones(1).expand(1 << 22),
    "contiguous": lambda: pf.ones(1).expand(HUGE).contiguous(),
    "clone": lambda: pf.ones(1).expand(HUGE).clone(),
    "repeat": lambda: pf.ones(1).repeat(HUGE),
    "randn": lambda: pf.randn(HUGE),
    "arange": lambda: pf.arange(HUGE),
    "cat": lambda: pf.cat([pf.ones(1).expand(HUGE)] * 2),
}


@pytest.mark.parametrize("name", BIG)
def test_out_of_memory_names_what_was_called(name):
    with pytest.raises(pf.OutOfMemoryError, match=f"^pf.{name}: out of memory"):
        BIG[name]()
    assert pf.ones(3).sum() == 3


if __name__ == "__main__":
    # 4 GB more than now: what asks for much by mistake must not take the machine's memory.
    with open("/proc/self/statm") as f:
        now = int(f.read().split()[0]) * resource.getpagesize()
    if now < 1 << 40:  # sanitizers reserve terabytes
        resource.setrlimit(resource.RLIMIT_AS, (now + (4 << 30),) * 2)
    print(json.dumps(bad_words()))


@pytest.mark.parametrize("name", ["autograd.forward_ad", "autograd.functional"])
def test_modules_that_are_imported_when_they_are_named(name):
    """In a process in which nothing else has imported them."""
    code = f"import sys, pyflame\nassert pyflame.{name} is sys.modules['pyflame.{name}']"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG)
