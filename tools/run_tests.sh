#!/usr/bin/env bash
# The C++ tests and pytest on the CPU, one half of its files after the other backends', so that two cores
# have something to do to the end; beside them pytest on the paranoid test backend and a share of it on
# the stand-in for an AMD GPU (all of it in `make test-kernels`), whose time is compilers'. Arguments go to
# pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/step.sh
on_standin() { # the share changes with every commit; tests that are named run all
  local share=0.045
  (($# == 0)) || share=1
  PYFLAME_HIP_LIBRARY=$PWD/build/standin/libamdhip64.so \
    PYFLAME_HIPRTC_LIBRARY=$PWD/build/standin/libhiprtc.so PYFLAME_CUDA_LIBRARY=/none \
    XDG_CACHE_HOME=$PWD/build/standin-cache PYFLAME_TEST_DEVICE=rocm PYFLAME_TEST_SHARE=$share \
    PYFLAME_TEST_SEED=$(git rev-parse HEAD 2>/dev/null || true) .venv/bin/python -m pytest "$@"
}
on_cpu() { PYFLAME_TEST_FILES=$1 .venv/bin/python -m pytest "${@:2}"; }
on_paranoid() { PYFLAME_TEST_DEVICE=paranoid .venv/bin/python -m pytest "$@"; }
beside "Python tests, a share, on the stand-in for an AMD GPU" on_standin "$@"
(($# == 0)) && parts=2 || parts=1 # tests that are named may be in one file
beside "Python tests on the CPU" on_cpu 0/$parts "$@"
step "C++ tests" build/tests/cpp/pyflame_tests --gtest_brief=1
step "C++ fuzzer" build/tests/fuzz/safetensors_fuzz 3000
step "Python tests on the paranoid test backend" on_paranoid "$@"
((parts == 1)) || step "Python tests on the CPU, the other files" on_cpu 1/2
joined "Python tests, a share, on the stand-in for an AMD GPU"
joined "Python tests on the CPU" # the last line is pytest's
