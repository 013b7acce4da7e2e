"""All that can be known of the GPU kernels without a GPU; `make test-kernels` runs it and keeps what
it says in tests/results/kernels.json.

    compile   every hand-written kernel and the corpus of generated ones through clang for AMD
              architectures, NVRTC for NVIDIA's and AMD's own hipRTC (tools/kernels.py)
    headers   what the plug-ins declare of the vendors' libraries, against the vendors' headers
    host      the Python tests on the stand-in runtime, as an AMD GPU of either warp width and under
              NVIDIA's names: the plug-ins' own code, and the kernels run by the CPU
    sanitize  the tests of kernels once more, with the kernels under AddressSanitizer and UBSan

Most of it takes an hour on two cores: --share 0.1 draws a tenth of the tests, and parts can be named.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from kernels import revision

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "build/vendor"
RESULT = ROOT / "tests/results/kernels.json"
PARTS = ["compile", "headers", "host", "sanitize"]
# Name, variables of the stand-in, and the device.
GPUS = {
    "gfx942, 64 lanes": ({"PYFLAME_STANDIN_ARCH": "gfx942:sramecc+:xnack-"}, "rocm"),
    "gfx1201, 32 lanes": ({"PYFLAME_STANDIN_ARCH": "gfx1201"}, "rocm"),
    "sm_90, 32 lanes": ({"PYFLAME_STANDIN_SM": "90"}, "cuda"),
}
OF_KERNELS = [
    "attention", "creation", "index", "loss", "matmul", "norm", "optim_kernels", "pointwise_table",
    "random", "random_groups", "reduce", "scan", "shape", "softmax", "sort", "statistics",
]  # fmt: skip


def compile_texts(args, vendor):
    out = ROOT / "build/kernels.json"
    command = [sys.executable, ROOT / "tools/kernels.py", "--all", "--json", out]
    command += [f"--random={args.random}", f"--text={args.build / 'tests/cpp/kernel_text'}"]
    run = subprocess.run([*command, "--hiprtc"] if vendor else command)
    result = json.loads(out.read_text())
    return run.returncode == 0, {k: v for k, v in result.items() if k not in ("commit", "date")}


def check_headers(args, vendor):
    """{vendor: release of the headers, or what is wrong}"""
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
             "-Isrc", "-Iinclude", "-isystem", include, "src/gpu/check_headers.cpp"],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        good = good and run.returncode == 0
        version = ".".join(re.findall(number, (include / header).read_text())[:3])
        found[name] = run.stderr[:2000] if run.returncode else f"agrees with {version}"
    return good, found


def pytest(args, gpu, tests, share, more):
    variables, device = GPUS[gpu]
    standin = args.build / "standin"
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYFLAME_")}
    env |= variables | more
    env |= {
        "PYFLAME_HIP_LIBRARY": str(standin / "libamdhip64.so"),
        "PYFLAME_HIPRTC_LIBRARY": str(standin / "libhiprtc.so"),
        "PYFLAME_CUDA_LIBRARY": "/none",
        "PYFLAME_TEST_DEVICE": device,
        "PYFLAME_TEST_SHARE": str(share),
        "PYFLAME_TEST_SEED": args.seed,
        "XDG_CACHE_HOME": str(args.build / "standin-cache"),
    }
    if device == "cuda":
        env["PYFLAME_CUDA_LIBRARY"] = env["PYFLAME_HIP_LIBRARY"]
        env["PYFLAME_NVRTC_LIBRARY"] = env["PYFLAME_HIPRTC_LIBRARY"]
        env["PYFLAME_HIP_LIBRARY"] = "/none"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    lines = run.stdout.splitlines()
    found = {"share": share, "result": lines[-1].strip("= ") if lines else run.stderr[-2000:]}
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if failed or run.returncode:
        print(run.stdout[-20000:], run.stderr[-4000:], file=sys.stderr)
        found["failures"] = failed
    return run.returncode == 0, found


def on_host(args, vendor):
    runs = {gpu: pytest(args, gpu, ["tests/python"], args.share, {}) for gpu in args.gpu or GPUS}
    return all(good for good, _ in runs.values()), {gpu: found for gpu, (_, found) in runs.items()}


def sanitized(args, vendor):
    libraries = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True)
        for name in ("libasan.so", "libubsan.so")
    ]
    more = {
        "PYFLAME_STANDIN_SANITIZE": "1",
        "LD_PRELOAD": " ".join(run.stdout.strip() for run in libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    tests = [f"tests/python/test_{name}.py" for name in OF_KERNELS]
    share = 0.2 * args.share  # three times as slow
    runs = {gpu: pytest(args, gpu, tests, share, more) for gpu in (args.gpu or list(GPUS)[:2])}
    return all(good for good, _ in runs.values()), {gpu: found for gpu, (_, found) in runs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (all)")
    parser.add_argument("--share", type=float, default=1.0, help="of the Python tests")
    parser.add_argument("--seed", default="", help="of the share")
    parser.add_argument("--random", type=int, default=500, help="random groups to compile")
    parser.add_argument("--gpu", action="append", choices=list(GPUS), help="of host and sanitize")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--json", type=Path, default=RESULT)
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    parts = args.parts or PARTS
    result = {"commit": revision(), "date": time.strftime("%Y-%m-%d", time.gmtime())}
    vendor = True
    if {"compile", "headers"} & set(parts):
        vendor = subprocess.run([ROOT / "tools/vendor_sdk.sh"]).returncode == 0
        if not vendor:
            result["vendor"] = "not all was fetched: hipRTC or headers are not looked at"
    good = True
    work = {"compile": compile_texts, "headers": check_headers, "host": on_host}
    for part in parts:
        print(f"== {part}", flush=True)
        began = time.time()
        passed, result[part] = work.get(part, sanitized)(args, vendor)
        good = good and passed
        print(
            f"-- {part}: {'passed' if passed else 'FAILED'}, {time.time() - began:.0f} s",
            flush=True,
        )
        print(json.dumps(result[part], indent=2)[:2000], flush=True)
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result | {"passed": good}, indent=2) + "\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
