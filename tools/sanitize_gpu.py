"""NVIDIA's compute-sanitizer over the tests of kernels, on a GPU (the CUDA plug-in must be built).

    memcheck    reads and writes outside an allocation; each tensor is one of exactly its size
    racecheck   threads of a block that meet in shared memory without a barrier between them: slow,
                so a few tests of each kind of kernel, with small launches
    initcheck   reads of memory that nothing has written
    synccheck   barriers that not all threads reach

A process for each file of tests that is marked as one of kernels and for each tool, several side by
side; --share draws tests as PYFLAME_TEST_SHARE does. A first round without a tool compiles the kernels
into a cache, which also says which kernels no test has. What has
not ended when its time is over is interrupted, and counts with what it ran and found. --seconds is
for everything. Logs are in build/sanitize_gpu/.

Ends with 0 if all four found nothing, no test failed and every tool ran some.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import marked

from kernels import kernels_in, revision, texts

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build/sanitize_gpu"
TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
FILES = marked.files()
# Of the files' tests for these tools.
PART = {"initcheck": 0.5, "synccheck": 0.5}
SUMMARY = re.compile(r"^=========.*(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
HEADLINE = re.compile(r"^========= (\S.*)")
# Headlines that are no findings.
ASIDE = re.compile(r"COMPUTE-SANITIZER|SUMMARY|Target application|This tool|Saved|Error: process")
KERNEL = re.compile(r"\bat (?:0x[0-9a-f]+ in )?([^\n+(]+)")


class Work:
    """Tests of one file under one tool ("": none)."""

    def __init__(self, tool, file, more, number):
        self.tool, self.file = tool, file
        self.name = f"{tool or 'plain'}-{file}-{number}"
        self.tests, self.env = f"tests/python/test_{file}.py", more
        self.port = 49152 + 16 * number

    def start(self, sanitizer, limit):
        self.interrupted = time.time() + limit
        tests = [self.tests, "-m", "not large"]
        # timeout interrupts pytest, which then sums up, and the tool after it.
        command = ["timeout", "--signal=INT", "--kill-after=20", str(int(limit))]
        command += [sys.executable, "-P", "-m", "pytest", "-v", "-p", "no:cacheprovider", *tests]
        self.tool_log, self.log = LOGS / f"{self.name}.tool.txt", LOGS / f"{self.name}.pytest.txt"
        if self.tool:
            command = [
                sanitizer, "--tool", self.tool, "--target-processes", "all", "--print-limit", "50",
                "--require-cuda-init", "no", "--port", str(self.port),
                "--log-file", self.tool_log, *command,
            ]  # fmt: skip
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                env=os.environ | self.env,
            )  # fmt: skip

    def ended(self):
        self.late = time.time() > self.interrupted
        if self.process.poll() is None and time.time() > self.interrupted + 40:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        return self.process.poll() is not None

    def result(self):
        """Tests that passed, lines of those that failed, and what the tool said."""
        text = self.log.read_text(errors="replace")
        r = {
            "passed": len(re.findall(r"::.* PASSED", text)),
            "failed": re.findall(r"^((?:FAILED|ERROR) .*)", text, re.M),
            "limit": self.late,
        }
        # 5: no test was drawn
        whole = re.search(r"^=+ .*\d+ (passed|skipped|deselected|failed|error)", text, re.M)
        if not whole and not r["limit"]:
            r["failed"] = r["failed"] or [f"{self.name}: {text[-300:].strip()}"]
        if not self.tool:
            return r
        lines = (
            self.tool_log.read_text(errors="replace").splitlines() if self.tool_log.exists() else []
        )
        r["findings"], r["first"], summed = Counter(), None, None
        for i, line in enumerate(lines):
            if m := SUMMARY.match(line):
                summed = (summed or 0) + int(m[1] or m[2])
            m = HEADLINE.match(line)
            if not m or ASIDE.search(m[1]):
                continue
            block = "\n".join(lines[i : i + 12])
            kernels = list(dict.fromkeys(KERNEL.findall(block.split("=========     by thread")[0])))
            what = re.sub(r"0x[0-9a-f]+|\(\d+,\d+,\d+\)|\[\d+ hazards?\]|\+0x\w+", "", m[1])
            r["findings"][f"{what.strip()} ({', '.join(kernels[:2])})"] += 1
            r["first"] = r["first"] or block
        # A process that was killed has not summed up.
        r["errors"] = max(summed or 0, sum(r["findings"].values()))
        if not lines:
            r["failed"].append(f"{self.name}: the tool has written nothing; {text[-300:].strip()}")
        return r


def rounds(tools, share, only):
    """The work without a tool, and that with one."""
    exact = {"PYFLAME_ALLOC_CONF": "split:False,caching:False"}
    own = {
        "PYFLAME_GPU_GEMM": "own",
        "PYFLAME_GPU_CONV": "own",
        "PYFLAME_GPU_ATTENTION": "own",
    }  # ours, not NVIDIA's libraries'
    files = [f for f in FILES if f in (only or FILES)]
    races = [f for f in files if FILES[f][1]]
    for_races = own | {"PYFLAME_TEST_RACES": "1"}

    def drawn(file, part):
        return own | {"PYFLAME_TEST_SHARE": str(min(1.0, FILES[file][0] * share) * part)}

    plain = [("", f, drawn(f, 1)) for f in files] + [("", f, for_races) for f in races]
    checked = []
    for tool in sorted(tools, key=["racecheck", *TOOLS].index):
        if tool == "racecheck":
            checked += [(tool, f, for_races) for f in races]
        else:
            more = exact if tool in ("memcheck", "initcheck") else {}
            checked += [(tool, f, drawn(f, PART.get(tool, 1)) | more) for f in files]
    made = [Work(*w, number) for number, w in enumerate(plain + checked)]
    return made[: len(plain)], made[len(plain) :]


def never_launched():
    """Kernels that no program of the cache has: no test that ran asked for them."""
    sys.path.insert(0, str(ROOT / "python"))
    from pyflame import kernel_cache

    labels = [entry.info.get("kernel", "") for entry in kernel_cache.entries()]
    asked = {word for label in labels for word in label.split()}
    return sorted({k for f in texts() for k in kernels_in(f.read_text())} - asked)


def run(work, jobs, sanitizer, deadline):
    """All of it, `jobs` at a time; each has a fair part of the time until `deadline`."""
    waiting, running = list(work), []
    while waiting or running:
        while waiting and len(running) < jobs:
            left = deadline - time.time()
            turns = -(-(len(waiting) + len(running)) // jobs)
            running.append(waiting.pop(0))
            running[-1].start(sanitizer, max(15, left / turns))
        time.sleep(0.1)
        running = [w for w in running if not w.ended()]


def summary(tool, work):
    results = [w.result() for w in work]
    findings, failed = Counter(), []
    for r in results:
        findings.update(r.get("findings", {}))
        failed += r["failed"]
    s = {
        "passed": sum(r["passed"] for r in results),
        "processes": len(work),
        "reached their limit": [w.file for w, r in zip(work, results) if r["limit"]],
        "tests failed": failed,
    }
    print(
        f"== {tool or 'without a tool'}: {s['passed']} tests passed in {len(work)} processes",
        end="",
    )
    print(f"; reached their limit: {', '.join(s['reached their limit']) or 'none'}")
    for line in failed[:10]:
        print(f"   {line[:400]}")
    if tool:
        s["errors"] = sum(r["errors"] for r in results)
        s["findings"] = dict(findings.most_common(30))
        print(f"   ERROR SUMMARY: {s['errors']} in all")
        for what, count in findings.most_common(12):
            print(f"   {count} x {what[:200]}")
        first = next((r["first"] for r in results if r["first"]), None)
        print("\n".join(f"   | {line}" for line in (first or "").splitlines()), flush=True)
    return s


def find_sanitizer():
    places = [p for root in ("/usr/local", "/opt") for p in sorted(Path(root).glob("cuda*"))[::-1]]
    files = [p / d / "compute-sanitizer" for p in places for d in ("bin", "compute-sanitizer")]
    return shutil.which("compute-sanitizer") or next((str(f) for f in files if f.is_file()), None)


def device_name():
    code = "import pyflame as pf; print(pf.device_info('cuda')['name'])"
    r = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    return r.stdout.strip() if r.returncode == 0 else sys.exit(f"no CUDA device: {r.stderr[-800:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"{', '.join(TOOLS)} (all)")
    parser.add_argument("--seconds", type=float, default=400, help="for everything (400)")
    parser.add_argument("--share", type=float, default=1.0, help="more or fewer of the tests")
    parser.add_argument("--tests", type=lambda s: s.split(","), help="files of them: scan,sort")
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    parser.add_argument("--sanitizer", default=find_sanitizer(), help="where compute-sanitizer is")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if unknown := set(args.tools) - set(TOOLS):
        parser.error(f"no tool {', '.join(unknown)}; there are {', '.join(TOOLS)}")
    if unknown := set(args.tests or []) - set(FILES):
        parser.error(f"no file {', '.join(unknown)}; there are {', '.join(FILES)}")
    if not args.sanitizer:
        sys.exit("compute-sanitizer was not found; it comes with CUDA, or say --sanitizer PATH")
    began = time.time()
    LOGS.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(LOGS / "cache", ignore_errors=True)
    os.environ |= {
        "PYFLAME_TEST_DEVICE": "cuda", "PYFLAME_COMPILE_THREADS": "2", "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1", "PYFLAME_LAUNCH_BATCHES": "0",  # a finding names one launch
        "XDG_CACHE_HOME": str(LOGS / "cache"),
    }  # fmt: skip
    os.environ.setdefault("PYFLAME_TEST_SEED", "sanitize")
    tools = args.tools or TOOLS
    result = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "device": device_name(),
        "commit": revision(), "command": " ".join(["tools/sanitize_gpu.py", *sys.argv[1:]]),
    }  # fmt: skip
    plain, checked = rounds(tools, args.share, args.tests)
    run(plain, args.jobs, args.sanitizer, began + args.seconds / 4)
    result["plain"] = summary("", plain)
    if not args.tests:
        result["kernels of no test"] = never_launched()
        print(f"   kernels of no test: {', '.join(result['kernels of no test']) or 'none'}")
    print(f"   {time.time() - began:.0f} s", flush=True)
    # What is interrupted needs some seconds to end.
    run(checked, args.jobs, args.sanitizer, began + args.seconds - 15)
    for tool in tools:
        result[tool] = summary(tool, [w for w in checked if w.tool == tool])
    result["seconds"] = round(time.time() - began)
    print(f"{result['device']}, {result['commit'][:12]}, {result['seconds']} s")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    clean = all(
        not s["errors"] and s["passed"] and not s["tests failed"] for s in map(result.get, tools)
    )
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()
