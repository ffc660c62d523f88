# Coxswain's CUDA workers, one a GPU, under their supervisor
#   docker build -f deploy/docker/worker-cuda.Dockerfile -t coxswain/worker-cuda:0.1.0 .
ARG DEBIAN=debian:bookworm-20250520-slim
FROM ${DEBIAN} AS build
# Packages as of one day, so that a build next year is the same build.
ARG SNAPSHOT=20250520T000000Z
RUN sed -i -E "s#^URIs: http://deb.debian.org/(debian(-security)?)$#URIs: http://snapshot.debian.org/archive/\1/${SNAPSHOT}#" \
      /etc/apt/sources.list.d/debian.sources && \
    echo 'Acquire::Check-Valid-Until "false";' >/etc/apt/apt.conf.d/90snapshot
WORKDIR /src
COPY deploy/install-deps.sh deploy/
RUN deploy/install-deps.sh
# CUDA 13 with cuBLASLt, cuDNN 9 and NCCL from NVIDIA's repository for Debian 12.
ARG CUDA_KEYRING=https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb
ADD ${CUDA_KEYRING} /tmp/cuda-keyring.deb
RUN dpkg -i /tmp/cuda-keyring.deb && apt-get update -q && \
    apt-get install -y -q --no-install-recommends cuda-nvcc-13-0 cuda-cudart-dev-13-0 cuda-nvrtc-dev-13-0 \
      cuda-nvml-dev-13-0 cuda-profiler-api-13-0 libcublas-dev-13-0 libcudnn9-dev-cuda-13 libnccl-dev
ENV PATH=/usr/local/cuda/bin:${PATH}
COPY deploy/fetch-cudnn-frontend.sh deploy/
RUN deploy/fetch-cudnn-frontend.sh
COPY . .
RUN deploy/build.sh release-cuda coxswain-supervisor coxswain-worker-cuda cox
RUN COXSWAIN_BUILD=build/release-cuda deploy/docker/assemble.sh /rootfs worker-cuda

FROM scratch
COPY --from=build /rootfs/ /
ARG REVISION=unknown
LABEL org.opencontainers.image.revision="${REVISION}"
LABEL org.opencontainers.image.title="coxswain-worker-cuda" \
      org.opencontainers.image.description="Coxswain's CUDA workers, one a GPU, under their supervisor" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="Coxswain developers" \
      dev.coxswain.sbom="/usr/share/coxswain/sbom.spdx.json"
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENV HOME=/var/lib/coxswain XDG_STATE_HOME=/var/lib/coxswain XDG_CACHE_HOME=/var/lib/coxswain/cache
USER 65532:65532
WORKDIR /var/lib/coxswain
EXPOSE 7078-7087 7180-7187
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/coxswain-supervisor"]
