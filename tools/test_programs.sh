#!/usr/bin/env bash
# Programs of other people's libraries under `pyflame run` (tests/programs), in an environment of their own
# with what they import, and without PyTorch: build/programs. Usage: tools/test_programs.sh [pytest's words]
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/programs
if ! cmp -s requirements/programs.txt "$venv/installed.txt"; then
  .venv/bin/python -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --no-deps --disable-pip-version-check -r requirements/programs.txt
  echo "$PWD/python" >"$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/pyflame.pth"
  cp requirements/programs.txt "$venv/installed.txt"
fi
"$venv/bin/python" -m pytest tests/python/test_library_programs.py -q -p no:cacheprovider --durations=5 "$@"
