#!/usr/bin/env python3
"""What install-deps.sh and build.sh print, with fakes of the package manager and of CMake: stages, progress on a
terminal alone, everything else in a log that is named, and its end when something fails."""
import os, pty, re, shutil, stat, subprocess, tempfile, unittest

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../deploy')

# 800 lines as of the package manager; its progress between them, as APT::Status-Fd=1 asks for.
APT = '''#!/bin/bash
[[ " $* " == *" APT::Status-Fd=1 "* ]] || exit 9
[[ " $* " == *" update"* ]] && exit 0
for i in $(seq 400); do echo "Unpacking lib$i ..."; done
echo "dlstatus:1:12.5:Retrieving file 1 of 8"
echo "pmstatus:lib7:41.6667:Installing lib7 (amd64)"
for i in $(seq 400); do echo "Setting up lib$i ..."; done
[[ ! -e $TMPDIR/fail ]] || { echo "E: Unable to locate package cmake" >&2; exit 100; }
'''
CMAKE = '''#!/bin/bash
if [[ $1 == --preset ]]; then echo "-- Configuring done"; exit 0; fi
for i in 1 2 3; do echo "[$i/3] Building CXX object part$i.cc.o"; done
[[ ! -e $TMPDIR/fail ]] || { echo "FAILED: part3.cc.o"; echo "part3.cc:1: error: no such thing"; exit 1; }
'''


class ScriptsTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        os.makedirs(os.path.join(self.dir, 'deploy'))
        for script in ('install-deps.sh', 'build.sh'):
            shutil.copy(os.path.join(DEPLOY, script), os.path.join(self.dir, 'deploy'))
        self.tools = os.path.join(self.dir, 'tools')
        os.makedirs(self.tools)
        # Nothing is installed, and who asks may install.
        for name, text in (('apt-get', APT), ('cmake', CMAKE), ('dpkg-query', '#!/bin/sh\nexit 1\n'),
                           ('id', '#!/bin/sh\necho 0\n'), ('systemctl', '#!/bin/sh\n')):
            path = os.path.join(self.tools, name)
            with open(path, 'w') as f:
                f.write(text)
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        self.env = {**os.environ, 'PATH': f'{self.tools}:{os.environ["PATH"]}', 'TMPDIR': self.dir, 'TERM': 'xterm'}

    def run_plain(self, script):
        done = subprocess.run(['bash', os.path.join(self.dir, 'deploy', script)], env=self.env, text=True,
                              capture_output=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def run_on_terminal(self, script):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(['bash', os.path.join(self.dir, 'deploy', script)], env=self.env, stdin=theirs,
                                   stdout=theirs, stderr=theirs)
        os.close(theirs)
        text = b''
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:     # the other end is closed
                break
            if not chunk:
                break
            text += chunk
        os.close(ours)
        return process.wait(60), text.decode()

    def fail(self):
        open(os.path.join(self.dir, 'fail'), 'w').close()

    def log_of(self, text):
        return open(os.path.join(self.dir, re.search(r'\(log: (\S+)\)', text).group(1))).read()

    def test_the_package_managers_lines_are_in_the_log(self):
        code, out, err = self.run_plain('install-deps.sh')
        self.assertEqual(code, 0, err)
        self.assertEqual(len(out.splitlines()), 1, out)
        self.assertEqual(err, '')
        log = self.log_of(out)
        self.assertEqual(len(log.splitlines()), 800)
        self.assertNotIn('pmstatus', log)

    def test_a_terminal_shows_how_far_the_packages_are(self):
        code, text = self.run_on_terminal('install-deps.sh')
        self.assertEqual(code, 0, text)
        self.assertIn('\r\x1b[K  fetching: 12 % Retrieving file 1 of 8', text)
        self.assertIn('\r\x1b[K  installing: 41 % Installing lib7 (amd64)', text)
        self.assertNotIn('Unpacking', text)
        self.assertEqual(len(self.log_of(text).splitlines()), 800)

    def test_a_failed_installation_shows_the_end_of_its_log(self):
        self.fail()
        code, out, err = self.run_plain('install-deps.sh')
        self.assertEqual(code, 1)
        self.assertIn('install-deps.sh: apt-get failed; the end of /', err)
        self.assertEqual(err.splitlines()[-1], 'E: Unable to locate package cmake')
        self.assertLess(len(err.splitlines()), 25)

    def test_build_says_the_stage_and_logs_the_rest(self):
        code, out, err = self.run_plain('build.sh')
        self.assertEqual((code, err), (0, ''))
        self.assertEqual(out, 'configuring and building preset cpu (log: build/cpu/build.log)\n')
        self.assertEqual(len(self.log_of(out).splitlines()), 4)

    def test_a_terminal_shows_how_far_the_build_is(self):
        code, text = self.run_on_terminal('build.sh')
        self.assertEqual(code, 0, text)
        self.assertIn('\r\x1b[K[2/3] Building CXX object part2.cc.o\r\x1b[K[3/3] Building', text)
        self.assertNotIn('Configuring done', text)
        self.assertEqual(len(self.log_of(text).splitlines()), 4)

    def test_a_failed_build_shows_its_errors(self):
        self.fail()
        code, out, err = self.run_plain('build.sh')
        self.assertEqual(code, 1)
        self.assertIn('build failed; the end of build/cpu/build.log:', err)
        self.assertIn('part3.cc:1: error: no such thing', err)


if __name__ == '__main__':
    unittest.main(verbosity=2)
