#!/usr/bin/env bash
# Baseline: single-turn RL on verifiable rewards, on one node.
#
#   ./4_rlvr.sh [hydra overrides …]
#
# MODEL, ROLLOUT (vllm, sglang), NUM_GPUS (8), RL2F_DATA, RL2F_OUT: README.md. Needs no teacher.
set -euo pipefail
# shellcheck source=_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/_run.sh"

train rlvr "$@"
