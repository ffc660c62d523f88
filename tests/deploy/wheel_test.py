#!/usr/bin/env python3
"""The wheels, made of this build, installed into a virtual environment without an index, and used; and the tarball that
deploy/tarball.sh makes of them, unpacked and used. The wheel coxswain-train-cuda is made where this build has CUDA."""
import glob, os, re, shutil, subprocess, sys, tempfile, unittest, zipfile
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), 'e2e')]
from deployment import ROOT, main
from processes import BIN

PROGRAMS = ('cox', 'coxswain-controller', 'coxswain-supervisor', 'coxswain-worker-cpu')
CUDA = os.path.exists(os.path.join(BIN, 'coxswain-worker-cuda'))
VERSION = re.search(r'project\(coxswain VERSION (\S+)', open(os.path.join(ROOT, 'CMakeLists.txt')).read())[1]


def setUpModule():
    global SCRATCH, WHEEL
    scratch = tempfile.TemporaryDirectory(prefix='coxswain-wheel-')
    unittest.addModuleCleanup(scratch.cleanup)
    SCRATCH = scratch.name
    build = os.path.dirname(BIN)
    made = subprocess.run(['deploy/python/wheel.sh', *['--cuda'] * CUDA, os.path.join(SCRATCH, 'wheels')], cwd=ROOT,
                          capture_output=True, text=True, env=dict(os.environ, COXSWAIN_BUILD=build, COXSWAIN_CUDA_BUILD=build))
    if made.returncode != 0:
        raise AssertionError(made.stdout + made.stderr)
    print(made.stdout, end='', flush=True)
    WHEEL, = glob.glob(os.path.join(SCRATCH, 'wheels/coxswain_train-*.whl'))


def contents(wheel):
    """Text of METADATA, and the names of all files."""
    with zipfile.ZipFile(wheel) as file:
        metadata = next(name for name in file.namelist() if name.endswith('/METADATA'))
        return file.read(metadata).decode(), set(file.namelist())


class Installed(unittest.TestCase):
    """In `dir`, with programs in `bin`."""

    def run_program(self, *command, check=0, **environment):
        """Without this machine's PATH, so that nothing of the build is found."""
        environment = {'PATH': self.bin + ':/usr/bin:/bin', 'HOME': self.dir, 'NO_COLOR': '1', **environment}
        done = subprocess.run([os.path.join(self.bin, command[0]), *command[1:]], capture_output=True, text=True, cwd=self.dir,
                              env=environment, timeout=240)
        self.assertEqual(done.returncode, check, done.stdout + done.stderr)
        return done.stdout + done.stderr


class WheelTest(Installed):
    @classmethod
    def setUpClass(cls):
        cls.dir = os.path.join(SCRATCH, 'user')
        environment = os.path.join(cls.dir, 'venv')
        subprocess.run([sys.executable, '-m', 'venv', environment], check=True)
        cls.bin = os.path.join(environment, 'bin')
        cls.pip = [os.path.join(cls.bin, 'pip'), '--disable-pip-version-check', 'install', '-q', '--no-index', '--no-deps']
        subprocess.run([*cls.pip, WHEEL], check=True)
        cls.package, = glob.glob(os.path.join(environment, 'lib/python*/site-packages/coxswain_train'))

    def put(self, name, text):
        path = os.path.join(self.package, name)
        self.assertFalse(os.path.exists(path), path)
        with open(path, 'w') as file:
            file.write(text)
        os.chmod(path, 0o755)
        self.addCleanup(os.remove, path)

    def test_its_name_and_needs(self):
        self.assertRegex(os.path.basename(WHEEL), r'^coxswain_train-[0-9.]+-py3-none-manylinux_2_36_x86_64\.whl$')
        text, names = contents(WHEEL)
        self.assertIn('Name: coxswain-train\n', text)
        self.assertIn('Requires-Python: >=3.10\n', text, 'by which pip refuses Python 3.9')
        self.assertIn(f'Provides-Extra: cuda\nRequires-Dist: coxswain-train-cuda =={VERSION}; extra == "cuda"\n', text)
        self.assertLessEqual({f'coxswain_train/bin/{program}' for program in PROGRAMS}, names)
        self.assertIn('coxswain_train/v1/jobs_service_pb2.pyi', names)
        self.assertIn('coxswain_train/py.typed', names)
        self.assertFalse([name for name in names if '__pycache__' in name])

    def test_the_job_in_it_trains(self):
        self.assertIn('"version"', self.run_program('cox', 'version', '-o', 'json'))
        command = self.run_program('python', '-m', 'coxswain_train.quickstart').split()
        self.assertEqual(command, ['cox', 'train', 'coxswain-quickstart/job.yaml'])
        text = self.run_program(*command, '--set', 'train.max_steps=2')
        self.assertIn('SUCCEEDED at step 2/2', text)
        self.assertTrue(os.path.exists(os.path.join(self.dir, 'coxswain-quickstart/out/adapter/adapter_model.safetensors')))
        self.assertIn('coxswain-quickstart is there already', self.run_program('python', '-m', 'coxswain_train.quickstart', check=1))

    def test_a_cuda_worker_of_another_build_is_refused(self):
        with open(os.path.join(self.package, 'build')) as file:
            version, commit = file.read().split()
        self.put('build_cuda', '0.0.9 0123456789ab\n')
        wanted = (f'coxswain-train is {version} of commit {commit}, coxswain-train-cuda is 0.0.9 of commit 0123456789ab: install '
                  f"both of one release: pip install 'coxswain-train[cuda]=={version}'")
        self.assertIn('cox: ' + wanted, self.run_program('cox', '--help', check=1))
        code = 'import coxswain_train.programs as p\ntry: p.run_cox(["--help"])\nexcept p.NotInstalled as e: print(e)'
        self.assertIn(wanted, self.run_program('python', '-c', code))

    def test_another_products_cox_is_told_and_passed_by(self):
        other = os.path.join(self.dir, 'other-product')
        os.makedirs(other)
        with open(os.path.join(other, 'cox'), 'w') as file:
            file.write('#!/bin/sh\necho cox 1.2\n')
        os.chmod(os.path.join(other, 'cox'), 0o755)
        path = f'{other}:{self.bin}:/usr/bin:/bin'
        told = self.run_program('python', '-m', 'coxswain_train.quickstart', 'told', PATH=path)
        self.assertIn(f'{other}/cox is the cox of another product; call ours as: python -m coxswain_train train told/job.yaml', told)
        self.assertIn('"version"', self.run_program('python', '-m', 'coxswain_train', 'version', '-o', 'json', PATH=path))

    def test_nvidias_libraries_of_other_packages_are_found(self):
        other = os.path.join(self.dir, 'shared')
        for library in ('cu13', 'cudnn'):
            os.makedirs(os.path.join(other, 'nvidia', library, 'lib'))
        self.put('bin/coxswain-worker-cuda', '#!/bin/sh\necho "searched: $LD_LIBRARY_PATH"\n')
        call = 'import sys; sys.argv = ["coxswain-worker-cuda"]; import coxswain_train.programs as p; p.run()'
        folders = f'{other}/nvidia/cu13/lib:{other}/nvidia/cudnn/lib'
        self.assertIn(f'searched: {folders}\n', self.run_program('python', '-c', call, PYTHONPATH=other))
        self.assertIn(f'searched: /mine:{folders}\n', self.run_program('python', '-c', call, PYTHONPATH=other, LD_LIBRARY_PATH='/mine'))
        beside = os.path.join(os.path.dirname(self.package), 'nvidia')
        os.makedirs(os.path.join(beside, 'cu13/lib'))
        self.addCleanup(shutil.rmtree, beside)
        self.assertIn(f'searched: {other}/nvidia/cudnn/lib\n', self.run_program('python', '-c', call, PYTHONPATH=other))

    def test_readme_says_its_size(self):
        only = os.path.join(SCRATCH, 'only')
        os.makedirs(only)
        shutil.copy(WHEEL, only)
        done = subprocess.run([sys.executable, 'deploy/sizes.py', only, '--check', 'README.md'], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


@unittest.skipUnless(CUDA, 'this build has no CUDA worker')
class CudaWheelTest(unittest.TestCase):
    def setUp(self):
        self.wheel, = glob.glob(os.path.join(SCRATCH, 'wheels/coxswain_train_cuda-*.whl'))
        self.metadata, self.names = contents(self.wheel)

    def test_it_needs_the_other_wheel_and_nvidias(self):
        needs = re.findall(r'^Requires-Dist: (\S+) (\S+)$', self.metadata, re.M)
        self.assertEqual(needs[0], ('coxswain-train', f'=={VERSION}'))
        self.assertEqual([name for name, _ in needs[1:]],
                         ['nvidia-cuda-runtime', 'nvidia-cublas', 'nvidia-cudnn-cu13', 'nvidia-nccl-cu13'])
        for _, version in needs[1:]:
            self.assertRegex(version, r'^>=\d+(\.\d+)+,<\d+$')

    def test_no_file_is_in_both_and_none_is_nvidias(self):
        self.assertEqual({name for name in self.names & contents(WHEEL)[1]}, set())
        self.assertFalse([name for name in self.names if re.search('lib(cudart|cublas|cudnn|nccl|nvrtc)', name)])
        self.assertIn('coxswain_train/bin/coxswain-worker-cuda', self.names)

    def test_it_looks_for_libraries_in_its_packages_alone(self):
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(self.wheel) as wheel:
            for name in ('bin/coxswain-worker-cuda', 'lib/libcoxswain_kernels_cuda.so'):
                header = subprocess.run(['readelf', '-d', wheel.extract(f'coxswain_train/{name}', folder)], capture_output=True,
                                        text=True, check=True).stdout
                path = re.search(r'RUNPATH.*\[(.*)\]', header)[1].split(':')
                self.assertTrue(all(part.startswith('$ORIGIN') for part in path), path)
                self.assertLessEqual({f'$ORIGIN/../../nvidia/{name}/lib' for name in ('cu13', 'cudnn', 'nccl')}, set(path))


class TarballTest(Installed):
    @classmethod
    def setUpClass(cls):
        wheels = os.path.join(SCRATCH, 'wheels')
        archives = []
        for _ in range(2):
            subprocess.run(['deploy/tarball.sh', wheels], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            cls.archive = os.path.join(wheels, f'coxswain-{VERSION}-linux-x86_64.tar.gz')
            with open(cls.archive, 'rb') as file:
                archives.append(file.read())
        cls.same = archives[0] == archives[1]
        cls.dir = tempfile.mkdtemp(dir=SCRATCH)
        subprocess.run(['tar', '-C', cls.dir, '-xzf', cls.archive], check=True)
        cls.tree = os.path.join(cls.dir, f'coxswain-{VERSION}')
        cls.bin = os.path.join(cls.tree, 'bin')

    def test_the_same_wheels_make_the_same_bytes(self):
        self.assertTrue(self.same)

    def test_it_trains_from_any_folder(self):
        shutil.copytree(os.path.join(self.tree, 'share/coxswain/quickstart'), os.path.join(self.dir, 'quickstart'))
        text = self.run_program('cox', 'train', 'quickstart/job.yaml', '--set', 'train.max_steps=2')
        self.assertIn('SUCCEEDED at step 2/2', text)
        self.assertTrue(os.path.exists(os.path.join(self.dir, 'quickstart/out/adapter/adapter_model.safetensors')))

    def test_its_libraries_are_its_own_or_the_systems(self):
        for program in PROGRAMS:
            libraries = subprocess.run(['ldd', os.path.join(self.bin, program)], capture_output=True, text=True, check=True).stdout
            self.assertNotIn('not found', libraries)
            own = [line.split()[2] for line in libraries.splitlines() if '=> ' + self.tree in line]
            others = {line.split()[0] for line in libraries.splitlines() if '=>' in line} - {os.path.basename(path) for path in own}
            self.assertGreater(len(own), 10, libraries)
            self.assertFalse([name for name in others if not re.match(r'(libc|libm|libmvec|libstdc\+\+|libgcc_s|libdl|libpthread|librt|libresolv|libutil)\.so', name)])

    def test_units_start_its_programs(self):
        units = sorted(os.listdir(os.path.join(self.tree, 'lib/systemd/system')))
        self.assertEqual(units, ['coxswain-controller.service', 'coxswain-workers.service'])
        for unit in units:
            with open(os.path.join(self.tree, 'lib/systemd/system', unit)) as file:
                program = re.search(r'^ExecStart=/opt/coxswain/(\S+)', file.read(), re.M)[1]
            self.assertTrue(os.access(os.path.join(self.tree, program), os.X_OK), program)

    def test_wheels_of_two_builds_are_refused(self):
        wheels = tempfile.mkdtemp(dir=SCRATCH)
        shutil.copy(WHEEL, wheels)
        with zipfile.ZipFile(os.path.join(wheels, f'coxswain_train_cuda-{VERSION}-py3-none-any.whl'), 'w') as other:
            other.writestr('coxswain_train/build_cuda', '0.0.9 0123456789ab\n')
        done = subprocess.run(['deploy/tarball.sh', wheels], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn('are of two builds', done.stderr)


if __name__ == '__main__':
    main()
