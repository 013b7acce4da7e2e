#!/usr/bin/env bash
# The C++ tests, then pytest on the CPU and beside it a share of it on the stand-in for an AMD GPU (all
# of it in `make test-kernels`), whose time is compilers', and on the paranoid test backend. Arguments
# go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/step.sh
step "C++ tests" build/tests/cpp/pyflame_tests --gtest_brief=1
step "C++ fuzzer" build/tests/fuzz/safetensors_fuzz 3000
on_standin() { # the share changes with every commit; tests that are named run all
  local share=0.06
  (($# == 0)) || share=1
  PYFLAME_HIP_LIBRARY=$PWD/build/standin/libamdhip64.so \
    PYFLAME_HIPRTC_LIBRARY=$PWD/build/standin/libhiprtc.so PYFLAME_CUDA_LIBRARY=/none \
    XDG_CACHE_HOME=$PWD/build/standin-cache PYFLAME_TEST_DEVICE=rocm PYFLAME_TEST_SHARE=$share \
    PYFLAME_TEST_SEED=$(git rev-parse HEAD 2>/dev/null || true) .venv/bin/python -m pytest "$@"
}
said=$(mktemp)
on_standin "$@" >"$said" 2>&1 &
beside=$!
trap 'kill $beside 2>/dev/null || true; rm -f "$said"' EXIT
step "Python tests on the CPU" .venv/bin/python -m pytest "$@"
has_passed() { # what went on beside
  local status=0
  wait $beside || status=$?
  cat "$said"
  return $status
}
step "Python tests, a share, on the stand-in for an AMD GPU" has_passed
echo "== Python tests on the paranoid test backend" # the last line is pytest's
PYFLAME_TEST_DEVICE=paranoid .venv/bin/python -m pytest "$@"
