#!/usr/bin/env bash
# Assembles the whole file system of an image: our stripped programs, every library that they load, the
# few files that a C library wants, copyright files and an SBOM. The Dockerfiles copy it onto nothing;
# tests run it without a container engine.
#   deploy/docker/assemble.sh ROOT controller|worker-cpu|worker-cuda
# COXSWAIN_BUILD: where it was built (build/cpu; worker-cuda: build/release-cuda).
# COXSWAIN_CUDA_BUILD: where coxswain-worker-cuda was built, if elsewhere.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ $# -eq 2 ]] || { echo "usage: deploy/docker/assemble.sh ROOT controller|worker-cpu|worker-cuda" >&2; exit 2; }
root=$1 image=$2
default_build=build/cpu
case $image in
  controller) programs=(coxswain-controller cox) ;;
  worker-cpu) programs=(coxswain-supervisor coxswain-worker-cpu cox) ;;
  worker-cuda) programs=(coxswain-supervisor coxswain-worker-cuda cox) default_build=build/release-cuda ;;
  *) echo "assemble.sh: no image '$image'; there are controller, worker-cpu and worker-cuda" >&2; exit 2 ;;
esac
build=${COXSWAIN_BUILD:-$default_build}
mkdir -p "$root" && root=$(cd "$root" && pwd)
# Loaded by name at run time: NCCL, cuDNN's parts, and the compiler that its fused kernels use.
cuda_dlopened='^lib(nccl|cudnn(_graph|_ops|_heuristic|_engines_precompiled|_engines_runtime_compiled|_adv|_cnn)?|nvrtc|nvrtc-builtins)\.so\.[0-9.]+$'
libdir=$root/usr/lib/x86_64-linux-gnu
[[ ! -e $root || -z $(ls -A "$root") ]] || { echo "assemble.sh: $root is not empty" >&2; exit 1; }

mkdir -p "$libdir" "$root"/{usr/bin,usr/lib64,etc,tmp,run,proc,sys,dev,data,var/lib/coxswain,var/lib/coxswain-join,usr/share/coxswain}
ln -s usr/lib "$root/lib" && ln -s usr/lib64 "$root/lib64" && ln -s usr/bin "$root/bin"
origins=$(mktemp)
trap 'rm -f "$origins"' EXIT

# SOURCE TARGET: where it came from is noted for the SBOM.
put() {
  [[ -e $root$2 ]] && return
  cp -L "$1" "$root$2"
  chmod u+w "$root$2"
  printf '%s\t%s\n' "$2" "$1" >>"$origins"
}

put_libraries_of() {
  local library
  export LD_LIBRARY_PATH=$libdir
  ldd "$@" | awk '/not found/ {print "assemble.sh: " $1 " is not found" > "/dev/stderr"; bad = 1} END {exit bad}'
  for library in $(ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u); do
    [[ ${library##*/} == libcuda.so.* ]] && continue      # the driver's, mounted by the runtime
    put "$library" "/usr/lib/x86_64-linux-gnu/${library##*/}"
  done
  unset LD_LIBRARY_PATH
}

# Nothing that a program loads or calls is outside.
check_whole() {
  local program
  for program in "$root"/usr/bin/*; do
    ! LD_LIBRARY_PATH=$libdir ldd -r "$program" 2>&1 | grep -E 'not found|undefined symbol' |
      grep -v libcuda.so || { echo "assemble.sh: ${program##*/} is not whole" >&2; exit 1; }
    ! "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$libdir" --list "$program" |
      awk '$2 == "=>" {print $3}' | grep -vE "^$root/|libcuda.so" ||
      { echo "assemble.sh: ${program##*/} loads a library that is not in $root" >&2; exit 1; }
  done
}

built=()
for program in "${programs[@]}"; do
  from=$build
  [[ $program != coxswain-worker-cuda ]] || from=${COXSWAIN_CUDA_BUILD:-$build}
  [[ -x $from/bin/$program ]] || { echo "assemble.sh: $from/bin/$program is not built" >&2; exit 1; }
  strip --strip-unneeded -o "$root/usr/bin/$program" "$from/bin/$program"
  built+=("$from/bin/$program")
done
put_libraries_of "${built[@]}"
# Loaded by name: what reads Parquet, where deploy/fetch-arrow.sh ran before the build.
columnar=$build/lib/libcoxswain_columnar.so
if [[ $image == controller && -e $columnar ]]; then
  strip --strip-unneeded -o "$libdir/${columnar##*/}" "$columnar"
  put_libraries_of "$columnar"
  mkdir -p "$root/usr/share/doc/apache-arrow"
  cp .deps/arrow-*/LICENSE.txt "$root/usr/share/doc/apache-arrow/copyright"
fi
put /lib64/ld-linux-x86-64.so.2 /usr/lib64/ld-linux-x86-64.so.2
# By these cox knows the Hugging Face Hub.
mkdir -p "$root/etc/ssl/certs"
put /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
if [[ $image == worker-cuda ]]; then
  for library in $(ldconfig -p | awk '{print $NF}' | grep -E "/[^/]+$" | sort -u); do
    [[ ${library##*/} =~ $cuda_dlopened ]] && put "$library" "/usr/lib/x86_64-linux-gnu/${library##*/}"
  done
fi

check_whole

# Not root: 65532 by name, for logs and programs that ask.
printf 'root:x:0:0:root:/:/sbin/nologin\ncoxswain:x:65532:65532:Coxswain:/var/lib/coxswain:/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\ncoxswain:x:65532:\n' >"$root/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
chmod 1777 "$root/tmp"
[[ $(id -u) -ne 0 ]] || chown 65532:65532 "$root/var/lib/coxswain" "$root/var/lib/coxswain-join" "$root/data"
[[ $image != controller ]] || cp deploy/prometheus/alerts.yaml deploy/grafana/coxswain.json "$root/usr/share/coxswain/"
cp LICENSE "$root/usr/share/coxswain/LICENSE"
python3 deploy/docker/sbom.py "$root" "$image" <"$origins"
du -s --apparent-size --block-size=1M "$root" | awk -v image="$image" '{print image ": " $1 " MiB"}'
