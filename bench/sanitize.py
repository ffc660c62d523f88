#!/usr/bin/env python3
"""Tests of GPU_TESTS under compute-sanitizer: memcheck, racecheck and synccheck of our own kernels.

  bench/sanitize.py GPU_TESTS --out FOLDER [--filter FILTER] [--seconds S] [--limit S]

Our kernels only, by the tests of the ops: the engine launches no others, and those of the libraries are not ours to mend
and take long under a checker. racecheck and synccheck get a process for each test: where the tool itself dies, as
racecheck does beside bfloat16 products that it is not told to watch, that test is checked once more with all kernels
watched, the libraries' too; it is named where that is neither clean nor finds anything. Sixteen processes at once,
memcheck's first. compute-sanitizer: on PATH, or of the wheel nvidia-cuda-sanitizer-api.

FOLDER gets checks.txt, a line for each tool and test as it ends: clean, skipped, failed, died (the tool, not the test)
or late (ended after --limit seconds of its own or --seconds of all); sanitize.json, a row for each tool with their
counts, the errors it reports and its seconds, written anew as each ends; and checks/, what it said. The exit code is 1
where a test failed or was late, or memcheck died.
"""
import argparse, glob, json, os, re, shutil, signal, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

TOOLS = {'memcheck': ('--report-api-errors', 'no'),  # a test asks for too much memory
         'racecheck': (), 'synccheck': ()}
OUTCOMES = ('clean', 'skipped', 'failed', 'died', 'late')
OURS, ALL = ('--kernel-name', 'kns=coxswain'), ()
AT_ONCE = 16
MEMCHECK_PROCESSES = 4


def sanitizer():
    """Its path."""
    wheels = [path for folder in sys.path for path in glob.glob(os.path.join(folder, 'nvidia/*/bin/compute-sanitizer'))]
    path = shutil.which('compute-sanitizer') or (wheels or [None])[0]
    if not path:
        raise SystemExit('sanitize.py: compute-sanitizer is neither on PATH nor a wheel of this Python')
    return path


def tests_of(listed):
    """Full names, of what --gtest_list_tests prints."""
    suite, names = '', []
    for line in listed.splitlines():
        name = line.split('#')[0].rstrip()
        if line.startswith('  '):
            names.append(suite + name.strip())
        elif name.endswith('.'):
            suite = name
    return names


def outcome_of(code, said, name):
    """Of the test `name` in a process of the tool with this exit code, None where it had to be ended."""
    if code is None:
        return 'late'
    if 'Internal Sanitizer Error' in said or code < 0:
        return 'died'
    if code != 0:
        return 'failed'
    return 'clean' if f'[       OK ] {name}' in said else 'skipped'


def errors_of(said):
    """Of memcheck and synccheck errors, of racecheck hazards."""
    return sum(int(count) for count in re.findall(r'(?:ERROR|RACECHECK) SUMMARY: (\d+)', said))


def run(command, path, ends):
    """Exit code, None where it was ended at the time `ends`; its output goes to `path`."""
    with open(path, 'wb') as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return process.wait(max(ends - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the tool and its test
            process.wait()
            return None


class Checks:
    """What came of each test under each tool, kept as it comes."""

    def __init__(self, args, names):
        self.args, self.names, self.sanitizer = args, names, sanitizer()
        self.ends = time.monotonic() + args.seconds
        self.done, self.lock = {tool: [] for tool in TOOLS}, threading.Lock()
        self.folder = os.path.join(args.out, 'checks')
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.lines = open(os.path.join(args.out, 'checks.txt'), 'w', encoding='utf-8')

    def watch(self, tool, names, kernels):
        """(outcome, name) of each of `names`, tests of one process, and what the tool said."""
        of = re.sub('[^A-Za-z0-9]+', '_', names[0])[:80]
        path = os.path.join(self.folder, f'{tool}.{of}{".all" if kernels == ALL else ""}.txt')
        began, code, said = time.monotonic(), None, ''
        if began < self.ends:
            command = [self.sanitizer, '--tool', tool, *TOOLS[tool], *kernels, '--error-exitcode', '99',
                       '--print-limit', '20', self.args.gpu_tests, f'--gtest_filter={":".join(names)}']
            code = run(command, path, min(self.ends, began + self.args.limit * len(names)))
            with open(path, encoding='utf-8', errors='replace') as file:
                said = file.read()
        return [(outcome_of(code, said, name), name) for name in names], said

    def check(self, tool, names):
        """What the tool finds is found in any of `names`."""
        began = time.monotonic()
        outcomes, said = self.watch(tool, names, OURS)
        if len(names) == 1 and outcomes[0][0] == 'died':
            again, said_again = self.watch(tool, names, ALL)
            if again[0][0] == 'clean' or errors_of(said_again):
                outcomes, said = again, said_again
        with self.lock:
            for outcome, name in outcomes:
                print(tool, outcome, name, file=self.lines, flush=True)
            self.done[tool].append((began, time.monotonic(), errors_of(said), outcomes))
            with open(os.path.join(self.args.out, 'sanitize.json'), 'w', encoding='utf-8') as file:
                json.dump({'rows': [self.row(of) for of in TOOLS if self.done[of]]}, file, indent=1)

    def row(self, tool):
        """Of what has ended so far."""
        began, ended, errors, outcomes = zip(*self.done[tool])
        outcomes = [one for of in outcomes for one in of]
        row = {'tool': tool, 'filter': self.args.filter, 'tests': len(self.names), 'errors': sum(errors),
               'seconds': round(max(ended) - min(began), 1)}
        for kind in OUTCOMES:
            row[kind] = sum(outcome == kind for outcome, _ in outcomes)
        for kind in ('failed', 'died', 'late'):
            row[f'tests_{kind}'] = sorted(name for outcome, name in outcomes if outcome == kind)
        return row

    def run(self):
        """The rows of all tools."""
        groups = [self.names[i::MEMCHECK_PROCESSES] for i in range(min(MEMCHECK_PROCESSES, len(self.names)))]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for future in [pool.submit(self.check, tool, of) for tool in TOOLS
                           for of in (groups if tool == 'memcheck' else [[name] for name in self.names])]:
                future.result()
        return [self.row(tool) for tool in TOOLS]


def bad(row):
    return row['failed'] or row['late'] or (row['tool'] == 'memcheck' and row['died'])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('gpu_tests')
    parser.add_argument('--out', required=True, metavar='FOLDER')
    parser.add_argument('--filter', default='*', help="GoogleTest's")
    parser.add_argument('--seconds', type=float, default=480, help='of all')
    parser.add_argument('--limit', type=float, default=150, help='seconds of a test')
    args = parser.parse_args()
    names = tests_of(subprocess.run([args.gpu_tests, '--gtest_list_tests', f'--gtest_filter={args.filter}'], check=True,
                                    capture_output=True, text=True).stdout)
    if not names:
        raise SystemExit(f'sanitize.py: no test matches {args.filter}')
    rows = Checks(args, names).run()
    for row in rows:
        print(f'{row["tool"]}: ' + ', '.join(f'{row[kind]} {kind}' for kind in OUTCOMES) + f' of {len(names)} tests, '
              f'{row["errors"]} errors, {row["seconds"]:.0f} s')
        for kind in ('failed', 'died', 'late'):
            for name in row[f'tests_{kind}']:
                print(f'{row["tool"]} {kind} {name}')
    return 1 if any(bad(row) for row in rows) else 0


if __name__ == '__main__':
    sys.exit(main())
