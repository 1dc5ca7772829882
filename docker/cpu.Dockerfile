# Training, tests and tools on a CPU; in the repository's root:
#
#   docker build -f docker/cpu.Dockerfile -t rltf-verl:cpu .
#   mkdir -p outputs && chmod a+rwx outputs     # the container's user has the id 1000
#   docker run --rm -it --shm-size 2g -v "$PWD/outputs:/home/rltf/rltf-verl/outputs" rltf-verl:cpu make demo-tiny
FROM python:3.11-slim-bookworm AS system
# The versions are the distribution's, which keeps only its newest.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 rltf
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu \
    PIP_NO_CACHE_DIR=1 \
    VERL_PLATFORM=cpu

# The dev container stops above and mounts a checkout instead.
FROM system
WORKDIR /home/rltf/rltf-verl
RUN chown rltf:rltf .
USER 1000
COPY --chown=rltf:rltf . .
RUN make install
ENV PATH=/home/rltf/rltf-verl/.venv/bin:$PATH
CMD ["bash"]
