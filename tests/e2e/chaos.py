#!/usr/bin/env python3
"""What tests/chaos.sh runs: faults by seed over a cluster that trains one job after the other."""
import argparse, json, os, random, re, signal, statistics, subprocess, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fault_cluster import FaultCluster, state_of
from processes import ROOT

STEPS, SAVE_STEPS = 300, 20
DISK_MIB = 48
# How often of 100: processes are what fails most.
KINDS = {('kill', 'worker'): 22, ('stop', 'worker'): 14, ('kill', 'controller'): 14, ('stop', 'controller'): 10,
         ('kill', 'supervisor and relay'): 10, ('stop', 'supervisor and relay'): 8, ('full', 'disk'): 6,
         ('read-only', 'folder'): 6, ('slow', 'disk'): 5, ('jump', 'clock'): 5}
NEED_MOUNTS = ('full', 'read-only')
SLOW = 'file.write:delay=20,file.sync:delay=300,store.commit:delay=30'
PHASES = ['detect', 'form', 'replay', 'in all']


class Disk:
    """A small tmpfs that the cluster lives on. Without mounts of our own it is a plain folder."""

    def __init__(self, path, own_mounts):
        self.path, self.mounted, self.covered = path, own_mounts, []
        os.makedirs(path)
        if own_mounts:
            self.mount('-t', 'tmpfs', '-o', f'size={DISK_MIB}m', 'chaos', path)

    @staticmethod
    def mount(*args):
        subprocess.run(['mount', *args], check=True)

    def fill(self):
        with open(f'{self.path}/filler', 'wb', buffering=0) as f:
            try:
                while True:
                    f.write(bytes(1 << 16))
            except OSError:
                pass  # it is full

    def make_read_only(self, folder):
        """What is open stays open: a mount of its own covers the folder."""
        self.mount('--bind', folder, folder)
        self.covered.append(folder)
        self.mount('-o', 'remount,bind,ro', folder)

    def mend(self):
        while self.covered:
            subprocess.run(['umount', '--lazy', self.covered.pop()], check=True)
        if os.path.exists(f'{self.path}/filler'):
            os.remove(f'{self.path}/filler')

    def close(self):
        self.mend()
        if self.mounted:
            subprocess.run(['umount', '--lazy', self.path], check=True)


class Chaos:
    def __init__(self, args):
        self.args, self.random = args, random.Random(args.seed)
        self.cluster = FaultCluster(steps=STEPS, save_steps=SAVE_STEPS)
        self.disk = Disk(f'{self.cluster.dir}/disk', args.own_mounts)
        for name in ('state', 'workers'):
            os.makedirs(f'{self.disk.path}/{name}')
            os.symlink(f'{self.disk.path}/{name}', f'{self.cluster.dir}/{name}')
        self.faults = []  # (seconds of time.monotonic, action, target)
        self.seen = []  # looks at the job: (seconds, state, gang, finished steps)
        self.mend_at = None

    def schedule(self):
        """(second, action, target) of every fault, in order."""
        kinds = [kind for kind in KINDS if self.args.own_mounts or kind[0] not in NEED_MOUNTS]
        drawn = self.random.choices(kinds, [KINDS[kind] for kind in kinds], k=self.args.faults)
        times = sorted(self.random.uniform(0, self.args.minutes * 60) for _ in drawn)
        return [(at, *kind) for at, kind in zip(times, drawn)]

    def victim(self, target):
        """A process id, or None while there is none."""
        if target != 'worker':
            name = 'controller' if target == 'controller' else 'supervisor'
            process = self.cluster.programs[name][1]
            return process.pid if process.poll() is None else None
        supervisor = self.cluster.programs['supervisor'][1].pid
        try:
            children = open(f'/proc/{supervisor}/task/{supervisor}/children').read().split()
        except OSError:
            return None
        running = [int(pid) for pid in children if state_of(int(pid)) not in ('Z', 'T', '')]
        return self.random.choice(running) if running else None

    def inflict(self, action, target):
        if action in ('kill', 'stop'):
            pid = self.victim(target)
            if pid is None:
                return False
            try:
                os.kill(pid, signal.SIGKILL if action == 'kill' else signal.SIGSTOP)
            except ProcessLookupError:
                return False
        elif action in NEED_MOUNTS:
            # Before a gang has trained, a disk or folder that takes nothing is the user's to mend, who is told at once.
            if self.mend_at is not None or not self.seen or self.seen[-1][3] == 0:
                return False
            self.disk.fill() if action == 'full' else self.disk.make_read_only(self.output)
            self.mend_at = time.monotonic() + self.random.uniform(1, 6)
        else:  # of the next controller, which starts at once
            process = self.cluster.programs['controller'][1]
            hours = self.random.choice((-30, -1, 1, 30))
            fault = SLOW if action == 'slow' else f'clock.wall:count=50:jump={hours * 3600_000}'
            self.cluster.process_env = {'COXSWAIN_FAULT': fault}
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            self.cluster.revive()
            self.cluster.process_env = {}
        self.faults.append((time.monotonic(), action, target))
        return True

    def run(self):
        """Jobs one after the other until every fault was given; the names of those whose bits differ."""
        self.cluster.open()
        began = time.monotonic()
        expected = self.cluster.run_tiny('undisturbed', 600)
        print(f'undisturbed: {len(expected[0])} steps in {time.monotonic() - began:.1f} s', flush=True)
        waiting, began, jobs, differ, self.recoveries = self.schedule(), time.monotonic(), 0, [], []
        while waiting or jobs == 0:
            jobs, self.seen, since = jobs + 1, [], time.monotonic()
            result = self.run_job(f'job-{jobs}', waiting, began)
            if result != expected:
                differ.append(f'job-{jobs}')
            self.note_phases()
            print(f'job {jobs}: {"bit-equal" if result == expected else "NOT EQUAL"}, {time.monotonic() - since:.1f} s, '
                  f'{len(self.faults)} faults so far', flush=True)
        self.minutes = (time.monotonic() - began) / 60
        self.jobs = jobs
        return differ

    def run_job(self, name, waiting, began):
        # A name of its own and a folder of its own, on the small disk; the bits do not hang on them.
        self.output = f'{self.disk.path}/out'
        os.makedirs(self.output, exist_ok=True)
        link = f'{self.cluster.dir}/out-{name}'
        os.symlink(self.output, link)
        job = self.cluster.submit_tiny(name)
        limit = time.monotonic() + 900
        while True:
            self.give_due(waiting, began)
            state = self.look(job)
            if state == 'SUCCEEDED':
                break
            assert state not in ('FAILED', 'CANCELLED') and time.monotonic() < limit, (
                f'{name} is {state}:\n' + self.cluster.stubborn('events', job)[-4000:])
            time.sleep(0.05)
        self.mend()
        result = self.cluster.result(job, name)
        self.cluster.stubborn('delete', job)
        subprocess.run(['rm', '-rf', self.output], check=True)
        os.remove(link)
        return result

    def give_due(self, waiting, began):
        if self.mend_at is not None and time.monotonic() > self.mend_at:
            self.mend()
        if waiting and time.monotonic() - began > waiting[0][0] and self.inflict(*waiting[0][1:]):
            print(f'{time.monotonic() - began:7.1f} s  {" ".join(waiting.pop(0)[1:])}', flush=True)

    def mend(self):
        self.disk.mend()
        self.mend_at = None

    def look(self, job):
        """The job's state, noted with its gang and steps; '' while no controller answers."""
        result = self.cluster.cox('get', job, '-o', 'json', check=None, timeout=60)
        found = json.loads(result.stdout) if result.returncode == 0 else {'state': ''}
        step = (found.get('progress') or {}).get('step', 0)
        self.seen.append((time.monotonic(), found['state'], found.get('epoch', 0), step))
        return found['state']

    def note_phases(self):
        """Of every gang but the first, by this process's clock as `cox get` told it: from the last fault to the first look
        that finds the job not training, to the gang, to the first step that is new."""
        gang, highest, stopped, waits = 0, 0, None, None
        for at, state, epoch, step in self.seen:
            if state != 'RUNNING':
                stopped = stopped or at
                continue
            if epoch > gang:
                fault = max((t for t, *_ in self.faults if stopped and t <= stopped), default=None)
                waits = (fault, stopped, at, highest) if gang > 0 and fault else None
            gang, stopped = epoch, None
            if waits and step > waits[3]:
                fault, told, formed, _ = waits
                self.recoveries.append((told - fault, formed - told, at - formed, at - fault))
                waits = None
            highest = max(highest, step)

    def results(self, differ):
        phases = [(phase, [r[i] for r in self.recoveries]) for i, phase in enumerate(PHASES)]
        return {
            'seed': self.args.seed, 'minutes': round(self.minutes, 1), 'jobs': self.jobs, 'steps_of_a_job': STEPS,
            'steps_between_checkpoints': SAVE_STEPS, 'own_mounts': self.args.own_mounts,
            'faults': [{'action': action, 'target': target, 'times': sum((a, t) == (action, target) for _, a, t in self.faults)}
                       for action, target in KINDS],
            'recovery_seconds': [{'phase': phase, 'median': round(statistics.median(values), 2),
                                  'largest': round(max(values), 2), 'of': len(values)} for phase, values in phases if values],
            'jobs_not_bit_equal': differ}

    def table(self, results):
        print(f'\nseed {results["seed"]}, {results["minutes"]} minutes, {results["jobs"]} jobs of {STEPS} steps, '
              f'a checkpoint every {SAVE_STEPS}\n\n| fault | of | times |\n|---|---|---|')
        for fault in results['faults']:
            print(f'| {fault["action"]} | {fault["target"]} | {fault["times"]} |')
        print(f'| all | | {len(self.faults)} |\n\n| phase | median s | largest s | of |\n|---|---|---|---|')
        for phase in results['recovery_seconds']:
            print(f'| {phase["phase"]} | {phase["median"]} | {phase["largest"]} | {phase["of"]} |')
        differ = results['jobs_not_bit_equal']
        print('\nverdict: ' + (f'NOT bit-equal: {", ".join(differ)}' if differ else 'bit-equal'), flush=True)


def keep(path, results):
    """With where it was measured, as the files of bench/results have it."""
    with open('/proc/cpuinfo') as file:
        names = re.findall(r'^model name\s*: (.*)', file.read(), re.M)
    commit = subprocess.run(['git', '-C', ROOT, 'rev-parse', '--short=12', 'HEAD'], capture_output=True, text=True)
    with open(path, 'w') as file:
        json.dump({'bench': 'chaos', 'command': ' '.join(['tests/chaos.sh', *sys.argv[1:]]).replace(' --own-mounts', ''),
                   'commit': commit.stdout.strip(), 'machine': f'{names[0] if names else "?"}, {os.cpu_count()} threads',
                   **results}, file, indent=1)
        file.write('\n')


def main():
    parser = argparse.ArgumentParser(prog='tests/chaos.sh')
    parser.add_argument('--minutes', type=float, default=5)
    parser.add_argument('--faults', type=int, default=100)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--json', help='file that gets the table with commit and machine')
    parser.add_argument('--own-mounts', action='store_true', help=argparse.SUPPRESS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the processes end too
    chaos = Chaos(parser.parse_args())
    try:
        results = chaos.results(chaos.run())
        chaos.table(results)
        if chaos.args.json:
            keep(chaos.args.json, results)
        return 1 if results['jobs_not_bit_equal'] else 0
    finally:
        chaos.cluster.closing = True
        chaos.disk.mend()
        chaos.cluster.stop_all()
        chaos.disk.close()
        chaos.cluster.close()


if __name__ == '__main__':
    sys.exit(main())
