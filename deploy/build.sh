#!/usr/bin/env bash
# Configures and builds a preset (default: cpu). Prints one line per stage and, on a terminal, how far it is;
# the full log is in build/<preset>/build.log.   deploy/build.sh [preset] [target ...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-cpu}
shift || true
mkdir -p "build/$preset"
log="build/$preset/build.log"
targets=()
[[ $# -gt 0 ]] && targets=(--target "$@")

# All lines into the log; on a terminal ninja's "[12/276] ..." too, each over the one before.
follow() {
  [[ -t 1 ]] || { cat >>"$log"; return; }
  local line columns
  columns=$(tput cols 2>/dev/null) || columns=80
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    [[ $line != '['*/*']'* ]] || printf '\r\033[K%s' "${line:0:columns-1}"
  done
  printf '\r\033[K'
}

echo "configuring and building preset $preset (log: $log)"
: >"$log"
if ! { cmake --preset "$preset" && cmake --build "build/$preset" "${targets[@]}"; } 2>&1 | follow; then
  echo "build failed; the end of $log:" >&2
  grep -n -m 20 -E 'error|Error|FAILED' "$log" >&2 || tail -n 40 "$log" >&2
  exit 1
fi
