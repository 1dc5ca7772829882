#!/usr/bin/env bash
# A pretrained language model learns the conventions of a house from words, on the CPU. In this order:
#
#   recipes/pretrained/pretrained.sh model                            # fetch and convert SmolLM2-135M-Instruct
#   recipes/pretrained/pretrained.sh adapter                          # 320 supervised steps on other conventions
#   recipes/pretrained/pretrained.sh warm_up                          # adds that adapter, or the one that is here
#   recipes/pretrained/pretrained.sh data                             # the house's problems
#   recipes/pretrained/pretrained.sh train METHOD [hydra overrides …] # grpo_single, grpo, sd, fm, sd_fm, sft, raft
#
# FAMILY (date, critique, locale, entries, reply), SEED (0): of house and problems. HOUSES (1): how many.
# OUT (outputs/pretrained): the folder. ROUNDS (4): of the adapter. VERL_PLATFORM (cpu): empty where rltf/hardware is a GPU's.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
family="${FAMILY:-date}"
seed="${SEED:-0}"
rounds="${ROUNDS:-4}"
root="${OUT:-outputs/pretrained}"
mkdir -p "$root"
root="$(cd "$root" && pwd)"
env="$here/house_style.py:HouseStyle"
export VERL_PLATFORM="${VERL_PLATFORM-cpu}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0
command="${1:-}"
shift || true

# A method's and the family's own words. With the release's weight of 0.1 the few rows of GRPO say where Adam's step goes. Only a
# letter is long.
words_of() {
    echo "rltf/method=$1"
    [[ "$1" != sd* ]] || echo "rltf.distill.weight=1.0"
    [[ "$family" == reply ]] || echo "data.max_response_length=48"
    [[ "$1" != sft ]] || echo "rltf.imitate.weight=1.0"
}

case "$command" in
    model)
        python3 "$here/fetch_model.py" smollm2 "$root/smollm2"
        ;;
    adapter)
        last=null
        for ((round = 0; round < rounds; round++)); do
            work="$root/adapter_$family/$round"
            python3 "$here/dialogues.py" "$work/dialogues.parquet" --family "$family" --seed "$round"
            MODEL="${MODEL:-$root/smollm2}" OUT="$work" VERL_FILE_LOGGER_PATH="$work/metrics.jsonl" \
                torchrun --standalone --nproc_per_node=1 -m verl.trainer.sft_trainer \
                --config-dir "$here/config" --config-name warm_up model.lora_adapter_path="$last" \
                trainer.default_local_dir="$work/sft" hydra.run.dir="$work/hydra" "$@"
            python3 -m verl.model_merger merge --backend fsdp --target_dir "$work/merged" \
                --local_dir "$(find "$work/sft" -maxdepth 1 -name 'global_step_*' | sort -V | tail -n 1)"
            last="$work/merged/lora_adapter"
        done
        ;;
    warm_up)
        adapter="$root/adapter_$family/$((rounds - 1))/merged/lora_adapter"
        [[ -d "$adapter" ]] || adapter="$here/adapter_$family"
        [[ -d "$adapter" ]] || { echo "no adapter for $family: $(basename "$0") adapter" >&2; exit 2; }
        python3 "$here/merge.py" "${MODEL:-$root/smollm2}" "$adapter" "$root/warm_$family"
        ;;
    data)
        rltf data build "$env" --out "$root/data_${family}_$seed" --seed "$seed" \
            --num-train 512 --num-test 64 family="$family" num_houses="${HOUSES:-1}"
        ;;
    train)
        method="${1:-}"
        [[ -n "$method" ]] || { echo "usage: $(basename "$0") train METHOD [hydra overrides …]" >&2; exit 2; }
        shift
        run="$root/${family}_${method}_$seed"
        data="$root/data_${family}_$seed"
        mkdir -p "$run"
        # shellcheck disable=SC2046  # words
        set -- $(words_of "$method") "$@"
        # In place of this shell: a signal then reaches the trainer, and who waits for it waits until Ray has ended.
        MODEL="${MODEL:-$root/warm_$family}" VERL_FILE_LOGGER_PATH="$run/metrics.jsonl" \
            exec python3 -m verl.trainer.main_ppo --config-dir "$here/config" --config-name pretrained \
            rltf.seed="$seed" rltf.env.name="$env" rltf.env.family="$family" \
            rltf.env.num_houses="${HOUSES:-1}" \
            data.train_files="$data/train.parquet" data.val_files="$data/test.parquet" \
            trainer.experiment_name="${family}_${method}_$seed" \
            trainer.default_local_dir="$run/checkpoints" hydra.run.dir="$run/hydra" \
            "$@"
        ;;
    *)
        sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
