#!/usr/bin/env bash
# What does text feedback gain on one GPU? GRPO against RLTF-SD against RLTF-FM on Knights and Knaves, Qwen3-1.7B with LoRA of
# rank 32, three seeds. The environment gives the feedback: no judge is served. We have not run it on a GPU.
#
#   recipes/rltf/reproduce_1gpu.sh plan      # what each method will do, and what is wrong with it; starts nothing
#   recipes/rltf/reproduce_1gpu.sh           # all nine runs; the same command again skips what is finished, and resumes
#
# It ends with OUT/compare: pictures, compare.json, and the tables of compare.md, a README's row among them. Send them to us as an
# issue ("Results").
#
# Rules to stop: a run ends after STEPS steps; one that fails resumes once from its checkpoint of at most 20 steps before; no run
# starts after HOURS hours. What has finished is compared. Seed 0 of all methods comes first.
#
# Hours: not measured. One step samples 256 episodes, up to 512 answers of some 500 tokens, and trains up to 768 rows of some 1500:
# one to two minutes on an 80 GB GPU, if it samples 10 000 and trains 15 000 tokens a second. With 100 steps and 6 validations that is
# 2 to 4 hours a run, 18 to 36 in all. After each run it prints its time and what is left.
#
# MODEL (Qwen/Qwen3-1.7B) STEPS (100) SEEDS (0,1,2) HOURS (48) OUT (outputs/reproduce_1gpu) RLTF_DATA (data/strict)
# ROLLOUT (vllm, sglang). Words behind it are overrides of each run. Needs the extras data, math and plot.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
plan=""
if [[ "${1:-}" == plan ]]; then
    plan=yes
    shift
fi
export MODEL="${MODEL:-Qwen/Qwen3-1.7B}" RLTF_DATA="${RLTF_DATA:-data/strict}" NUM_GPUS=1 TUNE=lora
out="${OUT:-outputs/reproduce_1gpu}"
unset OUT # run.sh's; here each run has a folder of its own

[[ -f "$RLTF_DATA/kk/train.parquet" ]] || TASKS=kk "$here/prepare_data.sh" strict

words=(
    rltf/feedback=verifier
    rltf.episode.revise=null
    rltf.env.mode=strict
    # Answers without thoughts, in a quarter of the paper's room; Adam's epsilon follows (config/paper.yaml): 1e-8 / (256 x 2048).
    +data.apply_chat_template_kwargs.enable_thinking=false
    data.max_response_length=2048
    data.max_prompt_length=6144
    actor_rollout_ref.actor.optim.override_optimizer_config.eps=1.9e-14
    actor_rollout_ref.rollout.val_kwargs.n=4
    "trainer.total_training_steps=${STEPS:-100}"
    trainer.val_before_train=true
    trainer.test_freq=20
    trainer.save_freq=20
    trainer.max_actor_ckpt_to_keep=1
    trainer.project_name=reproduce_1gpu
    'trainer.logger=[file]'
    "$@"
)

if [[ -n "$plan" ]]; then
    refused=0
    for method in grpo sd fm; do
        echo "== $method"
        PROGRAM="rltf plan --problems 1" "$here/../run.sh" "rltf/kk_$method" "${words[@]}" || refused=1
    done
    exit "$refused"
fi

train() { # within so many hours
    rltf seeds --seeds "${SEEDS:-0,1,2}" --out "$out" --hours "$1" --keep-going \
        --program "bash $(printf %q "$here/../run.sh")" \
        --arm grpo=rltf/kk_grpo --arm sd=rltf/kk_sd --arm fm=rltf/kk_fm -- "${words[@]}"
}
status=0
hours="${HOURS:-48}"
train "$hours" || train "$(awk -v all="$hours" -v gone="$SECONDS" 'BEGIN { left = all - gone / 3600; print (left > 0 ? left : 0) }')" \
    || status=$?
echo
cat "$out/compare/compare.md"
exit "$status"
