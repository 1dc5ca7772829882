#!/usr/bin/env bash
# The problems: single-turn, verifiable, with a reference that only the teacher will see.
#
#   ./prepare_data.sh                                    # SOURCE=dapo: 17k problems; tests: MATH500 and AIME24
#   SOURCE=deepmath_hard ./prepare_data.sh               # another source of docs/data.md, or a file of your own
#
# RL2F_DATA names the folder (data/rl2f). Further arguments go to `rltf data build`. Files in verl's form need no preparation:
# put train.parquet and test.parquet into the folder. A teacher with a worked solution
# (problem.data["solution"]) teaches better than one with the final answer alone.
set -euo pipefail

data="${RL2F_DATA:-data/rl2f}"
# Upper bounds: all that there is.
rltf data build math --out "$data" --seed 0 --num-train 1000000 --num-test 500 source="${SOURCE:-dapo}" "$@"
rltf data check "$data/train.parquet" "$data/test.parquet"
