"""Exact answers of adapters trained in FP8 beside those of their control: what bench/papers/fp8_task.py and the page say of
them. A row is {variant, seed, exact, answers}, or {variant, seed, error}; `rows` are those of one call.
"""
import statistics

HELD = ('tensorwise', 'blockwise', 'rowwise', 'delayed')  # variants that must not be below the control's seeds
STORED, BROKEN = 'stored', 'broken'  # the one that must be below, and the same with the right scale
USEFUL = (30, 95)  # percent of the control's mean between which a score tells variants apart


def shares(rows):
    """{variant: {seed: percent of exact answers}} of the runs that ended."""
    found = {}
    for row in rows:
        if 'error' not in row:
            found.setdefault(row['variant'], {})[row['seed']] = 100 * row['exact'] / row['answers']
    return found


def mean(of):
    return statistics.fmean(of.values())


def below(found, control):
    """Of each variant that is held whose mean is below the least of the control's seeds, a sentence."""
    least = min(found[control].values())
    return [f"{variant} is below {control}'s least seed: {mean(found[variant]):.1f} %, {least:.1f} %"
            for variant in HELD if variant in found and mean(found[variant]) < least]


def unseen(found, control):
    """A sentence where the broken scale is not told from the control's seeds, or from the right scale by more than the
    control's seeds are apart."""
    if BROKEN not in found or STORED not in found:
        return []
    least, greatest = min(found[control].values()), max(found[control].values())
    limit = min(least, mean(found[STORED]) - (greatest - least))
    broken = mean(found[BROKEN])
    return [] if broken < limit else [f'the broken scale is not seen: {broken:.1f} %, to be below {limit:.1f} %']


def findings(rows, control):
    """What speaks against the goal, a sentence each; none: it is reached."""
    found = shares(rows)
    said = [f'{row["variant"]}, seed {row["seed"]}, failed' for row in rows if 'error' in row]
    said += [f'{variant} is not measured' for variant in (control, *HELD, STORED, BROKEN) if variant not in found]
    if control not in found:
        return said
    centre = mean(found[control])
    if not USEFUL[0] <= centre <= USEFUL[1]:
        said.append(f'{control} answers {centre:.1f} %, outside {USEFUL[0]} to {USEFUL[1]} %: the task is too hard or too easy')
    return said + below(found, control) + unseen(found, control)
