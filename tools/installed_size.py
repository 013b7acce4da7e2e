"""What the installed core takes on a disk; ends with 1 beyond the bar.

Counted are the library and the module, stripped as in a wheel, and the files of the package, type stubs
with them; not the plug-ins for GPUs, of which a wheel has those that it was told to build, nor what Python
compiles. Of the build in build/, which is to be a release.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BAR = 15_000_000


def stripped(library, folder):
    to = Path(folder) / library.name
    subprocess.run(["strip", "-o", str(to), str(library.resolve())], check=True)
    return to.stat().st_size


def sizes():
    """Bytes by what they are for."""
    package = ROOT / "python" / "pyflame"
    (module,) = package.glob(f"_C.cpython-{sys.version_info.major}{sys.version_info.minor}-*.so")
    with tempfile.TemporaryDirectory() as folder:
        stubs = [ROOT / "tools" / "stubs.py", "--module", module, "--out", Path(folder) / "stubs"]
        subprocess.run([sys.executable, "-P", *map(str, stubs)], check=True)
        files = [p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
        return {
            "library": stripped(ROOT / "build" / "libpyflame.so", folder),
            "module": stripped(module, folder),
            "Python": sum(p.stat().st_size for p in files if not {".so", ".pyi"} & set(p.suffixes)),
            "stubs": sum(p.stat().st_size for p in Path(folder).rglob("*.pyi")),
        }


def main():
    parts = sizes()
    total = sum(parts.values())
    print(", ".join(f"{name} {size / 1e6:.2f}" for name, size in parts.items()), end=" MB; ")
    print(f"installed core {total / 1e6:.2f} MB (at most {BAR / 1e6:.0f})")
    return 1 if total > BAR else 0


if __name__ == "__main__":
    sys.exit(main())
