#!/usr/bin/env bash
# Checks format, Python's linter, clang-tidy on what differs from the main branch, the type stubs,
# and that every public header compiles alone.
set -euo pipefail
cd "$(dirname "$0")/.."
py=.venv/bin/python

echo "== clang-format"
mapfile -t cpp < <(git ls-files '*.h' '*.cpp')
clang-format --dry-run -Werror "${cpp[@]}"

echo "== ruff"
$py -m ruff check .
$py -m ruff format --check .

echo "== public headers compile alone"
for header in include/pyflame/*.h; do
  echo "#include \"${header#include/}\"" |
    g++ -std=c++20 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ -
done

echo "== clang-tidy"
# Against the merge base where the history reaches it, else a small fixed set.
base=""
for ref in origin/main origin/master main; do
  if git rev-parse -q --verify "$ref^{commit}" >/dev/null &&
    [[ $(git rev-parse "$ref") != $(git rev-parse HEAD) ]]; then
    base=$(git merge-base "$ref" HEAD 2>/dev/null || true)
    break
  fi
done
if [[ -n $base ]]; then
  mapfile -t tidy < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 'python/src/*.cpp')
else
  tidy=(src/io/json.cpp src/io/file.cpp src/core/shape.cpp)
fi
if ((${#tidy[@]} > 40)); then tidy=("${tidy[@]:0:40}"); fi # keeps the run within its time
if ((${#tidy[@]} > 0)); then
  [[ -f build/compile_commands.json ]] || cmake --preset release \
    -DPython_EXECUTABLE="$PWD/.venv/bin/python"
  printf '%s\0' "${tidy[@]}" |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build --quiet --warnings-as-errors='*' \
      --extra-arg=-Wno-unknown-warning-option 2>/dev/null
fi

echo "== stubs"
$py tools/stubs.py --check
