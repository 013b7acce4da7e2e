"""Compiles device text for GPUs that are not here, and checks the code that comes out.

What is compiled is what plug-ins ask for: for each architecture tools/kernel_calls.py calls every
operation that has kernels on a GPU that is not there (PYFLAME_COMPILE_ONLY), with the stand-in's compiler,
which keeps the texts. So no list says which variants of a kernel there are, and a file of kernels/ with a
kernel that no launcher asked for is a finding. To these comes the corpus of the C++ tests: each row of the
pointwise table in each dtype, gradients, conversions, random groups. clang compiles for AMD
architectures (gfx950 where there is clang 20 or later: Debian's security updates have 22), NVRTC for NVIDIA's.

A finding: it does not compile; the wavefront is not 64 wide on gfx9 and 32 on gfx11/12; registers are
spilled or memory of a thread is used for anything else; a block takes more than 64 KiB of its own memory;
a kernel for matrix units has no instruction of theirs; AMD's code does not know that an address is in
global memory (flat_load). tools/kernel_limits.py has those that are known, with reasons.

    tools/kernels.py --all              everything that has no result yet, five AMD and two NVIDIA architectures
    tools/kernels.py --all gfx942       for these, in this order
    tools/kernels.py --all --minutes 10    a piece of it; Ctrl-C ends one too
    tools/kernels.py --only 'sum_.*' sm_80    programs with a kernel of such a name, or groups of such a case
    tools/kernels.py --sample SEED      a share of it that takes two minutes, for one AMD and one NVIDIA
                                        architecture: of what changed since the last whole run each kind of
                                        kernel, drawn by SEED so that pairs of options come early, and
                                        all in the end; then the same of the rest

Results are kept (tools/kernel_results.py), each as soon as it is there, and tests/results/kernel_texts.json
says after each run but a sample how far it has come.
"""

import argparse
import ast
import concurrent.futures
import ctypes
import inspect
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import hiprtc
import kernel_limits
import kernel_results
from kernel_results import HOPPER, ORDER, Finding, kernels_in, texts

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
WARP = {
    "gfx90a": 64,
    "gfx942": 64,
    "gfx950": 64,
    "gfx1100": 32,
    "gfx1201": 32,
    "sm_80": 32,
    "sm_90": 32,
}
NEWER = ("gfx950",)  # which clang 19 does not know
AMD = [a for a in WARP if a.startswith("gfx")]
NVIDIA = [a for a in WARP if a.startswith("sm")]
MAX_SHARED = 65536
MAX_SCALARS = 64  # spilled ones; they fill one or two vector registers
GROUP = "pf_program"  # how kernels of pointwise groups begin


def find_tool(name, arch=""):
    """The newest `name-<version>` of LLVM 19 or later that knows the architecture, or None."""
    for version in (22, 21, 20) if arch in NEWER else (21, 20, 19):
        path = shutil.which(f"{name}-{version}")
        if path:
            return path
    return None


# ---- what is asked for ------------------------------------------------------------------------------


class Program(NamedTuple):
    """A text, as a compiler gets it from a plug-in."""

    path: str
    arch: str
    kernels: tuple  # their names
    options: tuple  # -D alone
    hash: str = ""  # of the text
    count: int | None = None  # of kernels that must come out, where that is known

    def define(self, name):
        start = f"-D{name}="
        return next((o[len(start) :] for o in self.options if o.startswith(start)), None)

    @property
    def group(self):
        """Of pointwise nodes alone."""
        return self.kernels[0].startswith(GROUP) or self.count is not None

    def has(self, name):
        """Whether one of its kernels is called so (an expression)."""
        return any(name.fullmatch(k) for k in self.kernels)

    def title(self):
        return " ".join([",".join(self.kernels[:3]), *self.options])


def record(arch, folder, build):
    """Starts what writes the programs for `arch` into the folder."""
    rtc, amd = build / "standin/libhiprtc.so", arch in AMD
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYFLAME_", "HIP_"))}
    env |= {
        "PYFLAME_COMPILE_ONLY": arch,
        "PYFLAME_HIPRTC_LIBRARY" if amd else "PYFLAME_NVRTC_LIBRARY": str(rtc),
        "PYFLAME_STANDIN_CXX": "none",
        "PYFLAME_STANDIN_KEEP": str(folder),
        "PYFLAME_COMPILE_THREADS": "0",
        "PYFLAME_GPU_GEMM": "own",
        "PYFLAME_GPU_CONV": "own",
        "PYFLAME_GPU_ATTENTION": "own",
        "XDG_CACHE_HOME": "",
        "HOME": "",  # nothing is found in a cache
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "python"),
    }
    command = [sys.executable, "-P", ROOT / "tools/kernel_calls.py", "rocm" if amd else "cuda"]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def recorded(process, arch, folder):
    """The programs of `record`, each once, and what its process complained of."""
    out, err = process.communicate()
    if process.returncode:
        raise RuntimeError(f"tools/kernel_calls.py for {arch}: {err[-4000:]}")
    programs = {}
    for file in sorted(folder.glob("*.cpp")):
        first, text = file.read_text().split("\n", 1)
        options = tuple(o for o in first.split() if o.startswith("-D") and "PF_WARP=" not in o)
        text_hash = kernel_results.compiled_hash(text)
        program = Program(str(file), arch, kernels_in(text), options, text_hash)
        programs.setdefault((options, text_hash), program)
    return list(programs.values()), out.splitlines()


def never_asked_for(programs, archs):
    """Kernels that are in none of the programs, though one of the architectures has them."""
    asked = {k for p in programs for k in p.kernels}
    return [
        f"{k} of {file.name}"
        for file in texts()
        if not any(n in file.name for n in HOPPER) or "sm_90" in archs
        for k in kernels_in(file.read_text())
        if k not in asked
    ]


def corpus(text, folder, random_groups, sample):
    """(path, {entry: case}) of the C++ tests' pointwise programs."""
    per_file = 12  # as many groups share a program of the plug-ins
    command = [text, folder, str(per_file), str(random_groups), *sample]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    files = defaultdict(dict)
    for line in listing.splitlines():
        file, entry, case = line.split()
        files[os.path.join(folder, file)][entry] = case
    return list(files.items())


def draw(programs, seed, count):
    """`count` of them or a few more: every kind of kernel, then those with the most pairs of options that
    none of the drawn has, of a few that are looked at each time."""
    dice = random.Random(seed)
    kinds = defaultdict(list)
    for p in programs:
        kinds[p.kernels if not p.group else GROUP].append(p)
    # Of a group the structure is no option: one is as good as another.
    groups = kinds.pop(GROUP, [])
    drawn = dice.sample(groups, min(len(groups), count // 4))

    def pairs(p):
        return {*itertools.combinations(sorted(p.options), 2), *((o,) for o in p.options)}

    seen = defaultdict(set)  # by kind

    def take(kind):
        few = dice.sample(kinds[kind], min(12, len(kinds[kind])))
        best = max(few, key=lambda p: len(pairs(p) - seen[kind]))
        seen[kind] |= pairs(best)
        kinds[kind].remove(best)
        drawn.append(best)

    for kind in kinds:
        take(kind)
    while len(drawn) < count and any(kinds.values()):
        take(dice.choice([k for k, v in kinds.items() if v]))
    return drawn


# ---- what comes out -----------------------------------------------------------------------------------


def matrix_instruction(program):
    """What the code of a program for matrix units must contain."""
    unit, t, arch = program.define("PF_MATRIX_UNIT"), program.define("PF_T"), program.arch
    if unit is None or {"pf_conv_few_pack", "pf_conv_few_weight_finish"} & set(program.kernels):
        return None
    tf32 = program.define("PF_TF32") is not None
    if arch in NVIDIA:
        kind = {"pf_i8": "s8", "pf_e4m3fn": "e4m3", "pf_e5m2": "e5m2"}.get(
            t, "tf32" if tf32 else ""
        )
        return (r"wgmma\S*" if unit == "2" else r"mma\.sync\S*") + kind
    if WARP[arch] == 64:
        if t == "float":
            return "v_mfma_f32_32x32x4_xf32" if tf32 else r"v_mfma_f32_32x32x2_?f32"
        k = {"gfx90a": (8, "8"), "gfx942": (16, "8"), "gfx950": (32, "16")}[arch]
        return (
            rf"v_mfma_i32_32x32x{k[0]}_?i8" if t == "pf_i8" else rf"v_mfma_f32_32x32x{k[1]}_?b?f16"
        )
    return "v_wmma_i32_16x16x16_iu8" if t == "pf_i8" else "v_wmma_"


def check_nvidia(log):
    """(kernels, findings) from what the assembler said of each."""
    findings, kernels, name = [], 0, "?"
    for line in log.splitlines():
        if m := re.search(r"Compiling entry function '(\w+)'", line):
            name, kernels = m[1], kernels + 1
        if m := re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line
        ):
            spilled = max(int(m[2]), int(m[3]))
            if spilled:
                findings.append(Finding(name, "spill", spilled))
            elif int(m[1]):
                findings.append(Finding(name, "scratch", int(m[1])))
        if (m := re.search(r"(\d+) bytes smem", line)) and int(m[1]) > MAX_SHARED:
            findings.append(Finding(name, f"{m[1]} bytes of shared memory"))
    return kernels, findings


def check_amd(metadata, arch):
    """The same from the metadata of code for AMD."""
    findings, kernels = [], 0
    for block in re.split(r"\n\s+- \.agpr_count|\n\s+- \.args", metadata)[1:]:
        fields = dict(re.findall(r"\.(\w+):\s+'?(\S+?)'?\n", block + "\n"))
        if "vgpr_spill_count" not in fields:
            continue
        kernels += 1
        name = fields.get("name", "?")
        if int(fields["wavefront_size"]) != WARP[arch]:
            findings.append(Finding(name, f"wavefront of {fields['wavefront_size']}"))
        if spilled := int(fields["vgpr_spill_count"]):
            findings.append(Finding(name, "spill", spilled))
        # Beside what is spilled there may be a word or two of the compiler's own.
        scratch = int(fields["private_segment_fixed_size"]) - 4 * spilled
        if scratch > (16 if spilled else 0):
            findings.append(Finding(name, "scratch", scratch))
        # Scalars are spilled into lanes of vector registers, not into memory: a few are cheap.
        if int(fields["sgpr_spill_count"]) > MAX_SCALARS:
            findings.append(Finding(name, "scalars", int(fields["sgpr_spill_count"])))
        if int(fields["group_segment_fixed_size"]) > MAX_SHARED:
            findings.append(Finding(name, f"{fields['group_segment_fixed_size']} bytes of LDS"))
    return kernels, findings


def check_flat(code):
    """Accesses whose address may be in any kind of memory, by function."""
    name, found = "?", Counter()
    for line in code.splitlines():
        if m := re.match(r"(?:[0-9a-f]+ <)?(\w+)>?:", line):
            name = m[1] if not line.startswith((".L", "BB")) else name
        elif re.match(r"\s+flat_(?:load|store|atomic)", line):
            found[name] += 1
    return [Finding(name, "flat", n) for name, n in found.items()]


KILLED = "the compiler ended with"  # and said nothing: no result to keep


def clang_command(program, out):
    options = [f"-DPF_WARP={WARP[program.arch]}", f"-I{KERNELS}", *program.options]
    return [
        find_tool("clang++", program.arch),
        *("-x", "hip", "--cuda-device-only", f"--offload-arch={program.arch}", "-nogpulib"),
        *("-nogpuinc", "--no-gpu-bundle-output", "-std=c++17", "-O3", "-ffp-contract=off"),
        *("-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-variable"),
        *("-Wno-unused-parameter", "-Wno-tautological-compare"),  # x != x over integers
        *(*options, "-S", program.path, "-o", out),
    ]


def whole(program, kernels, findings, code):
    """What there is to say of any code that was made."""
    if not kernels or kernels != (program.count or kernels):
        findings.append(Finding("?", f"{kernels} kernels came out, not {program.count or 'one'}"))
    needed = matrix_instruction(program)
    if needed and not re.search(needed, code):
        findings.append(Finding("?", f"no {needed} in the code"))
    return kernels, findings


def compile_amd(program):
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/code.s"
        run = subprocess.run(clang_command(program, out), capture_output=True, text=True)
        if run.returncode:
            return 0, [Finding("?", run.stderr[:4000] or f"{KILLED} {run.returncode}")]
        code = Path(out).read_text()
    kernels, findings = check_amd(code, program.arch)
    return whole(program, kernels, findings + check_flat(code), code)


_hiprtc = None


def compile_hiprtc(program):
    """With AMD's own run-time compiler, another release of LLVM: what it spills is not counted."""
    global _hiprtc
    _hiprtc = _hiprtc or hiprtc.Hiprtc()
    try:
        out = _hiprtc.compile(program.path, program.arch, WARP[program.arch], program.options)
    except RuntimeError as e:
        return 0, [Finding("hipRTC", str(e)[:4000])]

    def said(tool, option):
        return subprocess.run([find_tool(tool), option, out], capture_output=True, text=True).stdout

    kernels, findings = check_amd(said("llvm-readelf", "--notes"), program.arch)
    findings = [f for f in findings if f.what not in ("spill", "scratch")]
    code = said("llvm-objdump", "-d") if matrix_instruction(program) else ""
    return whole(program, kernels, findings, code)


class Nvrtc:
    """NVIDIA's run-time compiler, from the Python package nvidia-cuda-nvrtc."""

    def __init__(self):
        places = [Path(p) for p in sys.path] + [Path(os.environ.get("PYFLAME_NVRTC", "."))]
        found = [f for p in places for f in p.glob("nvidia/cu*/lib/libnvrtc.so.*")]
        if not found:
            raise FileNotFoundError("no NVRTC: pip install nvidia-cuda-nvrtc")
        nvrtc = sorted(found)[-1]
        for builtins in nvrtc.parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins))  # release 13.0 does not look beside itself
        self.lib = ctypes.CDLL(str(nvrtc))
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def compile(self, source, arch, defines):
        """The log of compiler and assembler, and the PTX; RuntimeError if it fails."""
        program = ctypes.c_void_p()
        self.lib.nvrtcCreateProgram(ctypes.byref(program), source, b"text.cu", 0, None, None)
        # As src/gpu/compile.cpp: with Hopper's own instructions.
        options = [f"--gpu-architecture={arch.replace('_90', '_90a')}"]
        options += ["-std=c++17", "--fmad=false", "--ptxas-options=-v", "-DPF_WARP=32", *defines]
        array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        status = self.lib.nvrtcCompileProgram(program, len(options), array)

        def text(name):
            size = ctypes.c_size_t()
            getattr(self.lib, f"nvrtcGet{name}Size")(program, ctypes.byref(size))
            value = ctypes.create_string_buffer(size.value)
            getattr(self.lib, f"nvrtcGet{name}")(program, value)
            return value.value.decode(errors="replace")

        log, ptx = text("ProgramLog"), "" if status else text("PTX")
        self.lib.nvrtcDestroyProgram(ctypes.byref(program))
        if status:
            raise RuntimeError(log)
        return log, ptx


_nvrtc = None


def compile_nvidia(program):
    global _nvrtc
    _nvrtc = _nvrtc or Nvrtc()
    text = Path(program.path).read_bytes()
    try:
        # Without what our kernels never use, as src/gpu/compile.cpp.
        log, ptx = _nvrtc.compile(text, program.arch, [*program.options, "--minimal"])
    except RuntimeError as e:
        return 0, [Finding("?", str(e)[:4000])]
    return whole(program, *check_nvidia(log), ptx)


# ------------------------------------------------------------------------------------------------------


def revision():
    def git(*words):
        run = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
        return run.stdout.strip()

    changed = git("status", "--porcelain", "--", ":/", ":!tests/results")  # but for what we keep
    return git("rev-parse", "HEAD") + ("+changes" if changed else "")


def architectures(args, seed):
    """Those that programs are recorded for: what a compiler here knows."""
    amd = [a for a in AMD if find_tool("clang++", a)]
    if args.sample:
        return [amd[seed % len(amd)], NVIDIA[seed // len(amd) % len(NVIDIA)]]
    return args.arch or [a for a in ORDER if a in (*amd, *NVIDIA)]


def drawn(i):
    """Where a sample sends file i: to two of AMD's architectures, one of either wavefront."""
    amd = [[a for a in AMD if WARP[a] == w and find_tool("clang++", a)] for w in (64, 32)]
    return [amd[0][i % len(amd[0])], amd[1][i // 2 % len(amd[1])], NVIDIA[i % len(NVIDIA)]]


def spread(programs, seed):
    """All of them: each kind of kernel once, then each once more, and so on. A run that is cut has seen
    something of everything."""
    kinds = defaultdict(list)
    for p in programs:
        kinds[p.kernels if not p.group else GROUP].append(p)
    for own in kinds.values():
        random.Random(seed).shuffle(own)
    return [p for row in itertools.zip_longest(*kinds.values()) for p in row if p]


def basis(arch, compiler):
    """What a result depends on beside its program: the compiler, and what is looked for."""
    looks = [clang_command, compile_amd, check_amd, check_flat] if arch in AMD else []
    looks = looks or [Nvrtc.compile, compile_nvidia, check_nvidia]
    sources = [inspect.getsource(f) for f in (*looks, whole, matrix_instruction)]
    said = [ast.dump(ast.parse(textwrap.dedent(s))) for s in sources]  # without comments
    return kernel_results.digest(compiler, str((MAX_SHARED, MAX_SCALARS, WARP[arch])), *said)


def in_worker():
    # Ctrl-C goes to a terminal's group of processes: compilers end what they began. (clang removes
    # its files at a signal that is ignored, too, and then fails.)
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Run:
    """What one call of this tool does and finds."""

    def __init__(self, args, compilers):
        self.args, self.compilers = args, compilers
        self.seed = int(args.sample[:12], 16) if args.sample else 0
        self.archs = architectures(args, self.seed)
        self.failures, self.names, self.allowed = [], {}, Counter()
        self.kernels = dict.fromkeys(WARP, 0)
        self.by_hiprtc = self.left = self.compiled = self.known = 0
        self.results, self.asked = {}, []
        self.stopped = self.interrupted = False  # the latter by Ctrl-C, not by --minutes
        self.ends = time.time() + 60 * args.minutes if args.minutes else None
        self.commit = revision()
        self.summary = kernel_results.read()

    def fail(self, kernel, arch, complaint):
        self.failures.append({"kernel": kernel, "arch": arch, "complaint": complaint})
        print(f"{arch} {kernel}: {complaint}", file=sys.stderr, flush=True)

    def results_of(self, arch):
        if arch not in self.results:
            of = basis(arch, self.compilers[arch])
            self.results[arch] = kernel_results.Results(arch, of)
        return self.results[arch]

    def corpus(self, folder):
        """The C++ tests' programs, each for one architecture: (file number, program)."""
        sample = [str(self.seed), str(self.args.count)] if self.args.sample else []
        text = self.args.build / "tests/cpp/kernel_text"
        for i, (path, cases) in enumerate(corpus(text, folder, self.args.random, sample)):
            self.names |= {(path, entry): case for entry, case in cases.items()}
            hashed = kernel_results.compiled_hash(Path(path).read_text())
            for arch in drawn(i) if self.args.sample else self.archs:
                yield Program(path, arch, tuple(cases), (), hashed, len(cases))

    def chosen(self, programs, arch, place):
        """Which of an architecture's programs are to have a result."""
        args = self.args
        if args.sample:
            changed = kernel_results.changed(programs, arch, self.summary)
            seed = self.seed + place
            first = draw(changed, seed, args.programs)
            taken = {id(p) for p in changed}
            rest = [p for p in programs if id(p) not in taken]
            print(f"{arch}: {len(changed)} of {len(programs)} programs are of texts that changed")
            more = args.programs - len(first)
            return first + (draw(rest, seed, more) if more > 0 else [])
        if args.only:
            return [p for p in programs if p.has(args.only) or self.case_has(p)]
        return programs

    def case_has(self, p):
        return p.count is not None and any(
            self.args.only.fullmatch(self.names[p.path, k]) for k in p.kernels
        )

    def judge(self, p, kernels, findings):
        self.kernels[p.arch] += kernels
        self.complain(p, findings)

    def complain(self, p, findings):
        for f in findings:
            case = self.names.get((p.path, f.kernel), "")
            if limit := kernel_limits.allows(p, f, case):
                self.allowed[limit] += 1
            else:
                what = p.title() if f.kernel == "?" else " ".join([f.kernel, *p.options])
                self.fail(case or what, p.arch, str(f))

    def compile(self, pool, programs):
        """Those that have no result yet, as long as there is time."""
        to_do = []
        for p in programs:
            if result := self.results_of(p.arch).get(p):
                self.judge(p, result.kernels, result.findings)
                self.known += 1
            else:
                to_do.append(p)
        if self.args.sample:  # what takes long first, so that nobody waits for it in the end
            to_do.sort(key=lambda p: -os.path.getsize(p.path))
        else:
            to_do = spread(to_do, self.seed)
        waiting, running, done = iter(to_do), {}, 0
        try:
            while not self.stopped:
                # A few more than there are workers: what was handed over is done to its end.
                more = itertools.islice(waiting, self.args.jobs + 1 - len(running))
                if not self.ends or time.time() < self.ends:
                    for p in more:
                        work = compile_amd if p.arch in AMD else compile_nvidia
                        running[pool.submit(work, p)] = p
                if not running:
                    break
                done += self.ended(running, concurrent.futures.FIRST_COMPLETED)
                if sys.stdout.isatty():
                    print(f"\r{programs[0].arch}: {done}/{len(to_do)} ", end="", flush=True)
        except KeyboardInterrupt:
            self.stopped = self.interrupted = True
            print("stopping: what was begun is done to its end", file=sys.stderr, flush=True)
        done += self.ended(running, concurrent.futures.ALL_COMPLETED)
        self.compiled += done
        self.left += len(to_do) - done
        self.stopped |= bool(self.ends) and time.time() >= self.ends

    def ended(self, running, until):
        """Takes the results that are there; how many."""
        there, _ = concurrent.futures.wait(running, return_when=until)
        for future in there:
            p = running.pop(future)
            kernels, findings = future.result()
            if not any(f.what.startswith(KILLED) for f in findings):
                self.results_of(p.arch).keep(p, kernels, findings)
            self.judge(p, kernels, findings)
        return len(there)

    def second(self, pool, programs):
        """A part of AMD's programs with AMD's own compiler; results are not kept."""
        work = {pool.submit(compile_hiprtc, p): p for p in programs}
        for future in concurrent.futures.as_completed(work):
            found, findings = future.result()
            self.by_hiprtc += found
            self.complain(work[future], findings)

    def arch(self, pool, arch, recording, generated, folder):
        found, complaints = recorded(recording, arch, folder)
        for complaint in complaints:
            self.fail("?", arch, complaint)
        self.asked += found
        place = self.archs.index(arch)
        if self.args.sample:
            chosen = self.chosen(found, arch, place) + generated
        else:
            found += generated
            chosen = self.chosen(found, arch, place)
        self.compile(pool, chosen)
        if not self.args.sample and self.args.random == RANDOM:
            self.summarize(arch, found)
        if self.args.hiprtc and arch in AMD and arch not in NEWER and not self.stopped:
            self.second(pool, draw([p for p in chosen if p.count is None], self.seed, 500))
            self.second(pool, [p for p in chosen if p.count is not None])

    def summarize(self, arch, programs):
        summary = kernel_results.read()  # another run may have written it meanwhile
        results, compiler = self.results_of(arch), self.compilers[arch]
        compiler = re.sub(r".*version (\S+).*", r"clang \1", compiler)
        kernel_results.summarize(summary, arch, compiler, programs, results, self.commit)
        if self.args.all:
            others = [f for f in summary["failures"] if f["arch"] != arch]
            summary["failures"] = others + [f for f in self.failures if f["arch"] == arch]
        kernel_results.write(summary)

    def everything(self, folder):
        begun = {}

        def begin(archs):
            for arch in [a for a in archs if a not in begun]:
                place = Path(folder) / arch
                place.mkdir()
                begun[arch] = record(arch, place, self.args.build)

        generated = defaultdict(list)
        for p in self.corpus(folder):
            generated[p.arch].append(p)
        with concurrent.futures.ProcessPoolExecutor(self.args.jobs, initializer=in_worker) as pool:
            for i, arch in enumerate(self.archs):
                if self.stopped:
                    for a in self.archs[i:]:
                        print(f"{a}: not looked at", file=sys.stderr)
                    break
                begin(self.archs[i : i + 1 + bool(self.args.sample)])
                self.arch(pool, arch, begun[arch], generated.pop(arch, []), Path(folder) / arch)
                if not self.args.sample:
                    shutil.rmtree(Path(folder) / arch)
            for rest in generated.values() if self.args.sample else ():
                self.compile(pool, rest)
        if self.stopped:
            return
        for kernel in never_asked_for(self.judged_by(), self.archs):
            if not self.args.only or self.args.only.fullmatch(kernel.split()[0]):
                self.fail(kernel, "", "no launcher asked for it: let tools/kernel_calls.py call it")
        if self.args.all and not self.args.arch and not self.left:
            for limit in kernel_limits.LIMITS:
                if limit not in self.allowed and any(a.startswith(limit.archs) for a in self.archs):
                    self.fail(limit.kernels, "", f"no longer needs its limit ({limit.reason})")

    def judged_by(self):
        """Programs in which every kernel must be."""
        if any(a in NVIDIA for a in self.archs):  # for AMD all kernels of a file are one program
            return [p for p in self.asked if p.arch in NVIDIA]
        return self.asked


RANDOM = 500  # groups; the summary counts these


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--all", action="store_true")
    what.add_argument("--sample", metavar="SEED", help="a number in hexadecimal, such as a commit")
    what.add_argument(
        "--only", metavar="REGEX", type=re.compile, help="kernels with such names: 'softmax_.*'"
    )
    parser.add_argument("arch", nargs="*", help=f"of {' '.join(WARP)} (all)")
    parser.add_argument("--minutes", type=float, help="then stop; the next run goes on")
    parser.add_argument(
        "--random", type=int, default=RANDOM, help=f"random groups (default {RANDOM})"
    )
    parser.add_argument("--count", type=int, default=240, help="pointwise kernels of a sample")
    parser.add_argument(
        "--programs", type=int, default=200, help="of a sample, for each architecture"
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--hiprtc", action="store_true", help="with AMD's run-time compiler too")
    parser.add_argument("--json", help="write the result here")
    args = parser.parse_args()
    if unknown := set(args.arch) - set(WARP):
        parser.error(f"no architecture {', '.join(unknown)}; there are {', '.join(WARP)}")

    missing = [t for t in ("clang++", "llvm-readelf", "llvm-objdump") if not find_tool(t)]
    missing += [f"clang++ for {a}" for a in args.arch if a in AMD and not find_tool("clang++", a)]
    if missing:
        sys.exit(f"kernels.py: no {' and no '.join(missing)}; run tools/setup.sh ci")
    nvrtc = Nvrtc().version
    clang = {}
    for arch in AMD:
        if compiler := find_tool("clang++", arch):
            run = subprocess.run([compiler, "--version"], capture_output=True, text=True)
            clang[arch] = run.stdout.splitlines()[0]
        else:
            print(f"{arch}: no compiler here knows it (clang-22 does): left out")
    started = time.time()
    if args.hiprtc:
        hiprtc.build()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    run = Run(args, clang | dict.fromkeys(NVIDIA, f"NVRTC {nvrtc}"))
    with tempfile.TemporaryDirectory() as folder:
        try:
            run.everything(folder)
        except KeyboardInterrupt:  # before anything was compiled
            run.stopped = run.interrupted = True
    if args.only and not run.compiled + run.known + run.left:
        sys.exit(f"kernels.py: no kernel is called {args.only.pattern}")
    result = {
        "commit": run.commit,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "clang": clang,
        "nvrtc": nvrtc,
        "kernels": run.kernels,
        "hiprtc": hiprtc.Hiprtc().version if args.hiprtc else None,
        "kernels_by_hiprtc": run.by_hiprtc,
        "random_groups": args.random,
        "sample": args.sample,
        "seconds": round(time.time() - started),
        "compiled_before": run.known,
        "left": run.left,
        "failures": run.failures,
    }
    if args.json:
        Path(args.json).parent.mkdir(parents=True, exist_ok=True)
        Path(args.json).write_text(json.dumps(result, indent=2) + "\n")
    each = ", ".join(f"{a} {n}" for a, n in [*run.kernels.items(), ("hipRTC", run.by_hiprtc)])
    print(
        f"{run.compiled} programs compiled in {result['seconds']} s, {run.known} had a result, "
        f"{run.left} have none yet; kernels: {each}; {len(run.failures)} failures"
    )
    if run.stopped:
        print("not all was looked at: the same command goes on from here")
    sys.exit(1 if run.failures else 130 if run.interrupted else 0)


if __name__ == "__main__":
    main()
