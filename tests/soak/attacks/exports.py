"""Memory shown to others outlives what is done to its tensor: exports, rebinding, views, threads.

A random program over tensors and what was exported of them (NumPy, memoryview, DLPack), with a
model of each memory in NumPy. After every few steps all living exports must hold what their model
says, also those whose tensor has been given other memory, was converted, or is gone.
"""

import gc
import random
import threading

import numpy as np
from harness import Finding, rounds

import pyflame as pf

EXPORTS = {
    "numpy": lambda t: t.numpy(),
    "asarray": lambda t: np.asarray(t),
    "memoryview": lambda t: memoryview(t),
    "dlpack": lambda t: np.from_dlpack(t),
    "tensor": lambda t: pf.from_dlpack(t),
}


class Program:
    def __init__(self, seed: int):
        self.dice = random.Random(seed)
        self.tensors = []  # (tensor, model): the model's memory mirrors the tensor's
        self.modules = []  # (module, model of its weight)
        self.exports = []  # (kind, object, model)
        self.count = 0
        self.log = []

    def fresh(self, n=None) -> tuple[pf.Tensor, np.ndarray]:
        n = self.dice.choice([1, 5, 60, 1000, 20000]) if n is None else n
        self.count += 1
        values = np.arange(n, dtype=np.float32) + self.count
        return pf.tensor(values), values.copy()

    def new(self):
        self.tensors.append(self.fresh())

    def new_module(self):
        m = pf.nn.Linear(self.dice.randrange(1, 40), self.dice.randrange(1, 40))
        m.weight.requires_grad_(False)
        self.modules.append([m, np.array(m.weight.tolist(), dtype=np.float32)])

    def view(self):
        t, model = self.dice.choice(self.tensors)
        a = self.dice.randrange(len(model))
        step = self.dice.choice([1, 1, 3])
        if len(model[a::step]):
            self.tensors.append((t[a::step], model[a::step]))

    def export(self):
        if self.modules and self.dice.random() < 0.3:
            m, model = self.dice.choice(self.modules)
            t = m.weight
        else:
            t, model = self.dice.choice(self.tensors)
        kind = self.dice.choice(list(EXPORTS))
        if kind == "memoryview" and model.dtype == np.float16:
            kind = "numpy"
        made = []
        if self.dice.random() < 0.2:
            thread = threading.Thread(target=lambda: made.append(EXPORTS[kind](t)))
            thread.start()
            thread.join()
        else:
            made.append(EXPORTS[kind](t))
        self.exports.append((kind, made[0], model))

    def write(self):
        t, model = self.dice.choice(self.tensors)
        if self.dice.random() < 0.5:
            t.add_(3.0)
            model += 3
        else:
            a = self.dice.randrange(len(model))
            t[a:] = 7.0
            model[a:] = 7

    def write_export(self):
        kind, x, model = self.dice.choice(self.exports)
        if kind == "memoryview" or not model.size:
            return
        if kind == "tensor":
            x.mul_(0.5)
        else:
            x *= 0.5
        model *= 0.5

    def rebind(self):
        i = self.dice.randrange(len(self.tensors))
        t = self.tensors[i][0]
        other, model = self.fresh()
        t.data = other
        self.tensors[i] = (t, model)
        if self.dice.random() < 0.5:
            self.tensors.append((other, model))  # one memory, two names

    def convert(self):
        if not self.modules:
            return
        entry = self.dice.choice(self.modules)
        dtype = self.dice.choice(["float", "double", "half"])
        getattr(entry[0], dtype)()
        to = {"float": np.float32, "double": np.float64, "half": np.float16}[dtype]
        if entry[1].dtype != to:
            entry[1] = entry[1].astype(to)  # fresh memory; what was exported keeps the old one

    def drop(self):
        for some in (self.tensors, self.exports, self.modules):
            if len(some) > 6:
                del some[self.dice.randrange(len(some))]
        if self.dice.random() < 0.1:
            gc.collect()

    def churn(self):
        """Freed memory gets other values."""
        for _ in range(8):
            pf.full((self.dice.choice([1, 5, 60, 1000, 20000]),), -1.0).sum().item()

    def check(self):
        for i, (kind, x, model) in enumerate(self.exports):
            got = np.array(x.tolist() if kind == "tensor" else x)
            if got.shape != model.shape or not np.array_equal(got, model):
                where = np.flatnonzero(got.ravel() != model.ravel())[:5]
                raise Finding(
                    f"export {i} ({kind}, shape {model.shape}) differs at {where}: "
                    f"{got.ravel()[where]} in place of {model.ravel()[where]}; the last steps: "
                    f"{self.log[-12:]}"
                )

    def step(self):
        name = self.dice.choice(
            "new new_module view export export export write write_export rebind rebind convert "
            "drop churn check".split()
        )
        if name == "write_export" and not self.exports:
            return
        self.log.append(name)
        getattr(self, name)()


def run(seed: int, seconds: float) -> None:
    for i in rounds(seconds):
        program = Program(seed * 1000 + i)
        program.new()
        for _ in range(120):
            program.step()
        program.churn()
        program.check()
