#!/usr/bin/env bash
# Collects what a machine with a GPU needs beside CUDA's own libraries into one folder and one archive, checks
# that it is whole, prints its sizes and fails when the archive is above 60 MiB.
#   deploy/bundle.sh [--partial] [FOLDER]    default .carry/bundle; --partial leaves out what is not built
# FOLDER.tar.gz is what travels, inside a working tree: jobs, models, golden cases and scripts come from there.
# COXSWAIN_BUILD: where preset cuda was built (build/cuda). COXSWAIN_SHARED: folder of tokenizers and configurations
# (../shared).
set -euo pipefail
cd "$(dirname "$0")/.."

partial=
[[ ${1:-} == --partial ]] && { partial=1; shift; }
[[ ${1:-} == -* || $# -gt 1 ]] && { echo "usage: deploy/bundle.sh [--partial] [FOLDER]" >&2; exit 2; }
bundle=${1:-.carry/bundle}
build=${COXSWAIN_BUILD:-build/cuda}
shared=${COXSWAIN_SHARED:-../shared}
limit_mib=60

programs=(coxswain-controller coxswain-supervisor coxswain-worker-cuda cox gpu_tests gpu_bench gpu_step_bench gpu_train_bench gpu_decode_bench gpu_look_bench nccl_tests
          gpu_comm_bench dispatch_bench)
libraries=(libcoxswain_kernels_cuda.so libsync_counter.so libkernel_times.so)
die() { echo "bundle.sh: $*" >&2; exit 1; }
source deploy/closed_tree.sh

collect_ours() {
  local name file
  for name in "${programs[@]}" "${libraries[@]}"; do
    file=$(ls "$build"/{bin,lib,bench,tests}/"$name" 2>/dev/null | head -n 1) || true
    if [[ -z $file ]]; then
      [[ -n $partial ]] || die "$name is not built in $build (--partial leaves it out)"
      echo "left out, not built: $name"
      continue
    fi
    local folder=bin
    [[ $name == *.so ]] && folder=lib
    strip --strip-unneeded -o "$bundle/$folder/$name" "$file"
  done
}

collect_files() {
  local model=$bundle/models/qwen2.5-0.5b config=$shared/data/configs/Qwen2.5-0.5B-Instruct/config.json
  if [[ -f $config ]]; then
    mkdir -p "$model"
    cp "$config" "$shared"/data/tokenizers/qwen2.5/tokenizer* "$model/"
  else
    echo "left out, not in $shared/data: Qwen2.5-0.5B for bench/device.sh --large"
  fi
  chmod -R u+w "$bundle"
  gunzip -qf "$model"/*.gz 2>/dev/null || true
}

# Loads every program in a root that holds the bundle, CUDA's libraries and the system's few, nothing else.
check_loads() {
  local root library cuda_libraries
  unshare -rm true 2>/dev/null || { echo "not checked in an empty root: unshare is not permitted here"; return; }
  root=$(mktemp -d)
  mkdir -p "$root"/{bundle,cuda,lib64,lib/x86_64-linux-gnu}
  cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
  for library in /lib/x86_64-linux-gnu/lib*.so*; do
    [[ ${library##*/} =~ $system ]] && cp -L "$library" "$root/lib/x86_64-linux-gnu/"
  done
  cuda_libraries=$(dirname "$(awk '/libcublasLt.so.13 /{print $NF; exit}' <<<"$(ldconfig -p)")")
  unshare -rm bash -c '
    mount --bind "$1" "$3/bundle" && mount --bind "$2" "$3/cuda" || exit 1
    for program in "$3"/bundle/bin/*; do
      LD_LIBRARY_PATH= chroot "$3" /lib64/ld-linux-x86-64.so.2 --argv0 "${program##*/}" --library-path /cuda --list \
        "/bundle/bin/${program##*/}" >/dev/null || exit 1
    done' check "$bundle" "$cuda_libraries" "$root" || die "a program does not load in an empty root"
  rm -rf "$root"
}

command -v patchelf >/dev/null || die "patchelf is missing: run deploy/install-deps.sh"
rm -rf "$bundle"
mkdir -p "$bundle"/{bin,lib}
collect_ours
collect_libraries "$bundle"
collect_files
# Controller and workers of two builds refuse each other; results name the commit.
check_commit "$bundle" "$(git rev-parse --short=12 HEAD 2>/dev/null)" cox coxswain-controller coxswain-worker-cuda gpu_step_bench
check_closed "$bundle"
check_loads

tar -C "$(dirname "$bundle")" -czf "$bundle.tar.gz" "$(basename "$bundle")"
newest=$(objdump -T "$bundle"/bin/* "$bundle"/lib/* | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
du -sh "$bundle"/bin/* "$bundle"/lib/libcoxswain* "$bundle/lib"
mib=$(du --apparent-size --block-size=1M "$bundle.tar.gz" | cut -f1)
echo "$bundle.tar.gz: $mib MiB of at most $limit_mib, needs ${newest/_/ } or newer"
[[ $mib -le $limit_mib ]] || die "$bundle.tar.gz is larger than $limit_mib MiB"
