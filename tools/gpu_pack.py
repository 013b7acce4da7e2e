#!/usr/bin/env python3
"""Writes a pack of compiled GPU programs with a build of the package that is not installed.

tools/gpu_pack.py --module build/_C.so --out build/pyflame-kernels.pack gfx942 sm_90

What CMake runs for -DPYFLAME_GPU_PACK=...; architectures that no compiler here serves are left out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "pyflame"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", required=True, help="the extension module")
    parser.add_argument("--out", required=True, help="the pack")
    parser.add_argument("arch", nargs="+")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "pyflame"
        package.mkdir()
        for file in PACKAGE.iterdir():
            if not file.name.startswith(("_C.", "__pycache__")):
                (package / file.name).symlink_to(file)
        module = Path(args.module).resolve()
        (package / module.name).symlink_to(module)
        command = [sys.executable, "-P", "-m", "pyflame", "cache", "pack", "--available"]
        done = subprocess.run(
            [*command, "--out", os.path.abspath(args.out), "--arch", *args.arch],
            env=os.environ | {"PYTHONPATH": folder},
            cwd=folder,
        )
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
