#!/usr/bin/env bash
# Installs what the CPU build and its tests need on Debian 12 or Ubuntu. Idempotent; prints nothing when
# nothing is missing.   --dev adds clang, clang-tidy, clang-format and the sanitizer runtimes; --browser adds
# a headless Chromium for the test and the picture of the status page (98 MB to fetch, 303 MB on disk).
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache lld pkg-config git ca-certificates python3 python3-venv
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libyaml-cpp-dev prometheus-cpp-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libsimdjson-dev
  libpcre2-dev libutf8proc-dev libsqlite3-dev libxxhash-dev libssl-dev zlib1g-dev
  libcpp-httplib-dev libctemplate-dev
  libtorch-dev libopenblas0-pthread libgloo-dev libgtest-dev libgmock-dev libbenchmark-dev
  binutils patchelf prometheus openssl
)
for argument in "$@"; do
  case $argument in
    --dev) packages+=(clang clang-tidy clang-format libclang-rt-14-dev) ;;
    --browser) packages+=(chromium-headless-shell fonts-dejavu-core) ;;
    *) echo "install-deps.sh: unknown argument '$argument'; there are --dev and --browser" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || {
    echo "install-deps.sh: not root and no sudo; run as root: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "install-deps.sh: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -q --no-install-recommends "${missing[@]}"

# Debian starts Prometheus as a service on port 9090; the tests and `cox up` start their own.
if [[ " ${missing[*]} " == *" prometheus "* && -d /run/systemd/system ]]; then
  "${as_root[@]}" systemctl disable --now prometheus.service
fi
