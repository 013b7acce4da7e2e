#!/usr/bin/env python3
"""Counts lines of src/gpu and kernels/ under an #if about a vendor, and checks that they stay few: what
one vendor alone has stands in files of its own, which only its plug-in compiles or includes."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 900
ABOUT = re.compile(r"\bPF_(NVIDIA|AMD|GPU_ROCM|GPU_CUDA|MMA|CDNA)\b|__CUDA|__GFX|__gfx")
DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")


def count(file):
    lines, about = 0, []
    for line in file.read_text().splitlines():
        if not (m := DIRECTIVE.match(line)):
            lines += bool(line.strip()) and any(about)
        elif m[1] == "endif":
            about.pop()
        elif m[1] == "elif":
            about[-1] |= bool(ABOUT.search(m[2]))
        elif m[1] != "else":
            about.append(bool(ABOUT.search(m[2])))
    return lines


def main():
    files = [f for folder in ("src/gpu", "kernels") for f in (ROOT / folder).glob("*.[hc]*")]
    counts = {f.relative_to(ROOT): n for f in files if (n := count(f))}
    for file, n in sorted(counts.items(), key=lambda c: -c[1]) if "-v" in sys.argv else ():
        print(n, file)
    total = sum(counts.values())
    print(f"{total} lines under #if of a vendor in {len(counts)} files; at most {MOST}")
    sys.exit(total > MOST)


if __name__ == "__main__":
    main()
