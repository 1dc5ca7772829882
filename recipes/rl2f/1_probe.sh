#!/usr/bin/env bash
# Can the base model learn here at all? First lesson of the replication: a problem set that it always or never solves
# teaches nothing, and shows only after the GPU hours. Exits with 1, and says why, if so.
#
#   ./1_probe.sh [options of `rltf feedback check`, e.g. --problems 128]
#
# STUDENT_BASE_URL and STUDENT_MODEL: an endpoint with the base model; without it vLLM is started here. The teacher:
# JUDGE_BASE_URL, JUDGE_MODEL, JUDGE_API_KEY_ENV. Goes on where it was ended. MODEL, RL2F_DATA, RL2F_OUT: README.md.
set -euo pipefail
# shellcheck source=_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/_run.sh"

config="$(settings)"
serve_base
rltf feedback check "$data/train.parquet" --config "$config" "${student[@]}" --out "$out/probe" "$@"
python3 "$here/probe_gate.py" "$out/probe/probe.json"
