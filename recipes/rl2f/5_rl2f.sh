#!/usr/bin/env bash
# RL2F: multi-turn RL with the guarded teacher, on one node.
#
#   ./5_rl2f.sh [hydra overrides …]
#   CUDA_VISIBLE_DEVICES=0,1,2,3 NUM_GPUS=4 ./5_rl2f.sh  # leaves GPUs to the teacher
#
# MODEL, ROLLOUT (vllm, sglang), NUM_GPUS (8), RL2F_DATA, RL2F_OUT, JUDGE_*: README.md.
set -euo pipefail
# shellcheck source=_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/_run.sh"

train rl2f "$@"
