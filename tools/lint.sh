#!/usr/bin/env bash
# Checks format, Python's linter, clang-tidy, the type stubs, that rooms include what lies below them
# alone, and that every public header compiles by itself. clang-tidy looks at every source of library
# and module: 2 to 3 minutes on 2 cores, and it needs no history to know what has changed.
# `tools/lint.sh FILE.cpp...` runs it on these alone, `tools/lint.sh --format` the formats alone (3 s:
# what tools/hooks/pre-commit does).
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/step.sh
py=.venv/bin/python

headers() {
  local header
  [[ -f build/include/pyflame/ops.h ]] || cmake --build build --target pyflame_ops_header >/dev/null
  for header in include/pyflame/*.h build/include/pyflame/*.h; do
    echo "#include \"pyflame/${header##*/}\"" |
      g++ -std=c++20 -Wall -Wextra -Werror -Iinclude -Ibuild/include -fsyntax-only -x c++ -
  done
}

locks() { # a child of fork() hangs on a lock that nobody knows: core/lock.h has those to take
  # GPUs refuse to work in such a child, and the test backend's threads are not there.
  if grep -rnE 'std::(recursive_|shared_|timed_)*mutex\b|std::once_flag' src python/src |
    grep -vE '^src/(gpu|paranoid)/|fork:'; then
    echo 'lint.sh: use Mutex of core/lock.h, or say why not in the line: "// fork: ..."' >&2
    return 1
  fi
}

built() { # the library's and the module's sources, as they are compiled, for clang-tidy in build/lint/
  # Without g++'s precompiled headers, which clang cannot read: so it sees what a source does not include.
  mkdir -p build/lint
  $py -c '
import json, os, re
here = os.getcwd() + "/"
commands = json.load(open("build/compile_commands.json"))
for c in commands:
    c["command"] = re.sub(r" -include \S+/cmake_pch\.hxx(?= )", "", c["command"])
json.dump(commands, open("build/lint/compile_commands.json", "w"))
files = {c["file"] for c in commands}
print(*sorted(f[len(here):] for f in files if f.startswith((here + "src/", here + "python/src/"))), sep="\n")'
}

tidy() { # on FILE...
  local noise
  noise=$(mktemp)
  # What it writes to stderr is counts of warnings in system headers, unless it fails.
  if ! printf '%s\0' "$@" |
    xargs -0 -n 4 -P "$(nproc)" clang-tidy -p build/lint --quiet --warnings-as-errors='*' \
      --extra-arg=-Wno-unknown-warning-option 2>"$noise"; then
    grep -vE '^[0-9]+ warnings?( and [0-9]+ errors?)? (generated|treated as error)' "$noise" >&2 || true
    rm -f "$noise"
    return 1
  fi
  rm -f "$noise"
}

formats() {
  local cpp
  mapfile -t cpp < <(git ls-files '*.h' '*.cpp')
  step "clang-format" clang-format --dry-run -Werror "${cpp[@]}"
  step "ruff: rules" $py -m ruff check .
  step "ruff: format" $py -m ruff format --check .
}

if [[ "${1:-}" == --format ]]; then
  formats
  exit
fi
if [[ ! -f build/compile_commands.json ]]; then
  cmake --preset release -DPython_EXECUTABLE="$PWD/$py"
fi
mapfile -t sources < <(built)
if (($# > 0)); then
  tidy "$@"
  exit
fi
((${#sources[@]} > 50)) || { echo "lint.sh: build/ lists ${#sources[@]} files only" >&2; exit 1; }
formats
step "public headers compile alone" headers
step "rooms and circles" $py tools/rooms.py
step "lines of one vendor" $py tools/vendor_lines.py
step "locks that fork() knows" locks
step "clang-tidy on ${#sources[@]} files" tidy "${sources[@]}"
step "stubs" $py tools/stubs.py --check
