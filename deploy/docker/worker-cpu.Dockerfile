# Coxswain's CPU workers under their supervisor
#   docker build -f deploy/docker/worker-cpu.Dockerfile -t coxswain/worker-cpu:0.1.0 .
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
COPY . .
RUN deploy/build.sh cpu coxswain-supervisor coxswain-worker-cpu cox
RUN COXSWAIN_BUILD=build/cpu deploy/docker/assemble.sh /rootfs worker-cpu

FROM scratch
COPY --from=build /rootfs/ /
ARG REVISION=unknown
LABEL org.opencontainers.image.revision="${REVISION}"
LABEL org.opencontainers.image.title="coxswain-worker-cpu" \
      org.opencontainers.image.description="Coxswain's CPU workers under their supervisor" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="Coxswain developers" \
      dev.coxswain.sbom="/usr/share/coxswain/sbom.spdx.json"
ENV HOME=/var/lib/coxswain XDG_STATE_HOME=/var/lib/coxswain XDG_CACHE_HOME=/var/lib/coxswain/cache
USER 65532:65532
WORKDIR /var/lib/coxswain
EXPOSE 7078-7080 7180
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/coxswain-supervisor"]
