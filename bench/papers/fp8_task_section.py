"""Adapters in FP8 beside bfloat16: exact answers on held-back sheets of word problems, by seed."""
import fp8_scores
import svg
from rivals import load
from sections import missing, origin, table


def setting(results):
    """What was trained and asked."""
    base, numbers = results['base'], ', '.join(f'{most:,}' for most in results['numbers'])
    return (f'Word problems, each a sum or a difference of numbers up to {numbers}, in equal parts, {results["questions"]} on a '
            f'sheet, in two wordings. The base has {results["blocks"]} blocks of width {results["hidden"]}, begins at random '
            f'weights, and after {base["steps"]:,} steps answers {100 * base["exact"] / base["answers"]:.1f} % of problems in the '
            f'first wording. Adapters of rank 16 train for {results["steps"]} steps on the second. Answers are greedy, in '
            f'{results["control"]}.')


def broken_said(rows):
    """How the broken scale answers where it was trained."""
    of = [row for row in rows if 'exact_as_trained' in row]
    if not of:
        return ''
    percent = 100 * sum(row['exact_as_trained'] for row in of) / sum(row['answers'] for row in of)
    return (f' {fp8_scores.BROKEN}: one scale of the base was wrong while the adapter trained, and right where it answered; where it '
            f'was wrong there too, {percent:.1f} %.')


def bar(variant, percent, least):
    missed = variant in fp8_scores.HELD and percent < least
    return svg.Bar(variant, percent, f'{percent:.1f} %', 'loss' if missed else 'other')


def answers():
    results = load('papers_fp8_task.json')
    if not results or not results['rows']:
        return missing('fp8_task'), {}
    rows, control = results['rows'], results['control']
    found = fp8_scores.shares(rows)
    seeds = sorted({seed for of in found.values() for seed in of})
    lines = table(['exact answers, %', *(f'seed {seed}' for seed in seeds), 'mean'], [
        [variant, *(f'{of[seed]:.1f}' if seed in of else '' for seed in seeds), f'{fp8_scores.mean(of):.1f}']
        for variant, of in found.items()])
    said = '; '.join(fp8_scores.findings(rows, control))
    asked = max((row['answers'] for row in rows if 'answers' in row), default=0)
    lines += [f'Of {asked} answers a run. {setting(results)} {fp8_scores.STORED}: blockwise over the base exported in FP8.'
              f"{broken_said(rows)} Goal, a mean in FP8 not below the least of {control}'s seeds, and the broken scale seen: "
              f'{"missed or open: " + said if said else "reached"}.', ''] + origin(results)
    if control not in found:
        return lines, {}
    least = min(found[control].values())
    bars = [bar(variant, fp8_scores.mean(of), least) for variant, of in found.items()]
    return lines, {'fp8_task': svg.bars('Exact answers, mean of the seeds, %', bars, least, f'least seed of {control}')}
