#!/usr/bin/env bash
# Tests and benchmarks on a machine with GPUs, from a bundle of deploy/bundle.sh; run from anywhere.
#   bench/device.sh [--tests [FILTER]] [--kernels [NAME]] [--optimizers] [--energy [NAME]] [--steps [ROW...]] [--sanitize [FILTER]] [--profile [ROW]]
#                   [--step-peers ROW[:VARIANT]...] [--qlora] [--job] [--large] [--dispatch [WORKERS]] [--torch [ROW...]]
#                   [--papers attention|kernels|lm_head|memory|convergence|fp8|fp8_task|ablation|packing|lora_plus|adamw]
#                   [--unsloth]
#   bench/device.sh --gpus N [--gang [ROW...]] [--overlap-off] [--set KEY=VALUE]... [--peers [BATCH...]] [--hosts-played]
#                            [--fault] [--checkpoints]
# Without arguments: tests, kernels and every row of steps, in less than 9 minutes. FILTER is GoogleTest's.
# --tests: a process for every four cores, four at most, of which each takes a share of the tests (shards.py).
# --gpus N: what needs N GPUs of the host, in less than 9 minutes: NCCL's tests, bandwidth of the collectives, rows of
# gang_jobs.py over N GPUs beside one (from an earlier --steps, or measured), a worker killed and one stopped; --gang
# alone runs the rows named. --overlap-off runs each a second time, without overlap. --set goes to those jobs.
# --checkpoints: what saving costs, and how long a killed job takes to train again, with 140 GB of memory and disk.
# --hosts-played, of 2 or 4 GPUs: a job over two hosts played on this one goes on over one, and over two again.
# --torch: the wheel of deploy/wheel.sh in .carry/wheels, with Liger's beside it: tests of tests/kernels/torch, on a machine
# with two GPUs also DDP and FSDP2 over them, then rows of torch_train.py, none for the row "none". TORCH_TESTS: these
# tests alone.
# --papers: one table of bench/papers, kernels and lm_head with the same wheels; what has not begun or ended by DEADLINE
# is not run. To publish it: papers_NAME.json to bench/results, then bench/papers/page.py. May be given several times.
# fp8 reads .carry/gcide.dict.dz, usr/share/dictd/gcide.dict.dz of Debian's package dict-gcide, and takes longer than DEADLINE:
# `--papers "fp8 --earlier .carry/papers_fp8.json"` goes on from the file of the call before. fp8_task runs jobs of cox.
# One word "NAME/PART OPTION..." runs NAME with these options, into papers_NAME_PART.json.
# --unsloth: rows 0.5b_full_512 and 0.5b_lora_512 and the same by peer_unsloth.py; the wheels that it needs in .carry/wheels.
# --peers: row llama8b_full_512 by peer_fsdp.py over N GPUs, plain and, where it is importable, with Liger, whose wheel
# may lie in .carry/wheels; BATCH: sequences of a micro-step. Plain gets half of the time left, Liger what then is left.
# --step-peers: each row, and the same by peer_step.py with torch.compile; then, in the time that is left, each with Liger,
# where it is importable or its wheel is in .carry/wheels. ROW:VARIANT is that peer alone: compiled (one graph, minutes for
# large models), layers (a graph of each layer, a fraction of the time), plain or liger; a process each, kept as it ends.
# --qlora: 7b_lora_1024 beside 7b_qlora_1024 and its peer with bitsandbytes, whose wheel may lie in
# .carry/wheels, once as fast as it goes and once as its documents prepare it; then the rows that have to fit into a memory.
# --energy: each kernel launched for half a second more; ranked by the joules of a launch.
# --optimizers: the update of each optimizer and storage against the device's copy.
# --sanitize: memcheck, racecheck and synccheck of our kernels by the tests that FILTER names, in the time that is left and
# SANITIZE_LIMIT (150) seconds of each test; compute-sanitizer of the machine, or its wheel in .carry/wheels.
# --job: the quickstart's job through cox, its controller and a CUDA worker; its adapter read by peft where that is.
# --large: row 0.5b_full_1024 as a job; after --steps 0.5b_full_1024 it is compared with it.
# --dispatch: dispatch_bench without TLS, on the cores of this host alone.
# Environment: COXSWAIN_BUNDLE (default .carry/bundle, else .carry/bundle.tar.gz unpacked); OUT (default
# ./out) gets log.txt, clocks.csv, tests.xml, tests.txt, kernels.json, energy.json, optimizers.json, steps.json, checks.txt, sanitize.json, job.json, nccl.xml,
# comm.json, gang.json, fault.txt, checkpoints.txt, checkpoint_cost.json, checkpoint_recovery.json, hosts-played.txt, dispatch.json, peer_fsdp.json, peer_ROW_VARIANT.txt, torch_train.json, torch_ops.txt and others of those tests, papers_*.json; PEER_OPTIONS: more options of peer_fsdp.py;
# STEP_SECONDS (20) of each row, STEP_OPTIONS more of gpu_step_bench's; DEADLINE (525) seconds after which no row begins and no checker runs. The exit code
# is the number of parts that failed.
set -uo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${OUT:-out}")
step_seconds=${STEP_SECONDS:-20}
deadline=${DEADLINE:-525}
mkdir -p "$out" && [[ -w $out ]] || { echo "device.sh: cannot write into OUT=$out" >&2; exit 2; }

parts=() tests_filter='*' nccl_filter='*' sanitize_filter='-*Model*:*Thousand*:*Elements:*Long*:*Many*:*Gemm*:*Death*:*Golden*:Checkpoint*:Gradient*:Packing*:StepModes*:SelfVerification*:Weights*' kernels=() energy=() rows=()
gpus=0 peer_rows=() gang_rows=() gang_settings=() peer_batches=() torch_rows=() papers=() dispatch_workers=1,64,1024
while [[ $# -gt 0 ]]; do
  part=$1; shift
  case $part in
    --gpus) gpus=$1; shift; continue ;;
    --set) gang_settings+=(--set "$1"); shift; continue ;;
    --overlap-off) gang_settings+=(--overlap-off); continue ;;
  esac
  parts+=("${part#--}")
  case $part in
    --tests) [[ $# -gt 0 && $1 != --* ]] && { tests_filter=$1; shift; } ;;
    --sanitize) [[ $# -gt 0 && $1 != --* ]] && { sanitize_filter=$1; shift; } ;;
    --profile) [[ $# -gt 0 && $1 != --* ]] && { profile_row=$1; shift; } ;;
    --kernels) [[ $# -gt 0 && $1 != --* ]] && { kernels=(--only "$1"); shift; } ;;
    --energy) [[ $# -gt 0 && $1 != --* ]] && { energy=(--only "$1"); shift; } ;;
    --steps) while [[ $# -gt 0 && $1 != --* ]]; do rows+=("$1"); shift; done ;;
    --step-peers) while [[ $# -gt 0 && $1 != --* ]]; do peer_rows+=("$1"); shift; done ;;
    --dispatch) [[ $# -gt 0 && $1 != --* ]] && { dispatch_workers=$1; shift; } ;;
    --gang) while [[ $# -gt 0 && $1 != --* ]]; do gang_rows+=("$1"); shift; done ;;
    --torch) while [[ $# -gt 0 && $1 != --* ]]; do torch_rows+=("$1"); shift; done ;;
    --papers) if [[ $# -gt 0 && $1 != --* ]]; then papers+=("$1"); shift; else papers+=(kernels); fi ;;
    --peers) while [[ $# -gt 0 && $1 != --* ]]; do peer_batches+=("$1"); shift; done ;;
    --nccl) [[ $# -gt 0 && $1 != --* ]] && { nccl_filter=$1; shift; } ;;
    --qlora | --unsloth | --job | --large | --optimizers | --comm | --fault | --checkpoints | --hosts-played) ;;
    *) echo "device.sh: unknown argument $part" >&2; exit 2 ;;
  esac
done
[[ ${#parts[@]} -eq 0 && $gpus -gt 0 ]] && parts=(nccl comm fault gang)
[[ ${#parts[@]} -eq 0 ]] && parts=(tests kernels steps)
[[ ${#rows[@]} -eq 0 ]] && rows=(0.5b_full_1024 0.5b_full_2048 1.5b_full_1024 7b_full_1024 0.5b_lora_1024
                                 7b_lora_1024 0.5b_packed_2048 0.5b_full_1024_norm_swiglu)

bundle=${COXSWAIN_BUNDLE:-$repository/.carry/bundle}
if [[ ! -d $bundle && -f $bundle.tar.gz ]]; then
  unpacked=$(mktemp -d)
  tar -C "$unpacked" -xzf "$bundle.tar.gz"
  bundle=$unpacked/bundle
fi
[[ -d $bundle/bin ]] || { echo "device.sh: no bundle at $bundle (deploy/bundle.sh makes one)" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
COXSWAIN_FIXTURES=$scratch/golden
python3 "$repository/tests/fixtures/golden.py" unpack "$COXSWAIN_FIXTURES"
export PATH=$bundle/bin:$PATH:/usr/local/cuda/bin COXSWAIN_FIXTURES

# CUDA's libraries of a Python environment; where there are none, those that the loader knows.
cuda_libraries=$(python3 -c '
import glob, os, sys
folders = [f for p in sys.path for f in sorted(glob.glob(os.path.join(p, "nvidia", "*", "lib")))]
print(":".join(f for f in folders if glob.glob(f + "/lib*.so*")))')
export LD_LIBRARY_PATH=$cuda_libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

query=clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active,memory.used
state() { nvidia-smi --query-gpu=name,driver_version,$query --format=csv,noheader | sed "s/^/$1: /"; }
elapsed() { echo "$SECONDS s: $*"; }
have() { [[ -x $bundle/bin/$1 ]] || { echo "not in the bundle: $1"; return 1; }; }
failed=()

run_tests() {
  have gpu_tests || return 1
  python3 "$repository/bench/shards.py" --filter "$tests_filter" --seconds "$((deadline - SECONDS))" --out "$out" \
    -- env LD_PRELOAD="$bundle/lib/libsync_counter.so" "$bundle/bin/gpu_tests" || return 1
  [[ $tests_filter == '*' ]] || return 0
  python3 -c 'import bitsandbytes, peft' 2>/dev/null ||
    { echo "no peft or no bitsandbytes here: errors are not compared with torch's"; return 0; }
  python3 "$repository/tests/reference/torch_bf16_errors.py" "$COXSWAIN_FIXTURES" "$out/tests.xml"
}

run_kernels() {
  have gpu_bench || return 1
  timeout 150 gpu_bench "${kernels[@]}" --json "$out/kernels.json"
}

run_energy() {
  have gpu_bench || return 1
  timeout "$((deadline - SECONDS))" gpu_bench "${energy[@]}" --energy 0.5 --json "$out/energy.json"
}

run_optimizers() {
  have gpu_bench || return 1
  timeout 150 gpu_bench --only adamw --json "$out/optimizers.json"
}

# One process a row: what breaks one leaves the others.
run_steps() {
  have gpu_step_bench || return 1
  local row more bad=0
  read -ra more <<<"${STEP_OPTIONS:-}"
  for row in "${rows[@]}"; do
    local left=$((deadline - SECONDS))
    if [[ $left -lt $((step_seconds + 15)) ]]; then
      echo "$row: not run, $left s are left"
      bad=1
      continue
    fi
    (cd "$repository" && timeout "$((left < 150 ? left : 150))" env LD_PRELOAD="$bundle/lib/libsync_counter.so" \
      gpu_step_bench --row "$row" --seconds "$step_seconds" "${more[@]}" --json "$out/steps.json") ||
      { echo "$row: exit code $?"; bad=1; }
  done
  return $bad
}

run_step-peers() {
  local row rows whole=() bad=0
  local -x PYTHONPATH=${PYTHONPATH:-}
  unpack_wheels || return 1
  for row in "${peer_rows[@]}"; do
    case $row in
      *:compiled) run_step_peer "${row%:*}" || bad=1 ;;
      *:*) run_step_peer "${row%:*}" "--${row#*:}" || bad=1 ;;
      *)
        rows=("$row")
        run_steps || bad=1
        run_step_peer "$row" || bad=1
        whole+=("$row")
        ;;
    esac
  done
  [[ ${#whole[@]} -gt 0 ]] || return $bad
  python3 -c 'import liger_kernel' 2>/dev/null || { echo "no liger_kernel here: torch.compile alone"; return $bad; }
  for row in "${whole[@]}"; do
    run_step_peer "$row" --liger || bad=1
  done
  return $bad
}

run_qlora() {
  local rows=(7b_lora_1024 7b_qlora_1024) bad=0
  local -x PYTHONPATH=${PYTHONPATH:-}
  unpack_wheels || return 1
  have gpu_bench && timeout 60 gpu_bench --only dequantize --json "$out/kernels.json" || bad=1
  run_steps || bad=1
  if python3 -c 'import bitsandbytes' 2>/dev/null; then
    run_step_peer 7b_qlora_1024 --plain || bad=1
    run_step_peer 7b_qlora_1024 --documented || bad=1
  else
    echo "no bitsandbytes here: no peer"
  fi
  rows=(llama_65b_qlora_2048 llama_70b_qlora_2048 llama_13b_qlora_2048 llama_7b_qlora_2048)
  run_steps || bad=1
  return $bad
}

# ROW [--VARIANT]; what it says is in peer_ROW_VARIANT.txt as it says it.
run_step_peer() {
  local left=$((deadline - SECONDS)) kind=${2:---compiled} said code
  said=$out/peer_${1}_${kind#--}.txt
  [[ $left -ge 30 ]] || { echo "$*: not run, $left s are left"; return 1; }
  timeout "$left" python3 "$repository/bench/peer_step.py" "$@" --precision bf16 --warmup 2 --steps 8 \
    --seconds "$step_seconds" --json "$out/steps.json" >"$said" 2>&1
  code=$?
  grep -v '^{' "$said" | tail -n 4
  [[ $code -ne 124 ]] || echo "$*: ended after $left s"
  return $code
}

# Adds what .carry/wheels holds to the caller's PYTHONPATH.
unpack_wheels() {
  local wheels=("$repository"/.carry/wheels/*.whl)
  [[ -f ${wheels[0]} ]] || return 0
  [[ -d $scratch/wheels ]] ||
    python3 -m pip install -q --no-index --no-deps --target "$scratch/wheels" "${wheels[@]}" || return 1
  PYTHONPATH=$scratch/wheels${PYTHONPATH:+:$PYTHONPATH}
}

run_sanitize() {
  have gpu_tests || return 1
  local -x PYTHONPATH=${PYTHONPATH:-}
  unpack_wheels || return 1
  python3 "$repository/bench/sanitize.py" "$bundle/bin/gpu_tests" --filter "$sanitize_filter" \
    --seconds "$((deadline - SECONDS))" --limit "${SANITIZE_LIMIT:-150}" --out "$out"
}

# One step, kernel by kernel, as they run.
run_profile() {
  have gpu_step_bench || return 1
  timeout 240 env CUDA_INJECTION64_PATH="$bundle/lib/libkernel_times.so" KERNEL_TIMES="$out/profile.csv" \
    gpu_step_bench --row "${profile_row:-0.5b_full_1024}" --warmup 2 --steps 2 || return 1
  python3 "$repository/bench/profile_table.py" "$out/profile.csv" "$out/profile.json"
}

# The row 0.5b_full_1024 as a job, beside what --steps measured of it before.
run_large() {
  have coxswain-worker-cuda || return 1
  local work
  work=$(mktemp -d)
  python3 "$repository/bench/large_job.py" make "$work/job" "$bundle/models/qwen2.5-0.5b" || return 1
  (cd "$work/job" && XDG_STATE_HOME=$work XDG_CACHE_HOME=$work timeout 240 cox train job.yaml --progress plain \
    -o json >"$out/large.json" 2>"$out/large.txt") || { tail -n 20 "$out/large.txt" "$work"/coxswain/*/*.log; return 1; }
  grep -v "^$" "$out/large.txt" | tail -n 8
  python3 "$repository/bench/large_job.py" table "$out/large.json" "$out/steps.json"
}

# A process for each GPU, the NCCL of a Python environment.
run_nccl() {
  have nccl_tests || return 1
  timeout 150 nccl_tests --gpus "$gpus" --gtest_filter="$nccl_filter" --gtest_output="xml:$out/nccl.xml"
}

run_dispatch() {
  have dispatch_bench || return 1
  timeout 150 dispatch_bench --fake-workers "$dispatch_workers" --no-tls --json "$out/dispatch.json"
}

run_comm() {
  have gpu_comm_bench || return 1
  timeout 90 gpu_comm_bench --gpus "$gpus" --json "$out/comm.json"
}

run_gang() {
  local work code
  work=$(mktemp -d)
  local options=(--gpus "$gpus" --deadline "$((deadline - SECONDS))" --single "$out/steps.json" --json "$out/gang.json"
                 "${gang_settings[@]}")
  [[ ${#gang_rows[@]} -gt 0 ]] && options+=(--rows "${gang_rows[@]}")
  python3 "$repository/bench/gang_jobs.py" run "$work" "$bundle/models/qwen2.5-0.5b" "${options[@]}"
  code=$?
  [[ $code -eq 0 ]] || tail -n 15 "$work"/state-*/coxswain/*/*.log 2>/dev/null
  rm -rf "$work"
  return "$code"
}

run_torch() {
  local test visible all=${CUDA_VISIBLE_DEVICES:-0,1} bad=0
  local -x PYTHONPATH=${PYTHONPATH:-} PYTHONDONTWRITEBYTECODE=1 COXSWAIN_TORCH_DEVICE=cuda
  unpack_wheels || return 1
  python3 -c 'import coxswain_kernels' || { echo "no coxswain_kernels here: deploy/wheel.sh makes it"; return 1; }
  for test in ${TORCH_TESTS:-ops layers patch auto trainer sharded}; do
    [[ $test == sharded ]] && visible=$all || visible=${all%%,*} # Trainer spreads a model over all that it sees
    (cd "$repository/tests/kernels/torch" && CUDA_VISIBLE_DEVICES=$visible timeout 150 python3 "${test}_test.py") >"$out/torch_$test.txt" 2>&1 || bad=1
    echo "${test}_test.py: $(tail -n 1 "$out/torch_$test.txt")"
  done
  [[ ${torch_rows[*]} != none ]] || return $bad
  timeout "$((deadline - SECONDS))" python3 "$repository/bench/torch_train.py" "${torch_rows[@]}" --limit 60 --profile \
    --json "$out/torch_train.json" || bad=1
  return $bad
}

# The next table of those asked for.
run_papers() {
  local options paper commit
  read -ra options <<<"${papers[0]}"
  papers=("${papers[@]:1}")
  paper=${options[0]%%/*}
  commit=$(cox version 2>/dev/null | sed -n 's/^cox .*(\(.*\))$/\1/p')
  local -x PYTHONPATH=${PYTHONPATH:-} PYTHONDONTWRITEBYTECODE=1 COXSWAIN_COMMIT=${COXSWAIN_COMMIT:-$commit}
  [[ -f $repository/bench/papers/$paper.py ]] || { echo "device.sh: no table $paper in bench/papers"; return 1; }
  unpack_wheels || return 1
  local file=$out/papers_${options[0]//\//_}.json
  options=("${options[@]:1}")
  [[ $paper == lora_plus ]] && options+=(--shape "$bundle/models/qwen2.5-0.5b" --start 5e-4 --at-once 5)
  [[ $paper == fp8 ]] && options+=(--shape "$bundle/models/qwen2.5-0.5b")
  timeout "$((deadline - SECONDS))" python3 "$repository/bench/papers/$paper.py" "${options[@]}" --json "$file"
}

run_unsloth() {
  local rows=(0.5b_full_512 0.5b_lora_512) row again bad=0
  local -x PYTHONPATH=${PYTHONPATH:-}
  unpack_wheels || return 1
  run_steps || bad=1
  for row in "${rows[@]}"; do
    for again in "" --checkpoint; do
      timeout "$((deadline - SECONDS))" python3 "$repository/bench/peer_unsloth.py" "$row" $again --steps 100 \
        --seconds "$step_seconds" --tokenizer "$bundle/models/qwen2.5-0.5b" --json "$out/steps.json" \
        >"$out/unsloth_$row$again.txt" 2>&1 || { bad=1; tail -n 25 "$out/unsloth_$row$again.txt"; }
      grep "^$row" "$out/unsloth_$row$again.txt"
    done
  done
  return $bad
}

run_peers() {
  local options=() bad=0
  local -x PYTHONPATH=${PYTHONPATH:-}
  unpack_wheels || return 1
  [[ ${#peer_batches[@]} -gt 0 ]] && options+=(--batch "${peer_batches[@]}")
  run_peer "$(((deadline - SECONDS) / 2))" "${options[@]}" || bad=1
  if python3 -c 'import liger_kernel' 2>/dev/null; then
    run_peer "$((deadline - SECONDS))" --liger "${options[@]}" || bad=1
  else
    echo "no liger_kernel here: transformers alone"
  fi
  return $bad
}

# SECONDS [OPTION]...; the script ends by itself, and is ended 20 s later if not.
run_peer() {
  local left=$1 more
  shift
  read -ra more <<<"${PEER_OPTIONS:-}"
  timeout -k 10 "$((left + 20))" python3 "$repository/bench/peer_fsdp.py" --gpus "$gpus" --deadline "$left" \
    --json "$out/peer_fsdp.json" "$@" "${more[@]}"
}

run_fault() { play_gang fault 150 fault.txt 'state-*/coxswain/*/*.log'; }

# What checkpoints cost, to memory and to the disk, and from a kill to training again.
run_checkpoints() {
  local work memory bad=0
  work=$(mktemp -d) memory=$(mktemp -d -p /dev/shm)
  for mode in "cost --output $memory/out $work/out" "recovery --output $memory"; do
    # shellcheck disable=SC2086  # words
    set -- $mode
    timeout 420 python3 "$repository/bench/checkpoint_jobs.py" "$1" "$work" "$bundle/models/qwen2.5-0.5b" \
      --gpus "$gpus" "${@:2}" 2>&1 | tee -a "$out/checkpoints.txt"
    [[ ${PIPESTATUS[0]} -eq 0 ]] || { bad=1; tail -n 30 "$work"/state-*/coxswain/*/*.log 2>/dev/null; }
    cp "$work"/checkpoint_*.json "$out" 2>/dev/null
  done
  rm -rf "$work" "$memory"
  return $bad
}

run_hosts-played() { play_gang hosts 500 hosts-played.txt '*.log' 'part-*/*.log'; }

# MODE SECONDS FILE LOG...: gang_jobs.py MODE, what it says in FILE too; the ends of LOG (patterns) where it fails.
play_gang() {
  local mode=$1 limit=$2 file=$3 work code
  shift 3
  work=$(mktemp -d)
  timeout "$limit" python3 "$repository/bench/gang_jobs.py" "$mode" "$work" "$bundle/models/qwen2.5-0.5b" \
    --gpus "$gpus" 2>&1 | tee "$out/$file"
  code=${PIPESTATUS[0]}
  # shellcheck disable=SC2068  # patterns
  [[ $code -eq 0 ]] || tail -n 30 ${@/#/$work/} 2>/dev/null
  rm -rf "$work"
  return "$code"
}

run_job() {
  have coxswain-worker-cuda || return 1
  local work quickstart=$repository/deploy/quickstart
  work=$(mktemp -d)
  XDG_STATE_HOME=$work XDG_CACHE_HOME=$work timeout 200 cox train "$quickstart/job.yaml" \
    --set resources.device=cuda --set resources.workers=1 --set "checkpoint.output_dir=$work/out" \
    --progress plain -o json >"$out/job.json" || { tail -n 40 "$work"/coxswain/*/*.log; return 1; }
  python3 "$repository/bench/device_table.py" --job "$out/job.json" "$quickstart/reference.json" || return 1
  python3 -c 'import peft' 2>/dev/null || { echo "no peft here: the adapter is not read back"; return 0; }
  python3 "$repository/tests/e2e/load_in_peft.py" --base "$quickstart/model" \
    "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["artifact_dir"])' "$out/job.json")"
}

main() {
  local sampler part
  echo "bundle $bundle, CUDA libraries ${cuda_libraries:-of the system}"
  state before
  nvidia-smi --query-gpu=timestamp,$query --format=csv --loop=1 >"$out/clocks.csv" 2>/dev/null &
  sampler=$!
  for part in "${parts[@]}"; do
    elapsed "$part"
    "run_$part" || { failed+=("$part"); elapsed "$part failed"; }
    state "after $part"
  done
  kill "$sampler" 2>/dev/null
  python3 "$repository/bench/device_table.py" "$out"
  elapsed "${#failed[@]} of ${#parts[@]} parts failed${failed[*]:+: ${failed[*]}}"
  return "${#failed[@]}"
}

main 2>&1 | tee "$out/log.txt"
exit "${PIPESTATUS[0]}"
