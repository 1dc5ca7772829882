#!/usr/bin/env bash
# One experiment on one node of eight GPUs of 80 GB. Not run by us on GPUs.
#
#   ./run_8gpu.sh kk_sd [hydra overrides …]              # LoRA of rank 32, as the paper
#   TUNE=full ./run_8gpu.sh kk_sd [hydra overrides …]    # all weights, our learning rate
#
# NUM_GPUS (8) leaves GPUs to a judge on the same node: CUDA_VISIBLE_DEVICES=0,1,2,3 NUM_GPUS=4 ./run_8gpu.sh …
# MODEL, ROLLOUT, RLTF_DATA, OUT, JUDGE_*: as in run_1gpu_lora.sh.
set -euo pipefail
# shellcheck source=_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/_run.sh"

[[ $# -ge 1 ]] || usage
experiment="$1"
shift
case "${TUNE:-lora}" in
    lora) tune=(actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.model.lora_alpha=32) ;;
    # The paper has no full fine-tuning; its 2e-5 is a learning rate for LoRA.
    full) tune=(actor_rollout_ref.model.lora_rank=0 actor_rollout_ref.actor.optim.lr=1e-6) ;;
    *)
        echo "TUNE=$TUNE: must be lora or full" >&2
        exit 2
        ;;
esac
train "$experiment" \
    "${tune[@]}" \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.5 \
    trainer.n_gpus_per_node="${NUM_GPUS:-8}" \
    trainer.nnodes=1 \
    "$@"
