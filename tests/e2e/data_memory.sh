#!/usr/bin/env bash
# Streams a generated JSON Lines file through data preparation and fails when the peak resident memory
# reaches 700 MB. Invariant data-12.
#
#   tests/e2e/data_memory.sh [BUILD_DIR [MEGABYTES]]      default: build/cpu 2000
#
# Needs about 3.5 bytes of temporary disk (TMPDIR) per byte of input.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/cpu}
megabytes=${2:-2000}
COXSWAIN_RSS_LIMIT_MB=700 "$build/bench/data_stream_bench" "$megabytes"
