#!/usr/bin/env bash
# Everything that fills, copies, converts and indexes memory, over every dtype, under
# AddressSanitizer: the sources that do so are built with it, all others as in build/ (from ccache),
# for a whole build takes longer than CI has. Usage: tools/memory_tests.sh [pytest's arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
files=(src/cpu/{convert,creation,index,kernel,move,scatter,shape,tape,tile_convert}.cpp)
files+=(src/core/{backend_call,dtype,storage}.cpp src/engine/copies.cpp src/ops/{devices,read}.cpp)
files+=(src/io/{safetensors,tree}.cpp src/paranoid/backend.cpp)
cmake --preset release -B build-memory -DPython_EXECUTABLE="$PWD/.venv/bin/python" \
  -DPYFLAME_BUILD_TESTS=OFF -DPYFLAME_BUILD_EXAMPLES=OFF \
  "-DPYFLAME_SANITIZE_FILES=$(IFS=\;; echo "${files[*]}")" >/dev/null
cmake --build build-memory
(($# > 0)) || set -- -q tests/python/test_{bool_bytes,creation,dtypes,files,index,interop,number_ranges}.py
tools/sanitized_tests.sh build-memory "$@"
