#!/usr/bin/env bash
# Builds the wheel coxswain-train: cox, controller, supervisor and CPU worker with every library that they need, the
# Python client, and the job of the quickstart. It needs glibc 2.36 and Python 3.10, nothing else of the machine.
#   deploy/python/wheel.sh [--cuda] [FOLDER]      default folder: dist
# --cuda: the wheel coxswain-train-cuda of the same commit too: the CUDA worker, its kernels, and the libraries that the
# first lacks. Both lie in one folder when they are installed. cuBLAS, cuDNN, NCCL and the CUDA runtime come from NVIDIA's
# wheels, not older than those of this machine.
# COXSWAIN_BUILD, COXSWAIN_CUDA_BUILD: where presets cpu and release-cuda were built (build/cpu, build/release-cuda); what
# is missing there is built.
set -euo pipefail
cd "$(dirname "$0")/../.."
with_cuda=
[[ ${1:-} == --cuda ]] && { with_cuda=1; shift; }
[[ ${1:-} == -* || $# -gt 1 ]] && { echo "usage: deploy/python/wheel.sh [--cuda] [FOLDER]" >&2; exit 2; }
folder=${1:-dist}
build=${COXSWAIN_BUILD:-build/cpu}
cuda_build=${COXSWAIN_CUDA_BUILD:-build/release-cuda}
programs=(cox coxswain-controller coxswain-supervisor coxswain-worker-cpu)
newest_glibc=2.36
tag=py3-none-manylinux_${newest_glibc/./_}_x86_64
version=$(sed -n 's/^project(coxswain VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
# Where NVIDIA's wheels put their libraries, seen from coxswain_train/bin and coxswain_train/lib.
nvidia='$ORIGIN/../../nvidia/cu13/lib:$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/nccl/lib'

die() { echo "wheel.sh: $*" >&2; exit 1; }
source deploy/closed_tree.sh

# The programs of PACKAGE, their libraries, and the reader of Parquet and Arrow, where the build has it.
stage_programs() {
  local package=$1 program library
  mkdir -p "$package"/{bin,lib}
  for program in "${programs[@]}"; do
    strip --strip-unneeded -o "$package/bin/$program" "$build/bin/$program"
  done
  for library in "$build"/lib/libcoxswain_columnar.so; do
    [[ ! -e $library ]] || strip --strip-unneeded -o "$package/lib/${library##*/}" "$library"
  done
  LD_LIBRARY_PATH=$(realpath "$build/lib") collect_libraries "$package"
  find "$package/lib" -type f -exec strip --strip-unneeded {} +
}

# The CUDA worker into PACKAGE, without what the package at WITHOUT has.
stage_cuda_worker() {
  local package=$1 without=$2 file
  mkdir -p "$package/bin"
  cp -r "$without/lib" "$package/lib"
  for file in bin/coxswain-worker-cuda lib/libcoxswain_kernels_cuda.so; do
    strip --strip-unneeded -o "$package/$file" "$cuda_build/$file"
    patchelf --set-rpath "\$ORIGIN:\$ORIGIN/../lib:$nvidia" "$package/$file"
  done
  LD_LIBRARY_PATH=$(realpath "$cuda_build/lib") collect_libraries "$package"
  check_closed "$package"
  for file in "$without"/lib/*; do
    rm "$package/lib/${file##*/}"
  done
  find "$package/lib" -type f ! -name 'libcoxswain*' -exec strip --strip-unneeded {} +
}

check_glibc() {
  local newest
  newest=$(objdump -T "$1"/bin/* "$1"/lib/* | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
  [[ $(printf '%s\n' "${newest#GLIBC_}" $newest_glibc | sort -V | tail -n 1) == "$newest_glibc" ]] ||
    die "the programs need ${newest/_/ }; build on a machine with glibc $newest_glibc, such as Debian 12"
}

# One command of pip for each PROGRAM... of STAGE.
write_entry_points() {
  local stage=$1 program
  shift
  {
    printf '[console_scripts]\n'
    printf '%s = coxswain_train.programs:run\n' "$@"
  } >"$stage/entry_points.txt"
}

# STAGE as the wheel NAME of at most MIB, with the FIELDs of its metadata.
pack() {
  local stage=$1 name=$2 limit_mib=$3 wheel mib
  shift 3
  cp LICENSE "$stage/"
  python3 deploy/pack_wheel.py "$stage" "$folder" "$name" "$version" "$tag" "Requires-Python: >=3.10" "$@"
  wheel=$folder/${name//-/_}-$version-$tag.whl
  advzip --quiet --recompress --shrink-normal "$wheel"
  mib=$(du --apparent-size --block-size=1M "$wheel" | cut -f1)
  echo "$wheel: $mib MiB of at most $limit_mib"
  [[ $mib -le $limit_mib ]] || die "$wheel is larger than $limit_mib MiB"
}

for tool in patchelf advzip; do
  command -v $tool >/dev/null || die "$tool is missing: run deploy/install-deps.sh"
done
for program in "${programs[@]}"; do
  [[ -x $build/bin/$program ]] || { deploy/build.sh cpu "${programs[@]}"; break; }
done
[[ -z $with_cuda || -x $cuda_build/bin/coxswain-worker-cuda ]] || deploy/build.sh release-cuda coxswain-worker-cuda

stages=$(mktemp -d)
trap 'rm -rf "$stages"' EXIT
package=$stages/cpu/coxswain_train
controller/python/generate.sh "$stages/cpu"
stage_programs "$package"
# Controller and workers of two builds refuse each other.
commit=$("$package/bin/cox" version -o json 2>/dev/null | sed -n 's/.*"commit": "\([0-9a-f]\{12\}\)".*/\1/p' | head -n 1) || true
check_commit "$package" "$commit" "${programs[@]}"
check_closed "$package"
check_glibc "$package"
echo "$version ${commit:-unknown}" >"$package/build"
mkdir "$package/quickstart_job"
cp -r deploy/quickstart/{model,job.yaml,train.jsonl,held_out.jsonl} "$package/quickstart_job/"
write_entry_points "$stages/cpu" "${programs[@]}"
pack "$stages/cpu" coxswain-train 60 \
  "Summary: Fine-tunes large language models: controller, workers, the command cox and a client" \
  "Requires-Dist: grpcio >=1.51" "Requires-Dist: protobuf >=3.21" "Requires-Dist: pyyaml >=6" \
  "Provides-Extra: cuda" "Requires-Dist: coxswain-train-cuda ==$version; extra == \"cuda\""
[[ -n $with_cuda ]] || exit 0

cuda_package=$stages/cuda/coxswain_train
stage_cuda_worker "$cuda_package" "$package"
check_commit "$cuda_package" "$commit" coxswain-worker-cuda
check_glibc "$cuda_package"
cp "$package/build" "$cuda_package/build_cuda"
write_entry_points "$stages/cuda" coxswain-worker-cuda
requirements=$(python3 deploy/python/nvidia_wheels.py "$cuda_build/bin/coxswain-worker-cuda")
mapfile -t requirements <<<"$requirements"
# 100 MB is what PyPI takes of one file.
pack "$stages/cuda" coxswain-train-cuda 95 "Summary: The CUDA worker of coxswain-train, for NVIDIA GPUs" \
  "Requires-Dist: coxswain-train ==$version" "${requirements[@]}"
