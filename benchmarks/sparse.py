#!/usr/bin/env python3
"""Products of a sparse matrix and an embedding with sparse gradients beside PyTorch, in turns."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness, rocm_benchmark

# "values": the gradient by those, of a matrix 20 times as small, for PyTorch makes all of it dense.
CASES = (
    "csr",
    "csr backward",
    "coo",
    "coo backward",
    "coo values",
    "coalesce",
    "softmax",
    "embedding",
)


def work_of(t, case, n, nnz, width):
    """A function that does the case's work once, and waits for it; `t` is torch or pyflame."""
    import numpy as np

    rng = np.random.default_rng(0)
    if case == "coo values":
        n, nnz = n // 20, nnz // 20
    if case == "embedding":  # a table of n rows, nnz / 64 of them picked at a time
        table = t.nn.Embedding(n, width, sparse=True)
        optimizer = t.optim.SGD(table.parameters(), lr=0.1)
        rows = t.tensor(rng.integers(0, n, nnz // 64))

        def work():
            optimizer.zero_grad()
            table(rows).square().sum().backward()
            optimizer.step()
            return table.weight[0, 0].item()

        return work
    indices = t.tensor(rng.integers(0, n, (2, nnz)))
    matrix = t.sparse_coo_tensor(indices, t.tensor(rng.random(nnz, np.float32)), (n, n))
    if case == "coalesce":
        return lambda: matrix.coalesce().values()[0].item()
    matrix = matrix.coalesce()
    if case == "softmax":
        return lambda: t.sparse.softmax(matrix, 1).coalesce().values()[0].item()
    if case.startswith("csr"):
        matrix = matrix.to_sparse_csr()
    x = t.tensor(rng.random((n, width), np.float32))
    if case in ("csr", "coo"):
        return lambda: (matrix @ x)[0, 0].item()
    of = matrix if case == "coo values" else x
    of.requires_grad_()
    g = t.tensor(rng.random((n, width), np.float32))

    def work():
        of.grad = None
        t.sparse.mm(matrix, x).backward(g)
        return (of.grad._values()[0] if of is matrix else of.grad[0, 0]).item()

    return work


def worker(side, case, args):
    if side == "torch":
        import torch as t
    else:
        import pyflame as t
    t.set_num_threads(args.threads)
    work = work_of(t, case, args.rows, args.nonzeros, args.width)
    work()
    harness.answer_turns(work)


def main():
    parser = harness.options(__doc__, rounds=3, seconds=0.3, worker=2)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--nonzeros", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--device", default="cpu", help="of a GPU: the cases of gpu_sparse.py")
    args = parser.parse_args()
    if args.device != "cpu":
        given = ["--device", args.device, "--iterations", str(args.rounds)]
        given += ["--seconds", str(args.seconds), *(["--json", args.json] if args.json else [])]
        return rocm_benchmark.main(["--sparse", "--masks", *given])
    if args.worker:
        return worker(*args.worker, args)
    results = {}
    for case in args.cases or CASES:
        sides = {}
        for side in ("pyflame", "torch"):
            sides[side] = [sys.executable, __file__, "--worker", side, case]
            for option in ("rows", "nonzeros", "width", "threads"):
                sides[side] += [f"--{option}", str(getattr(args, option))]
        results[case] = times = harness.in_turns(sides, args.threads, args.rounds, args.seconds)
        ours, theirs = times["pyflame"] * 1e3, times["torch"] * 1e3
        print(
            f"{case:14} pyflame {ours:9.2f} ms  torch {theirs:9.2f} ms  {theirs / ours:6.2f}x",
            flush=True,
        )
    if args.json:
        harness.save_json(args.json, harness.facts(args.threads), {"seconds": results})


if __name__ == "__main__":
    sys.exit(main())
