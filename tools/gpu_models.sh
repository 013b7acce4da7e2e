#!/usr/bin/env bash
# Models of other libraries (tests/programs/many_*.py) on a GPU: trained by PyTorch and under `pyflame run` on
# the same card, and a table of both (tools/compare_models.py), within BUDGET seconds (270). Wants a Python that
# has PyTorch for the card, PyFlame on its path, and the libraries. Times are taken beside the other
# processes of the same side, but those of rows marked "alone", which come last.
# Usage: tools/gpu_models.sh [--device cpu] [--processes N] RESULTS [NAMES...]; PYTHON names the interpreter
set -uo pipefail
device=cuda processes=$(($(nproc) / 2))
while [[ ${1:-} == --* ]]; do
  case $1 in
    --device) device=$2 ;;
    --processes) processes=$2 ;;
    *) echo "unknown option $1" >&2 && exit 2 ;;
  esac
  shift 2
done
results=$(realpath -m "$1")
shift
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../tests/programs" || exit
mkdir -p "$results"
rm -f "$results"/*.{ours,theirs}.*.jsonl "$results"/{ours,theirs}.*.{jsonl,err} "$results"/alone.*.err
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
python=${PYTHON:-python3} budget=${BUDGET:-270}
few=(bert llama mixtral t5 vit convnext whisper "torchvision resnet18" "pyg gat" "diffusers unet_condition")
(($#)) && few=("$@")
# Until when, of a hundred parts of the budget.
until_part() { echo $((budget * $1 / 100 - SECONDS)); }
side() { # NAME SECONDS FILE WORDS...: one program of one side
  local name=$1 seconds=$2 file=$3 command=("$python" -W ignore) more=()
  shift 3
  if [[ $name == ours ]]; then command+=(-m pyflame.run); else more=(--referee); fi
  ((seconds > 0)) || return 0
  timeout -k 2 "$seconds" "${command[@]}" "$@" --device "$device" --times "${more[@]}" \
    >"$results/$file.jsonl" 2>"$results/$file.err"
}
each() { # NAME SECONDS NAMES...: all families, or those named, side by side
  local name=$1 seconds=$2 only=()
  shift 2
  (($#)) && only=(--only "$@")
  for ((i = 0; i < processes; i++)); do
    for program in many_layers many_models; do
      side "$name" "$seconds" "$name.$program.$i" "$program.py" --part "$i/$processes" "${only[@]}" &
    done
  done
  wait
}
each theirs "$(until_part 30)" "$@"
echo "with PyTorch: $SECONDS s"
each ours "$(until_part 75)" "$@"
echo "here too: $SECONDS s"
left=4
for program in many_models many_layers; do
  for name in theirs ours; do
    side "$name" "$(($(until_part 97) / left--))" "alone.$name.$program" "$program.py" --only "${few[@]}"
  done
done
echo "alone too: $SECONDS s"
"$python" "$here/compare_models.py" "$results"
