#!/usr/bin/env bash
# The C++ tests, then pytest on the CPU and on the paranoid test backend. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/step.sh
step "C++ tests" build/tests/cpp/pyflame_tests --gtest_brief=1
step "C++ fuzzer" build/tests/fuzz/safetensors_fuzz 3000
step "Python tests on the CPU" .venv/bin/python -m pytest "$@"
echo "== Python tests on the paranoid test backend" # the last line is pytest's
PYFLAME_TEST_DEVICE=paranoid .venv/bin/python -m pytest "$@"
