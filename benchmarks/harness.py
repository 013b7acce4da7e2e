"""Measures sides against each other: each in a process of its own, alternating, medians."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Side:
    """A process that answers commands with one line each."""

    def __init__(self, command, env=None):
        self.error = None
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            env=env,
        )

    def answer(self):
        line = self.process.stdout.readline().strip()
        if not line or line.startswith("error"):
            self.process.wait()
            self.log.seek(0)
            tail = self.log.read().strip().splitlines()
            self.error = line[6:] or (tail[-1] if tail else f"exit {self.process.returncode}")
            return None
        return line

    def ask(self, command):
        if self.error:
            return None
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except OSError:
            pass
        line = self.answer()
        return None if line is None else float(line)

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.log.close()


class SideFailed(RuntimeError):
    """A side of a comparison has ended, or says that it cannot run."""


def in_turns(commands, threads, rounds, seconds):
    """{name: median seconds}: each command is a Side that says when it is ready and answers `run`; in
    every round each of them runs once. `threads` may be {name: number}. SideFailed says which and why.
    """
    number = threads if isinstance(threads, dict) else dict.fromkeys(commands, threads)
    sides = {name: Side(command, environment(number[name])) for name, command in commands.items()}
    for side in sides.values():
        side.answer()
    times = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            times[name].append(side.ask(f"run {seconds}"))
    for side in sides.values():
        side.close()
    for name, side in sides.items():
        if side.error:
            raise SideFailed(f"{name}: {side.error}")
    return {name: statistics.median(t) for name, t in times.items()}


def answer_turns(work):
    """A Side that in_turns() asks: answers with the median of the seconds that `work` takes."""
    print("ready", flush=True)
    for line in sys.stdin:
        end, times = time.perf_counter() + float(line.split()[1]), []
        while len(times) < 3 or time.perf_counter() < end:
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
        print(statistics.median(times), flush=True)


def options(description, rounds, seconds, worker):
    """A parser with the options of a comparison by in_turns(); `worker` words begin one side."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument(
        "--seconds", type=float, default=seconds, help="for each side in each round"
    )
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--worker", nargs=worker, help=argparse.SUPPRESS)
    return parser


def build_roof():
    """The program that measures copy and product, compiled once per source."""
    folder, target = ROOT / "benchmarks", ROOT / "build" / "roof"
    newest = max((folder / f).stat().st_mtime for f in ("roof.cpp", "onednn_conv.h"))
    if not target.exists() or target.stat().st_mtime < newest:
        target.parent.mkdir(exist_ok=True)
        command = ["g++", "-std=c++20", "-O3", "-mavx2", "-fopenmp", str(folder / "roof.cpp")]
        command += ["-o", str(target), "-ldl"]
        subprocess.run(command, check=True)
    return str(target)


def environment(threads):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    env["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), str(ROOT / "python"), *filter(None, [env.get("PYTHONPATH")])]
    )
    return env


def measure(case, modules, threads, rounds, seconds, warmup=3):
    """Times of every module on `case` and the roof, in alternation; a dict of results."""
    env = environment(threads)
    modules = [m for m in modules if case.compiles or not m.endswith("-compiled")]
    sides = {
        m: Side(
            [sys.executable, "-m", "benchmarks.worker", m, case.name]
            + ["--threads", str(threads), "--warmup", str(warmup)],
            env,
        )
        for m in modules
    }
    for side in sides.values():
        side.answer()  # "ready": set-up and warm-up are done one after the other
    roof = Side([build_roof()], env)
    roof_command = None
    if case.traffic:
        roof_command = f"copy {case.copy} {seconds / 2}"
    elif case.flops:
        roof_command = f"product {seconds / 2}"
    times = {m: [] for m in modules}
    roofs, alone = [], []
    for _ in range(rounds):
        for m, side in sides.items():
            t = side.ask(f"run {seconds}")
            if t is not None:
                times[m].append(t)
        if roof_command:
            roofs.append(roof.ask(roof_command) or 0.0)
        if case.alone:
            alone.append(roof.ask(f"{case.alone} {seconds}") or 0.0)
    result = {"case": case.name, "title": case.title, "sides": {}}
    for m, side in sides.items():
        if side.error or not times[m]:
            result["sides"][m] = {"error": side.error or "no time"}
        else:
            result["sides"][m] = {
                "seconds": statistics.median(times[m]),
                "spread": (max(times[m]) - min(times[m])) / statistics.median(times[m]),
            }
        side.close()
    roof.close()
    if roofs and statistics.median(roofs) > 0:
        rate = statistics.median(roofs)
        result["roof"] = {"kind": "copy" if case.traffic else "product", "per_second": rate}
        for entry in result["sides"].values():
            if "seconds" in entry:
                entry["fraction"] = (case.traffic or case.flops) / entry["seconds"] / rate
    if alone and min(alone) > 0:
        result["onednn_alone"] = case.flops / statistics.median(alone)
    if case.bar_seconds:
        result["bar_seconds"] = case.bar_seconds
    if case.bar_fraction:
        result["bar_fraction"] = case.bar_fraction
    if case.bar_alone:
        result["bar_alone"] = case.bar_alone
    return result


def time_text(seconds):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def line_below(what, seconds, ours, width=52):
    """A line of the table below a case's own: what else took how long, beside our seconds."""
    return f"\n{'    ' + what:<{width}}  {'':>9}  {time_text(seconds):>9}  {seconds / ours:>6.2f}x"


def row(result, ours="pyflame", theirs="torch"):
    """One line of the table."""
    a, b = result["sides"].get(ours, {}), result["sides"].get(theirs, {})
    cells = [f"{result['title']:<52}"]
    cells.append(f"{time_text(a['seconds']) if 'seconds' in a else 'failed':>9}")
    cells.append(f"{time_text(b['seconds']) if 'seconds' in b else '-':>9}")
    both = "seconds" in a and "seconds" in b
    cells.append(f"{b['seconds'] / a['seconds']:>6.2f}x" if both else f"{'-':>7}")
    cells.append(f"{a['fraction']:>6.0%}" if "fraction" in a else f"{'-':>6}")
    if "roof" in result:
        rate = result["roof"]["per_second"] / 1e9
        unit = "GB/s" if result["roof"]["kind"] == "copy" else "GFLOP/s"
        cells.append(f"{rate:>6.0f} {unit:<7}")
    else:
        cells.append(" " * 14)
    bars, met = [], True
    if "bar_seconds" in result:
        bars.append(f"<= {time_text(result['bar_seconds'])}")
        met = met and "seconds" in a and a["seconds"] <= result["bar_seconds"]
    if "bar_fraction" in result:
        bars.append(f">= {result['bar_fraction']:.0%}")
        met = met and a.get("fraction", 0) >= result["bar_fraction"]
    if bars:
        cells.append(f"{', '.join(bars)} {'met' if met else 'MISSED'}")
    line = "  ".join(cells).rstrip()
    if "onednn_alone" in result and "seconds" in a:
        alone, bar = result["onednn_alone"], ""
        fraction = alone / a["seconds"]
        if "bar_alone" in result:
            met = fraction >= result["bar_alone"]
            bar = f"  >= {result['bar_alone']:.0%} {'met' if met else 'MISSED'}"
        label = "    of oneDNN's convolution alone"
        line += f"\n{label:<52}  {'':>9}  {time_text(alone):>9}  {fraction:>6.0%} {bar}".rstrip()
    c = result["sides"].get(theirs + "-compiled", {})
    if "seconds" in c and "seconds" in a:
        line += line_below(f"{theirs}.compile", c["seconds"], a["seconds"])
    elif "error" in c:
        line += f"\n    {theirs}.compile: {c['error']}"
    if "error" in a:
        line += f"\n    {ours}: {a['error']}"
    return line


HEADER = (
    f"{'what':<52}  {'pyflame':>9}  {'torch':>9}  {'ratio':>7}  {'roof':>6}  {'roof is':<14}  bar"
)


def facts(threads):
    """Date, machine and versions, to stand beside every number."""
    cpu = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    commit = "unknown"
    if shutil.which("git"):
        out = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
        )
        commit = out.stdout.strip() or commit
    versions = {}
    for module in ("torch", "pyflame", "numpy"):
        out = subprocess.run(
            [sys.executable, "-c", f"import {module}; print({module}.__version__)"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment(threads),
        )
        versions[module] = out.stdout.strip() or None
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": cpu,
        "threads": threads,
        "commit": commit,
        "versions": versions,
        "load": os.getloadavg()[0],
    }


def save_json(path, facts_, results):
    Path(path).write_text(json.dumps({"facts": facts_, "results": results}, indent=1) + "\n")


def compare(path, results, ours="pyflame"):
    """Prints how `results` differ from a saved run; returns the worst slow-down as a factor."""
    saved = json.loads(Path(path).read_text())
    f = saved["facts"]
    print(f"\ncompared with {path}: {f['date']}, {f['commit']}, {f['cpu']}, {f['threads']} threads")
    old = {r["case"]: r for r in saved["results"]}
    worst = 0.0
    for r in results:
        before = old.get(r["case"], {}).get("sides", {}).get(ours, {})
        after = r["sides"].get(ours, {})
        if "seconds" in before and "seconds" in after:
            factor = after["seconds"] / before["seconds"]
            worst = max(worst, factor)
            print(
                f"  {r['title']:<52}  {time_text(before['seconds']):>9} -> "
                f"{time_text(after['seconds']):>9}  {factor - 1:+.0%}"
            )
    return worst
