#!/usr/bin/env bash
# Fetches, without installing anything and without root, what checks of the GPU plug-ins need:
#   build/vendor/rocm   ROCm's headers and AMD's run-time compiler (hipRTC) with all the libraries
#                       that it needs, the loader too: these are newer than this system's
#   build/vendor/cuda   headers of NVIDIA's driver, run-time compiler and cuDNN
# ROCm comes from Debian's unstable suite, by the names of its packages, over the mirror and the keys
# that apt has here; CUDA's headers come with pip, cuDNN's in a wheel of 300 MB of which nothing else is
# kept. A folder that is complete is left as it is.
# Elsewhere than on Debian there is no such mirror: it says so and ends with 3.
set -euo pipefail
cd "$(dirname "$0")/.."
vendor=$PWD/build/vendor
mkdir -p "$vendor"

rocm() {
  local root=$vendor/rocm work=$vendor/apt mirror key=/usr/share/keyrings/debian-archive-keyring.gpg
  [[ ! -e $root/.complete || ! -e $root/usr/include/hipsolver ]] || return 0
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' |
    awk '$2 == "Debian" && $3 == "main" { print $1; exit }')
  if [[ -z $mirror || ! -r $key ]]; then
    echo "vendor_sdk.sh: apt has no mirror of Debian here; ROCm's packages are taken from one" >&2
    return 3
  fi
  rm -rf "$root" "$work"
  mkdir -p "$root" "$work"/{lists/partial,cache/archives/partial,packages}
  echo "deb [signed-by=$key] $mirror sid main" >"$work/sources.list"
  : >"$work/status" # nothing is installed: apt names every package that is needed
  apt() {
    apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
      -o Dir::State="$work" -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" \
      -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1 \
      -o APT::Install-Recommends=0 -o Acquire::Languages=none "$@"
  }
  apt update
  apt install -y --download-only libhiprtc6 libhiprtc-builtins6 libamd-comgr3
  (cd "$work/packages" && apt download libamdhip64-dev libhipblaslt-dev libhipblas-common-dev librocblas-dev \
    libmiopen-dev libhipsolver-dev libhipblas-dev libhipfft-dev)
  local deb
  for deb in "$work"/cache/archives/*.deb "$work"/packages/*.deb; do dpkg -x "$deb" "$root"; done
  rm -rf "$work"
  touch "$root/.complete"
}

cuda() {
  local root=$vendor/cuda
  [[ ! -e $root/.complete || ! -e $root/nvidia/cudnn ]] || return 0
  rm -rf "$root"
  # Wheels are unpacked without what they depend on.
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target "$root" \
    nvidia-cuda-runtime nvidia-cuda-nvrtc nvidia-cuda-crt nvidia-cudnn-cu13==9.12.0.46
  find "$root" -name '*.so*' -delete
  touch "$root/.complete"
}

status=0
cuda
rocm || status=$?
exit $status
