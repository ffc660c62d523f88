# Coxswain's controller, and cox
#   docker build -f deploy/docker/controller.Dockerfile -t coxswain/controller:0.1.0 .
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
COPY deploy/fetch-arrow.sh deploy/
RUN deploy/fetch-arrow.sh
COPY . .
RUN deploy/build.sh cpu coxswain-controller cox coxswain_columnar
RUN COXSWAIN_BUILD=build/cpu deploy/docker/assemble.sh /rootfs controller

FROM scratch
COPY --from=build /rootfs/ /
ARG REVISION=unknown
LABEL org.opencontainers.image.revision="${REVISION}"
LABEL org.opencontainers.image.title="coxswain-controller" \
      org.opencontainers.image.description="Coxswain's controller, and cox" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="Coxswain developers" \
      dev.coxswain.sbom="/usr/share/coxswain/sbom.spdx.json"
ENV HOME=/var/lib/coxswain XDG_STATE_HOME=/var/lib/coxswain XDG_CACHE_HOME=/var/lib/coxswain/cache
# Workers read models that the controller downloads.
ENV HF_HOME=/data/huggingface
USER 65532:65532
WORKDIR /var/lib/coxswain
EXPOSE 7070 7071 7072
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/coxswain-controller"]
