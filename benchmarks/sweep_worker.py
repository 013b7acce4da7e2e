"""One side of tools/sweep.py: times one operation at a time, in a process of its own.

Reads ``NAME ELEMENTS MODE SECONDS`` (mode: forward, or both for forward and backward) and answers
with the seconds that one call takes, or nan where there is none; the reason goes to stderr.
"""

import argparse
import importlib
import json
import sys
import time

from benchmarks import gpu_worker, operations


class Operation:
    """A call of one operation on data of its own."""

    def __init__(self, torch, device, name, text, written, elements, backward):
        d = operations.Data(torch, elements, device)
        d.needs_grad = backward
        scope = {"t": torch, "F": torch.nn.functional, "d": d}
        scope["f"] = operations.function(torch, name)
        if written:
            source = eval(written, dict(scope))
            scope["w"] = source.clone()
            self.reset = (scope["w"], source)  # what is written does not run away
        else:
            self.reset = None
        self.call = eval("lambda: " + text, scope)
        self.torch, self.backward = torch, backward
        self.leaves, self.grads = [], None
        if backward:
            self.outs = [o for o in self.tensors(self.call()) if o.requires_grad]
            if not self.outs:
                raise TypeError("no gradient")
            generator = torch.Generator("cpu").manual_seed(11)
            self.grads = [
                torch.randn(tuple(o.shape), generator=generator, device="cpu").to(o.device, o.dtype)
                for o in self.outs
            ]
            self.leaves = [
                v for v in vars(d).values() if isinstance(v, torch.Tensor) and v.requires_grad
            ]

    def tensors(self, out):
        return [
            o
            for o in (out if isinstance(out, (tuple, list)) else [out])
            if isinstance(o, self.torch.Tensor)
        ]

    def __call__(self):
        if self.reset:
            self.reset[0].copy_(self.reset[1])
        out = self.call()
        if self.backward:
            outs = [o for o in self.tensors(out) if o.requires_grad]
            # As in a program, where a gradient is another operation's result and nobody else's.
            self.torch.autograd.backward(outs, [g * 1 for g in self.grads])
            for leaf in self.leaves:
                leaf.grad = None


def time_of(work, synchronize, seconds):
    work()
    synchronize()
    start = time.perf_counter()
    work()
    synchronize()
    once = max(time.perf_counter() - start, 1e-7)
    if once > seconds:
        return once
    return gpu_worker.timed(work, synchronize, once, seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("calls", help="JSON: expression and written operand by name")
    parser.add_argument("--device", required=True)
    parser.add_argument("--threads", type=int, required=True)
    args = parser.parse_args()
    torch = importlib.import_module(args.module)
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    synchronize = getattr(torch, "synchronize", lambda: None)
    device = args.device
    if device != "cpu":
        synchronize = torch.cuda.synchronize
        if args.module == "torch":
            device = "cuda"
            torch.set_default_device(device)
        else:
            torch.set_device(device)
    with open(args.calls) as f:
        calls = json.load(f)
    kept = {}
    print("ready", flush=True)
    for line in sys.stdin:
        name, elements, mode, seconds = line.split()
        key = (name, elements, mode)
        try:
            if key not in kept:
                kept.clear()
                kept[key] = Operation(
                    torch, device, name, *calls[name], int(elements), mode == "both"
                )
            print(time_of(kept[key], synchronize, float(seconds)), flush=True)
        except Exception as e:
            print(name, mode, type(e).__name__, str(e)[:200], file=sys.stderr, flush=True)
            print("nan", flush=True)


if __name__ == "__main__":
    main()
