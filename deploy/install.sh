#!/usr/bin/env bash
# Puts cox on the PATH: links it and the programs that it starts, as built last, into PREFIX/bin (default ~/.local/bin).
# A rebuild needs no other installation. To take cox away, delete the links.   deploy/install.sh [PREFIX]
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -le 1 && ${1:-} != -* ]] || { echo "usage: deploy/install.sh [PREFIX]   (default: ~/.local)" >&2; exit 2; }
bin=${1:-$HOME/.local}/bin
programs=(cox coxswain-controller coxswain-supervisor coxswain-worker-cpu coxswain-worker-cuda)

newest=
for candidate in build/*/bin/cox; do
  [[ -x $candidate ]] || continue
  [[ -n $newest && ! $candidate -nt $newest ]] || newest=$candidate
done
if [[ -z $newest ]]; then
  echo "install.sh: nothing is built in $PWD/build; build with: deploy/build.sh cpu ${programs[*]:0:4}" >&2
  exit 1
fi
from=$PWD/$(dirname "$newest")

# Looked at before anything is changed.
for program in "${programs[@]}"; do
  if [[ -e $bin/$program && ! -L $bin/$program ]]; then
    echo "install.sh: $bin/$program is a file, not a link of this script; move it away or give another PREFIX" >&2
    exit 1
  fi
done
mkdir -p "$bin"
bin=$(cd "$bin" && pwd)
linked=()
for program in "${programs[@]}"; do
  [[ -x $from/$program ]] || continue
  ln -sfn "$from/$program" "$bin/$program"
  linked+=("$program")
done
echo "linked into $bin: ${linked[*]} (from $from)"

found=$(command -v cox || true)
if [[ :$PATH: != *:"$bin":* ]]; then
  echo "$bin is not on your PATH. Now and in ~/.profile:  export PATH=\"$bin:\$PATH\""
elif [[ $found != "$bin/cox" ]]; then
  echo "another cox is found first: $found. Put $bin before its folder in PATH, or delete it"
fi
echo "completion, in ~/.bashrc:  source <(cox completion bash)"
