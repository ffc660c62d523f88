#!/usr/bin/env bash
# The first hour of a new user: types every command block of README.md and deploy/README.md in a clean chroot of Debian,
# then takes steps of its own with its own chat file and CSV. Prints the minutes and the outcome of each block, and fails
# when one failed. Logs: build/first_hour. It needs root, Linux's namespaces, and about 10 GB in TMPDIR.
#   tests/first_hour.sh [--ccache FOLDER] [--deps FOLDER] [--long]
# --ccache: a cache of compiled objects to use and to fill; --deps: a .deps with what was downloaded already; both make
# a cold run of half an hour a run of minutes. --long types the blocks too that need an hour.
# Which blocks are not typed, and why, stands in the pages: tests/command_blocks.py. What is cloned is the last commit.
set -euo pipefail

die() { echo "first_hour.sh: $*" >&2; exit 2; }

ccache='' deps='' long='' folder=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --ccache | --deps) [[ -d ${2:-} ]] || die "$1 needs a folder"; printf -v "${1#--}" %s "$(realpath "$2")"; shift 2 ;;
    --long) long=1; shift ;;
    --in-namespaces) folder=$2; shift 2 ;;  # how this script starts itself
    *) die "unknown argument '$1'; there are --ccache FOLDER, --deps FOLDER and --long" ;;
  esac
done
cd "$(dirname "$0")/.."

pages=(README.md deploy/README.md)
suite=bookworm
packages=ca-certificates,git,sudo
user=ann
home=/home/$user
block_limit_s=10800

# What a page says -> what this user, who has 60 records and no downloaded model, puts there.
placeholders=(
  /models/Qwen2.5-0.5B deploy/quickstart/model
  'val_set_size: 200' 'val_set_size: 6'
  '--adapter FOLDER' '--adapter deploy/quickstart/out/adapter'
)
# What reaches the user of the host's environment: the way to packages, and how many compile at once.
passed=(http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_CERT
  PIP_DEFAULT_TIMEOUT SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE CMAKE_BUILD_PARALLEL_LEVEL)

# Debian, and the host's way to packages: sources, keys, proxy, name servers, certificates.
make_root() {
  local mirror proxy
  mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite=$suite '$1 == suite {print $2; exit}')
  [[ -n $mirror ]] || { echo "no source of $suite in /etc/apt"; return 1; }
  proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
  [[ -z $proxy ]] || export http_proxy=$proxy
  debootstrap --variant=minbase --include=$packages $suite "$root" "$mirror"
  rm "$root/etc/apt/sources.list"
  cp -a /etc/apt/. "$root/etc/apt/"
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"  # it need not outlive a loss of power
  cp -a /usr/share/keyrings/. "$root/usr/share/keyrings/"
  [[ ! -d /usr/local/share/ca-certificates ]] || cp -a /usr/local/share/ca-certificates "$root/usr/local/share/"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  [[ ! -f /etc/pip.conf ]] || cp -L /etc/pip.conf "$root/etc/"
}

# The user, who owns a clone, as on a machine with sudo. With a cache the user has the number of its owner.
make_user() {
  local number=()
  [[ -z $ccache ]] || number=(--non-unique --uid "$(stat -c %u "$ccache")")
  chroot "$root" useradd --create-home --shell /bin/bash "${number[@]}" $user
  echo "$user ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$user"
  # Not linked to this checkout's objects, whose owner would change with the clone's.
  git clone --quiet --no-hardlinks . "$root$home/coxswain"
  [[ -z $deps ]] || cp -rL "$deps" "$root$home/coxswain/.deps"
  mkdir -p "$root$home/.cache/ccache"
  own_files "$root$home/coxswain"
  chown -R --reference="$root$home" "$root$home"
}

# Only this namespace sees these mounts; they end with it.
mount_all() {
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/dev/shm"
  [[ -z $ccache ]] || mount --bind "$ccache" "$root$home/.cache/ccache"
}

# A chat file, a CSV and another tool's configuration.
own_files() {
  local i a b who=(Ann Ben Cleo Dan Eve Finn) what=(apples books coins pens stamps)
  echo "instruction,output" >"$1/table.csv"
  for ((i = 0; i < 60; i++)); do
    a="$((i % 7 + 2)) ${what[i % 5]}" b=$((i % 9 + 3))
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"${who[i % 6]} has $a and buys $b more. How many now?\"}," \
      "{\"role\": \"assistant\", \"content\": \"There are $((i % 7 + 2 + b)) now.\"}]}" >>"$1/train.jsonl"
    echo "\"${who[i % 6]} had $a, and gave $b away. What was it about?\",It was about ${what[i % 5]}." >>"$1/table.csv"
  done
  cat >"$1/axolotl.yaml" <<'YAML'
base_model: deploy/quickstart/model
adapter: lora
lora_r: 8
lora_alpha: 16
lora_target_linear: true
datasets: [{path: train.jsonl, type: chat_template}]
sequence_len: 512
micro_batch_size: 1
num_epochs: 1
learning_rate: 0.0002
output_dir: ./imported
YAML
}

# Steps that README names without a block, after the blocks: the job of README's page, on the CSV.
own_steps() {
  own "train on a CSV" <<'SH'
sed -e 's/my-job/my-table/' -e 's/train.jsonl/table.csv/' -e 's/\.\/out/.\/out-table/' job.yaml >table.yaml
cox plan table.yaml
cox train table.yaml
SH
  own "ask the trained model" <<'SH'
cox generate deploy/quickstart/model --adapter ./out-table/adapter -n 8 -p 'Ann had 3 pens. What was it about?'
SH
  own "export a whole model, and ask it" <<'SH'
cox export "$(ls -d out-table/checkpoint-*)" -o ./whole --merge
cox generate ./whole/model -n 8 -p 'Ann had 3 pens. What was it about?'
SH
  own "a mistyped key is refused, by name" shown <<'SH'
code=0; cox train job.yaml --set train.learning_rat=1e-3 2>refused.txt || code=$?
cat refused.txt
[[ $code -eq 2 ]] && grep -q "learning_rate" refused.txt
SH
}

# Adds the step of standard input, named $1; $2 is typed, or shown: what it says is printed too.
own() {
  local file=$blocks/own-$((++own_count))
  cat >"$file"
  printf '%s\t%s\t-\t%s\n' "own: $1" "${2:-typed}" "$file" >>"$blocks/index"
}

# In the chroot: types the commands of file $1, one after the other, until one fails. A command of several lines is whole
# when bash can parse it.
type_commands() {
  local line command=
  while IFS= read -r line; do
    command+=$line$'\n'
    [[ $line != *\\ ]] && bash -n <<<"$command" 2>/dev/null || continue
    printf '$ %s' "$command"
    eval "$command" </dev/null || { local code=$?; echo "ended with $code"; return "$code"; }
    command=
  done <"$1"
}

# Types block $1 in a new login shell of the user, in the clone.
type_block() {
  local file=$root$home/block
  { declare -f type_commands; echo "type_commands $home/typed"; } >"$file"
  cp "$1" "$root$home/typed"
  timeout --kill-after=10 $block_limit_s chroot "$root" su -l $user -w "$(IFS=,; echo "${passed[*]}")" \
    -c "cd coxswain && exec bash $home/block"
}

fill_placeholders() {
  local i text
  text=$(<"$1")
  for ((i = 0; i < ${#placeholders[@]}; i += 2)); do
    text=${text//"${placeholders[i]}"/"${placeholders[i + 1]}"}
  done
  printf '%s\n' "$text" >"$1"
}

# Prints a row of the table: since $1 (seconds), $2 the outcome, $3 what it was.
row() { printf '%5d.%d  %-8s %s\n' $(((SECONDS - $1) / 60)) $(((SECONDS - $1) % 60 / 6)) "$2" "$3"; }

log_of() { echo "build/first_hour/${1//[^A-Za-z0-9.]/-}.log"; }

# Runs the command of $2... as block $1, with its words in a log.
block() {
  local name=$1 start=$SECONDS log code
  log=$(log_of "$name")
  shift
  set +e  # of a command that is asked for its outcome, bash would go on after an error
  (set -e; "$@") >"$log" 2>&1 </dev/null
  code=$?
  set -e
  if [[ $code -eq 0 ]]; then
    row $start passed "$name"
    passed_count=$((passed_count + 1))
  else
    row $start FAILED "$name (log: $log)"
    failed_count=$((failed_count + 1))
    tail -n 30 "$log" | sed 's/^/    /'
  fi
}

# What command_blocks.py and own_steps list, in turn.
follow_index() {
  local place rule argument file
  while IFS=$'\t' read -r place rule argument file; do
    fill_placeholders "$file"
    [[ $rule != needs || $argument != 'an hour' || -z $long ]] || rule=typed
    case $rule in
      typed) block "$place" type_block "$file" ;;
      shown) block "$place" type_block "$file"; sed 's/^/    /' "$(log_of "$place")" ;;
      'saved as') cp "$file" "$root$home/coxswain/$argument" ;;
      needs) row $SECONDS skipped "$place needs $argument"; skipped_count=$((skipped_count + 1)) ;;
    esac
  done <"$blocks/index"
}

# In namespaces of its own: the mounts are seen here alone, and all processes end with this one.
if [[ -n $folder ]]; then
  root=$folder/root blocks=$folder/blocks own_count=0 passed_count=0 failed_count=0 skipped_count=0
  mkdir -p "$blocks" build/first_hour
  tests/command_blocks.py "$blocks" "${pages[@]}" >"$blocks/index"
  own_steps
  block 'a clean Debian' make_root
  block 'a user with a clone' make_user
  if [[ $failed_count -eq 0 ]]; then
    mount_all
    if [[ -n $ccache ]]; then  # hits need paths from the clone on, and the host's limit of size
      passed+=(CCACHE_BASEDIR CCACHE_MAXSIZE)
      export CCACHE_BASEDIR=$home CCACHE_MAXSIZE
      CCACHE_MAXSIZE=$(ccache --get-config max_size)
    fi
    follow_index
  fi
  echo "$passed_count passed, $failed_count failed, $skipped_count skipped"
  exit $((failed_count > 0))
fi

[[ $(id -u) -eq 0 ]] || die "a chroot needs root"
command -v debootstrap >/dev/null || die "debootstrap is missing: deploy/install-deps.sh --dev"
folder=$(mktemp -d -t coxswain-first-hour.XXXXXX)
child=
end() {
  # The first process in the namespaces, with which all others in them end. It is gone when unshare is.
  [[ -z $child ]] || kill -KILL $(ps -o pid= --ppid "$child") 2>/dev/null || true
  wait
  rm -rf --one-file-system "$folder"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc tests/first_hour.sh \
  --in-namespaces "$folder" ${ccache:+--ccache "$ccache"} ${deps:+--deps "$deps"} ${long:+--long} &
child=$!
code=0
wait "$child" || code=$?
child=
exit "$code"
