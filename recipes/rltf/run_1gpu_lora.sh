#!/usr/bin/env bash
# One experiment on one GPU of 80 GB, LoRA of rank 32. Not run by us on a GPU.
#
#   ./run_1gpu_lora.sh kk_sd [hydra overrides …]
#
# MODEL (meta-llama/Llama-3.1-8B-Instruct), ROLLOUT (vllm, sglang), RLTF_DATA (data/rltf), OUT (outputs/rltf),
# JUDGE_BASE_URL, JUDGE_MODEL, JUDGE_API_KEY_ENV: see README.md. The judge needs GPUs of its own, or a hosted API.
set -euo pipefail
# shellcheck source=_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/_run.sh"

[[ $# -ge 1 ]] || usage
experiment="$1"
shift
train "$experiment" \
    actor_rollout_ref.model.lora_rank=32 \
    actor_rollout_ref.model.lora_alpha=32 \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.4 \
    actor_rollout_ref.actor.fsdp_config.param_offload=true \
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=true \
    trainer.n_gpus_per_node=1 \
    trainer.nnodes=1 \
    "$@"
