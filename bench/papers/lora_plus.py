#!/usr/bin/env python3
"""LoRA+: after how many steps is it where plain LoRA ends? By the ratio of the rates of B and A, each at its best rate.

  bench/papers/lora_plus.py [--steps N] [--seeds 1 2 3] [--ratios 1 4 8 16 32] [--start RATE] [--shape FOLDER]
                            [--at-once N] [--budget SECONDS] [--json FILE]

The quickstart's LoRA job by train_bench, constant rate after the warm-up, held-back loss every steps / 12; with --shape
on a model of that shape which first_model.py makes. The rate of A is tuned for each ratio with the first seed: by
factors of 2 from --start / ratio, where B's is plain LoRA's, by the loss at the end, until the best one has a worse one
on either side. Then every seed at that rate. Losses are means of up to three evaluations, the last and those before it.
speedup = steps / the step, between evaluations by a straight line, at which the loss is that of plain LoRA (ratio 1) of
the same seed at its end; null where it never is. Means with 95 % intervals where all seeds have one. above_plain: loss
at the end less plain LoRA's of the same seed.
"""
import argparse, os, statistics, sys
from concurrent.futures import ThreadPoolExecutor

import first_model
import intervals
import runs

JOB = os.path.join('deploy', 'quickstart', 'job-lora.yaml')
EVALUATIONS = 12
FURTHEST = 4  # factors of 2 from the start, where tuning ends


def train(ratio, rate, seed, args):
    settings = {'lora.loraplus_lr_ratio': ratio, 'train.learning_rate': rate, 'train.seed': seed,
                'train.max_steps': args.steps, 'train.lr_scheduler': 'constant', 'train.global_batch_size': args.batch,
                'eval.eval_steps': max(args.steps // EVALUATIONS, 1), 'resources.workers': 1,
                'resources.device': runs.DEVICE, 'test_datasets.0.max_samples': args.held_back}
    if args.base:
        settings['base_model.path'] = args.base
    results = runs.results_of('train_bench', JOB, *(p for i in settings.items() for p in ('--set', '%s=%s' % i)))
    curve = [(e['step'], e['loss']) for e in results['evaluations']]
    return {'ratio': ratio, 'rate': rate, 'seed': seed, 'curve': curve}, results


def tuned(loss_at):
    """The exponent of 2 whose loss_at is least, of those tried from -1, 0 and 1 on until it is inside of them."""
    tried = {e: loss_at(e) for e in (-1, 0, 1)}
    while True:
        best = min(tried, key=tried.get)
        beyond = best - 1 if best == min(tried) else best + 1
        if min(tried) < best < max(tried) or abs(beyond) > FURTHEST:
            return best
        tried[beyond] = loss_at(beyond)


def smooth(curve):
    """Each loss with those of the two evaluations before it, where there are."""
    return [(step, statistics.fmean(loss for _, loss in curve[max(i - 2, 0):i + 1])) for i, (step, _) in enumerate(curve)]


def speedup(curve, target):
    """Steps of the curve over the step at which it comes down to `target`; None: never."""
    for (before, high), (step, low) in zip(curve, curve[1:]):
        if low <= target:
            return curve[-1][0] / (before + (step - before) * (high - target) / (high - low))
    return None


def summary(rows, ratios):
    """Of each ratio whose seeds are all there: rate, speedups, their mean and interval."""
    seeds = [{**row, 'curve': smooth(row['curve'])} for row in rows if row['kind'] == 'seed']
    ends = {row['seed']: row['curve'][-1][1] for row in seeds if row['ratio'] == 1}
    found = []
    for ratio in ratios:
        mine = [row for row in seeds if row['ratio'] == ratio and row['seed'] in ends]
        if len(mine) < 2:
            continue
        samples = [speedup(row['curve'], ends[row['seed']]) for row in mine]
        mean, low, high = (None,) * 3 if None in samples else intervals.interval(samples)
        losses = [row['curve'][-1][1] for row in mine]
        above = intervals.interval([loss - ends[row['seed']] for loss, row in zip(losses, mine)])
        found.append({'ratio': ratio, 'rate': mine[0]['rate'], 'speedups': samples, 'mean': mean, 'interval': [low, high],
                      'end_losses': losses, 'above_plain': above[0], 'above_plain_interval': above[1:]})
    return found


def tune(ratio, args, table):
    """The run of the first seed at the best rate."""
    tried = {}

    def loss_at(exponent):
        rate = args.start / ratio * 2.0 ** exponent
        tried[exponent], results = train(ratio, rate, args.seeds[0], args)
        table.add({'kind': 'rate', **tried[exponent]}, results)
        loss = smooth(tried[exponent]['curve'])[-1][1]
        print(f'ratio {ratio}, rate {rate:.2e}: {loss:.4f}', flush=True)
        return loss
    return tried[tuned(loss_at)]


def measure(ratio, args, table):
    if table.spent(f'ratio {ratio}'):
        return
    best = tune(ratio, args, table)
    table.add({'kind': 'seed', **best})
    for seed in args.seeds[1:]:
        row, results = train(ratio, best['rate'], seed, args)
        table.add({'kind': 'seed', **row}, results)
    with table.lock:
        table.fields['ratios'] = summary(table.rows, args.ratios)
        table.write()
    print(f'ratio {ratio}: {best["rate"]:.2e} is best', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--steps', type=int, default=120)
    parser.add_argument('--batch', type=int, default=2, help='bins of 512 tokens a step')
    parser.add_argument('--held-back', type=int, default=40, help='records of an evaluation')
    parser.add_argument('--seeds', type=int, nargs='+', default=[1, 2, 3])
    parser.add_argument('--ratios', type=int, nargs='+', default=[1, 4, 8, 16, 32])
    parser.add_argument('--start', type=float, default=1e-3, help='rate of plain LoRA that tuning begins at')
    parser.add_argument('--shape', help='folder of config.json and tokenizer of the base to be made')
    parser.add_argument('--pretraining', type=int, default=150, help='steps in which it is made')
    parser.add_argument('--at-once', type=int, default=1, help='ratios')
    runs.add_options(parser, 470)
    args = parser.parse_args()
    table = runs.Table(args.json, args.budget, job=JOB, steps=args.steps, seeds=args.seeds, batch=args.batch,
                       shape=args.shape and os.path.basename(args.shape))
    args.base = first_model.make(args.shape, args.pretraining) if args.shape else None
    with ThreadPoolExecutor(args.at_once) as pool:
        list(pool.map(lambda ratio: measure(ratio, args, table), args.ratios))  # raises what they raise


if __name__ == '__main__':
    sys.exit(main())
