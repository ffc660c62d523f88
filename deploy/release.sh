#!/usr/bin/env bash
# Makes what a release publishes, of the commit that is checked out, into one folder: wheels, a tarball, images and
# SHA256SUMS. Refuses a tree with changes. Prints the table of sizes. The same commit on the same machine makes the same
# bytes.
#   deploy/release.sh [--cpu] [FOLDER]      default folder: dist/VERSION; --cpu: nothing of CUDA
# COXSWAIN_BUILD, COXSWAIN_CUDA_BUILD: where presets cpu and release-cuda are built (build/cpu, build/release-cuda).
# COXSWAIN_TORCH: a Python with torch, for which the wheel coxswain-kernels is made too.
set -euo pipefail
cd "$(dirname "$0")/.."
cuda=--cuda
[[ ${1:-} == --cpu ]] && { cuda=; shift; }
[[ ${1:-} == -* || $# -gt 1 ]] && { echo "usage: deploy/release.sh [--cpu] [FOLDER]" >&2; exit 2; }
version=$(sed -n 's/^project(coxswain VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
folder=${1:-dist/$version}
build=${COXSWAIN_BUILD:-build/cpu}
cuda_build=${COXSWAIN_CUDA_BUILD:-build/release-cuda}

die() { echo "release.sh: $*" >&2; exit 1; }
changed=$(git status --porcelain)
[[ -z $changed ]] || die "the tree differs from its commit; commit or stash first:"$'\n'"$changed"
commit=$(git rev-parse --short=12 HEAD)
[[ ! -e $folder || -z $(ls -A "$folder") ]] || die "$folder is not empty: give another folder"
mkdir -p "$folder"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# Builds TARGET... of preset PRESET in BUILD, configured anew so that its programs name this commit.
build_in() {
  local preset=$1 build=$2 log=$2/build.log
  shift 2
  [[ $build != "build/$preset" ]] || { deploy/build.sh "$preset" "$@"; return; }
  { cmake "$build" && cmake --build "$build" --target "$@"; } >"$log" 2>&1 || die "$build does not build; see $log"
}

# The image NAME with the programs of BUILD.
make_image() {
  COXSWAIN_BUILD=$build COXSWAIN_CUDA_BUILD=$cuda_build deploy/docker/assemble.sh "$roots/$1" "$1"
  python3 deploy/docker/pack_image.py "$roots/$1" "deploy/docker/$1.Dockerfile" "coxswain/$1:$version" "$commit" \
    "$folder/coxswain-$1-$version-image.tar"
  rm -rf "${roots:?}/$1"
}

[[ -d .deps ]] && compgen -G '.deps/arrow-*' >/dev/null || die "the reader of Parquet needs Arrow: run deploy/fetch-arrow.sh"
build_in cpu "$build" cox coxswain-controller coxswain-supervisor coxswain-worker-cpu coxswain_columnar
[[ -z $cuda ]] || build_in release-cuda "$cuda_build" coxswain-worker-cuda
COXSWAIN_BUILD=$build COXSWAIN_CUDA_BUILD=$cuda_build deploy/python/wheel.sh $cuda "$folder"
deploy/tarball.sh "$folder"
roots=$(mktemp -d)
trap 'rm -rf "$roots"' EXIT
for image in controller worker-cpu ${cuda:+worker-cuda}; do
  make_image $image
done
if [[ -n ${COXSWAIN_TORCH:-} ]]; then
  COXSWAIN_BUILD=$cuda_build deploy/wheel.sh $([[ -n $cuda ]] || echo --cpu) "$folder"
fi

(cd "$folder" && sha256sum -- * >SHA256SUMS)
echo "commit $commit, in $folder:"
cat "$folder/SHA256SUMS"
python3 deploy/sizes.py "$folder"
