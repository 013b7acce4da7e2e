#!/usr/bin/env python3
"""Counts lines of src/gpu and kernels/ under an #if about a vendor, and checks that they stay few and
where they belong. What one vendor alone has stands in files named for it, or for its matrix units (`mma` and
`hopper` are NVIDIA's, `units` AMD's), which only its plug-in compiles or an #if includes; other files have
nothing under such an #if but these includes."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 900
ABOUT = re.compile(r"\bPF_(NVIDIA|AMD|GPU_ROCM|GPU_CUDA|MMA|CDNA)\b|__CUDA|__GFX|__gfx|__AMD")
DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")
NAMED = re.compile(r"(^|_)(amd|rocm|units|nvidia|cuda|hopper|mma)[_.]")


def lines_under(file):
    """The lines of a file that an #if about a vendor decides about."""
    lines, about = [], []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not (m := DIRECTIVE.match(line)):
            if line.strip() and any(about):
                lines.append((number, line))
        elif m[1] == "endif":
            about.pop()
        elif m[1] == "elif":
            about[-1] |= bool(ABOUT.search(m[2]))
        elif m[1] != "else":
            about.append(bool(ABOUT.search(m[2])))
    return lines


def main():
    files = [f for folder in ("src/gpu", "kernels") for f in (ROOT / folder).glob("*.[hc]*")]
    found = {f.relative_to(ROOT): lines for f in files if (lines := lines_under(f))}
    elsewhere = 0
    for file, lines in sorted(found.items(), key=lambda f: -len(f[1])):
        if "-v" in sys.argv:
            print(len(lines), file)
        for number, line in () if NAMED.search(file.name) else lines:
            if not line.startswith("#include"):
                print(f"{file}:{number}: of one vendor, in a file that is not named for it: {line}")
                elsewhere += 1
    total = sum(map(len, found.values()))
    print(f"{total} lines under #if of a vendor in {len(found)} files; at most {MOST}")
    sys.exit(elsewhere > 0 or total > MOST)


if __name__ == "__main__":
    main()
