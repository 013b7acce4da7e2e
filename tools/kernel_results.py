"""What tools/kernels.py found, kept.

For each program, so that a run goes on where the last one ended: a line of JSON in the cache folder
($XDG_CACHE_HOME/pyflame/kernel_checks/ARCH.jsonl, ~/.cache without it), by the hash of the text that is
compiled, its options, the compiler's version and what is looked for in the code.

For people and for CI, a summary that is committed (tests/results/kernel_texts.json): for each file with
kernels and each architecture how many programs there are, how many have a result, since when, and the
hash of the text with what it includes, by which one sees what has changed since.

    tools/kernel_results.py     prints the summary's state, as docs/gpu.md has it
"""

import functools
import hashlib
import json
import os
import re
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
SUMMARY = ROOT / "tests/results/kernel_texts.json"
# What a whole run begins with: a width of either vendor's, then their other generations.
ORDER = ("gfx942", "gfx1100", "sm_80", "sm_90", "gfx90a", "gfx1201", "gfx950")
GROUPS = "pointwise groups"  # whose text is generated
HOPPER = ("hopper", "float_parts")  # in names of files whose kernels others do not ask for


def digest(*texts):
    """Of texts, in their order."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def compiled_hash(text):
    """Of a text as compilers see it: lines that say where it came from are not part of it."""
    return digest(re.sub(r"^#line.*\n", "", text, flags=re.M))


# ---- of each program --------------------------------------------------------------------------------


class Finding(NamedTuple):
    kernel: str
    what: str  # "spill", "scratch", "flat", "scalars": kernel_limits.py may allow so many; or a sentence
    amount: int = 0

    def __str__(self):
        texts = {
            "spill": "registers or bytes spilled",
            "scratch": "bytes of memory of each thread",
            "flat": "accesses that may go anywhere",
            "scalars": "scalar registers spilled",
        }
        return f"{self.amount} {texts[self.what]}" if self.what in texts else self.what


class Result(NamedTuple):
    kernels: int  # that came out
    findings: list
    date: str


def cache_folder():
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".cache"
    return base / "pyflame" / "kernel_checks"


class Results:
    """Those of one architecture. `basis`: whatever else than a program they depend on, as a text."""

    def __init__(self, name, basis, folder=None):
        self.path = (folder or cache_folder()) / f"{name}.jsonl"
        self.basis, self.found = basis, {}
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # a run was cut while it wrote this
            self.found[row["key"]] = Result(
                row["kernels"], [Finding(*f) for f in row["findings"]], row["date"]
            )

    def key(self, program):
        return digest(self.basis, program.arch, *program.options, str(program.count), program.hash)

    def get(self, program):
        return self.found.get(self.key(program))

    def keep(self, program, kernels, findings):
        result = Result(kernels, findings, time.strftime("%Y-%m-%d", time.gmtime()))
        key = self.key(program)
        self.found[key] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # One write that begins a line: others may write too, and a cut line spoils no other.
        with self.path.open("a") as file:
            file.write("\n" + json.dumps({"key": key, **result._asdict()}))


# ---- of each file with kernels ------------------------------------------------------------------------


def texts():
    """Files with kernels: text alone, and text with its launchers."""
    return sorted([*KERNELS.rglob("*.h"), *(ROOT / "src/gpu").rglob("kernels_*.cpp")])


def kernels_in(text):
    return tuple(dict.fromkeys(re.findall(r"^PF_KERNEL\((\w+)", text, re.M)))


@functools.cache
def file_of():
    """The name of the file of each kernel."""
    return {k: file.name for file in texts() for k in kernels_in(file.read_text())}


def files_of(program):
    if program.group:
        return {GROUPS}
    return {file_of()[k] for k in program.kernels if k in file_of()}


@functools.cache
def text_hash(name):
    """Of a file with kernels and all of kernels/ that it includes, without comments and spaces."""
    places = {file.name: file for file in texts()}
    to_read, seen, parts = ["math.h", "vector.h"] if name == GROUPS else [name], set(), []
    while to_read:
        file = to_read.pop()
        if file in seen or file not in places:
            continue
        seen.add(file)
        text = places[file].read_text()
        to_read += re.findall(r'^\s*#\s*include "(?:.*/)?([^"/]+)"', text, re.M)
        parts.append(f"{file} {' '.join(re.sub(r'//.*', '', text).split())}")
    return digest(*sorted(parts))[:12]


def by_file(programs):
    files = defaultdict(list)
    for p in programs:
        for name in files_of(p):
            files[name].append(p)
    return files


def programs_hash(programs):
    """Of what launchers ask for: texts and options."""
    return digest(*sorted(digest(*p.options, p.hash) for p in programs))[:12]


def read(path=SUMMARY):
    return json.loads(path.read_text()) if path.exists() else {"failures": [], "texts": {}}


def changed(programs, arch, summary):
    """The programs of files whose every program has a result no longer, or had none yet. For groups
    the text that all of them include decides: a sample draws others than the whole run has."""
    stale = set()
    for name, own in by_file(programs).items():
        cell = summary["texts"].get(name, {}).get(arch)
        now = ("text", text_hash(name)) if name == GROUPS else ("programs", programs_hash(own))
        if not cell or cell["done"] < cell["of"] or cell[now[0]] != now[1]:
            stale.add(name)
    return [p for p in programs if files_of(p) & stale]


def summarize(summary, arch, compiler, programs, results, commit):
    """Brings the summary's cells of an architecture up to date. One that has as much of the same stays:
    another machine's, whose results are not here, may know more."""
    files = {*file_of().values(), GROUPS}
    summary["texts"] = {n: c for n, c in sorted(summary["texts"].items()) if n in files}
    for name, own in sorted(by_file(programs).items()):
        dates = [r.date for r in map(results.get, own) if r]
        if not dates and arch in summary["texts"].get(name, {}):
            continue  # what an earlier text had is said with its age
        cell = {"done": len(dates), "of": len(own), "since": min(dates, default=None)}
        same = {"text": text_hash(name), "programs": programs_hash(own), "compiler": compiler}
        cells = summary["texts"].setdefault(name, {})
        known = cells.get(arch, {"done": -1})
        if same.items() <= known.items() and known["done"] >= len(dates):
            continue
        cell |= same
        cells[arch] = cell | {"commit": commit[:12] + commit[40:]}


def write(summary, path=SUMMARY):
    """A line for each file and architecture, so that changes can be read and merged."""
    texts = []
    for name, cells in sorted(summary["texts"].items()):
        rows = ",\n".join(f"   {json.dumps(a)}: {json.dumps(c)}" for a, c in sorted(cells.items()))
        texts.append(f"  {json.dumps(name)}: {{\n{rows}\n  }}")
    failures = ",\n".join(f"  {json.dumps(f)}" for f in summary.get("failures", []))
    whole = f'{{\n "failures": [\n{failures}\n ],\n "texts": {{\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(whole + ",\n".join(texts) + "\n }\n}\n")
    part.replace(path)


def state(archs=ORDER, summary=None):
    """A Markdown table: how far the compile check of the kernels has come, and what changed since."""
    summary = summary or read()
    lines = [
        "| architecture | compiler | files of kernels done | in part | changed since, or not yet | programs | oldest result |",
        "|---|---|---|---|---|---|---|",
    ]
    for arch in archs:
        names = {n for n in {*file_of().values(), GROUPS} if arch == "sm_90" or not any(h in n for h in HOPPER)}  # fmt: skip
        cells = {n: summary["texts"].get(n, {}).get(arch) for n in sorted(names)}
        if any(cells.values()):  # other architectures' own texts have no programs for this one
            cells = {n: c for n, c in cells.items() if c or n not in summary["texts"]}
        now = {n: c for n, c in cells.items() if c and c["text"] == text_hash(n) and c["done"]}
        whole = {n for n, c in now.items() if c["done"] == c["of"]}
        stale = sorted(set(cells) - set(now))
        said = f"{len(stale)}: {', '.join(stale[:6])}{', …' if len(stale) > 6 else ''}"
        kept = now.values()
        compilers = ", ".join(sorted({c["compiler"] for c in kept}))
        done, of = sum(c["done"] for c in kept), sum(c["of"] for c in cells.values() if c)
        lines.append(
            f"| {arch} | {compilers or '–'} | {len(whole)} | {len(now) - len(whole)} "
            f"| {said if stale else 'none'} | {done} of {of} "
            f"| {min((c['since'] for c in kept), default='–')} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(state(), end="")
