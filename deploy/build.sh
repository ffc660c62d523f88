#!/usr/bin/env bash
# Configures and builds a preset (default: cpu). Prints one line per stage; the full log is in
# build/<preset>/build.log.   deploy/build.sh [preset] [target ...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-cpu}
shift || true
mkdir -p "build/$preset"
log="build/$preset/build.log"
targets=()
[[ $# -gt 0 ]] && targets=(--target "$@")
echo "configuring and building preset $preset (log: $log)"
if ! { cmake --preset "$preset" && cmake --build "build/$preset" "${targets[@]}"; } >"$log" 2>&1; then
  echo "build failed; the end of $log:" >&2
  grep -n -m 20 -E 'error|Error|FAILED' "$log" >&2 || tail -n 40 "$log" >&2
  exit 1
fi
