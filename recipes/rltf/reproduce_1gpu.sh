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
# 2 to 4 hours a run, 18 to 36 in all.
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

mkdir -p "$out"
out="$(cd "$out" && pwd)" # Ray's workers have other folders
end="$(awk -v hours="${HOURS:-48}" 'BEGIN { print int(3600 * hours) }')"
trap 'exit 130' INT

train() { # what has not finished; the status of the last that failed
    local seed method run failed=0
    for seed in ${SEEDS//,/ }; do
        for method in grpo sd fm; do
            run="$out/${method}_seed$seed"
            [[ ! -e "$run/finished" ]] || continue
            if ((SECONDS >= end)); then
                echo "${run##*/}: not started, HOURS are over"
                continue
            fi
            echo "${run##*/}: output in $run/output.txt"
            mkdir -p "$run"
            if OUT="$run/checkpoints" VERL_FILE_LOGGER_PATH="$run/metrics.jsonl" \
                "$here/../run.sh" "rltf/kk_$method" "${words[@]}" "rltf.seed=$seed" "data.seed=$seed" \
                "trainer.experiment_name=${run##*/}" "hydra.run.dir=$run/hydra" &>>"$run/output.txt"; then
                touch "$run/finished"
            else
                failed=$?
                echo "${run##*/}: failed with exit status $failed" >&2
            fi
        done
    done
    return "$failed"
}
SEEDS="${SEEDS:-0,1,2}"
status=0
train || train || status=$?

shopt -s nullglob
finished=("$out"/grpo_seed*/finished "$out"/sd_seed*/finished "$out"/fm_seed*/finished)
if [[ "${finished[0]:-}" == "$out"/grpo_* ]]; then
    rltf compare "${finished[@]%/finished}" --out "$out/compare"
    echo
    cat "$out/compare/compare.md"
else
    echo "no run of grpo, the baseline, has finished: nothing to compare with" >&2
fi
exit "$status"
