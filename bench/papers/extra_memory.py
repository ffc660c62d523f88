"""Memory above the inputs, ours beside Liger's: of kernels and of the LM head, from bench/results."""
import statistics

from rivals import kernel_rows, load

MIB = 2 ** 20


def kernels():
    """By op: {width: {variant: bytes}}."""
    found = {}
    for row, _, _ in kernel_rows():
        if row.get('extra_bytes') is not None:
            found.setdefault(row['op'], {}).setdefault(row['width'], {})[row['variant']] = row['extra_bytes']
    return found


def ratios(of):
    return [at['ours'] / max(1, at['liger']) for at in of.values() if 'ours' in at and 'liger' in at]


def cell(of):
    """Of the widest shape: ours, torch.compile's, Liger's in MiB."""
    width = max(of)
    names = [name for name in ('ours', 'compile', 'liger') if name in of[width]]
    return f'{width}: ' + ' / '.join(f'{of[width][name] / MIB:,.0f}' for name in names) if names else ''


def of_kernels():
    """A sentence: how much more than Liger each op takes."""
    said, more, count = [], 0, 0
    for op, of in kernels().items():
        found = ratios(of)
        count, more = count + len(found), more + sum(ratio > 1.01 for ratio in found)
        if not found:
            continue
        if min(at['liger'] for at in of.values()) < MIB:
            ours = [at['ours'] / MIB for at in of.values()]
            said.append(f'{op} {min(ours):,.0f} to {max(ours):,.0f} MiB against none')
        else:
            said.append(f'{op} {statistics.median(found):.1f} times')
    if not count:
        return ''
    return f' These ratios are of time alone: **extra memory is above Liger\'s in {more} of {count}** ({"; ".join(said)}).'


def of_head():
    rows = {}
    for row in (load('papers_lm_head.json') or {}).get('rows', []):
        if row.get('extra_bytes') is not None:
            rows.setdefault((row['rows'], row['width'], row['vocabulary']), {})[row['variant']] = row['extra_bytes'] / 2 ** 30
    said = [f'{of["ours"]:.2f} GiB against {of["liger"]:.2f} ({" x ".join(map(str, shape))})'
            for shape, of in rows.items() if 'ours' in of and 'liger' in of]
    return f' Extra memory beside Liger\'s: {"; ".join(said)}.' if said else ''
