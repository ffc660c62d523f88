#!/usr/bin/env python3
"""Does FP8 train as bfloat16 does? Held-back loss after the same steps on the same text, by seed and recipe.

  bench/papers/fp8.py --shape FOLDER [--text FILE] [--steps 1000] [--earlier FILE] [--runs VARIANT:SEED...] [--budget SECONDS]
                      [--json FILE]

A model of the shape, a folder of config.json and a tokenizer, from random weights of the seed, pretrained by
train_bench on a text whose documents are cut to bins (documents.py): the dictionary GCIDE from .carry, of which 1,000
steps of 8 x 1,024 tokens are 0.87 of a pass. Rate 5e-4, cosine after 10 % of warm-up; AdamW with betas of 0.9 and 0.95,
decay of 0.1. The seed is that of the weights and of the order. `cut`: bfloat16 in micro-steps of a quarter of the bins,
so what another order of sums makes; `+attention`: the forward of attention in FP8 too. The runs that the goal needs
come first; --earlier: the file of a call that ran out of time, whose runs are kept; --runs: these alone, for calls on
several GPUs at once. A run does not begin where one as long as the longest would not end in the budget. Differences are
percents of the loss of bfloat16 with the same seed, and that of a tensorwise or blockwise run, with attention or
without, may be 0.3 at most: exit code 1 else, or where a run failed. A CPU computes in float32, which is its control.
"""
import argparse, json, os, statistics, sys, time

import documents
import runs
from fp8_losses import ATTENTION, HELD, LIMIT_PERCENT, above_limit, cell, differences, losses, spread

CONTROL = 'bfloat16' if runs.DEVICE == 'cuda' else 'float32'
RUNS = [(variant, seed) for seed in (1, 2, 3) for variant in (CONTROL, *HELD)] + [('cut', 1), ('rowwise', 1), ('delayed', 1)]
JOB = """apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {{name: fp8}}
spec:
  base_model: {{path: {shape}, init: random}}
  method: pretrain
  datasets: [{{path: ./train.jsonl, format: completion}}]
  test_datasets: [{{path: ./held_back.jsonl, format: completion}}]
  sequence_len: {sequence}
  excess_length: split
  train:
    global_batch_size: {bins}
    max_steps: {steps}
    learning_rate: 5.0e-4
    lr_scheduler: cosine
    warmup_ratio: 0.1
    betas: [0.9, 0.95]
    weight_decay: 0.1
  eval: {{eval_steps: {every}}}
  precision: {{master_weights: float32, gradients: float32}}
  checkpoint: {{output_dir: ./out, save_steps: 100000, resume: never}}
  resources: {{device: {device}, workers: 1}}
"""


def run_of(text):
    variant, _, seed = text.partition(':')
    run = (variant, int(seed))
    if run not in RUNS:
        raise argparse.ArgumentTypeError(f'{text} is none of {", ".join("%s:%d" % run for run in RUNS)}')
    return run


def write_job(args):
    """Its path, with the texts beside it; and what the text is."""
    text = documents.write(args.text, runs.SCRATCH, args.letters)
    path = os.path.join(runs.SCRATCH, 'job.yaml')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(JOB.format(shape=os.path.abspath(args.shape), sequence=args.sequence, bins=args.bins, steps=args.steps,
                              every=max(args.steps // 4, 1), device=runs.DEVICE))
    return path, text


def settings(variant, seed, bins):
    """Of the job, by key."""
    precision = {'precision.compute': CONTROL} if variant in (CONTROL, 'cut') else \
        {'precision.compute': 'fp8', 'precision.fp8.recipe': variant.removesuffix(ATTENTION)}
    if variant.endswith(ATTENTION):
        precision['precision.fp8.attention'] = 'fp8'
    return {'train.seed': seed, 'base_model.seed': seed, **precision,
            'train.micro_batch_size': max(bins // 4, 1) if variant == 'cut' else bins}


def measure(job, variant, seed, args):
    began = time.monotonic()
    pairs = settings(variant, seed, args.bins).items()
    results = runs.results_of('train_bench', job, '--gemm-table', os.path.join(runs.SCRATCH, 'products.json'),
                              *(part for item in pairs for part in ('--set', '%s=%s' % item)))
    last = results['losses'][-max(args.steps // 20, 1):]
    return {'variant': variant, 'seed': seed, 'commit': results['commit'], 'tokens': results['tokens'],
            'seconds': results['seconds'], 'wall_seconds': time.monotonic() - began,
            'held_back_loss': results['evaluations'][-1]['loss'], 'training_loss': statistics.fmean(last),
            'evaluations': results['evaluations']}, results


def earlier(path, setting):
    """Rows of an earlier call that ended. SystemExit: it measured something else."""
    if path is None:
        return []
    with open(path, encoding='utf-8') as file:
        table = json.load(file)
    other = [key for key, value in setting.items() if table.get(key) != value]
    if other:
        was, now = table.get(other[0]), setting[other[0]]
        raise SystemExit(f'{path}: {other[0]} is {was}, of this call {now}; leave --earlier out')
    return [row for row in table['rows'] if 'error' not in row]


def verdict(rows):
    """Prints the table; whether nothing in it is wrong."""
    found = differences(rows, CONTROL)
    for variant, of in losses(rows).items():
        print(f'{variant}: ' + ', '.join(f'seed {seed} {cell(of, found.get(variant, {}), seed)}' for seed in sorted(of)))
    between = spread(rows, CONTROL)
    if between is not None:
        print(f"{CONTROL}'s seeds: {between:.3f} % from the least to the greatest")
    above = above_limit(found)
    measured = sum(len(found.get(variant, {})) for variant in HELD)
    print(f'{" and ".join(HELD)}: {measured} differences, above {LIMIT_PERCENT} %: {", ".join(above) or "none"}')
    return not above and not any('error' in row for row in rows)


def run_all(job, table, args):
    """Adds a row of each run that the table does not have."""
    done = {(row['variant'], row['seed']) for row in table.rows}
    for variant, seed in (run for run in args.runs or RUNS if run not in done):
        longest = max((row.get('wall_seconds', 0) for row in table.rows), default=0)
        if table.spent(f'{variant} seed {seed}', longest):
            continue
        try:
            row, results = measure(job, variant, seed, args)
            table.add(row, results)
            print(f'{variant} seed {seed}: held back {row["held_back_loss"]:.4f}, {row["tokens"]:,} tokens in '
                  f'{row["seconds"]:.0f} of {row["wall_seconds"]:.0f} s', flush=True)
        except runs.Failed as error:
            table.add({'variant': variant, 'seed': seed, 'error': str(error)})
            print(f'{variant} seed {seed}: {error}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--shape', required=True, help='folder of config.json and tokenizer')
    parser.add_argument('--text', default=documents.DICTIONARY, help='text, gzipped or not, or JSON Lines')
    parser.add_argument('--letters', type=int, default=documents.LETTERS, help='of a document')
    parser.add_argument('--steps', type=int, default=1000)
    parser.add_argument('--bins', type=int, default=8, help='of a step')
    parser.add_argument('--sequence', type=int, default=1024, help='tokens of a bin')
    parser.add_argument('--runs', nargs='+', type=run_of, metavar='VARIANT:SEED', help='these alone')
    parser.add_argument('--earlier', help='file of an earlier call, whose runs are kept')
    runs.add_options(parser, 500)
    args = parser.parse_args()
    for file in (args.text, os.path.join(args.shape, 'config.json')):
        if not os.path.exists(file):
            parser.error(f'{file} is not there')
    job, text = write_job(args)
    setting = {'steps': args.steps, 'bins': args.bins, 'sequence': args.sequence, 'control': CONTROL, 'text': text,
               'shape': os.path.basename(os.path.abspath(args.shape))}
    table = runs.Table(args.json, args.budget, **setting)
    table.rows = earlier(args.earlier, setting)
    run_all(job, table, args)
    return 0 if verdict(table.rows) else 1


if __name__ == '__main__':
    sys.exit(main())
