#!/usr/bin/env python3
"""bench/sanitize.py: what it makes of what the tools say, and of tools that die or do not end."""
import fcntl, json, os, signal, stat, subprocess, sys, tempfile, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, 'bench/sanitize.py')
sys.path.insert(0, os.path.dirname(SCRIPT))
sys.dont_write_bytecode = True
import sanitize

LISTED = """Norms.
  Forward
  Backward  # GetParam() = 8
Widths/Attention.  # TypeParam = x
  Races/64
"""
# Speaks as GoogleTest does.
GPU_TESTS = f"""#!/bin/sh
case "$*" in *list_tests*) cat <<'LISTED'
{LISTED}LISTED
exit;; esac
echo "$1" | sed 's/.*=//' | tr : '\\n' | sed 's/.*/[       OK ] & (1 ms)/'
"""
# Speaks as compute-sanitizer does; under synccheck one test does not end, and holds a lock until it is gone.
SANITIZER = """#!/bin/bash
case "$*" in
  *racecheck*kns=*Forward*) echo '========= Internal Sanitizer Error: a kernel that it does not watch'; exit 255;;
  *racecheck*kns=*Races*) echo '========= Internal Sanitizer Error: The Sanitizer encountered an error'; exit 255;;
  *racecheck*Races*) echo "========= Error: process didn't terminate successfully"; exit 1;;
  *racecheck*Backward*) echo '========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)'; exit 99;;
  *synccheck*Forward*) exec 9>"$LOCK"; flock 9; tail -f /dev/null & wait;;
esac
for last; do :; done
"${@: -2:1}" "$last" && echo '========= ERROR SUMMARY: 0 errors'
"""


class OutcomesTest(unittest.TestCase):
    def test_names_are_whole_and_without_comments(self):
        self.assertEqual(sanitize.tests_of(LISTED), ['Norms.Forward', 'Norms.Backward', 'Widths/Attention.Races/64'])

    def test_a_test_is_clean_only_where_it_says_so(self):
        said = '[       OK ] Norms.Forward (3 ms)\n========= ERROR SUMMARY: 0 errors'
        self.assertEqual(sanitize.outcome_of(0, said, 'Norms.Forward'), 'clean')
        self.assertEqual(sanitize.outcome_of(0, said, 'Norms.Backward'), 'skipped')
        self.assertEqual(sanitize.outcome_of(99, said, 'Norms.Forward'), 'failed')
        self.assertEqual(sanitize.outcome_of(-11, said, 'Norms.Forward'), 'died')
        self.assertEqual(sanitize.outcome_of(255, 'Internal Sanitizer Error', 'Norms.Forward'), 'died')
        self.assertEqual(sanitize.outcome_of(None, said, 'Norms.Forward'), 'late')

    def test_errors_and_hazards_are_counted(self):
        self.assertEqual(sanitize.errors_of('========= ERROR SUMMARY: 12 errors\n'), 12)
        self.assertEqual(sanitize.errors_of('========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)'), 1)
        self.assertEqual(sanitize.errors_of('all is well'), 0)


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in (('gpu_tests', GPU_TESTS), ('compute-sanitizer', SANITIZER)):
            path = os.path.join(self.folder, name)
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
            os.chmod(path, stat.S_IRWXU)

    def run_script(self, *options):
        environment = {**os.environ, 'PATH': f'{self.folder}:{os.environ["PATH"]}', 'LOCK': os.path.join(self.folder, 'lock')}
        return subprocess.run([sys.executable, SCRIPT, os.path.join(self.folder, 'gpu_tests'), '--out', self.folder, *options],
                              capture_output=True, text=True, env=environment)

    def test_each_tool_has_its_row_and_nothing_is_left_running(self):
        said = self.run_script('--limit', '1')
        self.assertEqual(said.returncode, 1, said.stderr)
        with open(os.path.join(self.folder, 'sanitize.json'), encoding='utf-8') as file:
            rows = {row['tool']: row for row in json.load(file)['rows']}
        self.assertEqual((rows['memcheck']['clean'], rows['memcheck']['errors']), (3, 0))
        self.assertEqual((rows['racecheck']['tests_died'], rows['racecheck']['clean']), (['Widths/Attention.Races/64'], 1))
        self.assertEqual((rows['racecheck']['tests_failed'], rows['racecheck']['errors']), (['Norms.Backward'], 2))
        self.assertEqual((rows['synccheck']['tests_late'], rows['synccheck']['clean']), (['Norms.Forward'], 2))
        with open(os.path.join(self.folder, 'checks.txt'), encoding='utf-8') as file:
            self.assertEqual(len(file.readlines()), 9)
        signal.alarm(30)  # ends this test where the other process is still there
        with open(os.path.join(self.folder, 'lock'), encoding='utf-8') as file:
            fcntl.flock(file, fcntl.LOCK_EX)
        signal.alarm(0)

    def test_what_does_not_begin_in_time_is_late(self):
        said = self.run_script('--seconds', '0')
        self.assertEqual(said.returncode, 1)
        for tool in ('memcheck', 'racecheck', 'synccheck'):
            self.assertIn(f'{tool}: 0 clean, 0 skipped, 0 failed, 0 died, 3 late of 3 tests', said.stdout)


if __name__ == '__main__':
    unittest.main()
