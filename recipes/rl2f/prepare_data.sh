#!/usr/bin/env bash
# The problems: single-turn, verifiable, with a reference that only the teacher will see.
#
#   ./prepare_data.sh                                    # SOURCE=dapo: 17k problems; tests: MATH500 and AIME24
#   SOURCE=deepmath_hard ./prepare_data.sh               # another source of docs/data.md, or a file of your own
#   TRAIN_FILE=gsm8k/train.parquet TEST_FILE=gsm8k/test.parquet ./prepare_data.sh    # files in verl's form
#
# RL2F_DATA names the folder (data/rl2f). Further arguments go to `rltf data`. A teacher with a worked solution
# (problem.data["solution"]) teaches better than one with the final answer alone.
set -euo pipefail

data="${RL2F_DATA:-data/rl2f}"
if [[ -n "${TRAIN_FILE:-}" ]]; then
    : "${TEST_FILE:?names the test problems, as TRAIN_FILE does the training problems}"
    rltf data wrap "$TRAIN_FILE" --env math --out "$data/train.parquet" "$@"
    rltf data wrap "$TEST_FILE" --env math --out "$data/test.parquet" "$@"
else
    # Upper bounds: all that there is.
    rltf data build math --out "$data" --seed 0 --num-train 1000000 --num-test 500 source="${SOURCE:-dapo}" "$@"
fi
rltf data check "$data/train.parquet" "$data/test.parquet"
