#!/usr/bin/env python3
"""VolumeProfileAnalyzer beside numpy.histogram with weights, each in a process of its own, in turns."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness


def trades(kind, n, seed=0):
    """Prices in cents and volumes: a walk, as sessions are, or without any order."""
    import numpy as np

    rng = np.random.default_rng(seed)
    steps = (
        100 + np.cumsum(rng.normal(size=n)) * 0.01 if kind == "walk" else rng.uniform(50, 300, n)
    )
    return steps.round(2), rng.integers(1, 1000, n).astype(np.float64)


def worker(side, kind, n, device):
    import numpy as np

    close, volume = trades(kind, n)
    low, high = np.floor(close.min() * 4) / 4, np.floor(close.max() * 4) / 4 + 0.25
    if side == "numpy":

        def work():
            np.histogram(close, round((high - low) * 4), (low, high), weights=volume)

    elif side == "read":  # the sums of both arrays: what reading them alone takes
        import pyflame as pf

        arrays = [pf.as_tensor(a).to(device) for a in (close, volume)]

        def work():
            [float(a.sum()) for a in arrays]

    else:
        import pyflame as pf
        from pyflame.finance import VolumeProfileAnalyzer

        analyzer = VolumeProfileAnalyzer(0.25, device, chunk_size=None)
        if device == "cpu":

            def work():
                analyzer.profile(close, volume)

        else:  # trades that are on the device already: its sums of bins alone
            arrays = [pf.as_tensor(a).to(device) for a in (close, volume)]
            edges = pf.as_tensor(np.arange(low, high + 0.125, 0.25)).to(device)

            def work():
                pf._ops._binned_sums(*arrays, edges)[0].cpu()

    work()
    harness.answer_turns(work)


def main():
    parser = harness.options(__doc__, rounds=5, seconds=0.3, worker=2)
    parser.add_argument("--trades", type=int, default=10_000_000)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if args.worker:
        return worker(*args.worker, args.trades, args.device)
    results = {}
    for kind in ("walk", "random"):
        rest = [kind, "--trades", str(args.trades), "--device", args.device]
        sides = {
            side: [sys.executable, __file__, "--worker", side, *rest]
            for side in ("numpy", "pyflame", "read")
        }
        times = harness.in_turns(sides, args.threads, args.rounds, args.seconds)
        ms = {side: t * 1e3 for side, t in times.items()}
        results[kind] = ms
        print(
            f"{kind:>7}: numpy {ms['numpy']:.1f} ms, pyflame {ms['pyflame']:.2f} ms, "
            f"{ms['numpy'] / ms['pyflame']:.1f} times as fast, {ms['read'] / ms['pyflame']:.0%} of "
            f"reading ({ms['read']:.2f} ms)"
        )
    if args.json:
        harness.save_json(
            args.json, harness.facts(args.threads), {"trades": args.trades, "ms": results}
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
