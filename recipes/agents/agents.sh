#!/usr/bin/env bash
# A pretrained language model learns a house's rule while it works with tools, on the CPU. In this order:
#
#   recipes/agents/agents.sh model                            # fetch and convert SmolLM2-135M-Instruct; a template with tools
#   recipes/agents/agents.sh adapter                          # makes again what is in adapter/: hours on one core
#   recipes/agents/agents.sh warm_up                          # adds it: seconds
#   recipes/agents/agents.sh data                             # the house's problems
#   recipes/agents/agents.sh train METHOD [hydra overrides …] # grpo, sd, fork, by_step, …
#   recipes/agents/agents.sh study                            # those four, three seeds; the table; goes on where it ended
#
# HOUSE (0): of the rule and the problems. SEED (0): of the run. OUT (outputs/agents): the folder.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
pretrained="$here/../pretrained"
house="${HOUSE:-0}"
seed="${SEED:-0}"
root="${OUT:-outputs/agents}"
mkdir -p "$root"
root="$(cd "$root" && pwd)"
env="$here/office.py:Workspace"
export VERL_PLATFORM=cpu OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0
command="${1:-}"
shift || true

# A method's own words: right second attempts only, at GRPO's weight; by_step: a teacher that reads the notes on each step; fork: a
# second attempt that starts at the step which feedback criticises. by_step has one attempt an episode, so twice the episodes.
words_of() {
    case "$1" in
        sd) echo "rltf/method=sd rltf.distill.weight=1.0 rltf.distill.baseline=rejection rltf.distill.log_prob_floor=null" ;;
        fork) echo "$(words_of sd) rltf.episode.retry=fork" ;;
        by_step) echo "rltf/method=teacher/sdpo rltf.teacher.kind=base rltf.teacher.reads=feedback rltf.teacher.right=false rltf.teacher.prompt=revise/note rltf.teacher.notes=by_step rltf.logit_distill.divergence=forward_kl data.train_batch_size=16 actor_rollout_ref.actor.optim.lr=2e-5" ;;
        *) echo "rltf/method=$1" ;;
    esac
}

case "$command" in
    model)
        python3 "$here/../pretrained/fetch_model.py" smollm2 "$root/smollm2"
        cp "$here/chat_template.jinja" "$root/smollm2/chat_template.jinja"
        ;;
    adapter)
        last=null
        for round in 0 1; do
            work="$root/adapter/$round"
            if [[ ! -d "$work/merged" ]]; then
                python3 "$here/dialogues.py" "$work/dialogues.parquet" --seed "$round"
                MODEL="$root/smollm2" OUT="$work" VERL_FILE_LOGGER_PATH="$work/metrics.jsonl" \
                    torchrun --standalone --nproc_per_node=1 -m verl.trainer.sft_trainer \
                    --config-dir "$pretrained/config" --config-name warm_up model.lora_adapter_path="$last" \
                    data.max_length=1200 data.max_token_len_per_gpu=2048 \
                    trainer.default_local_dir="$work/sft" hydra.run.dir="$work/hydra" "$@"
                python3 -m verl.model_merger merge --backend fsdp --target_dir "$work/merged" \
                    --local_dir "$(find "$work/sft" -maxdepth 1 -name 'global_step_*')"
            fi
            last="$work/merged/lora_adapter"
        done
        ;;
    warm_up)
        adapter="$root/adapter/1/merged/lora_adapter"
        [[ -d "$adapter" ]] || adapter="$here/adapter"
        python3 "$pretrained/merge.py" "$root/smollm2" "$adapter" "$root/warm"
        ;;
    data)
        rltf data build "$env" --out "$root/data_$house" --seed "$house" --num-train 256 --num-test 64 house="$house" max_orders=1
        ;;
    train)
        method="${1:-}"
        [[ -n "$method" ]] || { echo "usage: $(basename "$0") train METHOD [hydra overrides …]" >&2; exit 2; }
        shift
        run="$root/${method//\//_}_${house}_$seed"
        mkdir -p "$run"
        # shellcheck disable=SC2046  # words
        set -- $(words_of "$method") "$@"
        MODEL="${MODEL:-$root/warm}" VERL_FILE_LOGGER_PATH="$run/metrics.jsonl" \
            python3 -m verl.trainer.main_ppo --config-dir "$here/config" --config-name agents \
            rltf.seed="$seed" data.seed="$seed" rltf.env.name="$env" rltf.env.house="$house" \
            data.train_files="$root/data_$house/train.parquet" data.val_files="$root/data_$house/test.parquet" \
            trainer.experiment_name="${method//\//_}_${house}_$seed" \
            trainer.default_local_dir="$run/checkpoints" hydra.run.dir="$run/hydra" \
            "$@"
        ;;
    study)
        for seed in 1 2 3; do
            for method in grpo sd fork by_step; do
                done="$root/${method}_${house}_$seed.done"
                [[ -e "$done" ]] && continue
                rm -rf "$root/${method}_${house}_$seed"
                # a constant rate: in each arm a budget of tokens means the same
                SEED="$seed" HOUSE="$house" OUT="$root" "$0" train "$method" trainer.total_training_steps=8 \
                    actor_rollout_ref.actor.optim.lr_scheduler_type=constant
                touch "$done"
            done
        done
        python3 "$here/results.py" "$root"
        ;;
    *)
        sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
