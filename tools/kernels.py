"""Compiles device text for GPUs that are not here, and checks the code that comes out.

Every kernel of the corpus (each row of the pointwise table in each dtype, gradients, conversions,
random groups) and every line of kernels/variants.txt is compiled by clang for AMD architectures
and by NVRTC for NVIDIA's, as the text that a plug-in would give to its compiler: cut down to what
is needed, all kernels of a file at once for AMD, and for NVIDIA each with those that go with it.
Checked: it compiles, the wavefront is 64 wide on gfx9 and 32 on gfx11/12, no registers are spilled
to memory (but for up to 16 bytes beside random groups on NVIDIA), a block takes at most 64 KiB of its own memory.

    tools/kernels.py --all              everything, four AMD and two NVIDIA architectures
    tools/kernels.py --sample SEED      a share of it that takes a minute or two: each kind of
                                        kernel for some of the architectures
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hiprtc

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
WARP = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32, "gfx1201": 32, "sm_80": 32, "sm_90": 32}
AMD = [a for a in WARP if a.startswith("gfx")]
NVIDIA = [a for a in WARP if a.startswith("sm")]
MAX_SHARED = 65536
MAX_SCALARS = 64  # spilled ones; they fill one or two vector registers


def find_tool(name):
    """The newest `name-<version>` of LLVM 19 or later, or None."""
    for version in (21, 20, 19):
        path = shutil.which(f"{name}-{version}")
        if path:
            return path
    return None


class Nvrtc:
    """NVIDIA's run-time compiler, from the Python package nvidia-cuda-nvrtc."""

    def __init__(self):
        places = [Path(p) for p in sys.path] + [Path(os.environ.get("PYFLAME_NVRTC", "."))]
        found = [f for p in places for f in p.glob("nvidia/cu*/lib/libnvrtc.so.*")]
        if not found:
            raise FileNotFoundError("no NVRTC: pip install nvidia-cuda-nvrtc")
        self.lib = ctypes.CDLL(str(sorted(found)[-1]))
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"
        headers = sorted(KERNELS.glob("*.h"))  # for users' text
        self.names = (ctypes.c_char_p * len(headers))(*[h.name.encode() for h in headers])
        self.texts = (ctypes.c_char_p * len(headers))(*[h.read_bytes() for h in headers])

    def compile(self, source, arch, defines=()):
        """The log of compiler and assembler, and for compute_* the PTX; RuntimeError if it fails."""
        program = ctypes.c_void_p()
        self.lib.nvrtcCreateProgram(
            ctypes.byref(program), source, b"text.cu", len(self.names), self.texts, self.names
        )
        target = arch.replace("_90", "_90a")  # as src/gpu/compile.cpp: Hopper's own instructions
        options = [f"--gpu-architecture={target}", "-std=c++17", "--fmad=false"]
        options += ["--ptxas-options=-v", "-DPF_WARP=32", *defines]
        array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        status = self.lib.nvrtcCompileProgram(program, len(options), array)
        size = ctypes.c_size_t()
        self.lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.lib.nvrtcGetProgramLog(program, log)
        ptx = ctypes.create_string_buffer(1)
        if not status and arch.startswith("compute"):
            self.lib.nvrtcGetPTXSize(program, ctypes.byref(size))
            ptx = ctypes.create_string_buffer(size.value)
            self.lib.nvrtcGetPTX(program, ptx)
        self.lib.nvrtcDestroyProgram(ctypes.byref(program))
        text = log.value.decode(errors="replace")
        if status:
            raise RuntimeError(text)
        return text, ptx.value.decode(errors="replace")


def check_nvidia(log, spill=0):
    """(kernels, complaints) from what the assembler said of each; `spill` bytes are allowed."""
    complaints, kernels, name = [], 0, "?"
    for line in log.splitlines():
        if m := re.search(r"Compiling entry function '(\w+)'", line):
            name, kernels = m[1], kernels + 1
        if m := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            if max(int(m[1]), int(m[2])) > spill:
                complaints.append((name, f"{m[1]} bytes spilled"))
        if (m := re.search(r"(\d+) bytes smem", line)) and int(m[1]) > MAX_SHARED:
            complaints.append((name, f"{m[1]} bytes of shared memory"))
    return kernels, complaints


def check_amd(notes, arch, spill=0):
    """The same from the metadata of a code object; `spill` vector registers are allowed."""
    complaints, kernels = [], 0
    for block in re.split(r"\n\s+- \.agpr_count|\n\s+- \.args", notes)[1:]:
        fields = dict(re.findall(r"\.(\w+):\s+'?(\S+?)'?\n", block + "\n"))
        if "vgpr_spill_count" not in fields:
            continue
        kernels += 1
        name = fields.get("name", "?")
        if int(fields["wavefront_size"]) != WARP[arch]:
            complaints.append((name, f"wavefront of {fields['wavefront_size']}"))
        # Scalars are spilled into lanes of vector registers, not into memory: a few are cheap.
        for kind, most in (("vgpr", spill), ("sgpr", max(spill, MAX_SCALARS))):
            if int(fields[f"{kind}_spill_count"]) > most:
                complaints.append((name, f"{fields[f'{kind}_spill_count']} {kind}s spilled"))
        if int(fields["group_segment_fixed_size"]) > MAX_SHARED:
            complaints.append((name, f"{fields['group_segment_fixed_size']} bytes of LDS"))
    return kernels, complaints


def clang_command(arch, defines, source, out):
    return [
        find_tool("clang++"),
        *("-x", "hip", "--cuda-device-only", f"--offload-arch={arch}", "-nogpulib", "-nogpuinc"),
        *("--no-gpu-bundle-output", "-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Wextra"),
        *("-Werror", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-unused-parameter"),
        "-Wno-tautological-compare",  # x != x over integers
        *(f"-DPF_WARP={WARP[arch]}", f"-I{KERNELS}", *defines, "-c", str(source), "-o", str(out)),
    ]


class Options:
    """What a line of variants.txt asks for: -D options, and words for this tool."""

    def __init__(self, words):
        self.defines = [w for w in words if w.startswith("-")]
        rest = dict(w.split("=", 1) for w in words if not w.startswith("-"))
        self.spill = int(rest.pop("spill", 0))
        self.on = tuple(rest.pop("on", "gfx,sm").split(","))
        self.has = rest.pop("has", None)
        if rest:
            raise ValueError(f"variants.txt: unknown {', '.join(rest)}")

    def for_arch(self, arch):
        return arch.startswith(self.on)


def compile_amd(job):
    source, arch, words, count = job
    options = Options(words)
    out = Path(tempfile.mkstemp(suffix=".o")[1])
    try:
        command = clang_command(arch, options.defines, source, out)
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            return job, 0, [("?", run.stderr[:4000])]
        return job, *look_at(out, arch, options)
    finally:
        out.unlink(missing_ok=True)


def look_at(code_object, arch, options):
    """(kernels, complaints) of a code object for an AMD GPU."""
    notes = subprocess.run(
        [find_tool("llvm-readelf"), "--notes", str(code_object)], capture_output=True, text=True
    ).stdout
    kernels, complaints = check_amd(notes, arch, options.spill)
    if options.has:
        code = subprocess.run(
            [find_tool("llvm-objdump"), "-d", str(code_object)], capture_output=True, text=True
        ).stdout
        if not re.search(options.has, code):
            complaints.append(("?", f"no {options.has} in the code"))
    return kernels, complaints


_hiprtc = None


def compile_hiprtc(job):
    """With AMD's own run-time compiler, another release of LLVM: registers that it spills are
    not counted."""
    global _hiprtc
    source, arch, words, count = job
    options = Options(words)
    options.spill = 1000
    _hiprtc = _hiprtc or hiprtc.Hiprtc()
    try:
        out = _hiprtc.compile(source, arch, WARP[arch], options.defines)
    except RuntimeError as e:
        return job, 0, [("hipRTC", str(e)[:4000])]
    return job, *look_at(out, arch, options)


_nvrtc = None


def compile_nvidia(job):
    global _nvrtc
    source, arch, words, count = job
    options = Options(words)
    _nvrtc = _nvrtc or Nvrtc()
    text = Path(source).read_bytes()
    given = [*options.defines, "--minimal"]  # as src/gpu/compile.cpp
    try:
        kernels, complaints = check_nvidia(_nvrtc.compile(text, arch, given)[0], options.spill)
        if options.has and kernels:
            _, ptx = _nvrtc.compile(text, arch.replace("sm", "compute"), given)
            if not re.search(options.has, ptx):
                complaints.append(("?", f"no {options.has} in the code"))
    except RuntimeError as e:
        return job, 0, [("?", str(e)[:4000])]
    return job, kernels, complaints


def expand(text):
    """The texts with every {a,b} replaced by each of its alternatives."""
    if not (group := re.search(r"\{([^}]*)\}", text)):
        return [text]
    head, tail = text[: group.start()], text[group.end() :]
    return [t for choice in group[1].split(",") for t in expand(head + choice + tail)]


def variants():
    """(file, options) of the hand-written kernels, from kernels/variants.txt."""
    listed = KERNELS / "variants.txt"
    for line in listed.read_text().splitlines():
        for text in expand(line.split("#")[0]):
            if words := text.split():
                yield words[0], words[1:]


def cut(text, folder, listed):
    """(file, options, source, [(source, kernels)]) of each of `listed`: the text with all kernels,
    and those of NVIDIA's programs, written into `folder` by the program `text`."""
    lines = [" ".join([f"v{i}", f, *Options(w).defines]) for i, (f, w) in enumerate(listed)]
    run = subprocess.run(
        [text, folder, "--variants"], input="\n".join(lines) + "\n",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    parts = {}
    for name, file, kernels in map(str.split, run.stdout.splitlines()):
        parts.setdefault(name, []).append((os.path.join(folder, file), kernels.split(",")))
    for i, (file, words) in enumerate(listed):
        yield file, words, os.path.join(folder, f"v{i}.cpp"), parts[f"v{i}"]


def unlisted():
    """Files with kernels that variants.txt does not name."""
    named = {name for name, _ in variants()}
    return [
        f.name
        for f in sorted(KERNELS.glob("*.h"))
        if f.name not in named and re.search(r"^PF_KERNEL\(", f.read_text(), re.M)
    ]


def revision():
    def git(*words):
        run = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
        return run.stdout.strip()

    changed = git("status", "--porcelain", "--", ":/", ":!tests/results")  # but for what we keep
    return git("rev-parse", "HEAD") + ("+changes" if changed else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--all", action="store_true")
    what.add_argument("--sample", metavar="SEED", help="a number in hexadecimal, such as a commit")
    parser.add_argument("--random", type=int, default=500, help="random groups (default 500)")
    parser.add_argument("--count", type=int, default=240, help="kernels of a sample")
    parser.add_argument("--text", default=str(ROOT / "build/tests/cpp/kernel_text"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--hiprtc", action="store_true", help="with AMD's run-time compiler too")
    parser.add_argument("--json", help="write the result here")
    args = parser.parse_args()

    missing = [t for t in ("clang++", "llvm-readelf", "llvm-objdump") if not find_tool(t)]
    if missing:
        sys.exit(f"kernels.py: no {' and no '.join(missing)}; run tools/setup.sh ci")
    nvrtc = Nvrtc().version
    clang = subprocess.run([find_tool("clang++"), "--version"], capture_output=True, text=True)
    started = time.time()
    if args.hiprtc:
        hiprtc.build()
    with tempfile.TemporaryDirectory() as folder:
        per_file = 12  # as many groups share a program of the plug-ins
        command = [args.text, folder, str(per_file), str(args.random)]
        seed = int(args.sample[:12], 16) if args.sample else 0
        if args.sample:
            command += [str(seed), str(args.count)]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names, counts, label, chance = {}, {}, {}, set()  # chance: files with a random group
        for line in listing.splitlines():
            file, entry, case = line.split()
            names[entry] = case
            counts[file] = counts.get(file, 0) + 1
            if case.startswith("random_"):
                chance.add(os.path.join(folder, file))
        texts = [(os.path.join(folder, f), [], n) for f, n in counts.items()]
        # A sample sends every file to two of the architectures, each kind of wavefront once.
        amd, nvidia, rtc = [], [], []
        for i, (path, defines, n) in enumerate(texts):
            archs = AMD if args.all else [AMD[i % 2], AMD[2 + (i // 2) % 2]]
            amd += [(path, a, defines, n) for a in archs]
            # A word or two of a large group, which one is chance, costs nothing.
            allowed = ["spill=16"] if path in chance else []
            archs = NVIDIA if args.all else [NVIDIA[i % 2]]
            nvidia += [(path, a, [*defines, *allowed], n) for a in archs]
            rtc.append((path, AMD[i % len(AMD)], defines, n))
        for i, (file, defines, path, parts) in enumerate(cut(args.text, folder, list(variants()))):
            label[path] = file
            label.update((source, f"{file} {','.join(k)}") for source, k in parts)
            where = [a for a in WARP if Options(defines).for_arch(a)]
            archs = [a for a in where if a in AMD]
            rtc += [(path, a, defines, None) for a in archs[i % 4 :: 4] or archs[:1]]
            if not args.all and archs:
                archs = [archs[(i + seed) % len(archs)]]
            amd += [(path, a, defines, None) for a in archs]
            few = args.all or i % 3 == seed % 3
            archs = [a for a in where if a in NVIDIA and few]
            nvidia += [(source, a, defines, None) for a in archs for source, _ in parts]

        failures, kernels = [], dict.fromkeys(WARP, 0)
        for name in unlisted():
            text = "has kernels, but no line in kernels/variants.txt"
            print(f"{name}: {text}", file=sys.stderr)
            if args.all:
                failures.append({"kernel": name, "arch": "", "complaint": text})
        if not args.hiprtc:
            rtc = []
        done, total = 0, len(amd) + len(nvidia) + len(rtc)
        by_hiprtc = 0
        with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
            futures = [pool.submit(compile_amd, j) for j in amd]
            futures += [pool.submit(compile_nvidia, j) for j in nvidia]
            second = {pool.submit(compile_hiprtc, j) for j in rtc}
            for future in concurrent.futures.as_completed([*futures, *second]):
                (source, arch, defines, expected), found, complaints = future.result()
                if future in second:
                    by_hiprtc += found
                else:
                    kernels[arch] += found
                if expected is not None and found != expected and not complaints:
                    complaints = [("?", f"{found} kernels came out, not {expected}")]
                for entry, text in complaints:
                    what = names.get(entry, entry)
                    if source in label:
                        what = label[source] + ("" if entry == "?" else " " + entry)
                    failures.append({"kernel": what, "arch": arch, "complaint": text})
                    print(f"{arch} {what} {' '.join(defines)}: {text}", file=sys.stderr)
                done += 1
                if sys.stdout.isatty():
                    print(f"\r{done}/{total}", end="", flush=True)
    result = {
        "commit": revision(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "clang": clang.stdout.splitlines()[0],
        "nvrtc": nvrtc,
        "kernels": kernels,
        "hiprtc": hiprtc.Hiprtc().version if args.hiprtc else None,
        "kernels_by_hiprtc": by_hiprtc,
        "random_groups": args.random,
        "sample": args.sample,
        "seconds": round(time.time() - started),
        "failures": failures,
    }
    if args.json:
        Path(args.json).parent.mkdir(parents=True, exist_ok=True)
        Path(args.json).write_text(json.dumps(result, indent=2) + "\n")
    each = ", ".join(f"{a} {n}" for a, n in [*kernels.items(), ("hipRTC", by_hiprtc)])
    print(f"compiled in {result['seconds']} s: {each}; {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
