#!/usr/bin/env bash
# Installs the wheel coxswain-train where nothing is but Debian and Python: a clean chroot of SUITE without a compiler, and
# no name is asked of PyPI. Trains the job in it, then one from Python. Prints sizes and seconds. It needs root, Linux's
# namespaces, debootstrap and a way to Debian's packages and to PyPI, from which the wheels that ours needs come first.
#   tests/clean_install.sh WHEEL SUITE...        SUITE: bookworm, trixie
set -euo pipefail
die() { echo "clean_install.sh: $*" >&2; exit 2; }
[[ $# -ge 2 && -f $1 ]] || die "usage: tests/clean_install.sh WHEEL SUITE..."
wheel=$(realpath "$1")
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Types what a newcomer types.
cat >"$scratch/steps.sh" <<'STEPS'
set -euo pipefail
HOME=$(mktemp -d)
export HOME
cd
python3 -m venv env && . env/bin/activate
! command -v cc gcc g++
seconds() { local began=$EPOCHREALTIME; "$@" >"$HOME/log" 2>&1 || { cat "$HOME/log"; exit 1; }; echo "$(bc_of "$began" "$EPOCHREALTIME") s: $*"; }
bc_of() { python3 -c "print(f'{$2 - $1:.1f}')"; }
seconds pip install -q --no-index --find-links /wheels coxswain-train
du -sh env/lib/python3*/site-packages/coxswain_train
seconds cox --help
seconds python -m coxswain_train.quickstart
seconds cox train coxswain-quickstart/job.yaml
python - <<'PYTHON'
import os
import coxswain_train as coxswain
home = os.environ['HOME']
with coxswain.up(workers=2) as client:
    job = client.submit('coxswain-quickstart/job.yaml', **{'train.max_steps': 4, 'checkpoint.output_dir': f'{home}/from-python'})
    job.wait(display=coxswain.Progress())
    print(job.metrics()[-1], job.download(f'{home}/downloaded'))
PYTHON
STEPS

for suite in "$@"; do
  root=$scratch/$suite
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
  debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$root" "$mirror" >"$scratch/$suite.log" ||
    { tail -n 20 "$scratch/$suite.log"; exit 1; }
  mkdir "$root/wheels"
  cp "$wheel" "$root/wheels/"
  version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  python3 -m pip download -q --disable-pip-version-check -d "$root/wheels" --only-binary=:all: --python-version "$version" \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 grpcio protobuf pyyaml
  cp "$scratch/steps.sh" "$root/steps.sh"
  echo "Debian $suite, Python $version"
  unshare --mount --pid --fork bash -c '
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$1" bash /steps.sh' steps "$root"
done
