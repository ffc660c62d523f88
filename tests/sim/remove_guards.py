#!/usr/bin/env python3
"""Removes the guard of each invariant of tests/sim/README.md from the product's code, one after the other, builds the
simulator without it, and plays schedules until one breaks that invariant.

    tests/sim/remove_guards.py [--build build/cpu] [--jobs 2] [--only sim-4]

Exit status 1 when a guard's removal was not caught, or a pattern is not in its file any more. It changes files of the
tree and puts them back; it refuses to begin when one of them has changes that are not committed."""
import argparse
import re
import subprocess
import sys
import time

# What the guard is, the invariants that may catch its removal, and (file, text, replacement) of each edit.
GUARDS = [
    ('the epoch is durable before Prepare', ['sim-1'],
     [('controller/driver/readoption/job_attempt.cc', 'const absl::Status persisted = PersistEpoch(deps_.journal, session().gang(), start_state_);',
       'const absl::Status persisted = (static_cast<void>(&PersistEpoch), absl::OkStatus());')]),
    ('an answer counts for its own command alone', ['sim-2', 'sim-3'],
     [('controller/gang/command_window.cc', 'if (seq <= answered_[rank]) return Receipt::kDuplicate;',
       'if (answered_[rank] + 1 > last_seq_) return Receipt::kDuplicate;'),
      ('controller/gang/command_window.cc',
       'if (seq != answered_[rank] + 1 || seq > last_seq_) return Receipt::kOutOfOrder;', ''),
      ('controller/gang/command_window.cc', 'answered_[rank] = seq;', 'seq = ++answered_[rank];'),
      ('controller/driver/training/commit_step.cc',
       'if (!std::equal(sent.begin(), sent.end(), done.bin_ids().begin(), done.bin_ids().end())) {',
       'if (sent.size() > 1000000) {'),
      ('controller/driver/training/commit_step.cc', 'if (targets != batch.targets) {', 'if (targets < 0) {')]),
    ('every bin of a step is dealt once', ['sim-3'],
     [('controller/driver/training/deal_bins.cc', 'for (std::vector<int64_t>& hand : deal.hands) std::sort(hand.begin(), hand.end());',
       'for (std::vector<int64_t>& hand : deal.hands) if (hand.size() > 1) hand[1] = hand[0];'),
      ('controller/driver/training/commit_step.cc', 'if (targets != batch.targets) {', 'if (targets < 0) {')]),
    ('a checkpoint is read back before it is renamed', ['sim-4'],
     [('controller/checkpoint/checkpoint_files.cc',
       'ASSIGN_OR_RETURN(Manifest verified, VerifyCheckpoint(files, staging));', 'Manifest verified = manifest;')]),
    ('who waited is scheduled again', ['sim-5'],
     [('controller/driver/job/job_failures.cc', '''    Prepare();
  } else {
    hooks_.reschedule();
  }''', '''    Prepare();
  }''')]),
    ('a step is committed with equal bits only', ['sim-6'],
     [('controller/driver/training/commit_step.cc', 'if (!SameBits(first.grad_norm(), done.grad_norm())) {',
       'if (done.grad_norm() < -1) {')]),
    ('an event gets an id of its own', ['sim-7'],
     [('tests/sim/fakes/memory_store.cc', 'set_id(++last_event_)', 'set_id(++last_event_ % 7 + 1)')]),
    ('a worker is reserved only when it is free', ['sim-8'],
     [('controller/scheduler/registry.cc', 'return status.phase == state::WorkerPhase::kReady && ', 'return '),
      ('controller/scheduler/registry.cc', 'if (!next.ok()) return next.status();', '')]),
    ('what is answered is durable', ['sim-1', 'sim-9'],
     [('controller/driver/records/journal.cc', 'if (!refused) status = Flush();', '')]),
    ('a key makes one job', ['sim-9'],
     [('controller/api/methods/submit.cc', 'if (!known.has_value()) return nullptr;', 'return nullptr;')]),
    ('a stall extends every lease', ['sim-10'],
     [('controller/runtime/loop.cc', 'stalled_ns_ += away_ns;', '')]),
    ('an answer that comes twice is ignored', ['sim-10'],
     [('controller/gang/command_window.cc', 'if (seq <= answered_[rank]) return Receipt::kDuplicate;', '')]),
    ('a gang that drains is gone on with', ['sim-11'],
     [('controller/driver/readoption/job_readoption.cc', 'return row.drain_step != store::JobRow::kNoDrainStep;', 'return false;')]),
    ('the end of a gang is durable before its ranks leave', ['sim-11'],
     [('controller/driver/job/job_finish.cc', '  attempt_.Stop();\n  checkpoints_.Stop();\n  readoption_.EndPosition();',
       '  gang::GangSession::Release(session);\n  attempt_.Stop();\n  checkpoints_.Stop();\n  readoption_.EndPosition();'),
      ('controller/driver/job/job_finish.cc', '  gang::GangSession::Release(std::move(session));\n', '')]),
]


def replace(path, text, by):
    with open(path) as file:
        content = file.read()
    if text not in content:
        sys.exit(f'{path}: no line "{text.strip()}": tell {sys.argv[0]} what guards this now')
    with open(path, 'w') as file:
        file.write(content.replace(text, by, 1))


def try_without(build, jobs, edits):
    """What the simulator says of the tree with `edits`: the rules that schedules broke, and after how long."""
    for path, text, by in edits:
        replace(path, text, by)
    built = subprocess.run(['ninja', f'-j{jobs}', '-C', build, 'sim_schedule_test'], capture_output=True, text=True)
    if built.returncode:
        return None, built.stdout[-2000:]
    began = time.monotonic()
    test = subprocess.run([f'{build}/tests/sim_schedule_test', '--gtest_filter=*/0'], capture_output=True, text=True,
                          timeout=900)
    seconds = time.monotonic() - began
    seed = re.search(r'^seed (\d+):', test.stdout, re.M)
    broken = sorted(set(re.findall(r'^(sim-\d+): ', test.stdout, re.M)))
    if test.returncode < 0 and not broken:
        broken = [f'signal {-test.returncode}']
    return broken, f'seed {seed[1] if seed else "?"}, {seconds:.1f} s'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', default='build/cpu')
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--only', help='an invariant')
    args = parser.parse_args()
    guards = [guard for guard in GUARDS if not args.only or args.only in guard[1]]
    files = sorted({path for guard in guards for path, _, _ in guard[2]})
    if subprocess.run(['git', 'diff', '--quiet', 'HEAD', '--'] + files).returncode:
        sys.exit('these have changes that are not committed: ' + ' '.join(files))
    missed = 0
    for name, rules, edits in guards:
        try:
            broken, what = try_without(args.build, args.jobs, edits)
        finally:
            subprocess.run(['git', 'checkout', '-q', '--'] + files, check=True)
        if broken is None:
            sys.exit(f'{name}: does not build without it\n{what}')
        caught = bool(set(broken) & set(rules))
        missed += not caught
        print(f'{"caught" if caught else "MISSED":7} {name:50} {",".join(broken) or "nothing":14} {what}', flush=True)
    subprocess.run(['ninja', f'-j{args.jobs}', '-C', args.build, 'sim_schedule_test'], check=True, capture_output=True)
    return missed > 0


if __name__ == '__main__':
    sys.exit(main())
