#!/usr/bin/env bash
# Can the base model learn here at all? First lesson of the replication: a problem set that it always or never solves
# teaches nothing, and shows only after the GPU hours. Exits with 1, and says why, if so.
#
#   ./1_probe.sh [options of `rltf eval`, e.g. --problems 128]
#
# STUDENT_BASE_URL and STUDENT_MODEL: an endpoint with the base model; without it vLLM is started here. The teacher:
# JUDGE_BASE_URL, JUDGE_MODEL, JUDGE_API_KEY_ENV. Goes on where it was ended. MODEL, RL2F_DATA, RL2F_OUT: README.md.
set -euo pipefail
# shellcheck source=_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/_run.sh"

config="$(settings)"
serve_base
rltf eval "$data/train.parquet" --config "$config" "${student[@]}" "${as_training[@]}" --problems 64 --out "$out/probe" "$@"
rltf probe "$out/probe" --config "$config"
rltf probe "$out/probe" --config "$config" --json >"$out/probe.json"
python3 "$here/probe_gate.py" "$out/probe.json"
