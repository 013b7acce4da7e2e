"""AMD's run-time compiler where it was fetched to (tools/vendor_sdk.sh), in a process that the
loader which came with it starts: it may be newer than this system."""

import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build/vendor/rocm"


def available():
    return (PLACE / ".complete").exists()


def build():
    """Compiles the program that speaks to the compiler."""
    out = ROOT / "build/vendor/hiprtc_compile"
    source = ROOT / "tools/hiprtc_compile.cpp"
    subprocess.run(["g++", "-std=c++20", "-O1", "-o", out, source, "-ldl"], check=True)


class Hiprtc:
    """One compiler process; `compile` serves one program at a time."""

    def __init__(self):
        libraries = PLACE / "usr/lib/x86_64-linux-gnu"
        library = max(libraries.glob("libhiprtc.so.*.*.*"))
        self.version = re.search(r"so\.([\d.]+)", library.name)[1]
        loader = next(PLACE.glob("usr/lib*/ld-linux-x86-64.so.2"))
        folders = [libraries, *PLACE.glob("usr/lib/llvm-*/lib")]
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [loader, "--library-path", ":".join(map(str, folders)),
             ROOT / "build/vendor/hiprtc_compile", library],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.process.stdout.readline()  # its own number, which is not that of the release

    def compile(self, source, arch, warp, defines):
        """The code object's path, valid until the next call; RuntimeError if it fails."""
        out = Path(self.folder.name) / "code.o"
        options = [f"--gpu-architecture={arch}", "-std=c++17", "-ffp-contract=off", "-O3"]
        options += [f"-DPF_WARP={warp}", f"-I{ROOT / 'kernels'}", *defines]
        print("\t".join([str(source), str(out), *options]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if answer.strip() == "ok":
            return out
        log = answer
        while (line := self.process.stdout.readline()) not in ("", ".\n"):
            log += line
        raise RuntimeError(log)
