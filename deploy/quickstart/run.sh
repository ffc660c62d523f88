#!/usr/bin/env bash
# Quickstart: installs, builds, starts a controller and two CPU workers on loopback, fine-tunes a small
# real model on real text, and prints what came of it. Everything it starts is shut down at the end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

echo "quickstart 1/3: packages"
"$root/deploy/install-deps.sh"
echo "quickstart 2/3: build, which takes minutes the first time"
"$root/deploy/build.sh" cpu cox coxswain-controller coxswain-worker-cpu coxswain-supervisor

echo "quickstart 3/3: fine-tuning"
# In the background, so that SIGTERM reaches it. A terminal sends Ctrl-C to both.
"$root/build/cpu/bin/cox" train "$here/job.yaml" --workers 2 --threads 1 &
train=$!
trap : INT
trap 'kill -TERM "$train"' TERM
status=0
wait "$train" || status=$?
while kill -0 "$train" 2>/dev/null; do
  status=0
  wait "$train" || status=$?
done
if [[ $status -eq 0 ]]; then
  echo "quickstart: done. deploy/install.sh puts cox on your PATH; cox --help says what it does"
fi
exit "$status"
