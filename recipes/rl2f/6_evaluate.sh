#!/usr/bin/env bash
# Base model and the three checkpoints on the test problems, with the same teacher, five turns; then side by side.
#
#   ./6_evaluate.sh [options of `rltf eval`, e.g. --problems 100]
#   ARMS="rlvr rl2f" ./6_evaluate.sh                     # some of base sft rlvr rl2f
#
# Each is served by vLLM here, one after the other (STUDENT_GPUS, STUDENT_PORT). The teacher and other variables as of
# 1_probe.sh. Goes on where it was ended; a folder is of one checkpoint and refuses a later one.
set -euo pipefail
# shellcheck source=_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/_run.sh"

weights() { # arm
    case "$1" in
        base) echo "$model" ;;
        sft) latest "$out/sft" huggingface ;;
        rlvr | rl2f) latest "$out/$1" actor/huggingface ;;
        *)
            echo "ARMS: unknown arm $1; there are base sft rlvr rl2f" >&2
            return 2
            ;;
    esac
}

read -r -a arms <<<"${ARMS:-base sft rlvr rl2f}"
served=()
for arm in "${arms[@]}"; do
    found="$(weights "$arm")"
    served+=("$found")
done
config="$(settings)"
tables=()
for k in "${!arms[@]}"; do
    serve "${served[$k]}"
    # One episode per row: the data has as many rows of a test problem as its benchmark samples it.
    rltf eval "$data/test.parquet" --config "$config" "${student[@]}" endpoint.max_tokens=2048 --rounds 4 \
        --out "$out/eval/${arms[$k]}" "$@"
    unserve
    tables+=("${arms[$k]}=$out/eval/${arms[$k]}/results.json")
done
python3 "$here/side_by_side.py" "${tables[@]}"
