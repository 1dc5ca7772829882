#!/usr/bin/env bash
# On one GPU of 80 GB, LoRA of rank 32. Not run by us on a GPU.
#
#   ./run_1gpu.sh [hydra overrides …]
#
# MODEL (the config's), ROLLOUT (vllm, sglang), RLTF_DATA (data/sdpo), OUT (outputs/sdpo).
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
rollout="${ROLLOUT:-vllm}"
case "$rollout" in
    vllm | sglang) ;;
    *)
        echo "ROLLOUT=$rollout: must be vllm or sglang" >&2
        exit 2
        ;;
esac
python3 -m verl.trainer.main_ppo \
    --config-dir "$here/config" --config-name sdpo \
    ${MODEL:+actor_rollout_ref.model.path="$MODEL"} \
    actor_rollout_ref.model.lora_rank=32 \
    actor_rollout_ref.model.lora_alpha=32 \
    actor_rollout_ref.actor.fsdp_config.param_offload=true \
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=true \
    actor_rollout_ref.rollout.name="$rollout" \
    actor_rollout_ref.rollout.load_format=safetensors \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.4 \
    trainer.n_gpus_per_node=1 \
    trainer.nnodes=1 \
    trainer.default_local_dir="${OUT:-outputs/sdpo}" \
    "$@"
