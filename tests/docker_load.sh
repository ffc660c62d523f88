#!/usr/bin/env bash
# Loads the images of deploy/release.sh by `docker load` and trains the quickstart in their containers: a controller and
# two CPU workers with the flags of deploy/compose.yaml. Of worker-cuda, where it is there, only what it says without a GPU.
# The Docker daemon is one of its own, in namespaces without a network. It needs root and Debian's package docker.io, and
# on the disk of the temporary folder the images three times.
#   tests/docker_load.sh FOLDER      FOLDER: with coxswain-NAME-VERSION-image.tar of controller and worker-cpu
set -euo pipefail
die() { echo "docker_load.sh: $*" >&2; exit 2; }
[[ $# -eq 1 && -d $1 ]] || die "usage: tests/docker_load.sh FOLDER"
command -v dockerd >/dev/null || die "there is no dockerd: apt-get install docker.io"
root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^project(coxswain VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat >"$scratch/steps.sh" <<'STEPS'
set -euo pipefail
folder=$1 root=$2 version=$3 scratch=$4
mount -t tmpfs tmpfs /run
ip link set lo up
export DOCKER_HOST=unix://$scratch/docker.sock
dockerd --data-root "$scratch/data" --exec-root "$scratch/run" --pidfile "$scratch/docker.pid" --host "$DOCKER_HOST" \
  --storage-driver vfs --bridge none --iptables=false --ip6tables=false >"$scratch/dockerd.log" 2>&1 &
daemon=$!
until docker version >/dev/null 2>&1; do
  kill -0 $daemon 2>/dev/null || { tail -n 20 "$scratch/dockerd.log"; exit 1; }
  sleep 0.2
done
docker version --format 'Docker {{.Server.Version}}'
for archive in "$folder"/coxswain-*-"$version"-image.tar; do
  docker load --input "$archive"
done
for image in controller worker-cpu; do
  docker run --rm --network none --entrypoint /usr/bin/cox "coxswain/$image:$version" --version
done

# NAME NETWORK ARGUMENT...: a container as compose.yaml has it.
start() {
  docker run --detach --name "$1" --network "$2" --user 65532:65532 --read-only --cap-drop ALL --shm-size 1g \
    --security-opt no-new-privileges:true --tmpfs /tmp --volume data:/data \
    --volume "$root/deploy/quickstart:/quickstart:ro" "${@:3}" >/dev/null
}
# CONTAINER ADDRESS SERVICE
wait_for() {
  local i
  for ((i = 0; i < 300; i++)); do
    ! docker exec "$1" cox health "$2" --service "$3" >/dev/null 2>&1 || return 0
    sleep 0.2
  done
  docker logs "$1"
  exit 1
}
join=/var/lib/coxswain-join
start controller none --volume state:/var/lib/coxswain --volume join:$join "coxswain/controller:$version" \
  --listen=127.0.0.1:7070 --metrics=0.0.0.0:7071 --open-pages --health=127.0.0.1:7072 --join-token-file=$join/token \
  --state-dir=/var/lib/coxswain/controller --grace=60
wait_for controller 127.0.0.1:7072 coxswain.v1.Jobs
start workers container:controller --tmpfs /var/lib/coxswain:uid=65532,gid=65532 --volume join:$join:ro \
  "coxswain/worker-cpu:$version" --controller=127.0.0.1:7070 --workers=2 --threads=1 --listen=127.0.0.1:7080 \
  --metrics=0.0.0.0:7180 --open-pages --join-token-file=$join/token --health=127.0.0.1:7079 \
  --state-dir=/var/lib/coxswain/workers --grace-seconds=110
wait_for workers 127.0.0.1:7079 coxswain.v1.Worker
docker exec controller cox submit --wait --set checkpoint.output_dir=/data/quickstart /quickstart/job.yaml
docker stop --time 135 workers controller >/dev/null
docker inspect --format '{{.Name}} ended with {{.State.ExitCode}}' workers controller
[[ $(docker inspect --format '{{.State.ExitCode}}' workers controller | sort -u) == 0 ]]
if docker image inspect "coxswain/worker-cuda:$version" >/dev/null 2>&1; then
  docker run --rm --network none --entrypoint /usr/bin/coxswain-worker-cuda "coxswain/worker-cuda:$version" --list-gpus || true
fi
STEPS
unshare --mount --net --pid --fork --kill-child --mount-proc bash "$scratch/steps.sh" "$(realpath "$1")" "$root" "$version" "$scratch"
echo "loaded and trained"
