#!/usr/bin/env python3
"""Does bfloat16 train as float32 does? Held-back loss after the same steps on the same text, by seed; a broken kernel.

  bench/papers/convergence.py [--steps 1000] [--seeds 1 2 3] [--budget SECONDS] [--json FILE]

The quickstart's model and text (GSM8K), trained in full by train_bench: float32 is the control, bfloat16 what jobs on
GPUs do by default, broken the same with a backward of RoPE that does nothing. The 95 % interval of the difference from
the control, over the seeds, must contain 0 for bfloat16 and must not for the broken kernel: exit code 1 else. A CPU
computes in float32 alone: there the broken kernel is float32's, and bfloat16 is not run.
"""
import argparse, os, sys

import intervals
import runs

JOB = os.path.join('deploy', 'quickstart', 'job-full.yaml')
BATCH = 2  # bins of 512 tokens


def variants():
    compute = 'bfloat16' if runs.DEVICE == 'cuda' else 'float32'
    found = [('float32', 'float32', [])]
    if runs.DEVICE == 'cuda':
        found.append(('bfloat16', 'bfloat16', []))
    return found + [('broken', compute, ['--break'])]


def measure(name, compute, options, seed, args):
    steps = args.steps
    settings = {'precision.compute': compute, 'train.seed': seed, 'train.max_steps': steps, 'resources.workers': 1,
                'resources.device': runs.DEVICE, 'train.global_batch_size': BATCH, 'eval.eval_steps': max(steps // 10, 1),
                'test_datasets.0.max_samples': args.held_back}
    results = runs.results_of('train_bench', JOB, *options,
                              *(part for item in settings.items() for part in ('--set', '%s=%s' % item)))
    last = results['losses'][-max(steps // 20, 1):]
    return {'variant': name, 'seed': seed, 'compute': results['compute'], 'steps': steps,
            'tokens': results['tokens'], 'seconds': results['seconds'],
            'held_back_loss': results['evaluations'][-1]['loss'], 'training_loss': sum(last) / len(last),
            'evaluations': results['evaluations']}, results


def differences(rows):
    """By variant: held-back losses less the control's of the same seed."""
    control = {row['seed']: row['held_back_loss'] for row in rows if row['variant'] == 'float32'}
    found = {}
    for row in rows:
        if row['variant'] != 'float32' and row['seed'] in control:
            found.setdefault(row['variant'], []).append(row['held_back_loss'] - control[row['seed']])
    return {name: values for name, values in found.items() if len(values) > 1}


def verdict(found):
    """Lines, and whether the table says what it must."""
    fine = set(found) == {name for name, _, _ in variants()} - {'float32'}
    for name, values in found.items():
        mean, low, high = intervals.interval(values)
        contains = low <= 0 <= high
        fine = fine and contains == (name == 'bfloat16')
        print(f'{name} - float32: {mean:+.4f} [{low:+.4f}, {high:+.4f}], {"contains" if contains else "without"} 0')
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--steps', type=int, default=1000)
    parser.add_argument('--seeds', type=int, nargs='+', default=[1, 2, 3])
    parser.add_argument('--held-back', type=int, default=200, help='records of an evaluation')
    runs.add_options(parser, 460)
    args = parser.parse_args()
    table = runs.Table(args.json, args.budget, steps=args.steps, seeds=args.seeds, job=JOB)
    for seed in args.seeds:
        for name, compute, options in variants():
            if table.spent(f'{name} seed {seed}'):
                continue
            row, results = measure(name, compute, options, seed, args)
            table.fields['differences'] = differences(table.rows + [row])
            table.add(row, results)
            print(f'{name} seed {seed}: held back {row["held_back_loss"]:.4f}, training {row["training_loss"]:.4f}, '
                  f'{row["seconds"]:.0f} s', flush=True)
    return 0 if verdict(table.fields.get('differences', {})) else 1


if __name__ == '__main__':
    sys.exit(main())
