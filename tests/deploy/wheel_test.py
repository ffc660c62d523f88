#!/usr/bin/env python3
"""The wheel coxswain-train: made of this build, installed into a virtual environment without an index, and used."""
import glob, os, subprocess, sys, tempfile, unittest, zipfile
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), 'e2e')]
from deployment import ROOT, main
from processes import BIN

PROGRAMS = ('cox', 'coxswain-controller', 'coxswain-supervisor', 'coxswain-worker-cpu')


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix='coxswain-wheel-')
        cls.addClassCleanup(scratch.cleanup)
        cls.dir = scratch.name
        made = subprocess.run(['deploy/python/wheel.sh', cls.dir], cwd=ROOT, capture_output=True, text=True,
                              env=dict(os.environ, COXSWAIN_BUILD=os.path.dirname(BIN)))
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)
        print(made.stdout, end='', flush=True)
        cls.wheel, = glob.glob(os.path.join(cls.dir, '*.whl'))
        environment = os.path.join(cls.dir, 'venv')
        subprocess.run([sys.executable, '-m', 'venv', environment], check=True)
        cls.bin = os.path.join(environment, 'bin')
        subprocess.run([os.path.join(cls.bin, 'pip'), 'install', '-q', '--disable-pip-version-check', '--no-index', '--no-deps',
                        cls.wheel], check=True)

    def run_installed(self, *command, check=0):
        """Without this machine's PATH, so that nothing of the build is found."""
        environment = {'PATH': self.bin + ':/usr/bin:/bin', 'HOME': self.dir, 'NO_COLOR': '1'}
        done = subprocess.run([os.path.join(self.bin, command[0]), *command[1:]], capture_output=True, text=True, cwd=self.dir,
                              env=environment, timeout=240)
        self.assertEqual(done.returncode, check, done.stdout + done.stderr)
        return done.stdout

    def test_its_name_and_needs(self):
        self.assertRegex(os.path.basename(self.wheel), r'^coxswain_train-[0-9.]+-py3-none-manylinux_2_36_x86_64\.whl$')
        with zipfile.ZipFile(self.wheel) as wheel:
            metadata = next(name for name in wheel.namelist() if name.endswith('/METADATA'))
            text = wheel.read(metadata).decode()
            names = set(wheel.namelist())
        self.assertIn('Name: coxswain-train\n', text)
        self.assertIn('Requires-Python: >=3.10\n', text)
        self.assertLessEqual({f'coxswain_train/bin/{program}' for program in PROGRAMS}, names)
        self.assertIn('coxswain_train/v1/jobs_service_pb2.pyi', names)
        self.assertIn('coxswain_train/py.typed', names)
        self.assertFalse([name for name in names if '__pycache__' in name])

    def test_the_job_in_it_trains(self):
        self.assertIn('"version"', self.run_installed('cox', 'version', '-o', 'json'))
        command = self.run_installed('python', '-m', 'coxswain_train.quickstart').split()
        self.assertEqual(command, ['cox', 'train', 'coxswain-quickstart/job.yaml'])
        text = self.run_installed(*command, '--set', 'train.max_steps=2')
        self.assertIn('SUCCEEDED at step 2/2', text)
        self.assertTrue(os.path.exists(os.path.join(self.dir, 'coxswain-quickstart/out/adapter/adapter_model.safetensors')))
        again = subprocess.run([os.path.join(self.bin, 'python'), '-m', 'coxswain_train.quickstart'], cwd=self.dir,
                               capture_output=True, text=True)
        self.assertEqual(again.returncode, 1)
        self.assertIn('coxswain-quickstart is there already', again.stderr)


if __name__ == '__main__':
    main()
