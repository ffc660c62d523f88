#!/usr/bin/env python3
"""The quickstart's job with `adapter: lora` and with `adapter: qlora` (NF4, doubly quantised), 200 steps, by seed.

  bench/qlora_convergence.py [--bin build/cpu/bin] [--steps 200] [--seeds 1 2 3]

On two CPU workers in float32, where LoRA's base is what NF4 is rounded from. Goal: held-back loss after the last step
within 1 % of LoRA's, each seed. Writes bench/results/cpu_qlora_convergence.json after each.
"""
import argparse, json, os, platform, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOB = os.path.join(ROOT, 'deploy/quickstart/job.yaml')
RESULTS = os.path.join(ROOT, 'bench/results/cpu_qlora_convergence.json')
LAST = 20  # steps of the mean
GOAL_PERCENT = 1.0
QLORA = ('adapter=qlora', 'quantization.format=nf4', 'quantization.double=true')


class Cluster:
    """cox up in a state directory of its own; stopped at the end."""

    def __init__(self, folder, bin):
        self.folder, self.program = folder, os.path.join(bin, 'cox')
        self.env = dict(os.environ, XDG_STATE_HOME=folder, XDG_CACHE_HOME=folder, NO_COLOR='1')

    def __enter__(self):
        self.cox('up', '--workers', '2')
        return self

    def __exit__(self, *_):
        self.cox('down')

    def cox(self, *args):
        result = subprocess.run([self.program, *args], capture_output=True, text=True, env=self.env)
        if result.returncode != 0:
            raise RuntimeError(f'cox {" ".join(args)}: exit code {result.returncode}\n{result.stdout}{result.stderr}')
        return result.stdout

    def train(self, settings):
        """The job's end, and the loss of each of its steps."""
        sets = [part for setting in settings for part in ('--set', setting)]
        job = self.cox('submit', JOB, '-o', 'name', *sets).strip()
        self.cox('watch', job)
        events = json.loads(self.cox('events', job, '-o', 'json'))['events']
        done = [e.get('data') or json.loads(e['data_json']) for e in events if e['type'] == 'StepDone']
        losses = {step['step']: step['loss'] for step in done}  # steps behind a checkpoint can be done again
        return json.loads(self.cox('get', job, '-o', 'json')), [losses[step] for step in sorted(losses)]


def measure(cluster, adapter, seed, steps):
    out = os.path.join(cluster.folder, f'{adapter}-{seed}')
    settings = [f'train.max_steps={steps}', f'train.seed={seed}', f'eval.eval_steps={steps}',
                f'checkpoint.output_dir={out}', f'metadata.name={adapter}-{seed}']
    job, losses = cluster.train(settings + list(QLORA if adapter == 'qlora' else ()))
    if job['state'] != 'SUCCEEDED' or len(losses) != steps:
        raise RuntimeError(f'{job["id"]} is {job["state"]} after {len(losses)} of {steps} steps')
    progress = job['progress']
    commit = subprocess.run(['git', 'rev-parse', '--short=12', 'HEAD'], cwd=ROOT, capture_output=True, text=True)
    return {'adapter': adapter, 'seed': seed, 'commit': commit.stdout.strip(), 'eval_loss_before': progress['first_eval_loss'],
            'eval_loss': progress['eval_loss'], f'mean_loss_of_last_{LAST}': statistics.fmean(losses[-LAST:])}


def write(steps, seeds, rows, apart):
    """What is measured so far; True where all seeds are and meet the goal."""
    met = len(apart) == len(seeds) and max(map(abs, apart)) <= GOAL_PERCENT
    with open(RESULTS, 'w') as file:
        json.dump({'machine': f'{platform.machine()} x {os.cpu_count()}',
                   'job': 'deploy/quickstart/job.yaml', 'steps': steps, 'seeds': seeds, 'quantization': 'nf4, double',
                   'goal_percent': GOAL_PERCENT, 'percent_apart': apart, 'met': met, 'rows': rows}, file, indent=1)
        file.write('\n')
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--bin', default=os.path.join(ROOT, 'build/cpu/bin'))
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--seeds', type=int, nargs='+', default=[1, 2, 3])
    args = parser.parse_args()
    rows, apart, met = [], [], False
    with tempfile.TemporaryDirectory(prefix='coxswain-convergence-') as folder, Cluster(folder, args.bin) as cluster:
        for seed in args.seeds:
            pair = [measure(cluster, adapter, seed, args.steps) for adapter in ('lora', 'qlora')]
            apart.append(100 * (pair[1]['eval_loss'] / pair[0]['eval_loss'] - 1))
            rows += pair
            print(*pair, f'qlora is {apart[-1]:+.3f} % from lora', sep='\n', flush=True)
            met = write(args.steps, args.seeds, rows, apart)
    print(f'goal of {GOAL_PERCENT} %: {"met" if met else "MISSED"}')
    return 0 if met else 1


if __name__ == '__main__':
    sys.exit(main())
