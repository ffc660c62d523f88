#!/usr/bin/env bash
# Builds and runs every test.   tests/run.sh [preset] [ctest arguments ...]
# Without a preset: cuda-lumps where nvcc is, else cpu. Presets of CUDA are cpu and more; what needs a
# GPU skips itself.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ -x /usr/local/cuda/bin/nvcc ]] && PATH=$PATH:/usr/local/cuda/bin
preset=cpu
command -v nvcc >/dev/null && preset=cuda-lumps
[[ $# -gt 0 && $1 != -* ]] && { preset=$1; shift; }
command -v nvcc >/dev/null || echo "tests/run.sh: no nvcc here: nothing of CUDA is built"

echo "tests/run.sh 1/3: packages"
deploy/install-deps.sh
deploy/install-deps.sh --browser || echo "tests/run.sh: no Chromium here: the test of the status page skips itself"
echo "tests/run.sh 2/3: build"
[[ $preset == cuda* ]] && deploy/fetch-cudnn-frontend.sh
deploy/fetch-arrow.sh || echo "tests/run.sh: Arrow cannot be fetched: the tests of Parquet skip themselves"
deploy/build.sh "$preset"
[[ $preset == cuda* ]] && COXSWAIN_BUILD=build/$preset deploy/bundle.sh build/bundle

# safetensors reads back what we write, huggingface_hub what we download, kubernetes-validate the manifests. A
# virtual environment keeps the system clean.
venv=build/venv
if [[ ! -x $venv/bin/python ]] || ! "$venv/bin/python" -c 'import safetensors, numpy, gguf, huggingface_hub, kubernetes_validate, grpc, google.protobuf, yaml' 2>/dev/null; then
  python3 -m venv "$venv" && "$venv/bin/pip" install -q 'safetensors>=0.4' numpy 'gguf==0.19.0' 'huggingface_hub>=1' 'kubernetes-validate==1.37.0' grpcio protobuf pyyaml
fi
export COXSWAIN_PYTHON="$PWD/$venv/bin/python"

echo "tests/run.sh 3/3: tests"
ctest --test-dir "build/$preset" --output-on-failure -j 2 "$@"
