#!/usr/bin/env bash
# Models of other libraries on a GPU (tests/programs/many_*.py): trained by PyTorch and under `pyflame run` on
# the same card. Wants a Python that has PyTorch for it, PyFlame on its path, and the libraries.
# Usage: tools/gpu_models.sh RESULTS theirs|ours|times ...; then tools/compare_models.py RESULTS
set -uo pipefail
results=$(realpath -m "$1")
shift
cd "$(dirname "$0")/../tests/programs"
mkdir -p "$results"
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
timed=(--times --only bert gpt2 llama mixtral t5 vit swin convnext whisper mamba)
layers=(--times --only "torchvision resnet18" "timm vit_tiny_patch16_224" "pyg gat" "diffusers unet_condition" "peft lora")
each() { # SIDE INTERPRETER...: the families in parts, side by side
  local side=$1 workers=${PROCESSES:-7}
  shift
  for name in many_models many_layers; do
    for ((i = 0; i < workers; i++)); do
      timeout "${LIMIT:-150}" "$@" "$name.py" --device cuda --go-on --part "$i/$workers" \
        >"$results/$side.$name.$i.jsonl" 2>"$results/$side.$name.$i.err" &
    done
  done
  wait
}
times() { # SIDE INTERPRETER...
  local side=$1
  shift
  timeout 60 "$@" many_models.py --device cuda --go-on "${timed[@]}" >"$results/times.$side.models.jsonl" 2>/dev/null
  timeout 60 "$@" many_layers.py --device cuda --go-on "${layers[@]}" >"$results/times.$side.layers.jsonl" 2>/dev/null
}
for what in "$@"; do
  start=$SECONDS
  case $what in
    theirs) each theirs python3 -W ignore ;;
    ours) each ours python3 -W ignore -m pyflame.run ;;
    times)
      times theirs python3 -W ignore
      times ours python3 -W ignore -m pyflame.run
      ;;
  esac
  echo "$what: $((SECONDS - start)) s"
done
