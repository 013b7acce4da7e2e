#!/usr/bin/env bash
# pytest on the CPU with the library and the module of a build under AddressSanitizer and UBSan
# (`make test-asan` makes it), or under ThreadSanitizer (`make test-tsan`).
# Usage: tools/sanitized_tests.sh [BUILD] [pytest's arguments]
# PYFLAME_TEST_SHARE=0.1 draws a tenth of the tests; without a path among the arguments all are run.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build-asan}")
shift || true
# The package with the module of this build: python/pyflame has the usual one.
package=$build/package
rm -rf "$package"
mkdir "$package"
cp -r python/pyflame "$package/"
rm -f "$package"/pyflame/_C*.so
cp "$build"/python/_C*.so "$package/pyflame/"
run=()
if grep -q '^PYFLAME_SANITIZE:[A-Z]*=thread$' "$build/CMakeCache.txt"; then
  # Its shadow has no place among addresses drawn at random. Tests fork beside threads, and a fork holds more
  # locks than its search for deadlocks has room for.
  run=(setarch -R)
  TSAN_OPTIONS="die_after_fork=0 detect_deadlocks=0 handle_segv=0 history_size=4 ${TSAN_OPTIONS:-}"
  export TSAN_OPTIONS+=" suppressions=$PWD/tests/sanitizers/tsan.txt"
  export LD_PRELOAD="$(g++ -print-file-name=libtsan.so)"
else
  # Leaks: the interpreter keeps memory for good. Faults: tests expect to die of a real one.
  export ASAN_OPTIONS=detect_leaks=0:handle_segv=0:detect_stack_use_after_return=0
  export UBSAN_OPTIONS=print_stacktrace=1
  export LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
fi
# NVRTC finds its second library beside itself, but not through the sanitizer's dlopen.
export LD_LIBRARY_PATH=$(find .venv/lib/ -name 'libnvrtc-builtins.so*' -printf '%h\n' -quit)
# The end of a tensor shall be that of its memory.
export PYTHONPATH=$package PYFLAME_ALLOC_CONF=split:False
# What a sanitizer says goes past Python: it must not be captured.
[[ " $*" == *" tests/"* ]] || set -- tests/python "$@"
exec "${run[@]}" .venv/bin/python -m pytest -p no:cacheprovider --capture=sys "$@"
