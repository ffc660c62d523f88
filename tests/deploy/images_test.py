#!/usr/bin/env python3
"""The images without a container engine: their file systems assembled by the Dockerfiles' own command, their
entry points run in them as the Kubernetes manifests say: read-only root, not root, mutual TLS, probes, SIGTERM.

Runs in a mount and a network namespace of its own; where that is not permitted, only what needs none is tested.
"""
import fcntl, glob, gzip, hashlib, io, json, os, re, shutil, socket, stat, struct, subprocess, sys, tarfile, tempfile, time, unittest, urllib.request
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), 'e2e')]
from deployment import DEPLOY, ROOT, documents, main
from processes import BIN, QUICKSTART, metrics, value, wait_for

LIMIT_MIB = {'controller': 150, 'worker-cpu': 120, 'worker-cuda': 3000}
SCRATCH = os.environ.get('COXSWAIN_IMAGES')     # set inside the namespaces
USER = 65532
STEPS = 40                                      # of the job: a drain at the third must find it unfinished


def dockerfile(image):
    with open(os.path.join(DEPLOY, f'docker/{image}.Dockerfile')) as f:
        return f.read()


def entry_point(image):
    return json.loads(re.search(r'^ENTRYPOINT (.*)$', dockerfile(image), re.M)[1])


def assemble(scratch):
    for image in built_images():
        command = re.search(rf'deploy/docker/assemble.sh /rootfs {image}$', dockerfile(image), re.M)
        assert command, f'{image}.Dockerfile does not assemble its own image'
        done = subprocess.run(['deploy/docker/assemble.sh', os.path.join(scratch, image), image], cwd=ROOT, text=True,
                              capture_output=True, env=dict(os.environ, COXSWAIN_BUILD=os.path.dirname(BIN)))
        if done.returncode != 0:
            sys.exit(f'{image}: {done.stderr}')
        print(done.stdout, end='', flush=True)


def built_images():
    return ['controller', 'worker-cpu'] + (['worker-cuda'] if os.path.exists(f'{BIN}/coxswain-worker-cuda') else [])


class FileSystemTest(unittest.TestCase):
    def test_sizes_and_contents(self):
        for image in built_images():
            root, size, files = os.path.join(SCRATCH, image), 0, set()
            for folder, _, names in os.walk(root):
                for name in names:
                    path = os.path.join(folder, name)
                    status = os.lstat(path)
                    size += status.st_size
                    self.assertFalse(status.st_mode & (stat.S_ISUID | stat.S_ISGID), f'{path} is setuid')
                    if stat.S_ISREG(status.st_mode):
                        files.add('./' + os.path.relpath(path, root))
            print(f'{image}: {size / 2**20:.0f} MiB of at most {LIMIT_MIB[image]}')
            self.assertLess(size / 2**20, LIMIT_MIB[image])
            self.assertFalse(glob.glob(f'{root}/usr/bin/*sh'), 'a shell')
            with open(f'{root}/usr/share/coxswain/sbom.spdx.json') as f:
                sbom = json.load(f)
            listed = {f['fileName'] for f in sbom['files']}
            self.assertEqual({f for f in files - listed if '/doc/' not in f},
                             {'./usr/share/coxswain/sbom.spdx.json', './etc/hosts'})     # the latter is prepare()'s
            contained = {r['relatedSpdxElement'] for r in sbom['relationships'] if r['relationshipType'] == 'CONTAINS'}
            self.assertEqual(contained, {f['SPDXID'] for f in sbom['files']}, 'a file that belongs to no package')
            packages = {p['name']: p for p in sbom['packages']}
            self.assertIn('coxswain', packages)
            self.assertTrue(all(p['versionInfo'] for p in packages.values()))
            self.assertTrue(os.path.exists(f'{root}/usr/share/doc/libc6/copyright'))
            for library in ('libnccl.so.2', 'libcudnn_graph.so.9', 'libnvrtc.so.13') if image == 'worker-cuda' else ():
                self.assertTrue(glob.glob(f'{root}/usr/lib/x86_64-linux-gnu/{library}*'), f'{library}, which is loaded by name')
            entry = next(f for f in sbom['files'] if f['fileName'] == '.' + entry_point(image)[0])
            with open(root + entry_point(image)[0], 'rb') as f:
                self.assertEqual(entry['checksums'][0]['checksumValue'], hashlib.sha256(f.read()).hexdigest())

    def test_an_archive_is_the_image_that_its_digest_names(self):
        archives = []
        for name in ('one', 'two'):
            path = os.path.join(SCRATCH, f'{name}.tar')
            printed = subprocess.run(['deploy/docker/pack_image.py', os.path.join(SCRATCH, 'controller'),
                                      'deploy/docker/controller.Dockerfile', 'coxswain/controller:1.2.3', '0123456789ab', path],
                                     cwd=ROOT, capture_output=True, text=True, check=True,
                                     env=dict(os.environ, SOURCE_DATE_EPOCH='1700000000')).stdout
            with open(path, 'rb') as f:
                archives.append(hashlib.sha256(f.read()).hexdigest())
        self.assertEqual(archives[0], archives[1])
        with tarfile.open(path) as archive:
            parts = {entry.name: archive.extractfile(entry).read() for entry in archive}
        for name in parts:
            if name.startswith('blobs/'):
                self.assertEqual(os.path.basename(name), hashlib.sha256(parts[name]).hexdigest())

        def read(descriptor):
            return parts['blobs/' + descriptor['digest'].replace(':', '/')]
        descriptor = json.loads(parts['index.json'])['manifests'][0]
        self.assertIn(f'coxswain/controller:1.2.3 {descriptor["digest"]} ', printed)
        manifest = json.loads(read(descriptor))
        config = json.loads(read(manifest['config']))
        self.assertEqual(config['config']['Entrypoint'], entry_point('controller'))
        self.assertEqual(config['config']['User'], f'{USER}:{USER}')
        self.assertEqual(config['config']['Labels']['org.opencontainers.image.revision'], '0123456789ab')
        self.assertIn('7071/tcp', config['config']['ExposedPorts'])
        layer = gzip.decompress(read(manifest['layers'][0]))
        self.assertEqual(config['rootfs']['diff_ids'], ['sha256:' + hashlib.sha256(layer).hexdigest()])
        with tarfile.open(fileobj=io.BytesIO(layer)) as files:
            self.assertTrue(files.getmember(entry_point('controller')[0][1:]).mode & 0o111)
            self.assertEqual({entry.mtime for entry in files}, {1700000000})

    def test_dockerfiles_and_manifests_say_the_same(self):
        for image, program in (('controller', 'coxswain-controller'), ('worker-cpu', 'coxswain-supervisor'),
                               ('worker-cuda', 'coxswain-supervisor')):
            text = dockerfile(image)
            self.assertEqual(entry_point(image), [f'/usr/bin/{program}'])
            self.assertIn(f'\nUSER {USER}:{USER}\n', text)
            self.assertNotIn(':latest', text)
            self.assertRegex(text, r'(?m)^ARG DEBIAN=debian:bookworm-\d{8}-slim$')
            version = re.search(r'project\(coxswain VERSION (\S+)', open(os.path.join(ROOT, 'CMakeLists.txt')).read())[1]
            for label in ('title', 'description', 'version', 'licenses', 'revision'):
                self.assertIn(f'org.opencontainers.image.{label}=', text)
            self.assertIn(f'image.version="{version}"', text)

    def test_compose_starts_what_the_programs_take(self):
        compose = documents(os.path.join(DEPLOY, 'compose.yaml'))[0]
        for name, image in (('controller', 'controller'), ('workers-cpu', 'worker-cpu'), ('workers-cuda', 'worker-cuda')):
            service = compose['services'][name]
            self.assertTrue(service['read_only'])
            self.assertEqual(service['user'], f'{USER}:{USER}')
            self.assertEqual(service['build']['dockerfile'], f'deploy/docker/{image}.Dockerfile')
            help_text = subprocess.run([f'{BIN}/{os.path.basename(entry_point(image)[0])}', '--help'], capture_output=True,
                                       text=True).stdout
            for argument in service['command']:
                self.assertRegex(help_text, re.escape(argument.split('=')[0]) + r'[ ,]', name)
            self.assertEqual(service['healthcheck']['test'][1:3], ['cox', 'health'])
            self.assertIn(f'--health={service["healthcheck"]["test"][3]}', service['command'])
        self.assertEqual(compose['services']['workers-cuda']['profiles'], ['gpu'])
        self.assertIn('--workers=2', compose['services']['workers-cpu']['command'])
        for service in compose['services'].values():
            for volume in service.get('volumes', []):
                source = volume.split(':')[0]
                if source.startswith('./'):
                    self.assertTrue(os.path.exists(os.path.join(DEPLOY, source)), source)
                else:
                    self.assertIn(source, compose['volumes'])
            if 'image' in service:
                self.assertRegex(service['image'], r':v?\d+\.\d+\.\d+$')


class Pod:
    """One container of a manifest, run in the file system of its image."""

    def __init__(self, template, image, **env):
        self.spec = template['spec']
        self.container = self.spec['containers'][0]
        self.image = image
        names = {e['name']: e.get('value', '') for e in self.container.get('env', [])} | env
        def expand(text):
            while '$(' in text:
                text = re.sub(r'\$\((\w+)\)', lambda m: names[m[1]], text)
            return text
        self.args = [expand(a) for a in self.container['args']]
        self.root = tempfile.mkdtemp(prefix=f'{image}-', dir=SCRATCH)
        self.mount()

    def mount(self):
        def mount(*args):
            subprocess.run(['mount', *args], check=True)
        mount('--bind', os.path.join(SCRATCH, self.image), self.root)
        mount('-o', 'remount,bind,ro', self.root)
        for volume in self.container['volumeMounts']:
            target = self.root + volume['mountPath']
            if volume['name'] == 'tls':
                mount('--bind', os.path.join(SCRATCH, 'tls', 'controller' if self.image == 'controller' else 'worker'), target)
                mount('-o', 'remount,bind,ro', target)
            elif volume['name'] == 'data':
                mount('--bind', os.path.join(SCRATCH, 'data'), target)
            elif volume['name'] == 'state' and self.image == 'controller':
                mount('--bind', os.path.join(SCRATCH, 'state'), target)
            elif volume['mountPath'] != '/dev/shm':
                mount('-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', target)
        mount('--rbind', '/dev', self.root + '/dev')
        mount('--rbind', '/proc', self.root + '/proc')
        # gRPC 1.51 connects and then reads errno, which malloc may have set by looking for CPUs in a /sys that is not there.
        mount('--rbind', '/sys', self.root + '/sys')

    def command(self, *argv):
        as_user = [f'--userspec={USER}:{USER}'] if os.environ['COXSWAIN_REAL_ROOT'] == '1' else []
        return [shutil.which('chroot', path='/usr/sbin:/usr/bin:/sbin:/bin'), *as_user, self.root, *argv]

    def run(self, *argv, check=True):
        done = subprocess.run(self.command(*argv), capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
        if check and done.returncode != 0:
            raise AssertionError(f'{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}')
        return done

    def start(self):
        self.log = os.path.join(SCRATCH, f'{os.path.basename(self.root)}.log')
        with open(self.log, 'w') as log:
            self.process = subprocess.Popen(self.command(*entry_point(self.image), *self.args), stdout=log, stderr=log,
                                            start_new_session=True, env=ENVIRONMENT)
        return self

    def probe(self, name):
        """What one of the kubelet's probes would say now."""
        probe = self.container[name]['grpc']
        done = self.run('/usr/bin/cox', 'health', f'127.0.0.1:{probe["port"]}', '--service', probe.get('service', ''), check=False)
        self.last_probe = f'{name}: {done.returncode} {done.stdout}{done.stderr}'
        return done.stdout.strip() == 'SERVING'

    def expect_healthy(self, *names):
        """The kubelet lets it be, which acts once `failureThreshold` probes in succession failed."""
        for name in names:
            if self.probe(name):
                continue
            print(f'{self.image}: {self.last_probe}\n{open(self.log).read()[-3000:]}')
            seconds = self.container[name]['periodSeconds'] * self.container[name].get('failureThreshold', 3)
            wait_for(f'{self.image}: {name}', lambda: self.probe(name), seconds)

    def stop(self):
        """(exit code, seconds) of SIGTERM, within the pod's termination grace."""
        began = time.monotonic()
        self.process.terminate()
        code = self.process.wait(self.spec['terminationGracePeriodSeconds'])
        return code, time.monotonic() - began


ENVIRONMENT = {'HOME': '/var/lib/coxswain', 'XDG_STATE_HOME': '/tmp', 'XDG_CACHE_HOME': '/tmp', 'PATH': '/usr/bin', 'NO_COLOR': '1'}


class RunTest(unittest.TestCase):
    def setUp(self):
        if SCRATCH is None or 'COXSWAIN_REAL_ROOT' not in os.environ:
            self.skipTest('no namespaces here (unshare is not permitted): entry points are not run')
        with socket.socket() as s:     # lo is down in a new network namespace
            fcntl.ioctl(s, 0x8914, struct.pack('16sH22x', b'lo', 0x1 | 0x40))      # SIOCSIFFLAGS: UP, RUNNING
        self.pods = []
        self.addCleanup(self.kill_all)
        base = {d['kind']: d for name in ('controller', 'workers') for d in documents(os.path.join(DEPLOY, f'k8s/base/{name}.yaml'))}
        self.controller_template = base['StatefulSet']['spec']['template']
        self.worker_template = base['Job']['spec']['template']

    def kill_all(self):
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.process.kill()
                pod.process.wait()

    def start(self, pod):
        self.pods.append(pod.start())
        return pod

    def wait(self, what, pod, condition, seconds=60):
        def holds():
            if pod.process.poll() is not None:
                raise AssertionError(f'{pod.image} ended with {pod.process.returncode}:\n{open(pod.log).read()[-3000:]}')
            return condition()
        wait_for(what, holds, seconds)

    def cox(self, *args, **kw):
        tls = '/data/client'    # an operator's certificate
        return self.controller.run('/usr/bin/cox', '--server', 'coxswain-controller:7070', '--tls-ca', f'{tls}/ca.crt', '--tls-cert',
                                   f'{tls}/tls.crt', '--tls-key', f'{tls}/tls.key', *args, **kw)

    def job(self, name):
        return json.loads(self.cox('get', name, '-o', 'json').stdout)

    def submit(self):
        with open(os.path.join(QUICKSTART, 'job.yaml')) as f:
            text = f.read()
        with open(os.path.join(QUICKSTART, 'held_out.jsonl')) as whole, open(os.path.join(SCRATCH, 'data/few.jsonl'), 'w') as few:
            few.writelines(whole.readlines()[:12])  # evaluating all costs as much as seven steps
        for old, new in (('./model', '/data/quickstart/model'), ('./train.jsonl', '/data/quickstart/train.jsonl'),
                         ('./held_out.jsonl', '/data/few.jsonl'), ('./out', '/data/out'),
                         ('save_steps: 20', 'save_steps: 1000'), ('global_batch_size: 4', 'global_batch_size: 2'),
                         ('max_steps: 40', f'max_steps: {STEPS}')):
            self.assertIn(old, text)
            text = text.replace(old, new)
        with open(os.path.join(SCRATCH, 'data/job.yaml'), 'w') as f:
            f.write(text)
        return self.cox('submit', '/data/job.yaml', '-o', 'name').stdout.strip()

    def worker(self):
        return Pod(self.worker_template, 'worker-cpu', POD_INDEX='0', POD_NAMESPACE='coxswain', CPU_WORKERS='2')

    def test_pods_of_the_base_manifest_train_drain_and_go_on(self):
        self.controller = self.start(Pod(self.controller_template, 'controller'))
        self.wait('controller ready', self.controller, lambda: self.controller.probe('readinessProbe'))
        self.controller.expect_healthy('startupProbe', 'livenessProbe')
        worker = self.start(self.worker())
        self.wait('supervisor started', worker, lambda: worker.probe('startupProbe'))
        self.wait('workers ready', worker, lambda: worker.probe('readinessProbe'))
        if os.environ['COXSWAIN_REAL_ROOT'] == '1':
            with open(f'/proc/{worker.process.pid}/status') as f:
                self.assertIn(f'Uid:\t{USER}\t{USER}', f.read())
        self.assertFalse(os.access(worker.root + '/usr/bin', os.W_OK), 'the root is writable')
        targets = json.load(urllib.request.urlopen('http://127.0.0.1:7071/scrape-targets', timeout=10))
        host = 'coxswain-workers-0.coxswain-workers.coxswain.svc'
        self.assertEqual([t['targets'] for t in targets], [[f'{host}:7180'], [f'{host}:7181']])

        name = self.submit()
        def step():
            return int((self.job(name).get('progress') or {}).get('step', 0))
        self.wait('three steps', worker, lambda: step() >= 3, 120)
        worker.expect_healthy('livenessProbe', 'readinessProbe')
        code, seconds = worker.stop()
        print(f'drained in {seconds:.1f} s of {worker.spec["terminationGracePeriodSeconds"]} s')
        self.assertEqual(code, 75, open(worker.log).read()[-3000:])
        done = step()
        self.assertLess(done, STEPS)
        page = metrics('127.0.0.1:7071')
        self.assertEqual(value(page, 'coxswain_workers', state='LOST'), 0, 'a drained worker counts as lost')

        again = self.start(self.worker())
        self.wait('the job ends', again, lambda: self.job(name)['state'] == 'SUCCEEDED', 200)
        events = json.loads(self.cox('events', name, '-o', 'json').stdout)['events']
        steps = [json.loads(e['data_json'])['step'] if 'data_json' in e else e['data']['step']
                 for e in events if e['type'] == 'StepDone']
        self.assertEqual(steps, list(range(STEPS)), 'a drain loses no step and repeats none')
        self.assertTrue(glob.glob(os.path.join(SCRATCH, 'data/out/**/adapter_model.safetensors'), recursive=True))
        self.assertEqual(again.stop()[0], 75)
        self.assertEqual(value(metrics('127.0.0.1:7071'), 'coxswain_workers', state='LOST'), 0, 'so does an idle one that was stopped')
        code, seconds = self.controller.stop()
        print(f'controller stopped in {seconds:.1f} s of {self.controller.spec["terminationGracePeriodSeconds"]} s')
        self.assertEqual(code, 0)

    def test_a_stranger_is_refused(self):
        """Without a certificate nobody speaks with the controller, and --listen 0.0.0.0 without TLS does not start."""
        self.controller = self.start(Pod(self.controller_template, 'controller'))
        self.wait('controller ready', self.controller, lambda: self.controller.probe('readinessProbe'))
        result = self.controller.run('/usr/bin/cox', '--server', 'coxswain-controller:7070', '--tls-ca', '/etc/coxswain/tls/ca.crt', 'get',
                                     check=False)
        self.assertEqual(result.returncode, 5, result.stderr)
        tls = '/etc/coxswain/tls'
        as_controller = self.controller.run('/usr/bin/cox', '--server', 'coxswain-controller:7070', '--tls-ca', f'{tls}/ca.crt', '--tls-cert',
                                            f'{tls}/tls.crt', '--tls-key', f'{tls}/tls.key', 'get', check=False)
        self.assertEqual(as_controller.returncode, 5, as_controller.stderr)
        self.assertIn('controller may not call Jobs.List', as_controller.stderr)
        open_door = self.controller.run(*entry_point('controller'), '--listen=0.0.0.0:7999', '--metrics=', '--state-dir=/tmp/other', check=False)
        self.assertNotEqual(open_door.returncode, 0)
        self.assertIn('--tls-cert', open_door.stderr)


def prepare(scratch):
    assemble(scratch)
    for image in built_images():      # mount points and names, which a container runtime makes
        os.makedirs(os.path.join(scratch, image, 'etc/coxswain/tls'))
        with open(os.path.join(scratch, image, 'etc/hosts'), 'w') as f:
            f.write('127.0.0.1 localhost\n127.0.1.1 coxswain-controller coxswain-controller.coxswain.svc\n'
                    '127.0.1.2 coxswain-workers-0.coxswain-workers.coxswain.svc\n')
    subprocess.run([os.path.join(DEPLOY, 'tls/make-certificates.sh'), os.path.join(scratch, 'tls')], check=True, capture_output=True)
    shutil.copytree(QUICKSTART, os.path.join(scratch, 'data/quickstart'), ignore=shutil.ignore_patterns('out*'))
    shutil.copytree(os.path.join(scratch, 'tls/client'), os.path.join(scratch, 'data/client'))
    os.mkdir(os.path.join(scratch, 'state'))
    os.chmod(scratch, 0o755)
    for folder, names, files in os.walk(scratch):
        if f'{scratch}/tls' in folder or f'{scratch}/data' in folder or f'{scratch}/state' in folder:
            os.chmod(folder, 0o777)
            for name in files:
                os.chmod(os.path.join(folder, name), 0o644)


def enter_namespaces():
    """Runs this file again in namespaces of its own; as root with all its users, or with one."""
    global SCRATCH
    SCRATCH = tempfile.mkdtemp(prefix='coxswain-images-')
    try:
        prepare(SCRATCH)
        env = dict(os.environ, COXSWAIN_IMAGES=SCRATCH)
        for flags, real in (('-mn', '1'), ('-rmn', '0')):
            if subprocess.run(['unshare', flags, 'true'], capture_output=True).returncode == 0:
                return subprocess.run(['unshare', flags, sys.executable, *sys.argv], env=dict(env, COXSWAIN_REAL_ROOT=real)).returncode
        return subprocess.run([sys.executable, *sys.argv], env=env).returncode
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == '__main__':
    if SCRATCH is None:
        sys.exit(enter_namespaces())
    main()
