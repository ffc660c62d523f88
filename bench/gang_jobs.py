#!/usr/bin/env python3
"""Rows of gpu_step_bench as jobs over one GPU and over several of a host, through the controller.

  gang_jobs.py run FOLDER MODEL --gpus N [--rows ROW...] [--single STEPS_JSON] [--overlap-off] [--set KEY=VALUE]...
                   [--deadline S] [--json FILE]
      FILE (FOLDER/gang.json) gets the rows, FOLDER the logs. MODEL holds a tokenizer of the Qwen2.5 family. Speed of one GPU, for rows
      that are compared with it: measured as a job on each, all at once, or taken from a report of gpu_step_bench.
      --set goes to cox submit: parallelism, for example. --overlap-off runs each row a second time with
      parallelism.overlap=false. Without --rows: those with a goal.
  gang_jobs.py fault FOLDER MODEL --gpus N
      kills, then stops (SIGSTOP) a worker inside a training step: who is named, how fast, and that the job goes on
  gang_jobs.py hosts FOLDER MODEL --gpus N
      hosts played on this machine (--host-id): N / 2 GPUs on each of two, one of which dies and comes back as part of
      the other; then the other way round. The job must not end by steps replayed with other bits. Two GPUs: 1 + 1
      ranks; four: 2 x 2 of a mesh
  gang_jobs.py table FOLDER [--json FILE]

Programs (cox, coxswain-controller, ...) come from PATH. What is missing is said at once, before a GPU is taken
(gang_needs.py). Exposed communication of a step: the time in which compute
waits for collectives, by events of the device, of the rank that waits least: it is the slowest, for which the others
wait (the longest wait is in gang.json). With overlap off that is all their time, and hidden = 1 - exposed with overlap /
exposed without. Predicted: what the plan held before step 1.
"""
import argparse, json, os, shutil, signal, statistics, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gang_needs
from large_job import write_documents

NEVER = 100000
WARM_UP = 3  # steps: capture of graphs, first touch
HALF = dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
            num_key_value_heads=2, tie_word_embeddings=True)
ONE_AND_HALF = dict(vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28,
                    num_attention_heads=12, num_key_value_heads=2, tie_word_embeddings=True)
SEVEN = dict(vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
             num_attention_heads=28, num_key_value_heads=4, tie_word_embeddings=False)
# Llama 3.1 8B, but for the vocabulary of 128,256: ids of Qwen's tokenizer reach 151,664.
LLAMA = dict(architectures=['LlamaForCausalLM'], model_type='llama', vocab_size=151936, hidden_size=4096,
             intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
             rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=False)
MODELS = {'0.5b': HALF, '1.5b': ONE_AND_HALF, '7b': SEVEN, 'llama8b': LLAMA}
PUBLISHED = {'30b_a3b': gang_needs.EXPERTS}  # the file of the shape
STATE = 'precision: {master_weights: bfloat16, gradients: bfloat16}'
LORA = 'adapter: lora\n  lora: {r: 16, alpha: 32}'


class Row(NamedTuple):
    model: str
    micro: int  # bins of a micro-step
    micro_steps: int  # of a step
    steps: int
    lines: str = ''  # of the spec
    single: str = None  # row of gpu_step_bench
    goal: float = None  # percent of N x one GPU
    sequence: int = 1024
    zero: int = None  # stage of the gang; None: what the planner picks
    optimizer: str = 'adamw'


ROWS = {
    '0.5b_full': Row('0.5b', 32, 4, 12, '', '0.5b_full_1024', 97),
    '0.5b_full_x1': Row('0.5b', 32, 1, 24, '', None, 98.5),
    '0.5b_full_zero3': Row('0.5b', 32, 4, 12, '', '0.5b_full_1024', zero=3),
    '0.5b_lora': Row('0.5b', 16, 1, 40, LORA),
    '1.5b_full': Row('1.5b', 16, 2, 40),
    '7b_full': Row('7b', 4, 16, 6, STATE, '7b_full_1024', 96),
    '7b_full_x1': Row('7b', 8, 1, 14, STATE, None, 95),
    '7b_full_zero2': Row('7b', 4, 16, 6, STATE, '7b_full_1024', zero=2),
    '7b_full_zero3': Row('7b', 4, 16, 6, STATE, '7b_full_1024', 94, zero=3),
    '7b_lora': Row('7b', 8, 1, 16, LORA, '7b_lora_1024', 97),
    'llama8b_full_512': Row('llama8b', 16, 4, 8, STATE, sequence=512),
    'llama8b_full_8192': Row('llama8b', 1, 8, 7, STATE, sequence=8192),
    '7b_full_512': Row('7b', 16, 4, 8, STATE, sequence=512),
    '30b_a3b_full': Row('30b_a3b', 4, 4, 8, STATE, sequence=4096, zero=3, optimizer='adamw_8bit'),
}
JOB = """apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {{name: {name}}}
spec:
  base_model: {{path: {model}, init: random}}
  method: pretrain
  {lines}
  datasets: [{{path: {data}, format: completion}}]
  sequence_len: {sequence}
  train: {{global_batch_size: {bins}, micro_batch_size: {micro}, max_steps: {steps}, learning_rate: 2.0e-5,
          optimizer: {optimizer}}}
  checkpoint: {{output_dir: {output}, save_steps: {save}, resume: never}}
  resources: {{device: cuda, workers: {gpus}}}
{mesh}"""


class Cluster:
    """cox up in a state directory of its own; stopped at the end. gpu: the one to use, for one worker."""

    def __init__(self, folder, gpus, gpu=None):
        which = 'all' if gpu is None else f'gpu{gpu}'
        self.env = dict(os.environ, XDG_STATE_HOME=os.path.join(folder, f'state-{gpus}-{which}'),
                        XDG_CACHE_HOME=os.path.join(folder, f'cache-{which}'), NO_COLOR='1')
        if gpu is not None:
            self.env['CUDA_VISIBLE_DEVICES'] = str(gpu)
        self.cox('up', '--gpus', str(gpus))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cox('down', check=False)

    def cox(self, *args, check=True):
        result = subprocess.run(['cox', *args], capture_output=True, text=True, env=self.env)
        if check and result.returncode != 0:
            raise RuntimeError(f'cox {" ".join(args)}: exit code {result.returncode}\n{result.stdout}{result.stderr}')
        return result.stdout

    def json(self, *args):
        return json.loads(self.cox(*args, '-o', 'json'))

    def events(self, job, kind):
        events = [e for e in self.json('events', job)['events'] if e['type'] == kind]
        return [(e, e['data'] if 'data' in e else json.loads(e['data_json'])) for e in events]


def prepare(folder, model):
    """Models and documents that all rows share."""
    os.makedirs(folder, exist_ok=True)
    shapes = dict(MODELS)
    for name, path in PUBLISHED.items():
        with open(path, encoding='utf-8') as file:
            shapes[name] = json.load(file)
    for name, shape in shapes.items():
        path = os.path.join(folder, 'models', name)
        if os.path.exists(path):
            continue
        shutil.copytree(model, path)
        with open(os.path.join(model, 'config.json'), encoding='utf-8') as file:
            config = json.load(file)
        config.update(shape)
        with open(os.path.join(path, 'config.json'), 'w', encoding='utf-8') as file:
            json.dump(config, file)


def documents(folder, count, tokens):
    path = os.path.join(folder, f'documents-{count}-{tokens}.jsonl')
    if not os.path.exists(path):
        write_documents(path, count, tokens)
    return path


def write_job(folder, name, gpus, steps=None, save=NEVER, overlap=True, gpu=None):
    row = ROWS[name]
    steps = steps or row.steps
    bins = row.micro * row.micro_steps * gpus
    label = f'{name}-{gpus}' + ('' if gpu is None else f'-gpu{gpu}') + ('' if overlap else '-overlap-off')
    # A job that is measured is cancelled before its last step: its checkpoint would be 76 GB of a 7B model.
    text = JOB.format(name=name.replace('_', '-').replace('.', '-'), lines=row.lines, bins=bins, micro=row.micro,
                      steps=100 * steps if save == NEVER else steps, sequence=row.sequence, optimizer=row.optimizer,
                      gpus=gpus, save=save, output=os.path.join(folder, f'out-{label}'),
                      mesh=f'  parallelism: {{zero: {row.zero}}}\n' if row.zero and gpus > 1 else '',
                      model=os.path.join(folder, 'models', row.model),
                      data=documents(folder, bins * steps, row.sequence))
    path = os.path.join(folder, f'{label}.yaml')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return path


def predicted(cluster, job):
    """Of a step, from the plan; of a gang only."""
    for _, data in cluster.events(job, 'GangFormed'):
        plan = data['predicted']
        return {'step_ms': 1e3 * plan['step_seconds'], 'comm_ms': 1e3 * plan['comm_seconds'],
                'exposed_ms': 1e3 * plan['exposed_seconds'], 'links_measured': plan['links_measured']}
    return None


def measure(cluster, job, gpus):
    found = cluster.json('get', job)
    steps = [data for _, data in cluster.events(job, 'StepDone')][WARM_UP:]
    if found['state'] == 'FAILED' or not steps:
        raise RuntimeError(f'{job} is {found["state"]}: {(found.get("error") or {}).get("message", "")}')
    ranks = lambda step, phase: [rank['seconds'][phase] for rank in step['ranks']]
    gib = lambda memory, name: int(memory.get(name, 0)) / 2**30
    planned = found.get('planned_memory', {})
    return {'gpus': gpus, 'steps': len(steps),
            'tokens_per_second': sum(s['tokens'] for s in steps) / sum(s['seconds'] for s in steps),
            'ms_per_step': 1e3 * statistics.median(s['seconds'] for s in steps),
            'ms_of_each_step': [round(1e3 * s['seconds'], 3) for s in steps],
            'device_ms': 1e3 * statistics.median(max(ranks(s, 'step')) for s in steps),
            'exposed_ms': 1e3 * statistics.median(min(ranks(s, 'comm')) for s in steps),
            'longest_wait_ms': 1e3 * statistics.median(max(ranks(s, 'comm')) for s in steps),
            'slowest_over_mean': statistics.median(
                max(c) / (sum(c) / len(c)) for c in ([r['seconds']['forward'] + r['seconds']['backward'] for r in s['ranks']] for s in steps)),
            'loss': [s['loss'] for s in steps], 'grad_norm': [s['grad_norm'] for s in steps],
            'peak_gib': gib(found.get('measured_memory', {}), 'peak'), 'plan_gib': gib(planned, 'peak'),
            'predicted': predicted(cluster, job) if gpus > 1 else None}


def run_row(folder, row, gpus, settings, deadline, overlap=True, gpu=None):
    left = deadline - time.monotonic() + START
    if left < 25:
        raise RuntimeError(f'not run, {left:.0f} s are left')
    if not overlap:
        settings = [*settings, '--set', 'parallelism.overlap=false']
    with Cluster(folder, gpus, gpu) as cluster:
        path = write_job(folder, row, gpus, overlap=overlap, gpu=gpu)
        job = cluster.cox('submit', path, '-o', 'name', *settings).strip()
        while time.monotonic() < START + deadline:
            found = cluster.json('get', job)
            if found['state'] == 'FAILED' or int((found.get('progress') or {}).get('step', 0)) >= ROWS[row].steps:
                break
            time.sleep(0.5)
        cluster.cox('cancel', job, check=False)
        return measure(cluster, job, gpus)


def run_alone(folder, name, gpus, deadline):
    """A job for each GPU, at the same time: GPUs differ, and are as warm as in the gang. Speed: their mean."""
    documents(folder, ROWS[name].micro * ROWS[name].micro_steps * ROWS[name].steps, ROWS[name].sequence)
    with ThreadPoolExecutor(gpus) as pool:
        runs = list(pool.map(lambda gpu: run_row(folder, name, 1, [], deadline, gpu=gpu), range(gpus)))
    speeds = [run['tokens_per_second'] for run in runs]
    times = [run['ms_of_each_step'] for run in runs]
    # What GPUs that wait for each other after every step lose by that alone: a step takes as long as the slowest.
    slowest = statistics.mean(map(max, zip(*times))) / statistics.mean(map(statistics.mean, zip(*times)))
    return {**runs[0], 'tokens_per_second': statistics.mean(speeds), 'each_gpu': speeds,
            'ms_of_each_step': times, 'slowest_over_mean': slowest}


def run_entry(args, name, known, alone):
    """A row over the GPUs, perhaps without overlap, and then on each of them by itself."""
    row = ROWS[name]
    entry = {'row': name, 'gpus': args.gpus, 'sequence': row.sequence, 'settings': args.set, 'goal_percent': row.goal}
    settings = [word for value in args.set for word in ('--set', value)]
    same = row._replace(zero=None, goal=None)  # on one GPU
    if known.get(row.single):
        alone[same] = {'tokens_per_second': known[row.single], 'source': 'gpu_step_bench'}
    runs = {'gang': lambda: run_row(args.folder, name, args.gpus, settings, args.deadline)}
    if args.overlap_off:
        runs['overlap_off'] = lambda: run_row(args.folder, name, args.gpus, settings, args.deadline, overlap=False)
    if row.goal or row.single:
        runs['single'] = lambda: alone.get(same) or run_alone(args.folder, name, args.gpus, args.deadline)
    for part, measured in runs.items():
        try:
            entry[part] = measured()
        except RuntimeError as error:
            entry.setdefault('error', f'{part}: {str(error).strip()}')
    if 'single' in entry:
        alone[same] = entry['single']
    return entry


def run(args):
    prepare(args.folder, args.model)
    known = {}
    if args.single and os.path.exists(args.single):
        with open(args.single, encoding='utf-8') as file:
            known = {r['row']: r.get('tokens_per_second') for r in json.load(file)['rows']}
    report, alone = [], {}
    for name in args.rows or [name for name, row in ROWS.items() if row.goal]:
        report.append(run_entry(args, name, known, alone))
        with open(args.json, 'w', encoding='utf-8') as file:
            json.dump({'rows': report}, file, indent=1)
    table(args)
    return sum('gang' not in entry for entry in report)


def p90(run):
    times = sorted(run.get('ms_of_each_step', []))
    return times[int(0.9 * (len(times) - 1) + 0.5)] if times else None


def cells(entry):
    """Title and text of each column; empty where nothing was measured."""
    gang, off, one = entry['gang'], entry.get('overlap_off'), entry.get('single', {}).get('tokens_per_second')
    plan, goal = gang.get('predicted'), entry.get('goal_percent')
    number = lambda value, digits=1: '' if value is None else f'{value:,.{digits}f}'
    comm = off['exposed_ms'] if off else None
    return {
        'sequence': entry.get('sequence', ''), 'GPUs': gang['gpus'], 'tokens/s': number(gang['tokens_per_second'], 0),
        'one GPU': number(one, 0), '%': number(100 * gang['tokens_per_second'] / gang['gpus'] / one, 2) if one else '',
        'goal': '' if goal is None else goal, 'ms/step': number(gang['ms_per_step']), 'p90': number(p90(gang)),
        'predicted': number(plan['step_ms']) if plan else '',
        'pred. %': f'{100 * (plan["step_ms"] / gang["ms_per_step"] - 1):+.1f}' if plan else '',
        'exposed': number(gang['exposed_ms'], 2), 'no overlap': number(off['ms_per_step']) if off else '',
        'comm': number(comm, 2), 'pred. comm': number(plan['comm_ms'], 2) if plan else '',
        'hidden %': number(100 * (1 - gang['exposed_ms'] / comm)) if comm else '',
        'slowest/mean': number(gang['slowest_over_mean'], 3), 'peak GiB': number(gang['peak_gib'], 2),
        'plan GiB': number(gang['plan_gib'], 2),
    }


def table(args):
    """Times in milliseconds. predicted: a step, and how far off; no overlap: a step; comm: its collectives."""
    with open(args.json, encoding='utf-8') as file:
        rows = json.load(file)['rows']
    width = lambda title: max(len(title) + 2, 9)
    line = lambda name, texts: f'{name:17}' + ''.join(f'{text:>{width(title)}}' for title, text in texts.items())
    titled = False
    for entry in rows:
        if 'gang' in entry:
            texts = cells(entry)
            if not titled:
                print(line('row', {title: title for title in texts}))
            titled = True
            print(line(entry['row'], texts))
        if 'error' in entry:
            print(f'{entry["row"]:17}{entry["error"].strip().splitlines()[-1]}')
    return 0


def fault(args):
    """One job; a worker is killed, and after the restart another is stopped: both must be named."""
    prepare(args.folder, args.model)
    bad = 0
    with Cluster(args.folder, args.gpus) as cluster:
        path = write_job(args.folder, '0.5b_full_x1', args.gpus, steps=200, save=10)
        job = cluster.cox('submit', path, '-o', 'name').strip()
        for name, number in (('killed', signal.SIGKILL), ('stopped', signal.SIGSTOP)):
            before = len(cluster.events(job, 'StepDone'))
            deadline = time.monotonic() + 60
            while len(cluster.events(job, 'StepDone')) < before + 8 and time.monotonic() < deadline:
                time.sleep(0.1)
            failures = len(cluster.events(job, 'AttemptFailed'))
            workers = [w for w in cluster.json('workers')['workers'] if w.get('job') and w['state'] != 'LOST']
            victim = next((w for w in workers if w.get('rank', 0) == args.gpus - 1), None)
            if victim is None:  # the job did not go on
                print(cluster.cox('describe', job, check=False), cluster.cox('workers', check=False),
                      cluster.cox('events', job, check=False)[-4000:], sep='\n')
                return bad + 1
            start = time.monotonic()
            os.kill(int(victim['pid']), number)
            while len(cluster.events(job, 'AttemptFailed')) == failures and time.monotonic() < start + 30:
                time.sleep(0.05)
            took = time.monotonic() - start
            event, data = cluster.events(job, 'AttemptFailed')[-1]
            named = int(data['rank']) == args.gpus - 1
            bad += not named or took > 10
            print(f'rank {args.gpus - 1} {name}: {took:.1f} s until: {event["message"]}')
        before, deadline = len(cluster.events(job, 'StepDone')), time.monotonic() + 90  # its supervisor ends what stopped
        while len(cluster.events(job, 'StepDone')) < before + 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        found = cluster.json('get', job)
        print(f'{job}: {found["state"]}, step {(found.get("progress") or {}).get("step", 0)}, {found.get("restarts", 0)} restarts, '
              f'{len(cluster.events(job, "ReplayDivergence"))} replays with other bits')
        bad += len(cluster.events(job, 'StepDone')) < before + 2 or found['state'] == 'FAILED'
        cluster.cox('cancel', job, check=False)
    return bad


class PlayedHosts:
    """A controller, and a supervisor for each half of the GPUs, which says on which host it is."""

    def __init__(self, folder, gpus):
        self.folder, self.half, self.supervisors, self.logs = folder, gpus // 2, {}, []
        endpoint = os.path.join(folder, 'controller.json')
        self.controller = self.start('coxswain-controller', '--listen', '127.0.0.1:0', '--metrics', '127.0.0.1:0',
                                     '--state-dir', os.path.join(folder, 'state-hosts'), '--endpoint-file', endpoint)
        wait_for('the controller', lambda: os.path.exists(endpoint), 30)
        with open(endpoint, encoding='utf-8') as file:
            self.server = json.load(file)['grpc']
        self.env = dict(os.environ, COXSWAIN_SERVER=self.server, NO_COLOR='1')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.supervisors.values(), self.controller]:
            process.terminate()
        for process in [*self.supervisors.values(), self.controller]:
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, *command, env=None):
        path = os.path.join(self.folder, f'{command[0]}-{len(self.logs)}.log')
        self.logs.append(path)
        with open(path, 'w', encoding='utf-8') as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=env)

    def place(self, part, host):
        """Part 0 or 1 of the GPUs begins to work as of `host`; what worked there before is killed."""
        if part in self.supervisors:
            self.supervisors[part].kill()  # its workers go with it
            self.supervisors[part].wait()
        shown = os.environ.get('CUDA_VISIBLE_DEVICES')
        names = shown.split(',') if shown else [str(gpu) for gpu in range(2 * self.half)]
        mine = names[part * self.half:(part + 1) * self.half]
        env = dict(os.environ, CUDA_VISIBLE_DEVICES=','.join(mine),
                   XDG_CACHE_HOME=os.path.join(self.folder, f'cache-part{part}'))
        self.supervisors[part] = self.start(
            'coxswain-supervisor', '--controller', self.server, '--gpus', str(self.half), '--first-slot',
            str(part * self.half), '--host-id', host, '--listen', '127.0.0.1:0', '--metrics', '',
            '--state-dir', os.path.join(self.folder, f'part-{part}'), env=env)

    cox, json, events = Cluster.cox, Cluster.json, Cluster.events


def wait_for(what, condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f'{what}: not within {seconds} s')
        time.sleep(0.2)


def move(cluster, job):
    """From two hosts to one and back, each time between checkpoints: steps are left to be done again."""
    steps = lambda: [data for _, data in cluster.events(job, 'StepDone')]

    def running(gangs, beyond):
        step = steps()[-1]['step'] if steps() else -1
        ended = cluster.json('get', job)['state'] in ('FAILED', 'SUCCEEDED')
        return ended or len(cluster.events(job, 'GangFormed')) > gangs and step >= beyond and 2 <= step % 10 <= 7

    wait_for('25 steps over two hosts', lambda: running(0, 25), 180)
    for gangs, host in ((1, 'one'), (2, 'two')):
        last = steps()[-1]['step']
        cluster.place(1, host)  # rank N / 2 and those after it
        wait_for(f'a gang with the second half on host {host}, beyond step {last}', lambda: running(gangs, last + 5), 180)


def hosts(args):
    """A gang over two hosts goes on over one, and over two again: its sums have other bits each time."""
    if args.gpus not in (2, 4):
        raise RuntimeError(f'--gpus {args.gpus}: 2 or 4')
    prepare(args.folder, args.model)
    mesh = {'replicate': args.gpus // 2, 'shard': 2, 'zero': 2}  # the same plan over one host and over two
    settings = [word for key, value in mesh.items() for word in ('--set', f'parallelism.{key}={value}')]
    with PlayedHosts(args.folder, args.gpus) as cluster:
        cluster.place(0, 'one')
        cluster.place(1, 'two')
        path = write_job(args.folder, '0.5b_full_x1', args.gpus, steps=150, save=10)
        job = cluster.cox('submit', path, '-o', 'name', *settings).strip()
        try:
            move(cluster, job)
        except RuntimeError as error:
            print(error, cluster.cox('events', job, check=False)[-4000:], sep='\n')
        gangs = [data for _, data in cluster.events(job, 'GangFormed')]
        for data in gangs:
            print(f'gang {data["epoch"]} from step {data["start_step"]}: {", ".join(data["workers"])}: {data["fingerprint"]}')
        diverged = cluster.events(job, 'ReplayDivergence')
        warned = [e for e, _ in cluster.events(job, 'Warning') if 'not compared bit by bit' in e['message']]
        for event in warned + [event for event, _ in diverged]:
            print(f'{event["type"]}: {event["message"]}')
        found, prints = cluster.json('get', job), [data['fingerprint'] for data in gangs]
        good = (found['state'] not in ('FAILED', 'SUCCEEDED') and not diverged and len(prints) == 3 and
                len(warned) == 2 and prints[0] == prints[2] != prints[1])
        print(f'{job}: {found["state"]}, step {(found.get("progress") or {}).get("step", 0)}: {"good" if good else "BAD"}')
        cluster.cox('cancel', job, check=False)
    return int(not good)


START = time.monotonic()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('command', choices=('run', 'fault', 'hosts', 'table'))
    parser.add_argument('folder', type=os.path.abspath)
    parser.add_argument('model', nargs='?', type=os.path.abspath)
    parser.add_argument('--gpus', type=int, default=2)
    parser.add_argument('--rows', nargs='*', choices=ROWS)
    parser.add_argument('--single')
    parser.add_argument('--overlap-off', action='store_true')
    parser.add_argument('--set', action='append', default=[])
    parser.add_argument('--deadline', type=float, default=480)
    parser.add_argument('--json', type=os.path.abspath)
    args = parser.parse_args()
    args.json = args.json or os.path.join(args.folder, 'gang.json')
    if args.command != 'table':
        gang_needs.check('gang_jobs.py', args.model, args.gpus, {args.folder, os.path.dirname(args.json)})
    sys.exit({'run': run, 'fault': fault, 'hosts': hosts, 'table': table}[args.command](args))


if __name__ == '__main__':
    main()
