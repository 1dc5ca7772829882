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
# verl goes on from the newest checkpoint in the folder, whatever data and model that is of.
made_of="$model $(cksum < "$out/dialogues.parquet") $*"
if [[ -f "$out/sft/made_of" && "$(cat "$out/sft/made_of")" != "$made_of" ]]; then
    echo "$out/sft: holds a run of other dialogues, another MODEL or other words; move it away" >&2
    exit 2
fi
echo "$made_of" > "$out/sft/made_of"
VERL_FILE_LOGGER_PATH="$out/sft/metrics.jsonl" torchrun --standalone --nproc_per_node="${NUM_GPUS:-8}" \
    -m verl.trainer.sft_trainer \
    --config-dir "$here/config" --config-name sft \
    model.path="$model" \
    data.train_files="$out/dialogues.parquet" \
    trainer.default_local_dir="$out/sft" \
    "$@"
