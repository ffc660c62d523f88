"""Efficiency over GPUs: what was measured on gangs, and what the planner foresees beyond them."""
from rivals import load
from sections import missing, origin, table

CLAIMED = {8: 95, 32: 87, 64: 78}  # Source: Chronicals, arXiv 2601.02609
MEASURED = ('h200_gangs.json', 'h200x2_gang.json', 'h200x4_experts.json')


def percent(part):
    return f'{100 * part:.1f}'


def measured():
    """By row: {GPUs: the least efficiency of the runs that have one GPU beside them}."""
    found = {}
    for file in MEASURED:
        for row in (load(file) or {}).get('rows', []):
            gang, single = row.get('gang') or {}, row.get('single') or {}
            if not single.get('tokens_per_second') or row.get('settings'):
                continue
            share = gang['tokens_per_second'] / (gang['gpus'] * single['tokens_per_second'])
            of = found.setdefault(row['row'], {})
            of[gang['gpus']] = min(share, of.get(gang['gpus'], share))
    return found


def predicted(results):
    """Rows of the table: by row and links the efficiency at 8, 32 and 64 GPUs."""
    rows = []
    for of in results['rows']:
        at = {step['gpus']: step.get('efficiency') for step in of['steps']}
        rows.append([of['row'], of['links'], *(percent(at[gpus]) if at.get(gpus) else 'refused' for gpus in CLAIMED)])
    return rows


def scaling():
    results = load('papers_scaling.json')
    if not results:
        return missing('scaling'), {}
    lines = table(['row, measured on H200s of one host', '% of two times one GPU', '% of four times one GPU'],
                  [[row, *(percent(of[n]) if n in of else 'not measured' for n in (2, 4))]
                   for row, of in measured().items() if 2 in of])
    lines += [f'The least of the runs in {", ".join(f"`{file}`" for file in MEASURED)}; the first has one, two and four GPUs of one '
              'commit. Beyond the GPUs of one host nothing was measured. The planner foresees, by a simulation of the step '
              'with its collectives, for as many bins a GPU as on one, in percent of so many times one GPU:', '']
    lines += table(['row, predicted for H200', 'links', *(f'{gpus} GPUs' for gpus in CLAIMED)],
                   predicted(results) + [['Chronicals claims', '', *(str(value) for value in CLAIMED.values())]])
    lines += ['NVLink: every collective at the rate that two H200 reach. Network: every collective of more than one host of 8 '
              'at 400 Gbit/s a GPU, also the part of it that stays in a host. Above 100: each GPU updates a smaller share of the '
              'optimizer. Stragglers, a shared network and switches are not in it.', '']
    return lines + origin(results), {}
