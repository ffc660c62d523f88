#!/usr/bin/env python3
"""bench/shards.py: each test runs once, and what fails, dies or does not end is named once, in one report."""
import argparse, contextlib, fcntl, io, os, signal, stat, sys, tempfile, unittest
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'bench'))
sys.dont_write_bytecode = True
import device_table, shards

# Speaks as GoogleTest does, of tests Ops.T0 to Ops.T8: a process has each TOTAL-th. T4 fails, $DIES dies, $HANGS
# does not end, holding a lock until it is gone. A process ends with exit code $BREAKS.
GPU_TESTS = """#!/bin/bash
report=${2#*=xml:} cases= code=0
for ((i = GTEST_SHARD_INDEX; i < 9; i += GTEST_TOTAL_SHARDS)); do
  [[ ${1#*=} == '*' || ${1#*=} == Ops.T$i ]] || continue
  echo "[ RUN      ] Ops.T$i"
  if [[ $DIES == T$i ]]; then kill -SEGV $$; fi
  if [[ $HANGS == T$i ]]; then exec 9>"$LOCK"; flock 9; tail -f /dev/null & wait; fi
  if [[ $i == 4 ]]; then
    code=1 failure='<failure message="ops.cc:7&#x0A;rows 3, not 4"/>'
    echo 'ops.cc:7: rows 3, not 4'
    echo "[  FAILED  ] Ops.T$i (2 ms)"
  elif [[ $i == 5 ]]; then
    failure= result=skipped
    echo "[  SKIPPED ] Ops.T$i (0 ms)"
  else
    failure= result=completed
    echo "[       OK ] Ops.T$i (1 ms)"
  fi
  cases+="<testcase name=\\"T$i\\" classname=\\"Ops\\" result=\\"$result\\">$failure</testcase>"
done
echo "<testsuites><testsuite name=\\"Ops\\">$cases</testsuite></testsuites>" >"$report"
exit "${BREAKS:-$code}"
"""


class ShardsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.program = os.path.join(self.folder, 'gpu_tests')
        with open(self.program, 'w', encoding='utf-8') as file:
            file.write(GPU_TESTS)
        os.chmod(self.program, stat.S_IRWXU)

    def run_tests(self, *words, processes=4, seconds=30, test_filter='*'):
        """Exit code, what it prints, and the summary."""
        said, summary, of_cores = io.StringIO(), io.StringIO(), shards.shards_of
        arguments = ['shards.py', '--out', self.folder, '--filter', test_filter, '--seconds', str(seconds), '--', 'env',
                     *words, self.program]
        try:
            shards.shards_of, sys.argv = lambda cores: processes, arguments
            with contextlib.redirect_stdout(said):
                code = shards.main()
        finally:
            shards.shards_of = of_cores
        with contextlib.redirect_stdout(summary):
            device_table.print_tests(self.folder)
        return code, said.getvalue(), summary.getvalue().split('\n')[1:-1]

    def names(self):
        root = ElementTree.parse(os.path.join(self.folder, 'tests.xml')).getroot()
        return sorted(case.get('name') for case in root.iter('testcase'))

    def test_the_number_of_processes_follows_the_cores(self):
        self.assertEqual([shards.shards_of(cores) for cores in (1, 4, 8, 15, 16, 128)], [1, 1, 2, 3, 4, 4])

    def test_every_test_runs_once_and_the_one_that_fails_is_named(self):
        for processes in (1, 4):
            code, said, summary = self.run_tests(processes=processes)
            self.assertEqual(code, 1)
            self.assertEqual(self.names(), [f'T{i}' for i in range(9)])
            self.assertEqual(said, '[ RUN      ] Ops.T4\nops.cc:7: rows 3, not 4\n[  FAILED  ] Ops.T4 (2 ms)\n')
            self.assertRegex(summary[0], f'^tests: 8 run, 1 failed, 1 skipped, . s in {processes} processes$')
            self.assertEqual(summary[1:], ['  failed: Ops.T4: ops.cc:7'])

    def test_where_all_pass_the_exit_code_is_0(self):
        self.assertEqual(self.run_tests(test_filter='Ops.T1')[0], 0)
        self.assertEqual(self.names(), ['T1'])

    def test_a_filter_without_a_test_is_an_error(self):
        code, said, _ = self.run_tests(test_filter='Ops.T9')
        self.assertEqual((code, said), (1, 'shards.py: no test matches Ops.T9\n'))

    def test_a_test_in_which_a_process_dies_is_named_and_those_before_it_count(self):
        code, said, summary = self.run_tests('DIES=T6')  # process 2 has T2 and T6
        self.assertEqual(code, 1)
        self.assertEqual(self.names(), [f'T{i}' for i in range(9)])
        self.assertIn('[ RUN      ] Ops.T6', said)
        self.assertEqual(summary[1:], ['  failed: Ops.T4: ops.cc:7', '  failed: Ops.T6: died of SIGSEGV'])

    def test_a_process_that_breaks_after_its_tests_has_failed(self):
        code, _, summary = self.run_tests('BREAKS=3', processes=1, test_filter='Ops.T1')
        self.assertEqual(code, 1)
        self.assertEqual(summary[1:], ['  failed: process.0: exit code 3'])

    def test_a_test_that_does_not_end_is_named_and_ended(self):
        lock = os.path.join(self.folder, 'lock')
        code, _, summary = self.run_tests('HANGS=T3', f'LOCK={lock}', seconds=2)  # process 3 has T3 and T7
        self.assertEqual(code, 1)
        self.assertEqual(self.names(), [f'T{i}' for i in range(9) if i != 7])
        self.assertEqual(summary[1:], ['  failed: Ops.T4: ops.cc:7', '  failed: Ops.T3: ended, out of time'])
        signal.alarm(30)  # ends this test where the other process is still there
        with open(lock, encoding='utf-8') as file:
            fcntl.flock(file, fcntl.LOCK_EX)
        signal.alarm(0)


if __name__ == '__main__':
    unittest.main()
