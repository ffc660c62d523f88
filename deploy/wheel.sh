#!/usr/bin/env bash
# Builds the wheel coxswain-kernels (kernels/torch) for the torch of a Python environment; it serves every Python.
#   COXSWAIN_TORCH=/path/to/python deploy/wheel.sh [--cpu] [FOLDER]      default folder: dist
# COXSWAIN_BUILD: where preset cuda was built (build/cuda), whose libcoxswain_kernels_cuda.so goes into the wheel; it is
# built when it is not there. --cpu leaves it out. CUDA's own libraries come from torch's packages.
set -euo pipefail
cd "$(dirname "$0")/.."

cuda=1
[[ ${1:-} == --cpu ]] && { cuda=; shift; }
[[ ${1:-} == -* || $# -gt 1 ]] && { echo "usage: COXSWAIN_TORCH=python deploy/wheel.sh [--cpu] [FOLDER]" >&2; exit 2; }
folder=${1:-dist}
python=${COXSWAIN_TORCH:?the python whose torch the wheel is for}
build=build/wheel
kernels=${COXSWAIN_BUILD:-build/cuda}/lib/libcoxswain_kernels_cuda.so

torch=$("$python" -c 'import importlib.util; print(importlib.util.find_spec("torch").submodule_search_locations[0])')
[[ -f $torch/lib/libtorch_cpu.so ]] || { echo "wheel.sh: no libtorch in $torch" >&2; exit 1; }
mkdir -p "$build"
echo "building for $torch (log: $build/build.log)"
{
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCOXSWAIN_TORCH=$torch"
  cmake --build "$build" --target coxswain_torch
} >"$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; exit 1; }
[[ -z $cuda || -f $kernels ]] || deploy/build.sh cuda coxswain_kernels_cuda

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cp -r kernels/torch/coxswain_kernels "$stage/"
rm -rf "$stage/coxswain_kernels/__pycache__"
mkdir "$stage/coxswain_kernels/lib"
for library in "$build/lib/libcoxswain_torch.so" ${cuda:+"$kernels"}; do
  strip --strip-unneeded -o "$stage/coxswain_kernels/lib/${library##*/}" "$library"
  # torch has loaded what they need: no folder of this machine is looked into.
  patchelf --set-rpath '$ORIGIN' "$stage/coxswain_kernels/lib/${library##*/}"
done
version=$(sed -n 's/^project(coxswain VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
of=$(sed -n "s/^__version__ = '\([0-9]*\.[0-9]*\).*/\1/p" "$torch/version.py")
cp LICENSE "$stage/"
python3 deploy/pack_wheel.py "$stage" "$folder" coxswain-kernels "$version+torch$of.$([[ -n $cuda ]] && echo cuda || echo cpu)" \
  py3-none-linux_x86_64 "Summary: Coxswain's fused kernels for PyTorch and transformers" "Requires-Python: >=3.9" "Requires-Dist: torch ==$of.*"
