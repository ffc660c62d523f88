#!/usr/bin/env python3
"""A program of GoogleTest in processes side by side, each with a share of its tests.

  bench/shards.py --out FOLDER [--filter FILTER] [--seconds S] -- [env NAME=VALUE...] PROGRAM

One process for every four cores of this machine, and four at most: they share one device. FOLDER gets tests.xml, the
report of all, and tests.txt, what they said. Prints what failing tests said; the summary is device_table.py's.
A test in which a process died, or was ended after S seconds, has failed; what that process had left did not run. The
exit code is 1 where a test failed or none matches FILTER.
"""
import argparse, os, re, signal, subprocess, sys, tempfile, time
import xml.etree.ElementTree as ElementTree

CORES_EACH, MOST = 4, 4
ENDED = re.compile(r'^\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+)', re.MULTILINE)


def shards_of(cores):
    """How many processes `cores` cores get."""
    return max(1, min(MOST, cores // CORES_EACH))


def start(args, scratch, shard, shards):
    """Process `shard` of `shards`; what it says is in SCRATCH/N.txt, its report in SCRATCH/N.xml."""
    report = os.path.join(scratch, f'{shard}.xml')
    env = {**os.environ, 'GTEST_TOTAL_SHARDS': str(shards), 'GTEST_SHARD_INDEX': str(shard)}
    with open(os.path.join(scratch, f'{shard}.txt'), 'wb') as said:
        return subprocess.Popen([*args.command, f'--gtest_filter={args.filter}', f'--gtest_output=xml:{report}'],
                                env=env, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)


def end_of(process, ends):
    """Exit code, None where it was ended at the time `ends`."""
    try:
        return process.wait(max(ends - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its death tests too
        process.wait()
        return None


def how(code):
    if code is None:
        return 'ended, out of time'
    return f'died of {signal.Signals(-code).name}' if code < 0 else f'exit code {code}'


def testcase(name, failure=None, result='completed'):
    suite, _, test = name.rpartition('.')
    case = ElementTree.Element('testcase', name=test, classname=suite, status='run', result=result)
    if failure is not None:
        ElementTree.SubElement(case, 'failure', message=failure)
    return case


def report_of_broken(shard, code, said):
    """The suite of a process without a report, by what it said: tests that ended, and the one that did not."""
    suite = ElementTree.Element('testsuite', name=f'process {shard}')
    ended = {name: word for word, name in ENDED.findall(said)}
    for name, word in ended.items():
        suite.append(testcase(name, 'it failed' if word == 'FAILED' else None,
                              'skipped' if word == 'SKIPPED' else 'completed'))
    begun = re.findall(r'^\[ RUN      \] (\S+)', said, re.MULTILINE)
    last = begun[-1] if begun and begun[-1] not in ended else f'process.{shard}'
    suite.append(testcase(last, how(code)))
    return suite


def suites_of(scratch, shard, code, said):
    try:
        suites = list(ElementTree.parse(os.path.join(scratch, f'{shard}.xml')).getroot())
    except (OSError, ElementTree.ParseError):
        return [report_of_broken(shard, code, said)]
    failed = any(case.find('failure') is not None for suite in suites for case in suite.iter('testcase'))
    if code != 0 and not failed:  # its tests passed, and then it broke
        suites.append(report_of_broken(shard, code, ''))
    return suites


def failures_in(said):
    """What each failing test of a process said, and the end of one that did not end."""
    pieces = re.split(r'^(?=\[ RUN      \] )', said, flags=re.MULTILINE)[1:]
    ended = [re.search(r'^\[ +(OK|FAILED|SKIPPED) +\] .*\n', piece, re.MULTILINE) for piece in pieces]
    return [piece[:end.end()] if end else piece for piece, end in zip(pieces, ended) if not end or end[1] == 'FAILED']


def run(args, scratch, shards):
    """The report of all: the root of an XML tree, with what GoogleTest counts."""
    began = time.monotonic()
    processes = [start(args, scratch, shard, shards) for shard in range(shards)]
    root = ElementTree.Element('testsuites', name='AllTests')
    for shard, process in enumerate(processes):
        code = end_of(process, began + args.seconds)
        with open(os.path.join(scratch, f'{shard}.txt'), encoding='utf-8', errors='replace') as file:
            said = file.read()
        with open(os.path.join(args.out, 'tests.txt'), 'a' if shard else 'w', encoding='utf-8') as file:
            file.write(f'== process {shard} of {shards}\n{said}')
        root.extend(suites_of(scratch, shard, code, said))
        for text in failures_in(said):
            print(text[-4000:].rstrip())
    cases = list(root.iter('testcase'))
    root.set('tests', str(len(cases)))
    root.set('failures', str(sum(case.find('failure') is not None for case in cases)))
    root.set('time', f'{time.monotonic() - began:.3f}')
    root.set('processes', str(shards))
    return root


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('command', nargs='+', metavar='WORD', help='of the command that starts the program')
    parser.add_argument('--out', required=True, metavar='FOLDER')
    parser.add_argument('--filter', default='*', help="GoogleTest's")
    parser.add_argument('--seconds', type=float, default=480, help='of all')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = run(args, scratch, shards_of(len(os.sched_getaffinity(0))))
    ElementTree.ElementTree(root).write(os.path.join(args.out, 'tests.xml'), encoding='utf-8')
    if root.get('tests') == '0':
        print(f'shards.py: no test matches {args.filter}')
    return int(root.get('tests') == '0' or root.get('failures') != '0')


if __name__ == '__main__':
    sys.exit(main())
