#!/usr/bin/env python3
"""Rows of gpu_step_bench as jobs over one GPU and over several of a host, through the controller.

  gang_jobs.py run FOLDER MODEL --gpus N [--rows ROW...] [--single STEPS_JSON] [--set KEY=VALUE]... [--deadline S]
      FOLDER gets gang.json and the logs. MODEL holds a tokenizer of the Qwen2.5 family. Speed of one GPU: measured
      as a job here, or taken from a report of gpu_step_bench. --set goes to cox submit: parallelism, for example.
  gang_jobs.py fault FOLDER MODEL --gpus N
      kills, then stops (SIGSTOP) a worker inside a training step: who is named, how fast, and that the job goes on
  gang_jobs.py table FOLDER

Programs (cox, coxswain-controller, ...) come from PATH. Exposed communication of a step: the time of its stream
inside collectives that nothing else of the step filled, largest rank; by events of the device.
"""
import argparse, json, os, shutil, signal, statistics, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from large_job import write_documents

SEQUENCE = 1024
NEVER = 100000
WARM_UP = 3  # steps: capture of graphs, first touch
HALF = dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
            num_key_value_heads=2, tie_word_embeddings=True)
SEVEN = dict(vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
             num_attention_heads=28, num_key_value_heads=4, tie_word_embeddings=False)
STATE = 'precision: {master_weights: bfloat16, gradients: bfloat16}'
LORA = 'adapter: lora\n  lora: {r: 16, alpha: 32}'
# name: model, bins of a micro-step, micro-steps of a step, steps, lines of the spec, row of gpu_step_bench, goal of
# N x one GPU in percent
ROWS = {
    '0.5b_full': (HALF, 32, 4, 12, '', '0.5b_full_1024', 97),
    '0.5b_full_x1': (HALF, 32, 1, 24, '', None, 98.5),
    '7b_full': (SEVEN, 4, 16, 6, STATE, '7b_full_1024', 96),
    '7b_full_x1': (SEVEN, 8, 1, 14, STATE, None, 95),
    '7b_lora': (SEVEN, 8, 1, 16, LORA, '7b_lora_1024', 97),
}
JOB = """apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {{name: {name}}}
spec:
  base_model: {{path: {model}, init: random}}
  method: pretrain
  {lines}
  datasets: [{{path: {data}, format: completion}}]
  sequence_len: 1024
  train: {{global_batch_size: {bins}, micro_batch_size: {micro}, max_steps: {steps}, learning_rate: 2.0e-5}}
  checkpoint: {{output_dir: {output}, save_steps: {save}, resume: never}}
  resources: {{device: cuda, workers: {gpus}}}
"""


class Cluster:
    """cox up in a state directory of its own; stopped at the end."""

    def __init__(self, folder, gpus):
        self.env = dict(os.environ, XDG_STATE_HOME=os.path.join(folder, f'state-{gpus}'),
                        XDG_CACHE_HOME=os.path.join(folder, 'cache'), NO_COLOR='1')
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
    for name, shape in (('0.5b', HALF), ('7b', SEVEN)):
        path = os.path.join(folder, 'models', name)
        if os.path.exists(path):
            continue
        shutil.copytree(model, path)
        with open(os.path.join(model, 'config.json'), encoding='utf-8') as file:
            config = json.load(file)
        config.update(shape)
        with open(os.path.join(path, 'config.json'), 'w', encoding='utf-8') as file:
            json.dump(config, file)


def documents(folder, count):
    path = os.path.join(folder, f'documents-{count}.jsonl')
    if not os.path.exists(path):
        write_documents(path, count)
    return path


def write_job(folder, row, gpus, steps=None, save=NEVER):
    shape, micro, micro_steps, row_steps, lines, _, _ = ROWS[row]
    steps = steps or row_steps
    bins = micro * micro_steps * gpus
    # A job that is measured is cancelled before its last step: its checkpoint would be 76 GB of a 7B model.
    text = JOB.format(name=row.replace('_', '-').replace('.', '-'), lines=lines, bins=bins, micro=micro,
                      steps=100 * steps if save == NEVER else steps,
                      gpus=gpus, save=save, output=os.path.join(folder, f'out-{row}-{gpus}'),
                      model=os.path.join(folder, 'models', '0.5b' if shape is HALF else '7b'),
                      data=documents(folder, bins * steps))
    path = os.path.join(folder, f'{row}-{gpus}.yaml')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return path


def measure(cluster, job, gpus):
    found = cluster.json('get', job)
    steps = [data for _, data in cluster.events(job, 'StepDone')][WARM_UP:]
    if found['state'] == 'FAILED' or not steps:
        raise RuntimeError(f'{job} is {found["state"]}: {found.get("error", {}).get("message", "")}')
    ranks = lambda step, phase: [rank['seconds'][phase] for rank in step['ranks']]
    gib = lambda memory, name: int(memory.get(name, 0)) / 2**30
    planned = found.get('planned_memory', {})
    return {'gpus': gpus, 'steps': len(steps),
            'tokens_per_second': sum(s['tokens'] for s in steps) / sum(s['seconds'] for s in steps),
            'ms_per_step': 1e3 * statistics.median(s['seconds'] for s in steps),
            'device_ms': 1e3 * statistics.median(max(ranks(s, 'step')) for s in steps),
            'exposed_ms': 1e3 * statistics.median(max(ranks(s, 'comm')) for s in steps),
            'slowest_over_mean': statistics.median(
                max(c) / (sum(c) / len(c)) for c in ([r['seconds']['forward'] + r['seconds']['backward'] for r in s['ranks']] for s in steps)),
            'loss': [s['loss'] for s in steps], 'grad_norm': [s['grad_norm'] for s in steps],
            'peak_gib': gib(found.get('measured_memory', {}), 'peak'), 'plan_gib': gib(planned, 'peak')}


def run_row(folder, row, gpus, settings, seconds):
    with Cluster(folder, gpus) as cluster:
        job = cluster.cox('submit', write_job(folder, row, gpus), '-o', 'name', *settings).strip()
        wanted, deadline = ROWS[row][3], time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = cluster.json('get', job)
            if found['state'] == 'FAILED' or int((found.get('progress') or {}).get('step', 0)) >= wanted:
                break
            time.sleep(0.5)
        cluster.cox('cancel', job, check=False)
        return measure(cluster, job, gpus)


def run(args):
    prepare(args.folder, args.model)
    single = {}
    if args.single and os.path.exists(args.single):
        with open(args.single, encoding='utf-8') as file:
            single = {r['row']: r.get('tokens_per_second') for r in json.load(file)['rows']}
    settings = [word for value in args.set for word in ('--set', value)]
    report, bad = [], 0
    for row in args.rows or ROWS:
        entry = {'row': row, 'gpus': args.gpus, 'settings': args.set, 'goal_percent': ROWS[row][6]}
        report.append(entry)
        try:
            left = args.deadline - time.monotonic() + START
            if left < 40:
                raise RuntimeError(f'not run, {left:.0f} s are left')
            entry['gang'] = run_row(args.folder, row, args.gpus, settings, left)
            if single.get(ROWS[row][5]):
                entry['single'] = {'tokens_per_second': single[ROWS[row][5]], 'source': 'gpu_step_bench'}
            elif args.deadline - time.monotonic() + START > 40:
                entry['single'] = run_row(args.folder, row, 1, [], args.deadline - time.monotonic() + START)
        except RuntimeError as error:
            entry['error'] = str(error)
            bad += 'gang' not in entry
        with open(os.path.join(args.folder, 'gang.json'), 'w', encoding='utf-8') as file:
            json.dump({'rows': report}, file, indent=1)
    table(args)
    return bad


def table(args):
    with open(os.path.join(args.folder, 'gang.json'), encoding='utf-8') as file:
        rows = json.load(file)['rows']
    print(f'{"row":16}{"GPUs":>5}{"tokens/s":>11}{"one GPU":>10}{"%":>8}{"goal":>6}{"ms/step":>10}{"exposed ms":>12}'
          f'{"slowest/mean":>14}{"peak GiB":>10}{"plan GiB":>10}')
    for entry in rows:
        gang, one = entry.get('gang'), entry.get('single', {}).get('tokens_per_second')
        if gang is None:
            print(f'{entry["row"]:16}{entry["error"].strip().splitlines()[-1]}')
            continue
        percent = f'{100 * gang["tokens_per_second"] / gang["gpus"] / one:.2f}' if one else ''
        print(f'{entry["row"]:16}{gang["gpus"]:5}{gang["tokens_per_second"]:11,.0f}{one or 0:10,.0f}{percent:>8}'
              f'{entry["goal_percent"]:6}{gang["ms_per_step"]:10.1f}{gang["exposed_ms"]:12.1f}'
              f'{gang["slowest_over_mean"]:14.3f}{gang["peak_gib"]:10.1f}{gang["plan_gib"]:10.1f}')
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
            if number == signal.SIGSTOP:  # what nobody ends: a new process takes its GPU
                os.kill(int(victim['pid']), signal.SIGKILL)
            event, data = cluster.events(job, 'AttemptFailed')[-1]
            named = int(data['rank']) == args.gpus - 1
            bad += not named or took > 10
            print(f'rank {args.gpus - 1} {name}: {took:.1f} s until: {event["message"]}')
        before, deadline = len(cluster.events(job, 'StepDone')), time.monotonic() + 60
        while len(cluster.events(job, 'StepDone')) < before + 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        found = cluster.json('get', job)
        print(f'{job}: {found["state"]}, step {(found.get("progress") or {}).get("step", 0)}, {found.get("restarts", 0)} restarts, '
              f'{len(cluster.events(job, "ReplayDivergence"))} replays with other bits')
        bad += len(cluster.events(job, 'StepDone')) < before + 2 or found['state'] == 'FAILED'
        cluster.cox('cancel', job, check=False)
    return bad


START = time.monotonic()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('command', choices=('run', 'fault', 'table'))
    parser.add_argument('folder', type=os.path.abspath)
    parser.add_argument('model', nargs='?', type=os.path.abspath)
    parser.add_argument('--gpus', type=int, default=2)
    parser.add_argument('--rows', nargs='*', choices=ROWS)
    parser.add_argument('--single')
    parser.add_argument('--set', action='append', default=[])
    parser.add_argument('--deadline', type=float, default=480)
    args = parser.parse_args()
    sys.exit({'run': run, 'fault': fault, 'table': table}[args.command](args))


if __name__ == '__main__':
    main()
