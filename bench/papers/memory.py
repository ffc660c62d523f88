#!/usr/bin/env python3
"""Memory by recompute level or by precision: what the plan says and what is measured, by class, with tokens/s.

  bench/papers/memory.py [--precisions] [--row ROW]... [--seconds S] [--budget SECONDS] [--json FILE]

Rows of step_bench (bench/worker/engine/step_rows.cc), each with every level of `recompute`; --precisions: one micro-step
of 8 bins of 2,048, in every format that a job may ask for. A row keeps what step_bench says of it. What fits is memory_limits_bench's, which needs no GPU.
"""
import argparse, sys

import runs

ROWS = {'cuda': ('0.5b_full_1024', '7b_lora_1024'), 'cpu': ('tiny_full_512', 'tiny_lora_512')}
LEVELS = ('none', 'norm_swiglu', 'ffn', 'block', '{every: 4}')
# Rows of those, and the formats by name: (suffix of the row, line of the spec).
PRECISION_ROWS = {'cuda': ('0.5b_full_2048_x8',), 'cpu': ('tiny_full_512',)}
PRECISIONS = {'float32': ('', 'precision: {compute: float32}'),
              'bfloat16, float32 master and gradients': (
                  '', 'precision: {compute: bfloat16, master_weights: float32, gradients: float32}'),
              'bfloat16, float32 master': (
                  '', 'precision: {compute: bfloat16, master_weights: float32, gradients: bfloat16}'),
              'bfloat16': ('', 'precision: {compute: bfloat16, master_weights: bfloat16, gradients: bfloat16}'),
              'bfloat16, moments of 8 bits': (
                  '_adamw_8bit', 'precision: {compute: bfloat16, master_weights: bfloat16, gradients: bfloat16}')}


def cases(args):
    """(row, what differs, its value, line of the spec)"""
    if args.precisions:
        return [(row + suffix, 'precision', name, line) for row in args.row or PRECISION_ROWS[runs.DEVICE]
                for name, (suffix, line) in PRECISIONS.items() if runs.DEVICE == 'cuda' or name == 'float32']
    return [(row, 'recompute', level, f'recompute: {level}') for row in args.row or ROWS[runs.DEVICE] for level in LEVELS]


def line(row, value):
    memory, planned = row['memory_gib'], row['memory_gib']['plan']
    return (f'{row["row"]} {value}: {row["tokens_per_second"]:,.0f} tokens/s, peak {memory["peak"]:.2f} GiB, '
            f'plan {planned:.2f} ({100 * (memory["peak"] / planned - 1):+.1f} %), activations {memory["activations"]:.2f}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--row', action='append')
    parser.add_argument('--precisions', action='store_true', help='formats instead of recompute levels')
    parser.add_argument('--seconds', type=float, default=5, help='of timed steps of a row')
    runs.add_options(parser, 460)
    args = parser.parse_args()
    table = runs.Table(args.json, args.budget)
    bad = 0
    for row, key, value, setting in cases(args):
        if table.spent(f'{row} {value}'):
            continue
        try:
            measured, results = runs.step(row, '--set', setting, '--seconds', str(args.seconds))
            measured[key] = value
            table.add(measured, results)
            print(line(measured, value), flush=True)
        except runs.Failed as error:
            bad += 1
            table.add({'row': row, key: value, 'error': str(error)})
            print(f'{row} {value}: {error}', flush=True)
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
