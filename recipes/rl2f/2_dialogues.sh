#!/usr/bin/env bash
# Dialogues of the base model with the teacher on *training* problems, for 3_sft.sh: played as training plays (the first
# right answer ends one), kept if they end right.
#
#   ./2_dialogues.sh [options of `rltf eval`]
#   PROBLEMS=4000 ./2_dialogues.sh                       # training problems to play (1000), 8 dialogues each
#
# Goes on where it was ended; more PROBLEMS add to what is there. Endpoints and variables as of 1_probe.sh.
set -euo pipefail
# shellcheck source=_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/_run.sh"

config="$(settings)"
serve_base
rltf eval "$data/train.parquet" --config "$config" "${student[@]}" "${as_training[@]}" --problems "${PROBLEMS:-1000}" \
    --out "$out/dialogues" "$@"
# Such episodes are logged as validation; the problems are training problems.
rltf log export "$out/dialogues/episodes" --as dialogues --split val --out "$out/dialogues.parquet" \
    --overwrite
