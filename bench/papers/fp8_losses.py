"""Held-back losses of FP8 beside those of its control with the same seed: what bench/papers/fp8.py and the page say of them.

A row is {variant, seed, held_back_loss}, or {variant, seed, error}; `rows` are those of one call.
"""
import statistics

ATTENTION = '+attention'  # ends a variant whose attention is in FP8 too
# What a seed's difference may be, and of which variants.
LIMIT_PERCENT, HELD = 0.3, ('tensorwise', 'blockwise', 'tensorwise' + ATTENTION, 'blockwise' + ATTENTION)


def losses(rows):
    """{variant: {seed: held-back loss}} of the runs that ended."""
    found = {}
    for row in rows:
        if 'error' not in row:
            found.setdefault(row['variant'], {})[row['seed']] = row['held_back_loss']
    return found


def differences(rows, control):
    """{variant: {seed: percent above the control's loss with that seed}}"""
    of = losses(rows)
    base = of.get(control, {})
    return {variant: {seed: 100 * (loss / base[seed] - 1) for seed, loss in mine.items() if seed in base}
            for variant, mine in of.items() if variant != control}


def above_limit(found):
    """Variants of which a seed's difference is more than they may have."""
    return [variant for variant in HELD if any(abs(d) > LIMIT_PERCENT for d in found.get(variant, {}).values())]


def spread(rows, control):
    """Percent of their mean from the least to the greatest loss of the control's seeds; None: of fewer than two."""
    values = list(losses(rows).get(control, {}).values())
    return 100 * (max(values) - min(values)) / statistics.fmean(values) if len(values) > 1 else None


def cell(of, found, seed):
    """The loss of a seed, and what it is above the control's."""
    if seed not in of:
        return ''
    return f'{of[seed]:.4f}' + (f' ({found[seed]:+.3f} %)' if seed in found else '')
