"""Compiled GPU programs on disk: what `pyflame cache` shows, clears, fills in advance and packs.

The first use of an operation on a GPU compiles a program and keeps it under
``$XDG_CACHE_HOME/pyflame/kernels`` (``~/.cache/pyflame/kernels``), one file for each. A *pack* is
one file with the common programs of several architectures, which is looked at first: the one that
``PYFLAME_KERNEL_PACK`` names, or ``pyflame-kernels.pack`` beside the plug-in.
"""

import contextlib
import os
import re
import struct
import subprocess
import sys
import time

from . import _files

_HEADER = struct.Struct("<8sQQQ")  # as Header of src/gpu/cache.cpp
_MAGIC = b"PFKERN2\n"
_PACK = struct.Struct("<8sQQ")
_PLACE = struct.Struct("<64sQQQ")
_PACK_MAGIC = b"PFPACK1\n"
_WORD = (1 << 64) - 1


def folder() -> str:
    """Where compiled programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "pyflame", "kernels")


def checksum(data: bytes) -> int:
    """As checksum() of src/gpu/cache.cpp."""
    h = 0x2545F4914F6CDD1D ^ len(data)
    whole = len(data) // 8 * 8
    last = int.from_bytes(data[whole:], "little")
    for (word,) in struct.iter_unpack("<Q", data[:whole] + last.to_bytes(8, "little")):
        h = ((h ^ word) * 0x9E3779B97F4A7C15) & _WORD
        h ^= h >> 29
    return h ^ h >> 32


class Entry:
    """A program in the cache: `path`, `size` in bytes, `used` (seconds since 1970, to an hour),
    `vendor`, `target`, `compiler`, `kernel`; `whole` is False for what cannot be read."""

    def __init__(self, path):
        stat = os.stat(path)
        self.path, self.size, self.used = path, stat.st_size, stat.st_mtime
        self.info, self.whole, self.at = {}, False, 0
        try:
            fd = _files.open_regular(path, "kernel_cache")
        except _files.FileError:  # a named pipe would be waited for
            return
        with open(fd, "rb") as f:
            self.size = os.fstat(fd).st_size
            head = f.read(_HEADER.size)
            if len(head) == _HEADER.size:
                magic, info, code, self.sum = _HEADER.unpack(head)
                if magic == _MAGIC and _HEADER.size + info + code == self.size:
                    lines = f.read(info).decode(errors="replace").splitlines()
                    self.info = dict(line.partition(" ")[::2] for line in lines)
                    self.at, self.whole = info, True

    def __getattr__(self, name):
        if name in ("vendor", "target", "compiler", "kernel", "portable"):
            return self.info.get(name, "?")
        raise AttributeError(name)

    def code(self) -> bytes:
        """The code object; ValueError when the file is damaged."""
        data = b""
        if self.whole:
            with contextlib.suppress(_files.FileError):  # not what it was
                data = _files.read_regular(self.path, "kernel_cache", self.size)[_HEADER.size :]
        if not self.whole or checksum(data) != self.sum:
            raise ValueError(f"pf.kernel_cache: {self.path} is damaged; delete it")
        return data[self.at :]


def entries(where=None) -> list[Entry]:
    """Everything in the cache (or in another folder), by target and kernel."""
    where = where or folder()
    try:
        names = sorted(n for n in os.listdir(where) if n.endswith(".bin"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for name in names:
        try:
            found.append(Entry(os.path.join(where, name)))
        except FileNotFoundError:  # cleared meanwhile
            pass
    return sorted(found, key=lambda e: (e.target, e.kernel))


def _is_for(entry, target):
    have = entry.target if entry.whole else os.path.basename(entry.path).split("-")[0]
    return target is None or have == target or have.split(":")[0] == target


def clear(target=None) -> tuple[int, int]:
    """Deletes what was compiled for `target` ("gfx942", "sm_90"; all without it). Returns how many
    files and bytes that were. Running programs keep what they have loaded."""
    count = size = 0
    for entry in entries():
        if _is_for(entry, target):
            os.unlink(entry.path)
            count, size = count + 1, size + entry.size
    return count, size


def _check_name(arch):
    if not re.fullmatch(r"(gfx|sm_)[0-9A-Za-z_:+-]+", arch):
        raise ValueError(
            f"pf.kernel_cache.warm: got architecture '{arch}'; expected one like 'gfx942' or "
            "'sm_90'; see `pyflame info` for that of this machine's GPU"
        )


def _check_script(script):
    if script is not None and not os.path.isfile(script):
        raise FileNotFoundError(
            f"pf.kernel_cache.warm: there is no file '{script}'; expected a program in Python; "
            "check the path"
        )


def _check_pack(path, archs, script):
    """Before minutes are spent."""
    for arch in archs:
        _check_name(arch)
    _check_script(script)
    if not os.path.isdir(place := os.path.dirname(os.path.abspath(path))):
        raise FileNotFoundError(
            f"pf.kernel_cache.pack: got the file '{path}', but there is no folder '{place}'; make it"
        )


class ScriptError(RuntimeError):
    """A program of the user's failed; the message holds what it wrote, in lines."""

    several_lines = True


# Another Python: without -P it would look for modules in the current directory first.
_PYTHON = [sys.executable, "-P"]


def _paths():
    """What another process needs to find this package, and compilers that are packages too."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # An empty entry would mean the current directory.
    given = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {
        "PYTHONPATH": os.pathsep.join([package, *given]),
        "VIRTUAL_ENV": os.environ.get("VIRTUAL_ENV", sys.prefix),
    }


def warm(arch=None, where=None, script=None) -> tuple[int, int]:
    """Compiles the common programs into the cache: for the GPU that is there, or for the
    architecture `arch` ("gfx942:sramecc+:xnack-", "sm_90"), which needs its compiler (hipRTC, or
    clang 19 for packs; NVRTC) and no GPU. Then there is no library of products either: what a
    program needs beside one is compiled, and what it needs without. `where` is another folder in
    place of ``$XDG_CACHE_HOME``; `script` a program of yours to run instead of the common ones
    (without a GPU its results are zeros). Returns how many programs were compiled and how many
    were there already."""
    _check_script(script)
    made, had = _run(arch, where, script)
    if arch is not None and "PYFLAME_GPU_GEMM" not in os.environ:
        more, again = _run(arch, where, script, PYFLAME_GPU_GEMM="own")
        made, had = made + more, max(had, again - made)
    return made, had


def _run(arch, where, script, **settings):
    """One process of it."""
    env = os.environ | settings
    device = "gpu"
    if arch is not None:
        _check_name(arch)
        env["PYFLAME_COMPILE_ONLY"] = arch
        device = "rocm" if arch.startswith("gfx") else "cuda"
    if where:
        env["XDG_CACHE_HOME"] = os.path.abspath(where)
    env |= _paths()
    # A process of its own: which GPUs there are is settled once in each.
    done = subprocess.run(
        [*_PYTHON, "-m", "pyflame._common_programs", device, *([script] if script else [])],
        env=env,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        last = lines[-1] if lines else f"exit status {done.returncode}"
        if arch and (needed := re.search(r"the kernels cannot run on[;:] (.*?); choose", last)):
            raise ValueError(
                f"pf.kernel_cache.warm: got architecture '{arch}', which the kernels cannot run "
                f"on; {needed[1]}"
            )
        if not arch and "is not usable" in last:
            last += "; --arch (arch=) compiles for a GPU that is not here"
        elif script:
            raise ScriptError("\n".join([f"pf.kernel_cache.warm: {script} failed:", *lines]))
        raise RuntimeError(
            f"pf.kernel_cache.warm: the programs for {arch or 'the GPU'} were not compiled: {last}"
        )
    made, had = done.stdout.split()[-2:]
    return int(made), int(had)


def here() -> list[str]:
    """The architectures of this machine's GPUs ("gfx942", "sm_90"), as packs name them."""
    code = (
        "import pyflame as pf\n"
        "for vendor in ('rocm', 'cuda'):\n"
        "    for i in range(pf._C._device_count(vendor)):\n"
        "        print(pf.device_info(f'{vendor}:{i}')['architecture'])"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYFLAME_COMPILE_ONLY"} | _paths()
    done = subprocess.run([*_PYTHON, "-c", code], env=env, capture_output=True, text=True)
    return sorted({line.split(":")[0] for line in done.stdout.split()})


def pack(path, archs, script=None, left_out=None) -> tuple[int, int]:
    """Compiles the common programs for architectures and writes them into one file that serves any
    compiler of theirs. With a dict `left_out`, an architecture that cannot be compiled for here is
    left out, and the dict says why. Returns how many programs and bytes are in it."""
    import tempfile

    _check_pack(path, archs, script)
    codes = {}
    for arch in archs:
        with tempfile.TemporaryDirectory() as where:
            try:
                warm(arch, where, script)
            except (RuntimeError, ValueError) as e:
                if left_out is None:
                    raise
                left_out[arch] = str(e).strip().splitlines()[-1]
                continue
            for entry in entries(os.path.join(where, "pyflame", "kernels")):
                codes[f"{entry.target.split(':')[0]}-{entry.portable}"] = entry.code()
    at = _PACK.size + len(codes) * _PLACE.size
    places = b""
    for key, code in sorted(codes.items()):
        places += _PLACE.pack(key.encode(), at, len(code), checksum(code))
        at += len(code)
    head = _PACK.pack(_PACK_MAGIC, len(codes), checksum(places))
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "wb") as f:
            f.write(head + places)
            for _, code in sorted(codes.items()):
                f.write(code)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    return len(codes), at


def _size(n):
    return f"{n / 1024:.1f} KB" if n < 1 << 20 else f"{n / (1 << 20):.1f} MB"


def show() -> str:
    """The table that `pyflame cache show` prints."""
    found = entries()
    lines = [f"{folder()}: {len(found)} programs, {_size(sum(e.size for e in found))}"]
    groups = {}
    for e in found:
        groups.setdefault((e.vendor, e.target, e.compiler), []).append(e)
    for (vendor, target, compiler), group in sorted(groups.items()):
        lines.append(
            f"\n{vendor} {target}, compiler {compiler}: {len(group)} programs, "
            f"{_size(sum(e.size for e in group))}"
        )
        for e in group:
            used = time.strftime("%Y-%m-%d %H:%M", time.localtime(e.used))
            lines.append(f"  {_size(e.size):>10}  last used {used}  {e.kernel}")
    return "\n".join(lines)


def _announce(targets):
    what = "compiling programs for " + ", ".join(targets)
    print(f"{what}: minutes for each where many are new", file=sys.stderr, flush=True)


def command(args) -> int:
    """What `pyflame cache ...` does."""
    if args.action == "show":
        print(show())
    elif args.action == "clear":
        count, size = clear(args.target)
        print(f"deleted {count} programs, {_size(size)}")
    elif args.action == "warm":
        began = time.time()
        if args.arch is not None:
            _check_name(args.arch)
        _check_script(args.script)
        _announce([args.arch or "the GPU here"])
        made, had = warm(args.arch, script=args.script)
        print(f"compiled {made} programs in {time.time() - began:.1f} s; {had} were there already")
    else:
        native = here() if "native" in args.arch else []
        archs = [n for name in args.arch for n in (native if name == "native" else [name])]
        archs = list(dict.fromkeys(archs))
        left_out = {}
        if "native" in args.arch and not native:
            left_out["native"] = "there is no GPU here"
            if not args.available:
                raise RuntimeError("pf.kernel_cache.pack: got 'native', but there is no GPU here")
        began = time.time()
        _check_pack(args.out, archs, args.script)
        if archs:
            _announce(archs)
        count, size = pack(args.out, archs, args.script, left_out if args.available else None)
        for arch, why in left_out.items():
            print(f"left out {arch}: {why}")
        made = [arch for arch in archs if arch not in left_out]
        print(
            f"{args.out}: {count} programs for {', '.join(made) or 'no GPU'}, {_size(size)}, "
            f"{time.time() - began:.1f} s"
        )
    return 0
