#!/usr/bin/env bash
# Makes coxswain-VERSION-linux-x86_64.tar.gz of the wheels of one build (deploy/python/wheel.sh): the same programs and
# libraries, the job of the quickstart, the units of systemd, the alerts and the dashboard. It runs from any folder.
#   deploy/tarball.sh FOLDER       reads the wheels there, coxswain-train-cuda where there is one, and writes beside them
# The same wheels make the same bytes. CUDA's libraries are the machine's own: of the loader's paths or /usr/local/cuda.
set -euo pipefail
folder=$(realpath "${1:?folder of the wheels}")
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(coxswain VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=coxswain-$version
archive=$folder/$name-linux-x86_64.tar.gz

die() { echo "tarball.sh: $*" >&2; exit 1; }
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

unpack() {
  local wheels=("$folder/$1-$version"-*.whl)
  [[ ${#wheels[@]} -eq 1 && -f ${wheels[0]} ]] || die "$folder has not one wheel $1 $version but: ${wheels[*]##*/}"
  python3 - "${wheels[0]}" "$stage" <<'PYTHON'
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for entry in wheel.infolist():
        os.chmod(wheel.extract(entry, sys.argv[2]), entry.external_attr >> 16)
PYTHON
}

unpack coxswain_train
if compgen -G "$folder/coxswain_train_cuda-*.whl" >/dev/null; then
  unpack coxswain_train_cuda
  cmp -s "$stage"/coxswain_train/build{,_cuda} || die "the wheels in $folder are of two builds"
  for file in bin/coxswain-worker-cuda lib/libcoxswain_kernels_cuda.so; do
    # Not beside this tree, where whoever may write into its parent folder could put libraries.
    patchelf --set-rpath '$ORIGIN:$ORIGIN/../lib:/usr/local/cuda/lib64' "$stage/coxswain_train/$file"
  done
fi

tree=$stage/$name
mkdir -p "$tree"/{lib/systemd/system,share/coxswain}
mv "$stage/coxswain_train/bin" "$tree/bin"
mv "$stage"/coxswain_train/lib/* "$tree/lib/"
mv "$stage/coxswain_train/quickstart_job" "$tree/share/coxswain/quickstart"
mv "$stage/coxswain_train/build" "$tree/share/coxswain/build"
cp deploy/systemd/*.service "$tree/lib/systemd/system/"
cp deploy/prometheus/alerts.yaml deploy/grafana/coxswain.json "$tree/share/coxswain/"
cp LICENSE "$tree/"
chmod -R u=rwX,go=rX "$tree"
tar -C "$stage" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$name" | gzip -6n >"$archive"
echo "$archive: $(du --apparent-size --block-size=1M "$archive" | cut -f1) MiB"
