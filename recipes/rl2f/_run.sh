# shellcheck shell=bash disable=SC2034  # the scripts that source this file read its variables
# Sourced by the numbered scripts. Paths are in the folder that the user stands in.

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
model="${MODEL:-Qwen/Qwen2.5-7B-Instruct}"
data="${RL2F_DATA:-data/rl2f}"
out="${RL2F_OUT:-outputs/rl2f}"
student_port="${STUDENT_PORT:-8001}"
server=""
# `rltf eval` plays as rl2f.yaml trains: eight episodes of up to five answers, of which the first right one is the last.
as_training=(endpoint.max_tokens=2048 episode.stop_when_solved_val=true -n 8 --rounds 4)

# train EXPERIMENT [overrides …]: all weights, verl's main_ppo.
train() {
    local experiment="$1"
    shift
    mkdir -p "$out/$experiment"
    MODEL="$model" NUM_GPUS="${NUM_GPUS:-8}" TUNE=full OUT="$out/$experiment" \
        VERL_FILE_LOGGER_PATH="$out/$experiment/metrics.jsonl" \
        "$here/../run.sh" "rl2f/$experiment" "$@"
}

# Writes the settings of rl2f.yaml, for probe, dialogues and evaluation to play as training plays; prints the file's name.
settings() {
    mkdir -p "$out"
    python3 -m verl.trainer.main_ppo --config-dir "$here/config" --config-name rl2f --cfg job --resolve \
        >"$out/.rl2f.yaml.part" && mv "$out/.rl2f.yaml.part" "$out/rl2f.yaml" && echo "$out/rl2f.yaml"
}

# serve MODEL: vLLM on loopback until `unserve` or the end of the script; returns when it answers.
serve() {
    mkdir -p "$out"
    vllm serve "$1" --host 127.0.0.1 --port "$student_port" \
        --tensor-parallel-size "${STUDENT_GPUS:-1}" --generation-config vllm >"$out/serve.log" 2>&1 &
    server=$!
    trap unserve EXIT
    until curl --silent --fail --output /dev/null "http://127.0.0.1:$student_port/v1/models"; do
        if ! kill -0 "$server" 2>/dev/null; then
            echo "vllm serve $1 ended before it answered: see $out/serve.log" >&2
            exit 1
        fi
        sleep 2
    done
    student=(endpoint.base_url="http://127.0.0.1:$student_port/v1" endpoint.model="$1")
}

unserve() {
    [[ -z "$server" ]] || kill "$server" 2>/dev/null || true
    [[ -z "$server" ]] || wait "$server" 2>/dev/null || true
    server=""
}

# Sets `student` to the endpoint of the base model: STUDENT_BASE_URL and STUDENT_MODEL, or one that is started here.
serve_base() {
    if [[ -n "${STUDENT_BASE_URL:-}" ]]; then
        student=(endpoint.base_url="$STUDENT_BASE_URL" endpoint.model="${STUDENT_MODEL:-$model}")
    else
        serve "$model"
    fi
}

# latest FOLDER SUBFOLDER: the weights of the last checkpoint, as transformers reads them.
latest() {
    local step
    step="$(cat "$1/latest_checkpointed_iteration.txt" 2>/dev/null || true)"
    local weights="$1/global_step_$step/$2"
    if [[ -z "$step" ]] || ! compgen -G "$weights/*.safetensors" >/dev/null; then
        echo "$1: no checkpoint with weights in $2 (checkpoint.save_contents must hold hf_model)" >&2
        return 1
    fi
    echo "$weights"
}
