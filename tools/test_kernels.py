"""All that can be known of the GPU kernels without a GPU; `make test-kernels` runs it and keeps what
it says in tests/results/kernels.json: of each part, and of each file of tests, as soon as it is known
and with the commit it ran at. So parts may run one at a time or beside each other, and a run that is
cut keeps what it had.

    compile   every hand-written kernel and the corpus of generated ones through clang for AMD
              architectures, NVRTC for NVIDIA's and AMD's own hipRTC (tools/kernels.py)
    headers   what the plug-ins declare of the vendors' libraries, against the vendors' headers
    host      the Python tests on the stand-in runtime, as an AMD GPU of either warp width and under
              NVIDIA's names: the plug-ins' own code, and the kernels run by the CPU
    sanitize  the tests of kernels once more, with the kernels under AddressSanitizer and UBSan

All of it takes some hours on two cores: --share 0.1 draws a tenth of the tests; parts and files of
tests can be named. What pytest printed is in build/test_kernels/.
"""

import argparse
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import marked

from kernels import revision

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python"))
import vendor_libraries  # noqa: E402  (its folder is on the path from here on)

VENDOR = ROOT / "build/vendor"
CUDNN = "cuda/nvidia/cudnn/include"
RESULT = ROOT / "tests/results/kernels.json"
PARTS = ["compile", "headers", "host", "sanitize"]
# Name, variables of the stand-in, and the device.
GPUS = {
    "gfx942, 64 lanes": ({"PYFLAME_STANDIN_ARCH": "gfx942:sramecc+:xnack-"}, "rocm"),
    "gfx90a, 64 lanes": ({"PYFLAME_STANDIN_ARCH": "gfx90a:sramecc+:xnack-"}, "rocm"),
    "gfx1201, 32 lanes": ({"PYFLAME_STANDIN_ARCH": "gfx1201"}, "rocm"),
    "sm_90, 32 lanes": ({"PYFLAME_STANDIN_SM": "90"}, "cuda"),
}


class Record:
    """The file of results, and what is the same for all that this run adds."""

    def __init__(self, path):
        self.path, self.good = path, True
        self.stamp = {"commit": revision(), "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
        self.began = time.time()

    def keep(self, path, result, passed):
        """Puts `result` there; another run may be adding to the file too."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            whole = json.loads(text) if text else {}
            place = whole
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = {"passed": passed, **self.stamp, "seconds": self.seconds(), **result}
            file.truncate(0)
            file.write(written(whole) + "\n")
        self.good &= passed
        print(f"-- {', '.join(path)}: {'passed' if passed else 'FAILED'}, {self.seconds()} s")
        print(json.dumps(result)[:2000], flush=True)
        self.began = time.time()

    def seconds(self):
        return round(time.time() - self.began)


def written(value, indent=""):
    """JSON with a line for each thing that has nothing below it."""
    if not isinstance(value, dict) or not any(isinstance(v, dict) for v in value.values()):
        return json.dumps(value)
    more = indent + " "
    lines = [f"{more}{json.dumps(k)}: {written(v, more)}" for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + indent + "}"


def compile_texts(args, vendor, record):
    out = ROOT / "build/kernels.json"
    command = [sys.executable, ROOT / "tools/kernels.py", "--all", "--json", out]
    command += [f"--random={args.random}", f"--build={args.build}"]
    run = subprocess.run([*command, "--hiprtc"] if vendor else command)
    result = json.loads(out.read_text())
    result = {k: v for k, v in result.items() if k not in ("commit", "date", "seconds")}
    whole = not result["left"] and run.returncode == 0
    record.keep(["compile"], result, whole)


def check_headers(args, vendor, record):
    """Keeps {vendor: release of the headers, or what is wrong}."""
    found, good = {}, True
    places = {
        "rocm": ("PF_GPU_ROCM", "rocm/usr/include", "hip/hip_version.h", r"HIP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)"),
        "cuda": ("PF_GPU_CUDA", "cuda/nvidia/cu13/include", "cuda.h", r"#define CUDA_VERSION (\d+)"),
    }  # fmt: skip
    for name, (define, folder, header, number) in places.items():
        include = VENDOR / folder
        if not (include / header).exists():
            found[name] = "not run: no headers were fetched"
            continue
        run = subprocess.run(
            ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-D{define}",
             "-Isrc", "-Iinclude", "-isystem", include, "-isystem", VENDOR / CUDNN,
             f"src/gpu/check_headers_{name}.cpp"],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        good = good and run.returncode == 0
        version = ".".join(re.findall(number, (include / header).read_text())[:3])
        found[name] = run.stderr[:2000] if run.returncode else f"agrees with {version}"
    record.keep(["headers"], found, good)


def environment(args, gpu, share, name, more):
    variables, device = GPUS[gpu]
    standin = args.build / "standin"
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYFLAME_")}
    env |= variables | more
    env |= {
        "PYFLAME_HIP_LIBRARY": str(standin / "libamdhip64.so"),
        "PYFLAME_HIPRTC_LIBRARY": str(standin / "libhiprtc.so"),
        "PYFLAME_CUDA_LIBRARY": "/none",
        **vendor_libraries.NONE,
        "PYFLAME_TEST_DEVICE": device,
        "PYFLAME_TEST_SHARE": str(share),
        "PYFLAME_TEST_SEED": args.seed + name,
        "XDG_CACHE_HOME": str(args.build / "standin-cache"),
    }
    if device == "cuda":
        env["PYFLAME_CUDA_LIBRARY"] = env["PYFLAME_HIP_LIBRARY"]
        env["PYFLAME_NVRTC_LIBRARY"] = env["PYFLAME_HIPRTC_LIBRARY"]
        env["PYFLAME_HIP_LIBRARY"] = "/none"
    return env


def pytest(args, part, gpu, names, share, more, record):
    """A process for each file of tests: one that dies takes no other with it."""
    log = args.build / "test_kernels" / (re.sub(r"\W+", "_", f"{part} {gpu}") + ".log")
    log.parent.mkdir(exist_ok=True)
    for name in [n for n in names if n in (args.tests or names)]:
        env = environment(args, gpu, share, name, more)
        file = f"tests/python/test_{name}.py"
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
        run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        with log.open("a") as out:
            out.write(f"== {name}\n{run.stdout}{run.stderr}")
        lines = run.stdout.splitlines() or [""]
        found = {"share": share, "tests": re.sub(r" in [\d.]+s.*", "", lines[-1]).strip("= ")}
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        if run.returncode not in (0, 5):  # 5: no test of it was drawn
            print(run.stdout[-20000:], run.stderr[-4000:], file=sys.stderr, flush=True)
            found["failures"] = failed or [f"pytest ended with {run.returncode}"]
        record.keep([part, gpu, name], found, "failures" not in found)


def all_tests():
    return sorted(f.stem.removeprefix("test_") for f in ROOT.glob("tests/python/test_*.py"))


def on_host(args, vendor, record):
    for gpu in args.gpu or GPUS:
        pytest(args, "host", gpu, all_tests(), args.share, {}, record)


def sanitized(args, vendor, record):
    libraries = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True)
        for name in ("libasan.so", "libubsan.so")
    ]
    more = {
        "PYFLAME_STANDIN_SANITIZE": "1",
        "LD_PRELOAD": " ".join(run.stdout.strip() for run in libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    for gpu in args.gpu or ("gfx942, 64 lanes", "gfx1201, 32 lanes"):
        pytest(args, "sanitize", gpu, list(marked.files()), args.share, more, record)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (all)")
    parser.add_argument("--share", type=float, default=1.0, help="of the Python tests")
    parser.add_argument("--tests", type=lambda s: s.split(","), help="files of them: amp,nn")
    parser.add_argument("--seed", default="", help="of the share")
    parser.add_argument("--random", type=int, default=500, help="random groups to compile")
    parser.add_argument("--gpu", action="append", choices=list(GPUS), help="of host and sanitize")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--json", type=Path, default=RESULT)
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if unknown := set(args.tests or []) - set(all_tests()):
        parser.error(f"no tests/python/test_{', '.join(unknown)}.py")
    parts = args.parts or PARTS
    record = Record(args.json)
    vendor = True
    if {"compile", "headers"} & set(parts):
        vendor = subprocess.run([ROOT / "tools/vendor_sdk.sh"]).returncode == 0
        if not vendor:
            print("not all was fetched: hipRTC or headers are not looked at", file=sys.stderr)
    work = {"compile": compile_texts, "headers": check_headers, "host": on_host}
    for part in parts:
        print(f"== {part}", flush=True)
        work.get(part, sanitized)(args, vendor, record)
    sys.exit(0 if record.good else 1)


if __name__ == "__main__":
    main()
