#!/usr/bin/env bash
# One experiment on one node with GPUs of 80 GB. We have not run it on a GPU.
#
#   recipes/run.sh NAME [hydra overrides …]
#
# NAME: critique_grpo, guided, instructions, raft, rlef, sdpo or ufo, or one of rltf/experiments.txt: rltf/kk_sd.
# NUM_GPUS (1): GPUs of this node. TUNE=lora (rank 32, the default; a learning rate of 1e-5, of rltf the paper's 2e-5) or full
# (all weights).
# PROGRAM (python3 -m verl.trainer.main_ppo); with PROGRAM="rltf plan" it says what the run would do and what it takes of a GPU's
# memory, and starts nothing (without a GPU PROGRAM="rltf plan --gpu-memory 80").
# MODEL (the config's), OUT (outputs/NAME), ROLLOUT (vllm, sglang, or transformers: this package's sampler, with nothing to install).
# The data's folder, and the judge: the recipe's README.md.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
name="${1:-}"
recipe="${name%%/*}"
experiment="${name#*/}"
config="$here/$recipe/config"
if [[ -f "$config/paper.yaml" ]]; then
    task="${experiment%%_*}"
    method="${experiment#*_}"
    file="$config/method/$method.yaml"
    [[ -f "$config/task/$task.yaml" ]] || file=""
    chosen=(--config-name paper "task=$task" "method=$method")
else
    file="$config/$experiment.yaml"
    chosen=(--config-name "$experiment")
fi
if [[ -z "$name" || ! -f "$file" || "$(basename "$file")" == _* ]]; then
    echo "usage: $(basename "$0") NAME [hydra overrides …]; names: critique_grpo guided instructions raft rlef sdpo ufo" \
        "$(sed 's#^#rltf/#' "$here/rltf/experiments.txt" | tr '\n' ' ')" >&2
    exit 2
fi
shift

read -ra program <<<"${PROGRAM:-python3 -m verl.trainer.main_ppo}"
gpus="${NUM_GPUS:-1}"
rollout="${ROLLOUT:-vllm}"
case "$rollout" in
    vllm | sglang) engine=(actor_rollout_ref.rollout.name="$rollout") ;;
    transformers) engine=(rltf/hardware=gpu_small) ;;
    *)
        echo "ROLLOUT=$rollout: must be vllm, sglang or transformers" >&2
        exit 2
        ;;
esac
case "${TUNE:-lora}" in
    lora)
        tune=(
            actor_rollout_ref.model.lora_rank=32
            actor_rollout_ref.model.lora_alpha=32
            actor_rollout_ref.rollout.load_format=safetensors
        )
        # On one GPU: weights of 8B in fp32 (33 GB) stay there while vLLM samples.
        one_gpu=(actor_rollout_ref.rollout.gpu_memory_utilization=0.4)
        # The other papers train all weights; LoRA needs a higher rate. Ours.
        [[ "$recipe" == rltf ]] || tune+=(actor_rollout_ref.actor.optim.lr=1e-5)
        ;;
    full)
        tune=(actor_rollout_ref.model.lora_rank=0)
        # On one GPU: weights and optimiser wait in the CPU's memory while vLLM samples. An update has them on the GPU, 16 bytes a
        # weight: up to 3B fits.
        one_gpu=(
            actor_rollout_ref.actor.fsdp_config.param_offload=true
            actor_rollout_ref.actor.fsdp_config.optimizer_offload=true
            actor_rollout_ref.rollout.gpu_memory_utilization=0.6
        )
        # The paper has no full fine-tuning; its 2e-5 is a learning rate for LoRA.
        [[ "$recipe" != rltf ]] || tune+=(actor_rollout_ref.actor.optim.lr=1e-6)
        ;;
    *)
        echo "TUNE=$TUNE: must be lora or full" >&2
        exit 2
        ;;
esac
memory=(actor_rollout_ref.rollout.gpu_memory_utilization=0.5)
[[ "$gpus" != 1 ]] || memory=("${one_gpu[@]}")
"${program[@]}" \
    --config-dir "$config" "${chosen[@]}" \
    ${MODEL:+actor_rollout_ref.model.path="$MODEL"} \
    "${tune[@]}" \
    "${memory[@]}" \
    "${engine[@]}" \
    trainer.n_gpus_per_node="$gpus" \
    trainer.nnodes=1 \
    trainer.default_local_dir="${OUT:-outputs/$name}" \
    "$@"
