#!/usr/bin/env bash
# The data of all experiments, with `rltf data build`.
#
#   ./prepare_data.sh                   # official: the release's problems, for the paper's numbers
#   ./prepare_data.sh strict            # no test problem in training, no constant answer worth much
#   TASKS="kk bm" ./prepare_data.sh     # some of kk bm sp dapo deepmath writing
#
# RLTF_DATA names the folder (data/rltf). kk needs rltf-verl[data], dapo and deepmath rltf-verl[math] and the hub.
# `writing` is built only when WRITING_FILE names a file of assignments (.parquet, .json, .jsonl, .csv; column
# WRITING_FIELD, "prompt"); WRITING_TRAIN and WRITING_TEST say how many. Train on strict data with rltf.env.mode=strict.
set -euo pipefail

mode="${1:-official}"
[[ $# -eq 0 ]] || shift
case "$mode" in
    official | strict) ;;
    *)
        echo "$mode: must be official or strict" >&2
        exit 2
        ;;
esac
out="${RLTF_DATA:-data/rltf}"
tasks="${TASKS:-kk bm sp dapo deepmath ${WRITING_FILE:+writing}}"

puzzle() { # folder, environment, options
    local folder="$1" env="$2"
    shift 2
    rltf data build "$env" --out "$out/$folder" --seed 0 --num-train 19800 --num-test 200 mode="$mode" "$@"
}

mathematics() { # folder and source, options
    local source="$1"
    shift
    # Upper bounds: all that there is. A test problem gets as many rows as the release samples it.
    rltf data build math --out "$out/$source" --seed 0 --num-train 1000000 --num-test 500 mode="$mode" \
        source="$source" "$@"
}

writing() { # options
    : "${WRITING_FILE:?names the file of assignments}"
    rltf data build writing --out "$out/writing" --seed 0 --num-train "${WRITING_TRAIN:-1000}" \
        --num-test "${WRITING_TEST:-200}" path="$WRITING_FILE" question_field="${WRITING_FIELD:-prompt}" "$@"
}

for task in $tasks; do
    case "$task" in
        kk) puzzle kk knights_knaves "$@" ;;
        bm) puzzle bm binary_matrix "$@" ;;
        sp) puzzle sp shortest_path "$@" ;;
        dapo | deepmath) mathematics "$task" "$@" ;;
        writing) writing "$@" ;;
        *)
            echo "TASKS: unknown task $task; there are kk bm sp dapo deepmath writing" >&2
            exit 2
            ;;
    esac
done
