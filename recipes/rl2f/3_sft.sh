#!/usr/bin/env bash
# Baseline: verl's SFT trainer on the dialogues.
#
#   ./3_sft.sh [hydra overrides …]
#   NUM_GPUS=2 ./3_sft.sh optim.lr=5e-6
set -euo pipefail
# shellcheck source=_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/_run.sh"

if [[ ! -f "$out/dialogues.parquet" ]]; then
    echo "$out/dialogues.parquet: not there; ./2_dialogues.sh writes it" >&2
    exit 2
fi
mkdir -p "$out/sft"
VERL_FILE_LOGGER_PATH="$out/sft/metrics.jsonl" torchrun --standalone --nproc_per_node="${NUM_GPUS:-8}" \
    -m verl.trainer.sft_trainer \
    --config-dir "$here/config" --config-name sft \
    model.path="$model" \
    data.train_files="$out/dialogues.parquet" \
    trainer.default_local_dir="$out/sft" \
    "$@"
