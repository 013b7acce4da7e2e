#!/usr/bin/env bash
# Builds into build/ and makes .venv see it. Usage: tools/build.sh [all]
set -euo pipefail
cd "$(dirname "$0")/.."
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
targets=(--target pyflame _C)
if [[ ${1:-} == all ]]; then
  targets=()
fi
python=$PWD/.venv/bin/python
if [[ ! -f build/build.ninja ]] ||
  ! grep -q "^Python_EXECUTABLE:[A-Z]*=$python\$" build/CMakeCache.txt; then
  cmake --preset release -DPython_EXECUTABLE="$python" --fresh
fi
if [[ ${1:-} == all ]] && { ! grep -q "^PYFLAME_BUILD_TESTS:[A-Z]*=ON\$" build/CMakeCache.txt ||
  ! grep -q "^PYFLAME_USE_CUDA:[A-Z]*=ON\$" build/CMakeCache.txt; }; then
  # GoogleTest is here now; the plug-ins are tested on a stand-in for the vendors' runtimes
  cmake -B build -DPYFLAME_BUILD_TESTS=ON -DPYFLAME_USE_ROCM=ON -DPYFLAME_USE_CUDA=ON
fi
# A GPU is used where there is one: its plug-in takes half a minute more, and so do its common
# programs (on two cores), which the first steps of training then need not wait for.
plugin() {
  grep -q "^PYFLAME_USE_$1:[A-Z]*=ON\$" build/CMakeCache.txt || cmake -B build "-DPYFLAME_USE_$1=ON"
  if ((${#targets[@]})); then targets+=("pyflame_${1,,}"); fi
}
if [[ -e /dev/kfd ]]; then plugin ROCM; fi
if [[ -e /dev/nvidiactl ]]; then plugin CUDA; fi
if [[ -e /dev/kfd || -e /dev/nvidiactl ]]; then
  grep -q "^PYFLAME_GPU_PACK:[A-Z]*=." build/CMakeCache.txt ||
    cmake -B build -DPYFLAME_GPU_PACK=native
  if ((${#targets[@]})); then targets+=(pyflame_pack); fi
fi
cmake --build build "${targets[@]}"
if [[ ! -x .venv/bin/pyflame ]]; then
  PYFLAME_BUILT=1 "$python" -m pip install -q --disable-pip-version-check --no-deps \
    --no-build-isolation -e python
fi
"$python" tools/stubs.py
