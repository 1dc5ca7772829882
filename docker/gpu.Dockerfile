# Training on GPUs; in the repository's root:
#
#   docker build -f docker/gpu.Dockerfile -t rltf-verl:gpu .
#   docker run --rm -it --gpus all --shm-size 10g -v "$PWD:/work" -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
#       rltf-verl:gpu
#
# The base is the image that docker/README.md of verl 0.9 names: vLLM 0.24, torch 2.11 for CUDA 13, no verl. We have not
# built it. For SGLang: --build-arg BASE=verlai/verl:sgl0512.latest
ARG BASE=verlai/verl:vllm024.latest
# hadolint ignore=DL3006
FROM ${BASE}
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /opt/rltf-verl
COPY . .
# The base's torch and engine fit its driver and each other: pip must not exchange them.
RUN { pip freeze | grep -E '^(torch|torchvision|torchaudio|transformers|vllm|sglang)==' || true; } >/tmp/keep.txt \
    && pip install --no-cache-dir --constraint /tmp/keep.txt 'verl==0.9.1' '.[judge,math,data,plot]' \
    && rltf --version
WORKDIR /work
CMD ["bash"]
