#!/usr/bin/env bash
# Builds, tests and times on a machine with an NVIDIA GPU that reaches no package registry. What its
# system lacks (Highway, oneDNN) comes as .deb files, and nanobind as its folder beside them; Python has
# NumPy, pytest with xdist and timeout, hypothesis, SciPy and PyTorch there. Results go to files.
# A build that fails ends it; a suite or a sweep that fails lets the others run, and the exit status is 1.
# Usage: tools/gpu_machine.sh RESULTS DEBS [build] [cpu-suite] [gpu-suite] [sweep] [CASE of
#        benchmarks/rocm_benchmark.py]...
set -uo pipefail
cd "$(dirname "$0")/.."
results=$(realpath -m "$1") debs=$(realpath "$2")
shift 2
mkdir -p "$results"
root=$PWD/build/debs
libraries=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PYTHONPATH=$debs:$PWD/python
workers=$(($(nproc) - 1))

build() {
  mkdir -p "$root"
  for deb in "$debs"/*.deb; do dpkg -x "$deb" "$root" || return; done
  # A compiler with a static C++ library would give every plug-in a library of its own.
  CXX=/usr/bin/g++ cmake --preset release --fresh -DPython_EXECUTABLE="$(command -v python3)" \
    -DHWY_INCLUDE_DIR="$root/usr/include" -DHWY_LIBRARY="$libraries/libhwy.so" \
    -DPYFLAME_USE_CUDA=ON -DPYFLAME_BUILD_EXAMPLES=OFF &&
    cmake --build build --target pyflame _C pyflame_cuda
}
suite() { # on DEVICE
  PYFLAME_TEST_DEVICE=$1 python3 -m pytest -q -n "$workers" -p no:cacheprovider --durations=15 \
    --timeout=240 tests/python
}

cases=() failed=()
for what in "$@"; do
  start=$SECONDS status=0
  case $what in
    build) build >"$results/build.txt" 2>&1 || status=$? ;;
    cpu-suite) OMP_NUM_THREADS=2 suite cpu >"$results/cpu.txt" 2>&1 || status=$? ;;
    gpu-suite) suite cuda >"$results/cuda.txt" 2>&1 || status=$? ;;
    sweep) python3 tools/sweep.py --device cuda --seconds 0.01 --json "$results/sweep.json" \
      >"$results/sweep.txt" 2>&1 || status=$? ;;
    *)
      cases+=(--case "$what")
      continue
      ;;
  esac
  echo "$what: exit $status after $((SECONDS - start)) s"
  tail -n 3 "$results"/*.txt
  if ((status)); then
    failed+=("$what")
    if [[ $what == build ]]; then exit 1; fi
  fi
done
if ((${#cases[@]})); then
  python3 benchmarks/rocm_benchmark.py "${cases[@]}" --json "$results/cases.json" |
    tee "$results/cases.txt" || failed+=("the cases")
fi
if ((${#failed[@]})); then
  echo "failed: ${failed[*]}"
  exit 1
fi
