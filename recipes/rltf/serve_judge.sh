#!/usr/bin/env bash
# The judge beside training, on loopback and on GPUs of its own. Not run by us on GPUs.
#
#   CUDA_VISIBLE_DEVICES=4,5,6,7 JUDGE_MODEL=Qwen/Qwen3-8B ./serve_judge.sh [more options of `vllm serve`]
#
# The default is the paper's judge, 235 billion parameters: about 480 GB in bfloat16, a node of eight GPUs of 80 GB.
# JUDGE_GPUS is the tensor parallel size (8), JUDGE_PORT the port (8000). Start training with the same JUDGE_MODEL, and
# JUDGE_BASE_URL=http://127.0.0.1:$JUDGE_PORT/v1 if the port is another; with JUDGE_BASE_URL and JUDGE_API_KEY_ENV alone a
# hosted API answers and this script is not needed.
set -euo pipefail

exec vllm serve "${JUDGE_MODEL:-Qwen/Qwen3-235B-A22B-Instruct-2507}" \
    --host 127.0.0.1 \
    --port "${JUDGE_PORT:-8000}" \
    --tensor-parallel-size "${JUDGE_GPUS:-8}" \
    --max-num-seqs 256 \
    --max-model-len 32768 \
    --enable-prefix-caching \
    "$@"
