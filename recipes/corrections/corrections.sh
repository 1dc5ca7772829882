#!/usr/bin/env bash
# A language model learns from the corrections in 400 conversations, on a CPU. In this order:
#
#   recipes/corrections/corrections.sh prepare [options of chats.py] # model, conversations, corrections, held-out questions
#   recipes/corrections/corrections.sh train [hydra overrides …]     # the run
#
# HOUSE (0): number of the company. SEED (0): of the run. OUT (outputs/corrections): the folder. DATA (OUT/data_HOUSE).
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
pretrained="$here/../pretrained/pretrained.sh"
house="${HOUSE:-0}"
seed="${SEED:-0}"
root="${OUT:-outputs/corrections}"
mkdir -p "$root"
root="$(cd "$root" && pwd)"
data="${DATA:-$root/data_$house}"
env="$here/house_corrections.py:HouseCorrections"
export VERL_PLATFORM=cpu OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0
command="${1:-}"
shift || true

case "$command" in
    prepare)
        [[ -d "$root/smollm2" ]] || OUT="$root" "$pretrained" model
        [[ -d "$root/warm_date" ]] || OUT="$root" FAMILY=date "$pretrained" warm_up
        python3 "$here/chats.py" "$data/chats.jsonl" --house "$house" "$@"
        rltf data corrections "$data/chats.jsonl" --out "$data" --rule "$here/english.py:corrects" --overwrite
        rltf data build "$env" --out "$data/held_out" --seed "$house" --num-train 0 --num-test 64 --overwrite
        ;;
    train)
        run="$root/corrections_${house}_$seed"
        mkdir -p "$run"
        # In place of this shell: a signal then reaches the trainer.
        MODEL="${MODEL:-$root/warm_date}" VERL_FILE_LOGGER_PATH="$run/metrics.jsonl" \
            exec python3 -m verl.trainer.main_ppo --config-dir "$here/config" --config-name corrections \
            rltf.seed="$seed" data.seed="$seed" rltf.env.name="$env" \
            data.train_files="$data/train.parquet" data.val_files="$data/held_out/test.parquet" \
            trainer.experiment_name="corrections_${house}_$seed" \
            trainer.default_local_dir="$run/checkpoints" hydra.run.dir="$run/hydra" \
            "$@"
        ;;
    *)
        sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
