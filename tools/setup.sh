#!/usr/bin/env bash
# Installs what is missing on Debian 12 or Ubuntu 24.04 and makes .venv. Safe to run again: with
# everything in place it starts neither apt nor pip.
# Usage: tools/setup.sh [run|test|ci|docs|bench]...   (default: run)
set -euo pipefail
cd "$(dirname "$0")/.."

wants() { local w; for w in "${levels[@]}"; do [[ $w == "$1" ]] && return 0; done; return 1; }
levels=("${@:-run}")
for level in "${levels[@]}"; do
  case $level in
    run | test | ci | docs | bench) ;;
    *)
      echo "tools/setup.sh: got '$level'; expected run, test, ci, docs or bench" >&2
      exit 2
      ;;
  esac
done

# ---- apt ----------------------------------------------------------------------------------------
packages=(g++ cmake ninja-build ccache python3 python3-venv python3-dev libhwy-dev)
# Without them products use our own kernel, and decompositions say what to install.
optional=(libdnnl-dev libopenblas0-openmp)
if wants test || wants ci; then packages+=(libgtest-dev); fi
# libomp-dev: clang-tidy reads omp.h; the compiler of version 19 checks the GPUs' text.
if wants ci; then
  packages+=(git clang-format clang-tidy libomp-dev clang-19 lld-19 llvm-19)
  # For gfx950, which 19 does not know (75 MB), where the distribution has it or has not been asked.
  if apt-cache show clang-22 &>/dev/null || ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
    optional+=(clang-22)
  fi
fi

installed() { [[ $(dpkg-query -W -f='${Status}' "$1" 2>/dev/null) == "install ok installed" ]]; }

if command -v dpkg-query >/dev/null; then
  missing=()
  for p in "${packages[@]}"; do installed "$p" || missing+=("$p"); done
  wanted=()
  for p in "${optional[@]}"; do installed "$p" || wanted+=("$p"); done
  if ((${#missing[@]} + ${#wanted[@]} > 0)); then
    as_root=()
    if ((EUID != 0)); then
      if ! command -v sudo >/dev/null; then
        echo "tools/setup.sh: missing ${missing[*]} ${wanted[*]}: run as root, or install sudo" >&2
        exit 1
      fi
      as_root=(sudo)
    fi
    echo "installing with apt: ${missing[*]} ${wanted[*]}"
    apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"; }
    apt update
    if ((${#missing[@]} > 0)); then
      apt install -y --no-install-recommends "${missing[@]}"
    fi
    for p in "${wanted[@]}"; do
      apt install -y --no-install-recommends "$p" ||
        echo "note: no package $p here (docs/installation.md says what goes without)"
    done
  fi
else
  for tool in g++ cmake ninja python3; do
    command -v "$tool" >/dev/null || {
      echo "tools/setup.sh: no dpkg here and no $tool; install: ${packages[*]} ${optional[*]}" >&2
      exit 1
    }
  done
fi

# ---- .venv --------------------------------------------------------------------------------------
# The distribution's own Python: its headers are what python3-dev installed.
python=${PYTHON:-/usr/bin/python3}
[[ -x $python ]] || python=python3
if [[ ! -x .venv/bin/python ]]; then
  "$python" -m venv .venv
fi
files=(requirements/build.txt)
if wants test; then files+=(requirements/test.txt requirements/prices.txt); fi
if wants ci; then files+=(requirements/ci.txt); fi
if wants docs; then files+=(requirements/docs.txt); fi
if wants bench; then files+=(requirements/bench.txt); fi
# NVIDIA's run-time compiler, where there is such a GPU and no CUDA toolkit.
if [[ -e /dev/nvidiactl ]] && ! /sbin/ldconfig -p 2>/dev/null | grep -q libnvrtc.so; then
  files+=(requirements/nvidia.txt)
fi
for f in "${files[@]}"; do
  stamp=.venv/.installed-$(basename "$f" .txt)
  # build.txt is part of every other file.
  if ! cat requirements/build.txt "$f" | cmp -s - "$stamp"; then
    how=()
    [[ $f != requirements/prices.txt ]] || how=(--no-deps) # for its files alone
    .venv/bin/python -m pip install -q --disable-pip-version-check "${how[@]}" -r "$f"
    cat requirements/build.txt "$f" >"$stamp"
  fi
done
