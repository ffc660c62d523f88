#!/usr/bin/env bash
# Chaos over real processes: 100 faults by seed (kills, stops, a full disk, a folder that is read-only, a slow disk, a
# clock that jumps) while jobs train; ends with a table of faults and phases and the verdict whether every job has the
# bits of a run without faults.   tests/chaos.sh [--minutes N] [--faults N] [--seed N] [--json FILE]
# Binaries: $COXSWAIN_BIN, default build/cpu/bin. The machine's own disks and clock are left alone: the small disk is a
# tmpfs in a mount namespace of this script's own.
set -euo pipefail
cd "$(dirname "$0")/.."
for own in "unshare --mount" "unshare --map-root-user --mount"; do
  if $own true 2>/dev/null; then
    exec $own python3 tests/e2e/chaos.py --own-mounts "$@"
  fi
done
echo "chaos.sh: no mount namespace of its own here: the disk is neither full nor read-only in this run" >&2
exec python3 tests/e2e/chaos.py "$@"
