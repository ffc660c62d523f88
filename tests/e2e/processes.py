"""Starts the real binaries on loopback for the end-to-end tests, and stops every one of them.

Binaries come from COXSWAIN_BIN (default build/cpu/bin). State lives in a temporary directory per test.
"""
import itertools, json, os, re, shutil, signal, subprocess, tempfile, time, unittest, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get('COXSWAIN_BIN', os.path.join(ROOT, 'build/cpu/bin')))
QUICKSTART = os.path.join(ROOT, 'deploy/quickstart')


def wait_for(what, condition, seconds=60, progress=lambda: None):
    """The first true value of condition(), polled until progress() has been the same for so long: a machine that is slow is
    no failure, one where nothing happens is."""
    seen, deadline = None, time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if (now := progress()) != seen:
            seen, deadline = now, time.monotonic() + seconds
        elif time.monotonic() > deadline:
            raise AssertionError(f'{what}: not within {seconds} s')
        time.sleep(0.15)  # each poll starts a cox, on cores that the workers need


def metrics(address):
    """{'name{labels}': value} of one /metrics page."""
    text = urllib.request.urlopen(f'http://{address}/metrics', timeout=60).read().decode()
    return {m[1]: float(m[2]) for m in re.finditer(r'^([^#\s][^ \n]*(?: [^ \n]*=[^ \n]*)*) (\S+)$', text, re.M)}


def value(page, name, **labels):
    """The value of the only series with that name and labels; None when there is none."""
    found = [v for key, v in page.items()
             if (key == name or key.startswith(name + '{')) and all(f'{k}="{x}"' in key for k, x in labels.items())]
    assert len(found) <= 1, (name, labels, found)
    return found[0] if found else None


def data_of(event):
    """The typed fields of a JobEvent, which its JSON form carries as data_json or, expanded, as data."""
    return event['data'] if 'data' in event else json.loads(event['data_json'])


class Cluster(unittest.TestCase):
    """A controller and a supervisor with workers, each started and stopped by the test."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='coxswain-e2e-')
        self.processes = []
        self.process_env = {}  # of the processes that are started, beside this one's
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.addCleanup(self.stop_all)

    def start(self, name, *args):
        log = open(os.path.join(self.dir, f'{name}-{len(self.processes)}.log'), 'w')
        process = subprocess.Popen([os.path.join(BIN, name), *args], stdout=log, stderr=log, start_new_session=True,
                                   env=dict(os.environ, **self.process_env))
        process.log_path = log.name
        self.processes.append(process)
        return process

    def stop_all(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(5)

    def start_controller(self, *args, listen='127.0.0.1:0'):
        endpoint_file = os.path.join(self.dir, 'endpoint.json')
        if os.path.exists(endpoint_file):
            os.remove(endpoint_file)
        if '--silence-seconds' not in args:  # a stall of the machine's is not what most tests are about
            args += ('--silence-seconds', '25')
        process = self.start('coxswain-controller', '--listen', listen, '--metrics', '127.0.0.1:0', '--state-dir',
                             os.path.join(self.dir, 'state'), '--endpoint-file', endpoint_file, *args)
        def ready():
            if process.poll() is not None:
                raise AssertionError(f'controller exited {process.returncode}:\n{open(process.log_path).read()[-2000:]}')
            return os.path.exists(endpoint_file)
        wait_for('controller endpoint', ready)
        self.endpoint = json.load(open(endpoint_file))
        return process

    def start_workers(self, count=2, *args, folder='workers'):
        return self.start('coxswain-supervisor', '--controller', self.endpoint['grpc'], '--workers', str(count), '--threads',
                          '1', '--listen', '127.0.0.1:0', '--metrics', '127.0.0.1:0', '--state-dir',
                          os.path.join(self.dir, folder), *args)

    def cox(self, *args, check=0, timeout=120, env=None):
        """Runs cox against this cluster; check is the expected exit code, None for any."""
        full_env = dict(os.environ, COXSWAIN_SERVER=getattr(self, 'endpoint', {}).get('grpc', ''), NO_COLOR='1',
                        XDG_STATE_HOME=os.path.join(self.dir, 'xdg'), XDG_CONFIG_HOME=os.path.join(self.dir, 'config'), **(env or {}))
        result = subprocess.run([os.path.join(BIN, 'cox'), *args], capture_output=True, text=True, timeout=timeout, env=full_env)
        if check is not None:
            self.assertEqual(result.returncode, check, f'cox {" ".join(args)}\n{result.stdout}\n{result.stderr}')
        return result

    def cox_json(self, *args, **kw):
        return json.loads(self.cox(*args, '-o', 'json', **kw).stdout)

    def held_out(self, records):
        """A file of the first held-back records of the quickstart: evaluating all costs as much as seven steps."""
        path = os.path.join(self.dir, f'held_out-{records}.jsonl')
        if not os.path.exists(path):  # a job before may be reading it
            with open(os.path.join(QUICKSTART, 'held_out.jsonl')) as whole, open(path, 'w') as first:
                first.writelines(itertools.islice(whole, records))
        return path

    def job_file(self, name='job.yaml', source='job.yaml', held_out=12, **changes):
        """A copy of a quickstart job with absolute inputs, its own output, and textual changes {old: new}. held_out: how many
        records it evaluates; None for all."""
        text = open(os.path.join(QUICKSTART, source)).read()
        if held_out is not None:
            text = text.replace('./held_out.jsonl', self.held_out(held_out))
        for relative in ('./model', './train.jsonl', './held_out.jsonl'):
            text = text.replace(relative, os.path.join(QUICKSTART, relative[2:]))
        text = re.sub(r'output_dir: \./out[a-z-]*', f'output_dir: {self.dir}/out-{name}', text)
        for old, new in changes.get('replace', {}).items():
            assert old in text, f'{old!r} is not in {source}'
            text = text.replace(old, new)
        path = os.path.join(self.dir, name)
        with open(path, 'w') as f:
            f.write(text)
        return path

    def state(self, job):
        return self.cox_json('get', job)['state']

    def wait_state(self, job, state, seconds=120):
        """Waits until the job is in that state, for so long after each of its steps. It may not end in another one."""
        last = {}
        def reached():
            last.update(self.cox_json('get', job))
            current = last['state']
            if current != state and current in ('FAILED', 'CANCELLED', 'SUCCEEDED'):
                raise AssertionError(f'{job} is {current}, not {state}:\n{self.cox("events", job).stdout[-3000:]}')
            return current == state
        wait_for(f'{job} {state}', reached, seconds,
                 progress=lambda: (last['state'], last.get('epoch'), (last.get('progress') or {}).get('step')))

    def step_events(self, job):
        """[(step, loss, grad_norm)] of the job's StepDone events, in order."""
        return [(e['step'], e['loss'], e['grad_norm']) for e in self.events(job, 'StepDone')]

    def events(self, job, type_):
        """Typed fields of the job's events of one type, in order."""
        return [data_of(e) for e in self.cox_json('events', job)['events'] if e['type'] == type_]

    def undisturbed(self, replace):
        """Step events of the quickstart's job so changed when nothing happens to it: trained once for each class of tests,
        because every run has the same bits."""
        runs = type(self).__dict__.get('runs')
        if runs is None:
            runs = type(self).runs = {}
        key = tuple(sorted(replace.items()))
        if key not in runs:
            job = self.submit(self.job_file('undisturbed.yaml', replace=replace))
            self.wait_state(job, 'SUCCEEDED', 240)
            runs[key] = self.step_events(job)
        return runs[key]

    def submit(self, path, *args):
        return self.cox('submit', path, '-o', 'name', *args).stdout.strip()
