#!/usr/bin/env bash
# Installs what the CPU build and its tests need on Debian 12 or Ubuntu. Idempotent; prints nothing when
# nothing is missing. The package manager's words go into a log, which the output names; a terminal shows how
# far it is.   --dev adds clang, clang-tidy, clang-format, the sanitizer runtimes and debootstrap; --browser adds
# a headless Chromium for the test and the picture of the status page (98 MB to fetch, 303 MB on disk), and
# librsvg, which draws PNG; --gates adds what .ci/gates needs.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache lld pkg-config git ca-certificates python3 python3-venv
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libyaml-cpp-dev prometheus-cpp-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libsimdjson-dev
  libpcre2-dev libutf8proc-dev libsqlite3-dev libxxhash-dev libssl-dev zlib1g-dev libzstd-dev
  libcpp-httplib-dev libctemplate-dev libcurl4-openssl-dev
  libtorch-dev libopenblas0-pthread libgloo-dev libgtest-dev libgmock-dev libbenchmark-dev
  binutils patchelf advancecomp prometheus openssl
)
for argument in "$@"; do
  case $argument in
    --gates) packages+=(clang-format-14) ;;
    --dev) packages+=(clang clang-tidy clang-format libclang-rt-14-dev debootstrap) ;;
    --browser) packages+=(chromium-headless-shell fonts-dejavu-core librsvg2-2) ;;
    *) echo "install-deps.sh: unknown argument '$argument'; there are --browser, --dev and --gates" >&2; exit 2 ;;
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

# apt reports progress as lines between its others ("dlstatus:3:41.2:Retrieving ...").
follow() {
  local line kind percent what columns
  columns=$(tput cols 2>/dev/null) || columns=80
  while IFS= read -r line; do
    if [[ $line != dlstatus:* && $line != pmstatus:* ]]; then
      printf '%s\n' "$line" >>"$log"
    elif [[ -t 1 ]]; then
      IFS=: read -r kind _ percent what <<<"$line"
      [[ $kind == dlstatus ]] && kind=fetching || kind=installing
      line="  $kind: ${percent%.*} % $what"
      printf '\r\033[K%s' "${line:0:columns-1}"
    fi
  done
  [[ ! -t 1 ]] || printf '\r\033[K'
}
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C \
    apt-get -q -o APT::Status-Fd=1 "$@" </dev/null 2>&1 | follow
}
log=$(mktemp -t coxswain-install-deps.XXXXXX.log)
echo "install-deps.sh: installing ${missing[*]} (log: $log)"
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; }; then
  echo "install-deps.sh: apt-get failed; the end of $log:" >&2
  tail -n 20 "$log" >&2
  exit 1
fi

# Debian starts Prometheus as a service on port 9090; the tests and `cox up` start their own.
if [[ " ${missing[*]} " == *" prometheus "* && -d /run/systemd/system ]]; then
  "${as_root[@]}" systemctl disable --now prometheus.service
fi
