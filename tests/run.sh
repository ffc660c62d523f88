#!/usr/bin/env bash
# Builds and runs every test.   tests/run.sh [preset] [ctest arguments ...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-cpu}
shift || true

deploy/install-deps.sh
command -v nvcc >/dev/null || echo "tests/run.sh: no nvcc here: preset cuda is skipped"
deploy/build.sh "$preset"

# The small safetensors package reads back what we write. A virtual environment keeps the system clean.
venv=build/venv
if [[ ! -x $venv/bin/python ]] || ! "$venv/bin/python" -c 'import safetensors, numpy' 2>/dev/null; then
  python3 -m venv "$venv" && "$venv/bin/pip" install -q 'safetensors>=0.4' numpy
fi
export COXSWAIN_PYTHON="$PWD/$venv/bin/python"

ctest --test-dir "build/$preset" --output-on-failure -j 2 "$@"
