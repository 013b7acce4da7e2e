#!/usr/bin/env bash
# The C++ tests, then pytest on the CPU and on the paranoid test backend. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
build/tests/cpp/pyflame_tests --gtest_brief=1
build/tests/fuzz/safetensors_fuzz 3000
.venv/bin/python -m pytest "$@"
PYFLAME_TEST_DEVICE=paranoid .venv/bin/python -m pytest "$@"
