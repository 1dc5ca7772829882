#!/usr/bin/env bash
# A pretrained language model learns the conventions of a house from words, on the CPU. In this order:
#
#   recipes/pretrained/pretrained.sh model                            # fetch and convert SmolLM2-135M-Instruct
#   recipes/pretrained/pretrained.sh warm_up                          # 40 supervised steps on other conventions
#   recipes/pretrained/pretrained.sh data                             # the house's problems
#   recipes/pretrained/pretrained.sh train METHOD [hydra overrides …] # grpo_single, grpo, sd, fm, sd_fm, sft
#
# FAMILY (date, entries, reply), SEED (0): of house and problems. OUT (outputs/pretrained): the folder.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
family="${FAMILY:-date}"
seed="${SEED:-0}"
root="${OUT:-outputs/pretrained}"
mkdir -p "$root"
root="$(cd "$root" && pwd)"
export VERL_PLATFORM=cpu OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0
command="${1:-}"
shift || true

case "$command" in
    model)
        rltf model smollm2 "$root/smollm2"
        ;;
    warm_up)
        work="$root/warm_up_$family"
        python3 "$here/dialogues.py" "$work/dialogues.parquet" --family "$family"
        MODEL="${MODEL:-$root/smollm2}" OUT="$work" VERL_FILE_LOGGER_PATH="$work/metrics.jsonl" \
            torchrun --standalone --nproc_per_node=1 -m verl.trainer.sft_trainer \
            --config-dir "$here/config" --config-name warm_up \
            trainer.default_local_dir="$work/sft" hydra.run.dir="$work/hydra" "$@"
        rm -rf "$root/warm_$family"
        mv "$(ls -d "$work"/sft/global_step_*/huggingface)" "$root/warm_$family"
        ;;
    data)
        rltf data build house_style --out "$root/data_${family}_$seed" --seed "$seed" \
            --num-train 512 --num-test 64 family="$family"
        ;;
    train)
        method="${1:-}"
        [[ -n "$method" ]] || { echo "usage: $(basename "$0") train METHOD [hydra overrides …]" >&2; exit 2; }
        shift
        run="$root/${family}_${method}_$seed"
        data="$root/data_${family}_$seed"
        mkdir -p "$run"
        own=()
        [[ "$method" != sd* ]] || own=(rltf.distill.weight=1.0) # the paper's 0.1 learns too slowly for 12 steps
        MODEL="${MODEL:-$root/warm_$family}" VERL_FILE_LOGGER_PATH="$run/metrics.jsonl" \
            python3 -m verl.trainer.main_ppo --config-dir "$here/config" --config-name pretrained \
            rltf/method="$method" rltf.seed="$seed" rltf.env.family="$family" \
            data.train_files="$data/train.parquet" data.val_files="$data/test.parquet" \
            trainer.experiment_name="${family}_${method}_$seed" \
            trainer.default_local_dir="$run/checkpoints" hydra.run.dir="$run/hydra" \
            ${own[@]+"${own[@]}"} "$@"
        ;;
    *)
        sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
