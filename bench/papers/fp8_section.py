"""FP8 beside bfloat16: held-back losses of the same steps by seed."""
import statistics

import fp8_losses
import svg
from rivals import load
from sections import missing, origin, table

SEEDS = 3  # of the goal


def notes(results, found):
    """What the table is held against: other seeds, other sums, and the limit."""
    control = results['control']
    between = fp8_losses.spread(results['rows'], control)
    said = [f"{control}'s seeds lie {between:.3f} % apart."] if between is not None else []
    if 1 in found.get('cut', {}):
        said.append(f'Its own sums in another order make {found["cut"][1]:+.3f} % (cut: micro-steps of a quarter of the bins).')
    above = fp8_losses.above_limit(found)
    short = [v for v in fp8_losses.HELD if len(found.get(v, {})) < SEEDS]
    held = 'reached'
    if above or short:
        held = f'missed by {", ".join(above)}' if above else f'open, seeds of {", ".join(short)} are missing'
    return said + [f'Goal for {" and ".join(fp8_losses.HELD)}, every seed at most {fp8_losses.LIMIT_PERCENT} % away: {held}.']


def bar(variant, seed, percent):
    missed = fp8_losses.above_limit({variant: {seed: percent}})
    return svg.Bar(f'{variant}, seed {seed}', percent, f'{percent:+.3f} %', 'loss' if missed else 'other')


def mean_of(percents):
    return f'{statistics.fmean(percents.values()):+.3f} %' if percents else ''


def convergence():
    results = load('papers_fp8.json')
    if not results or not results['rows']:
        return missing('fp8'), {}
    rows, control = results['rows'], results['control']
    losses, found = fp8_losses.losses(rows), fp8_losses.differences(rows, control)
    seeds = sorted({seed for of in losses.values() for seed in of})
    lines = table(['held-back loss', *(f'seed {seed}' for seed in seeds), 'mean difference'], [
        [variant, *(fp8_losses.cell(of, found.get(variant, {}), seed) for seed in seeds), mean_of(found.get(variant))]
        for variant, of in losses.items()])
    failed = [f'{row["variant"]}, seed {row["seed"]}' for row in rows if 'error' in row]
    if failed:
        lines += [f'Failed: {"; ".join(failed)}.', '']
    lines += [f'After {results["steps"]:,} steps of {results["bins"]} x {results["sequence"]:,} tokens of '
              f'`{results["text"]["file"]}`, a model of the shape {results["shape"]} from random weights; differences are from '
              f'{control} with the same seed. {" ".join(notes(results, found))}', ''] + origin(results)
    bars = [bar(variant, seed, d) for variant, of in found.items() for seed, d in sorted(of.items())]
    title = f'Held-back loss above that of {control}, %'
    return lines, {'fp8': svg.bars(title, bars, 0.0, control)} if bars else {}
