"""A cluster whose processes die and stand still: who ended is started again, who stands is sent on after a while.

The job is tiny: 12 steps on two CPU workers, a checkpoint after each, so that every boundary is crossed many times in
seconds. Two runs of it give the same bits.
"""
import hashlib, json, os, random, re, signal, socket, subprocess, threading, time
from processes import BIN, QUICKSTART, Cluster, wait_for

STEPS = 24
STANDS_FOR_S = 2.0  # a stopped controller or supervisor; workers are left to those who watch them
JOB = '''apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {name: %(name)s}
spec:
  base_model: {path: %(dir)s/model, init: random}
  adapter: lora
  lora: {r: 4, alpha: 8, target_modules: all-linear}
  datasets: [{path: %(dir)s/train.jsonl, format: alpaca, prompt_style: alpaca}]
  sequence_len: 256
  train: {global_batch_size: 4, max_steps: %(steps)d, learning_rate: 1.0e-2, lr_scheduler: constant, warmup_steps: 0}
  checkpoint: {output_dir: %(output)s, save_steps: %(save_steps)d, save_total_limit: 2, resume: never}
  resources: {device: cpu, workers: 2, max_restarts: 1000}
'''


def faults_of(*programs):
    """{point: (actions, sentence)} of what programs list, in the order of the table."""
    points = {}
    for program in programs:
        text = subprocess.run([os.path.join(BIN, program), '--list-faults'], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            name, rest = line.split(None, 1)
            actions, sentence = re.match(r'((?:kill|stop|error|enospc|delay=MS|jump=MS| )+)(.*)', rest).groups()
            points[name] = (actions.split(), sentence)
    return points


class FaultCluster(Cluster):
    """Not a test: a test makes them, several at once where it likes. close() ends all processes."""

    def runTest(self):
        pass

    def __init__(self, faults='', steps=STEPS, save_steps=1):
        super().__init__()
        self.setUp()
        self.steps, self.save_steps = steps, save_steps
        self.restarts = {}
        self.process_env = {'COXSWAIN_FAULT': faults.replace('@', self.dir + '/hit-')}
        self.lock, self.closing = threading.Lock(), False
        self.make_model()

    def make_model(self):
        os.makedirs(f'{self.dir}/model')
        for name in ('tokenizer.json', 'tokenizer_config.json'):
            os.symlink(os.path.join(QUICKSTART, 'model', name), f'{self.dir}/model/{name}')
        config = json.load(open(os.path.join(QUICKSTART, 'model/config.json')))
        config.update(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=2,
                      layer_types=['full_attention'] * 2, head_dim=16)
        json.dump(config, open(f'{self.dir}/model/config.json', 'w'))
        lines = open(os.path.join(QUICKSTART, 'train.jsonl')).readlines()[:60]
        open(f'{self.dir}/train.jsonl', 'w').writelines(lines)

    def open(self):
        """Starts everything, and a thread that keeps it alive."""
        self.programs = {}
        self.endpoint = {'grpc': f'127.0.0.1:{free_port()}'}
        self.endpoint_file = os.path.join(self.dir, 'endpoint.json')
        self.start_watched('controller', lambda: self.begin_controller())
        self.await_controller()
        self.start_watched('supervisor', lambda: self.start_workers(2, '--silence-seconds', '3'))
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()
        return self

    def begin_controller(self):
        """As start_controller, without waiting: it may die before it serves."""
        return self.start('coxswain-controller', '--listen', self.endpoint['grpc'], '--metrics', '127.0.0.1:0', '--state-dir',
                          os.path.join(self.dir, 'state'), '--endpoint-file', self.endpoint_file)

    def await_controller(self):
        def serves():
            self.revive()
            return os.path.exists(self.endpoint_file)
        wait_for('controller endpoint', serves, 60)

    def start_watched(self, name, begin):
        self.programs[name] = [begin, begin(), None]

    def revive(self):
        """Starts again what ended, and sends on what stands."""
        with self.lock:
            for name, entry in self.programs.items():
                begin, process, stands_since = entry
                if self.closing:
                    return
                if process.poll() is not None:
                    self.restarts[name] = self.restarts.get(name, 0) + 1
                    entry[1:] = [begin(), None]
                elif state_of(process.pid) != 'T':
                    entry[2] = None
                elif stands_since is None:
                    entry[2] = time.monotonic()
                elif time.monotonic() - stands_since > STANDS_FOR_S:
                    os.kill(process.pid, signal.SIGCONT)

    def watch(self):
        while not self.closing:
            self.revive()
            time.sleep(0.02)

    def close(self):
        with self.lock:
            self.closing = True
        for process in self.processes:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
        self.doCleanups()

    def stubborn(self, *args, seconds=60):
        """cox until it succeeds: the controller may be away."""
        deadline = time.monotonic() + seconds
        while True:
            result = self.cox(*args, check=None, timeout=seconds)
            if result.returncode == 0 or time.monotonic() > deadline:
                assert result.returncode == 0, f'cox {" ".join(args)}: {result.stdout}\n{result.stderr}'
                return result.stdout
            time.sleep(0.2)

    def submit_tiny(self, name='tiny'):
        path = os.path.join(self.dir, f'{name}.yaml')
        with open(path, 'w') as f:
            f.write(JOB % {'name': name, 'dir': self.dir, 'output': f'{self.dir}/out-{name}', 'steps': self.steps,
                           'save_steps': self.save_steps})
        return self.stubborn('submit', path, '--idempotency-key', name, '-o', 'name').strip()

    def run_tiny(self, name='tiny', seconds=240):
        """Runs the job to its end and gives what must be equal: bits of losses and norms by step, and the artifact."""
        job = self.submit_tiny(name)
        state = ''
        deadline = time.monotonic() + seconds
        while state != 'SUCCEEDED':
            state = json.loads(self.stubborn('get', job, '-o', 'json'))['state']
            assert state not in ('FAILED', 'CANCELLED') and time.monotonic() < deadline, (
                f'{job} is {state} after {seconds} s at most:\n' + self.stubborn('events', job)[-4000:])
            time.sleep(0.05)
        return self.result(job, name)

    def result(self, job, name='tiny'):
        events = json.loads(self.stubborn('events', job, '-o', 'json'))['events']
        data = [e['data'] for e in events if e['type'] == 'StepDone']
        steps = {d['step']: (float(d['loss']).hex(), float(d['grad_norm']).hex()) for d in data}
        digest = hashlib.sha256(open(f'{self.dir}/out-{name}/adapter/adapter_model.safetensors', 'rb').read()).hexdigest()
        return steps, digest

    def hits(self):
        """{point: what its process wrote} of the faults with once=@<point> that went off."""
        return {name[4:]: open(os.path.join(self.dir, name)).read() for name in os.listdir(self.dir) if name.startswith('hit-')}


def free_port():
    """One that a controller finds again after it died: no client is given it meanwhile, as those above are."""
    for _ in range(100):
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            if probe.connect_ex(('127.0.0.1', port)) != 0:
                return port
    raise AssertionError('no free port of 100')


def state_of(pid):
    """The letter of /proc: T stands."""
    try:
        return open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[0]
    except OSError:
        return ''
