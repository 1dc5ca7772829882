#!/usr/bin/env bash
# A model learns to keep rules that a program checks. We have not run it on a GPU.
#
#   recipes/instructions/instructions.sh data                          # 3 200 requests with rules; 64 others, IFEval, IFBench
#   recipes/instructions/instructions.sh ARM [hydra overrides …]
#
# ARM: sd, grpo, grpo_single or raft; verdict (RLTF-SD that hears "wrong" only) and shuffled (RLTF-SD that hears of another
# problem's rules) are its controls. The variables of ../run.sh; one GPU of 80 GB is the default, eight:
# NUM_GPUS=8 TUNE=full MODEL=Qwen/Qwen3-4B recipes/instructions/instructions.sh sd data.train_batch_size=128
# RLTF_DATA (data/instructions): the folder of the data.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
data="${RLTF_DATA:-data/instructions}"
arm="${1:-}"
shift || true

case "$arm" in
    data)
        rltf data build instructions --num-train 3200 --num-test 64 --out "$data"
        rltf data build instructions source=ifeval --num-train 0 --num-test 541 --out "$data/ifeval"
        rltf data build instructions source=ifbench --num-train 0 --num-test 300 --out "$data/ifbench"
        exit
        ;;
    sd | grpo | raft) words=(rltf/method="$arm") ;;
    # Six answers: about as many as four first ones and what is answered again.
    grpo_single) words=(rltf/method=grpo_single actor_rollout_ref.rollout.n=6) ;;
    verdict) words=(rltf.feedback.level=verdict) ;;
    shuffled) words=(rltf/feedback=shuffled) ;;
    *)
        sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
RLTF_DATA="$data" OUT="${OUT:-outputs/instructions/$arm}" exec "$here/../run.sh" instructions \
    trainer.experiment_name="$arm" "${words[@]}" "$@"
