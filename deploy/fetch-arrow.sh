#!/usr/bin/env bash
# Puts Apache Arrow's C++ libraries and headers (not in Debian) into .deps/, out of pyarrow's wheel, by pinned version
# and hash. With them the build makes libcoxswain_columnar.so, which reads Parquet and Arrow files.
# ARROW_WHEEL: the wheel, where it has been downloaded already.
set -euo pipefail
cd "$(dirname "$0")/.."
version=26.0.1
sha256=39cb0f2418282c24bea6ceda77b03e5a8f0a5766b63a8bf194d4e2a2c423548c
target=.deps/arrow-$version
[[ -f $target/include/parquet/api/reader.h ]] && exit 0

download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
wheel=${ARROW_WHEEL:-}
if [[ -z $wheel ]]; then
  python3 -m venv "$download/venv"
  "$download/venv/bin/pip" download -q --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64 \
    -d "$download" "pyarrow==$version"
  wheel=$(ls "$download"/*.whl)
fi
echo "$sha256  $wheel" | sha256sum --check --quiet || {
  echo "fetch-arrow.sh: $wheel is not the file that was pinned; not used" >&2
  exit 1
}
mkdir -p "$target.part"
python3 - "$wheel" "$target.part" <<'PY'
import os, re, shutil, sys, zipfile
wanted = re.compile(r'pyarrow/(include/(arrow|parquet)/.*|(libarrow|libparquet)\.so\.\d+)|[^/]*\.dist-info/.*(LICENSE|NOTICE).*')
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if not wanted.fullmatch(name) or name.endswith('/'):
            continue
        place = name.removeprefix('pyarrow/')
        if '.dist-info/' in name:
            place = os.path.basename(name)
        elif '.so.' in name:
            place = 'lib/' + place
        path = os.path.join(sys.argv[2], place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with wheel.open(name) as source, open(path, 'wb') as out:
            shutil.copyfileobj(source, out)
PY
rm -rf "$target"
mv "$target.part" "$target"
