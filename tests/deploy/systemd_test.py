#!/usr/bin/env python3
"""The units of deploy/systemd: systemd takes them, their flags are those of our programs, and they stop in time."""
import os, re, shlex, shutil, subprocess, sys, tempfile, unittest
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), 'e2e')]
from deployment import DEPLOY, main, need
from processes import BIN

UNITS = {'coxswain-controller': 'coxswain-controller', 'coxswain-workers': 'coxswain-supervisor'}    # unit: program
SECONDS_PER_WORKER = 10     # for the stacks of one that did not stop
WORKERS = 8


def path_of(unit):
    return os.path.join(DEPLOY, 'systemd', f'{unit}.service')


def settings(unit):
    """{key: [value, ...]} of all sections."""
    found = {}
    with open(path_of(unit)) as f:
        for key, value in re.findall(r'^(\w+)=(.*)$', f.read(), re.M):
            found.setdefault(key, []).append(value)
    return found


def command(unit):
    """Words of ExecStart, with what Environment says in the place of variables."""
    unit_settings = settings(unit)
    variables = dict(word.split('=', 1) for line in unit_settings['Environment'] for word in shlex.split(line))
    (line,) = unit_settings['ExecStart']
    return shlex.split(re.sub(r'\$(\w+)', lambda m: variables.get(m[1], ''), line))


def flag(unit, name):
    words = command(unit)
    return words[words.index(name) + 1]


class SystemdTest(unittest.TestCase):
    def test_systemd_takes_them(self):
        analyze = need('systemd-analyze', 'systemd')
        with tempfile.TemporaryDirectory() as folder:
            for unit in UNITS:
                with open(path_of(unit)) as f:
                    text = f.read()
                with open(os.path.join(folder, f'{unit}.service'), 'w') as f:    # the programs are not installed here
                    f.write(re.sub(r'^ExecStart=\S+', f'ExecStart={shutil.which("true")}', text, flags=re.M))
            done = subprocess.run([analyze, 'verify', *(os.path.join(folder, f'{unit}.service') for unit in UNITS)],
                                  capture_output=True, text=True, timeout=60)
        ours = [line for line in (done.stdout + done.stderr).splitlines() if 'coxswain' in line]
        self.assertEqual(ours, [])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_flags_are_those_of_the_programs(self):
        for unit, program in UNITS.items():
            words = command(unit)
            self.assertEqual(os.path.basename(words[0]), program)
            help_text = subprocess.run([os.path.join(BIN, program), '--help'], capture_output=True, text=True, timeout=60).stdout
            known = set(re.findall(r'(?<![\w-])--[a-z][a-z-]*', help_text))
            flags = [word for word in words if word.startswith('--')]
            self.assertGreater(len(flags), 1, unit)
            self.assertEqual([f for f in flags if f not in known], [], f'{unit}: {program} does not have them')

    def test_they_stop_before_systemd_kills_them(self):
        self.assertGreaterEqual(int(settings('coxswain-controller')['TimeoutStopSec'][0]),
                                int(flag('coxswain-controller', '--grace')) + 15)
        self.assertGreaterEqual(int(settings('coxswain-workers')['TimeoutStopSec'][0]),
                                int(flag('coxswain-workers', '--grace-seconds')) + SECONDS_PER_WORKER * WORKERS)
        self.assertEqual(settings('coxswain-workers')['KillMode'], ['mixed'], 'workers would get SIGTERM twice')

    def test_a_drained_supervisor_succeeded_and_a_refused_one_is_not_started_again(self):
        workers = settings('coxswain-workers')
        self.assertEqual(workers['SuccessExitStatus'], [flag('coxswain-workers', '--stopped-exit-code')])
        self.assertEqual(workers['RestartPreventExitStatus'], ['64 77'])    # invariant supervisor-1

    def test_workers_find_the_controllers_secret(self):
        controller, workers = settings('coxswain-controller'), settings('coxswain-workers')
        for key in ('User', 'Group', 'StateDirectory'):
            self.assertEqual(controller[key], workers[key], key)
        folder = 'COXSWAIN_RUNTIME_DIR=/run/' + controller['RuntimeDirectory'][0]
        self.assertIn(folder, controller['Environment'])
        self.assertIn(folder, workers['Environment'])
        self.assertEqual(controller['RuntimeDirectoryPreserve'], ['yes'], 'the join token goes with the controller')
        self.assertNotIn('RuntimeDirectory', workers)    # which would be removed when the workers stop


if __name__ == '__main__':
    main()
