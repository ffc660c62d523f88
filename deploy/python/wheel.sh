#!/usr/bin/env bash
# Builds the wheel coxswain-train: cox, controller, supervisor and CPU worker with every library that they need, the
# Python client, and the job of the quickstart. It needs glibc 2.36 and Python 3.10, nothing else of the machine.
#   deploy/python/wheel.sh [FOLDER]        default folder: dist
# COXSWAIN_BUILD: where preset cpu was built (build/cpu); what is missing there is built.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ ${1:-} == -* || $# -gt 1 ]] && { echo "usage: deploy/python/wheel.sh [FOLDER]" >&2; exit 2; }
folder=${1:-dist}
build=${COXSWAIN_BUILD:-build/cpu}
programs=(cox coxswain-controller coxswain-supervisor coxswain-worker-cpu)
newest_glibc=2.36
limit_mib=60

die() { echo "wheel.sh: $*" >&2; exit 1; }
source deploy/closed_tree.sh
for tool in patchelf advzip; do
  command -v $tool >/dev/null || die "$tool is missing: run deploy/install-deps.sh"
done
for program in "${programs[@]}"; do
  [[ -x $build/bin/$program ]] || { deploy/build.sh cpu "${programs[@]}"; break; }
done

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
controller/python/generate.sh "$stage"
package=$stage/coxswain_train
mkdir -p "$package"/{bin,lib,quickstart_job}
for program in "${programs[@]}"; do
  strip --strip-unneeded -o "$package/bin/$program" "$build/bin/$program"
done
# The reader of Parquet and Arrow, where the build has it.
for library in "$build"/lib/libcoxswain_columnar.so; do
  [[ ! -e $library ]] || strip --strip-unneeded -o "$package/lib/${library##*/}" "$library"
done
LD_LIBRARY_PATH=$(realpath "$build/lib") collect_libraries "$package"
find "$package/lib" -type f -exec strip --strip-unneeded {} +
# Controller and workers of two builds refuse each other.
commit=$("$package/bin/cox" version -o json 2>/dev/null | sed -n 's/.*"commit": "\([0-9a-f]\{12\}\)".*/\1/p' | head -n 1) || true
check_commit "$package" "$commit" "${programs[@]}"
check_closed "$package"
glibc=$(objdump -T "$package"/bin/* "$package"/lib/* | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
[[ $(printf '%s\n' "${glibc#GLIBC_}" $newest_glibc | sort -V | tail -n 1) == "$newest_glibc" ]] ||
  die "the programs need ${glibc/_/ }; build on a machine with glibc $newest_glibc, such as Debian 12"

cp -r deploy/quickstart/{model,job.yaml,train.jsonl,held_out.jsonl} "$package/quickstart_job/"
cp LICENSE "$stage/"
printf '[console_scripts]\n' >"$stage/entry_points.txt"
for program in "${programs[@]}"; do
  printf '%s = coxswain_train.programs:run\n' "$program"
done >>"$stage/entry_points.txt"
version=$(sed -n 's/^project(coxswain VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
python3 deploy/pack_wheel.py "$stage" "$folder" coxswain-train "$version" "py3-none-manylinux_${newest_glibc/./_}_x86_64" \
  "Summary: Fine-tunes large language models: controller, workers, the command cox and a client" "Requires-Python: >=3.10" \
  "Requires-Dist: grpcio >=1.51" "Requires-Dist: protobuf >=3.21" "Requires-Dist: pyyaml >=6"
wheel=$folder/coxswain_train-$version-py3-none-manylinux_${newest_glibc/./_}_x86_64.whl
advzip --quiet --recompress --shrink-normal "$wheel"
mib=$(du --apparent-size --block-size=1M "$wheel" | cut -f1)
echo "$wheel: $mib MiB of at most $limit_mib"
[[ $mib -le $limit_mib ]] || die "$wheel is larger than $limit_mib MiB"
