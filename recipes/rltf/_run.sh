# shellcheck shell=bash
# Sourced by run_1gpu_lora.sh and run_8gpu.sh: `train EXPERIMENT OVERRIDES…` in the folder that the user stands in.

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage() {
    echo "usage: $(basename "$0") EXPERIMENT [hydra overrides …]; experiments:" >&2
    for file in "$here"/config/[!_]*.yaml; do
        basename "$file" .yaml >&2
    done
    exit 2
}

train() {
    local experiment="$1"
    shift
    [[ -f "$here/config/$experiment.yaml" ]] || usage
    local rollout="${ROLLOUT:-vllm}"
    case "$rollout" in
        vllm | sglang) ;;
        *)
            echo "ROLLOUT=$rollout: must be vllm or sglang" >&2
            exit 2
            ;;
    esac
    python3 -m verl.trainer.main_ppo \
        --config-dir "$here/config" --config-name "$experiment" \
        actor_rollout_ref.model.path="${MODEL:-meta-llama/Llama-3.1-8B-Instruct}" \
        actor_rollout_ref.rollout.name="$rollout" \
        trainer.experiment_name="$experiment" \
        trainer.default_local_dir="${OUT:-outputs/rltf}/$experiment" \
        "$@"
}
