#!/usr/bin/env python3
"""What install-deps.sh and build.sh print, with fakes of the package manager and of CMake: stages, progress on a
terminal alone, everything else in a log that is named, and its end when something fails. What install.sh links, and the
end of the quickstart, with a fake of cox."""
import os, pty, re, shutil, signal, stat, subprocess, tempfile, unittest

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
        for script in ('install-deps.sh', 'build.sh', 'install.sh'):
            shutil.copy(os.path.join(DEPLOY, script), os.path.join(self.dir, 'deploy'))
        self.tools = os.path.join(self.dir, 'tools')
        os.makedirs(self.tools)
        # Nothing is installed, and who asks may install.
        for name, text in (('apt-get', APT), ('cmake', CMAKE), ('dpkg-query', '#!/bin/sh\nexit 1\n'),
                           ('id', '#!/bin/sh\necho 0\n'), ('systemctl', '#!/bin/sh\n')):
            self.program(os.path.join(self.tools, name), text)
        self.env = {**os.environ, 'PATH': f'{self.tools}:{os.environ["PATH"]}', 'TMPDIR': self.dir, 'TERM': 'xterm'}

    def program(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as f:
            f.write(text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def run_plain(self, script, *args):
        done = subprocess.run(['bash', os.path.join(self.dir, 'deploy', script), *args], env=self.env, text=True,
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

    def build_fake(self, preset, mtime, *programs):
        for name in programs:
            path = os.path.join(self.dir, 'build', preset, 'bin', name)
            self.program(path, f'#!/bin/sh\necho {preset}\n')
            os.utime(path, (mtime, mtime))

    def test_install_links_the_newest_build(self):
        self.build_fake('cpu', 1000, 'cox', 'coxswain-controller')
        self.build_fake('cuda', 2000, 'cox', 'coxswain-controller', 'coxswain-worker-cuda')
        prefix = os.path.join(self.dir, 'home')
        self.env['PATH'] = f'{prefix}/bin:{self.env["PATH"]}'
        for _ in range(2):  # the second run replaces the links of the first
            code, out, err = self.run_plain('install.sh', prefix)
            self.assertEqual((code, err), (0, ''))
            self.assertIn(f'linked into {prefix}/bin: cox coxswain-controller coxswain-worker-cuda (from ', out)
            self.assertNotIn('not on your PATH', out)
            self.assertNotIn('another cox', out)
        self.assertEqual(sorted(os.listdir(f'{prefix}/bin')), ['cox', 'coxswain-controller', 'coxswain-worker-cuda'])
        self.assertEqual(subprocess.run(['cox'], env=self.env, capture_output=True, text=True).stdout, 'cuda\n')

    def test_install_says_what_keeps_cox_from_being_found(self):
        self.build_fake('cpu', 1000, 'cox')
        self.env['HOME'] = os.path.join(self.dir, 'home')
        code, out, _ = self.run_plain('install.sh')
        self.assertEqual(code, 0)
        bin_folder = f'{self.dir}/home/.local/bin'
        self.assertIn(f'{bin_folder} is not on your PATH. Now and in ~/.profile:  export PATH="{bin_folder}:$PATH"', out)
        self.program(os.path.join(self.tools, 'cox'), '#!/bin/sh\n')
        self.env['PATH'] += f':{bin_folder}'
        self.assertIn(f'another cox is found first: {self.tools}/cox.', self.run_plain('install.sh')[1])

    def test_install_replaces_no_file_and_needs_a_build(self):
        code, _, err = self.run_plain('install.sh', self.dir)
        self.assertEqual(code, 1)
        self.assertIn('build with: deploy/build.sh cpu cox coxswain-controller', err)
        self.build_fake('cpu', 1000, 'cox', 'coxswain-supervisor')
        self.program(os.path.join(self.dir, 'p/bin/coxswain-supervisor'), 'mine')
        code, _, err = self.run_plain('install.sh', os.path.join(self.dir, 'p'))
        self.assertEqual(code, 1)
        self.assertIn('p/bin/coxswain-supervisor is a file', err)
        self.assertEqual(os.listdir(os.path.join(self.dir, 'p/bin')), ['coxswain-supervisor'], 'nothing was linked')
        self.assertEqual(self.run_plain('install.sh', '--help')[0], 2)

    def test_a_release_is_of_a_commit(self):
        shutil.copy(os.path.join(DEPLOY, 'release.sh'), os.path.join(self.dir, 'deploy'))
        with open(os.path.join(self.dir, 'CMakeLists.txt'), 'w') as file:
            file.write('project(coxswain VERSION 1.2.3 LANGUAGES CXX)\n')
        git = ['git', '-C', self.dir, '-c', 'user.name=a', '-c', 'user.email=a@b']
        for command in (['init', '-q'], ['add', 'deploy', 'CMakeLists.txt'], ['commit', '-q', '-m', 'all']):
            subprocess.run([*git, *command], check=True)
        with open(os.path.join(self.dir, '.git/info/exclude'), 'a') as file:
            file.write('/tools\n/dist\n')
        with open(os.path.join(self.dir, 'new.txt'), 'w'):
            pass
        code, _, err = self.run_plain('release.sh')
        self.assertEqual(code, 1)
        self.assertIn('release.sh: the tree differs from its commit; commit or stash first:\n?? new.txt', err)
        os.remove(os.path.join(self.dir, 'new.txt'))
        self.program(os.path.join(self.dir, 'dist/1.2.3/older'), '')
        code, _, err = self.run_plain('release.sh')
        self.assertEqual(code, 1)
        self.assertIn('release.sh: dist/1.2.3 is not empty', err)

    def quickstart(self, cox):
        """The quickstart around a cox that is this script: nothing is installed or built."""
        folder = os.path.join(self.dir, 'deploy/quickstart')
        os.makedirs(folder, exist_ok=True)
        shutil.copy(os.path.join(DEPLOY, 'quickstart/run.sh'), folder)
        self.program(os.path.join(self.dir, 'build/cpu/bin/cox'), cox)
        return subprocess.Popen(['bash', os.path.join(folder, 'run.sh')], env=self.env, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def test_the_quickstarts_end_names_the_installation(self):
        run = self.quickstart('#!/bin/sh\n[ "$1" = train ]\n')
        self.assertIn('deploy/install.sh puts cox on your PATH', run.communicate(timeout=60)[0].splitlines()[-1])
        self.assertEqual(run.returncode, 0)
        failed = self.quickstart('#!/bin/sh\nexit 3\n')
        self.assertNotIn('install.sh puts', failed.communicate(timeout=60)[0])
        self.assertEqual(failed.returncode, 3)

    # Invariant deploy-2.
    def test_a_signal_to_the_quickstart_ends_what_it_runs(self):
        run = self.quickstart('#!/bin/bash\ntrap "echo stopped; exit 130" TERM\necho training\n'
                              'while :; do sleep 0.05; done\n')
        while 'training' not in (line := run.stdout.readline()):
            self.assertNotEqual(line, '', 'ended before it trained')
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.communicate(timeout=60)[0], 'stopped\n')
        self.assertEqual(run.returncode, 130)


if __name__ == '__main__':
    unittest.main(verbosity=2)
