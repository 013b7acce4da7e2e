"""Programs about worker processes of a DataLoader, drawn, and run in a process with one of the two modules alone:
a process that forks with both loaded has the threads of both. See test_workers_drawn.py.

`python drawn_workers.py pyflame FIRST COUNT FILE` writes what each line of each program gave, as JSON.
"""

import importlib
import json
import os
import random
import re
import signal
import sys
import time
import types
import warnings

LIMIT = 30  # seconds of a program
ERRORS = ("KeyError", "IndexError", "NotImplementedError", "AttributeError", "TypeError", "ValueError",
          "ZeroDivisionError", "StopIteration", "OSError", "AssertionError", "RuntimeError")  # fmt: skip

ROWS = """class Data(m.utils.data.Dataset):
    def __init__(self):
        self.calls, self.add = 0, 0
    def __len__(self):
        return {n}
    def __getitem__(self, i):
        self.calls += 1
        {bad}
        w = m.utils.data.get_worker_info()
        return {item}"""
STREAM = """class Data(m.utils.data.IterableDataset):
    def __init__(self):
        self.calls, self.add = 0, 0
    def __iter__(self):
        w = m.utils.data.get_worker_info()
        first, step = {part}
        for i in range(first, {n}, step):
            self.calls += 1
            {bad}
            yield {item}"""
ITEMS = (
    "i + self.add", "m.tensor(i)", "(i, w.id if w else -1)", "{'a': i, 'b': m.full((2,), float(i))}", "m.arange(3) + i", "(i, self.calls)",
    "np.full(2, i)", "(i, w.num_workers if w else 0)", "str(i)", "(i, m.initial_seed() == w.seed if w else True)", "(i, m.get_num_threads() if w else 1)",
    "m.ones(i % 2 + 1)", "(i, w.dataset is self if w else True)", "[m.zeros(2), [i]]", "(i, self.mark if hasattr(self, 'mark') else -1)", "(i, m.ones(2).device.type)",
)  # fmt: skip
DRAWS = (
    "(i, random.random(), float(np.random.rand()), m.rand(()).item(), w.seed - w.id if w else 0)"
)
BAD = (
    "if i == {k}: raise ValueError('bad')", "if i == {k}: raise KeyError('bad')", "if i == {k}: {{}}['no']", "if i == {k}: 1 / 0",
    "if i == {k}: raise Own('bad', 3)", "if i == {k}: raise Two(1, 2)", "if i == {k}: m.ones(2) @ m.ones(3)", "if i == {k}: raise IndexError('bad')",
    "if i == {k}: raise NotImplementedError", "if i == {k}: raise OSError(2, 'bad')", "if i == {k}: raise AssertionError('bad')", "if i == {k}: raise StopIteration",
)  # fmt: skip
START = """class Own(ValueError):
    pass
class Two(KeyError):
    def __init__(self, a, b):
        super().__init__(a)
def mark(i):
    w = m.utils.data.get_worker_info()
    w.dataset.mark = 10 * i + w.num_workers
def bad(i):
    if i == 0: raise KeyError('start')
def drawn(batches):
    return [tuple(float(x) for x in b) for b in batches]"""


def workers(r):
    """Passes over loaders with workers."""
    stream = r.random() < 0.4
    n, count = r.choice([0, 1, 5, 8, 9]), r.choice([1, 2, 2, 3])
    draws = r.random() < 0.2
    fails = r.random() < 0.3
    bad = r.choice(BAD).format(k=r.choice([0, 3, 4])) if fails else "pass"
    text = (STREAM if stream else ROWS).replace("{n}", str(n)).replace("{bad}", bad)
    text = text.replace("{item}", DRAWS if draws else r.choice(ITEMS))
    text = text.replace(
        "{part}", r.choice(["(w.id, w.num_workers) if w else (0, 1)"] * 3 + ["(0, 1)"])
    )
    p = [START, text, "d__ = Data()"]
    options = [f"num_workers={count}", "timeout=10"]
    if draws:
        options += ["batch_size=None", "generator=g__"]
        p.append("g__ = m.Generator()")
    elif r.random() < 0.85:
        options.append(f"batch_size={r.choice([1, 2, 3, 4, 'None', 100, 0, -1, 2.5])}")
    persistent = r.random() < 0.4
    in_order = True
    for option, chance in (("drop_last=True", 0.15), ("collate_fn=lambda b: b", 0.2), ("prefetch_factor=1", 0.2), ("prefetch_factor=4", 0.1), ("worker_init_fn=mark", 0.25),
                           ("worker_init_fn=bad", 0.04), ("multiprocessing_context='fork'", 0.1), ("collate_fn=lambda b: 1 / 0", 0.05),
                           ("sampler=[0, 2, 1, 2]", 0.1), ("shuffle=True", 0.1), ("in_order=False", 0.05), ("batch_sampler=[[0], [1, 0], []]", 0.05)):  # fmt: skip
        name = option.partition("=")[0]
        order = name in ("shuffle", "in_order")  # not compared where the order is
        told = any(o.startswith(name + "=") for o in options)
        if r.random() < chance and not told and not (order and (draws or fails)):
            options.append(option)
            in_order &= not order
    if persistent and not draws:  # ours are seeded for each pass
        options.append("persistent_workers=True")
    p.append(f"l__ = m.utils.data.DataLoader(d__, {', '.join(options)})")
    if draws:  # the numbers are each one's own; which of them are equal is not
        p += [
            "g__.manual_seed(1); a__ = drawn(l__)",
            "b__ = drawn(l__)",
            "g__.manual_seed(1); c__ = drawn(l__)",
        ]
        p += [
            f"same{k} = [[x[{k}] == y[{k}] for x, y in zip(a__, z__)] for z__ in (b__, c__)]"
            for k in range(5)
        ]
        p.append("several = [len({x[k] for x in a__}) for k in range(5)]")
        return p
    whole = "list(l__)" if in_order else "sorted(map(str, map(show, l__)))"
    if "shuffle=True" in options:
        whole = "len(list(l__))"
    # a pass beside one that goes on has workers of its own here, which have called nothing yet
    alone = persistent and "self.calls" in text
    for _ in range(r.randint(1, 4)):
        line = (r.choice([f"all = {whole}", f"all = {whole}", f"two = [{whole} for _ in range(2)]", "size = len(l__)", "d__.add = 7",
                           "i__ = iter(l__)", "x = next(i__)" if in_order else "size = len(l__)", "x = [next(i__), len(i__)]" if in_order else "d__.add = 5", "rest = list(i__)" if in_order else "d__.add = 6", "del i__", "end = next(iter(l__), 'end')" if in_order else "pass",
                           "for x in l__: break", "calls = d__.calls", "out = m.utils.data.get_worker_info()", "both = [str(show(a)) == str(show(b)) for a, b in zip(l__, l__)]" if in_order and not persistent else "pass",
                           "at = [l__.num_workers, l__.prefetch_factor, l__.persistent_workers, l__.timeout]"]))  # fmt: skip
        if not (alone and "i__" in line):
            p.append(line)
    p.append(f"last = {whole}")
    return p


def show(value):
    """Text of a value that is the same of both modules."""
    name = type(value).__name__
    if hasattr(value, "detach"):
        return f"tensor {str(value.dtype).rpartition('.')[2]} {value.tolist()}"
    if name == "ndarray":
        return f"array {value.dtype} {value.tolist()}"
    if isinstance(value, dict):
        return {str(k): show(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [name, *map(show, value)]
    return f"{name} {value}"


def run(m, lines):
    """What each line gave: its value, or the builtin classes that its error is one of."""
    import builtins

    import numpy as np

    place = sys.modules["drawn_program"] = types.ModuleType(
        "drawn_program"
    )  # where its classes are found by pickle
    space, out = vars(place), []
    space.update(m=m, np=np, random=random, show=show)
    for line in lines:
        name = re.match(r"(\w+) = ", line)
        try:
            exec(line, space)
            given = show(space[name[1]]) if name and not name[1].endswith("__") else None
            out.append(["gave", given])
        except Exception as e:
            kinds = [n for n in ERRORS if isinstance(e, getattr(builtins, n))]
            out.append(["raised", kinds, f"{type(e).__name__} {str(e)[-300:]}"])
            if name:
                space.pop(name[1], None)
    return out


def apart(m, seed, to):
    """One program in a process of its own, which takes with it what is left behind."""
    pid = os.fork()
    if not pid:
        given = json.dumps([seed, run(m, workers(random.Random(seed)))])
        os.write(to, given.encode() + b"\n")
        os._exit(0)
    ends = time.monotonic() + LIMIT
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > ends:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.write(to, json.dumps([seed, None]).encode() + b"\n")
            return
        time.sleep(0.005)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    which, first, count, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    module = importlib.import_module(which)
    importlib.import_module(which + ".utils.data")
    module.set_num_threads(1)
    to = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for seed in range(first, first + count):
        apart(module, seed, to)
