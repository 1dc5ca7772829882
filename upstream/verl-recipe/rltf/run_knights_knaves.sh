#!/usr/bin/env bash
# RLTF-SD, or its baseline, on Knights and Knaves: bash run_knights_knaves.sh sd|grpo [hydra overrides …]
# MODEL (Qwen/Qwen3-1.7B), NUM_GPUS (1), STEPS (100), DATA (data/knights_knaves)
set -xeuo pipefail

method="${1:?sd or grpo}"
shift
data="${DATA:-data/knights_knaves}"

[[ -f "$data/train.parquet" ]] || rltf data build knights_knaves --out "$data" --seed 0 \
    --num-train 19800 --num-test 200 mode=strict

python3 -m verl.trainer.main_ppo --config-name="rltf_$method" \
    rltf/env=knights_knaves \
    rltf/feedback=verifier \
    data.train_files="$data/train.parquet" \
    data.val_files="$data/test.parquet" \
    data.train_batch_size=32 \
    data.max_prompt_length=6144 \
    data.max_response_length=2048 \
    +data.apply_chat_template_kwargs.enable_thinking=false \
    actor_rollout_ref.model.path="${MODEL:-Qwen/Qwen3-1.7B}" \
    actor_rollout_ref.model.lora_rank=32 \
    actor_rollout_ref.model.lora_alpha=32 \
    actor_rollout_ref.actor.optim.lr=2e-5 \
    actor_rollout_ref.actor.fsdp_config.param_offload=true \
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=true \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.load_format=safetensors \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.4 \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.val_kwargs.n=4 \
    trainer.n_gpus_per_node="${NUM_GPUS:-1}" \
    trainer.total_training_steps="${STEPS:-100}" \
    trainer.val_before_train=true \
    trainer.test_freq=20 \
    trainer.project_name=rltf \
    trainer.experiment_name="knights_knaves_$method" \
    "$@"
