#!/usr/bin/env bash
# Puts the headers of cudnn-frontend (not in Debian) into .deps/, by pinned version and hash.
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.12.0
sha256=9fccab83fb85e39fae9c4da3bf3d391e6831a419652e7c30c0341d05b8699591
target=.deps/cudnn-frontend-$version
[[ -f $target/include/cudnn_frontend.h ]] && exit 0

download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
python3 -m venv "$download/venv"
"$download/venv/bin/pip" download -q --disable-pip-version-check --no-deps --only-binary=:all: \
  --python-version 3.11 --implementation cp --platform manylinux_2_27_x86_64 \
  -d "$download" "nvidia-cudnn-frontend==$version"
wheel=$(ls "$download"/*.whl)
echo "$sha256  $wheel" | sha256sum --check --quiet || {
  echo "fetch-cudnn-frontend.sh: $wheel is not the file that was pinned; not used" >&2
  exit 1
}
mkdir -p "$target"
python3 - "$wheel" "$target" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if name.startswith("include/"):
            wheel.extract(name, sys.argv[2])
PY
