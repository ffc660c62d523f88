#!/usr/bin/env python3
"""Causal attention at bfloat16 by ours, cuDNN and FlashAttention, forward and backward, by heads and documents.

  bench/papers/attention.py [--documents NAME]... [--seconds S] [--budget SECONDS] [--json FILE]

NAME: "32 x 1024" and so on, "mix 131", "wide", by default all. Ours repeats its bits. cuDNN: both of its backwards, which
has plans for documents of one length only. FlashAttention: the package where it is importable, else torch's own, as it
comes and deterministic. The first three rows of each shape are of gpu_bench, the others of torch in this process, in turns:
microseconds at 20, 50 and 80 %, operands from memory, as many calls between two events as take half a millisecond.
FLOPs: 4 heads head_dim for a pair of positions that see each other, 10 in the backward.
"""
import argparse, sys
from dataclasses import dataclass

import runs

HEADS = ('14/2 x 64', '28/4 x 128', '32/8 x 128')
# Of gpu_bench: what comes before and behind the documents in the name of an op.
ENGINES = {'ours': ('', 'deterministic'), 'cudnn_deterministic': ('cuDNN ', 'deterministic'),
           'cudnn_atomics': ('cuDNN ', 'fast')}
# What torch and the packages throw where a kernel refuses, nothing fits, or an argument is another.
REFUSALS = (RuntimeError, ValueError, TypeError)


@dataclass(frozen=True)
class Layout:
    """Documents with heads."""
    heads: int
    kv_heads: int
    head_dim: int
    lengths: tuple
    window: int = 0  # 0: none

    @property
    def equal(self):
        return len(set(self.lengths)) == 1

    def pairs(self):
        """Positions that see each other."""
        def triangle(n):
            return n * (n + 1) // 2
        return sum(triangle(n) - (triangle(n - self.window) if 0 < self.window < n else 0) for n in self.lengths)


@dataclass(frozen=True)
class Documents:
    name: str
    op: str  # of gpu_bench
    heads: tuple = HEADS
    window: int = 0
    lengths: tuple = ()  # (): as gpu_bench says

    def layout(self, heads, lengths):
        groups, head_dim = heads.split(' x ')
        return Layout(*map(int, groups.split('/')), int(head_dim), tuple(lengths), self.window)


def equal(count, length, op, **more):
    return Documents(f'{count} x {length}' + (f', window {more["window"]}' if 'window' in more else ''),
                     op + (f' window {more["window"]}' if 'window' in more else ''), lengths=(length,) * count, **more)


# What one process of gpu_bench measures.
GROUPS = {f'{count} x {length}': [equal(count, length, f'32k dense {count} x {length}')]
          for count, length in ((32, 1024), (16, 2048))}
GROUPS['mix 131'] = [Documents('mix 131', 'mix 131')]
GROUPS['wide'] = [equal(count, length, f'256-wide packed {count} x {length}', heads=('8/4 x 256',), **window)
                  for count, length in ((16, 1024), (8, 2048)) for window in ({}, {'window': 1024})]
GROUPS['wide'] += [equal(count, length, f'96-wide packed {count} x {length}', heads=('32/32 x 96',))
                   for count, length in ((16, 1024), (8, 2048))]
GROUPS |= {f'{count} x {length}': [equal(count, length, f'32k dense {count} x {length}')]
           for count, length in ((4, 8192), (1, 32768))}


def row_of(documents, layout, heads, engine, forward_us, backward_us, note=''):
    """Quantiles of both, and the rates of their medians."""
    flops = layout.pairs() * layout.heads * layout.head_dim
    times = {'forward': (4, forward_us[1]), 'backward': (10, backward_us[1]), 'both': (14, forward_us[1] + backward_us[1])}
    return {'heads': heads, 'documents': documents.name, 'engine': engine, 'forward_us': forward_us, 'backward_us': backward_us,
            **{f'{what}_tflop_per_s': of * flops / us / 1e6 for what, (of, us) in times.items()}, 'note': note}


def lengths_of(documents, results):
    """Of `results` of gpu_bench where the documents do not say."""
    said = {line['line']: line.get('lengths') for line in results['lines']}
    return documents.lengths or said.get(f'lengths of {documents.op}') or ()


def gpu_bench_rows(documents, results):
    """Each engine of gpu_bench with each of the heads; where there is no time, with what it says."""
    times = {(row['op'], row['extents']): row for row in results['rows']}
    said = {(line['line'], line.get('extents')): line['error'] for line in results['lines'] if 'error' in line}
    for heads in documents.heads:
        layout = documents.layout(heads, lengths_of(documents, results))
        for engine, (who, how) in ENGINES.items():
            if who and not layout.equal:
                continue
            op = f'{who}{documents.op} {how}'
            pair = [times.get((f'attention {direction} {op}', heads), {}) for direction in ('forward', 'backward')]
            if layout.lengths and all('p20_us' in row for row in pair):
                us = [[row[key] for key in ('p20_us', 'median_us', 'p80_us')] for row in pair]
                yield row_of(documents, layout, heads, engine, *us, note=pair[0].get('note', ''))
            else:
                errors = [row['error'] for row in pair if 'error' in row] + [said.get((f'attention {op}', heads), 'no row')]
                yield {'heads': heads, 'documents': documents.name, 'engine': engine, 'error': errors[0]}


def run_gpu_bench(group, table):
    """Its results, whose rows the table gets; none where it does not end well."""
    texts = [text for d in group for text in (f'{d.op} deterministic', f'cuDNN {d.op} fast')]
    try:
        results = runs.results_of('bench', *(word for text in texts for word in ('--only', text)))
    except runs.Failed as error:
        results = {'rows': [], 'lines': []}
        print(f'gpu_bench: {error}', flush=True)
    table.fields.setdefault('gpu_before', results.get('gpu_before'))
    table.fields['gpu_after'] = results.get('gpu_after')
    for documents in group:
        for row in gpu_bench_rows(documents, results):
            add(table, row, results)
    return results


def run_flash(flash, make, documents, lengths, seconds, table):
    for heads in documents.heads:
        row = {'heads': heads, 'documents': documents.name, 'engine': 'flash'}
        try:
            layout = documents.layout(heads, lengths)
            if not lengths:
                raise ValueError('gpu_bench did not say how long the documents are')
            for deterministic, us in flash.measure(make, layout, seconds).items():
                row['engine'] = 'flash_deterministic' if deterministic else 'flash'
                add(table, row_of(documents, layout, heads, row['engine'], *us))
        except REFUSALS as error:
            add(table, {**row, 'error': str(error).split('\n', maxsplit=1)[0]})


def checked(flash):
    """What flash.found() returns; where its output is not what the formula gives, what refuses every layout for that."""
    what, make = flash.found()
    try:
        for layout in (Layout(4, 2, 64, (200, 333, 64), 50), Layout(4, 2, 128, (256, 256))):
            flash.check(make, layout)
    except REFUSALS as error:
        said = str(error)

        def make(*_):
            raise ValueError(said)
    return what, make


def add(table, row, results=None):
    table.add(row, results)
    said = row.get('error') or ', '.join(f'{what} {row[f"{what}_tflop_per_s"]:.0f}' for what in ('forward', 'backward', 'both'))
    print(f'{row["heads"]}, {row["documents"]}, {row["engine"]}: {said}' + ('' if 'error' in row else ' TFLOP/s'), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--documents', action='append', choices=GROUPS)
    parser.add_argument('--seconds', type=float, default=0.2, help='of one direction of FlashAttention, timed')
    runs.add_options(parser, 400)
    args = parser.parse_args()
    if runs.DEVICE == 'cpu':
        parser.error('needs a GPU and gpu_bench')
    import torch
    import flash
    what, make = checked(flash)
    table = runs.Table(args.json, args.budget, flash=what, torch=torch.__version__)
    print(what, flush=True)
    for name in args.documents or GROUPS:
        if table.spent(name):
            continue
        torch.cuda.empty_cache()  # cuDNN's plans take up to 32 GiB
        results = run_gpu_bench(GROUPS[name], table)
        for documents in GROUPS[name]:
            run_flash(flash, make, documents, lengths_of(documents, results), args.seconds, table)
    return 1 if any('error' in row for row in table.rows if row['engine'] == 'ours') or not table.rows else 0


if __name__ == '__main__':
    sys.exit(main())
