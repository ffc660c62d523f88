#!/usr/bin/env python3
"""Memory by recompute level: what the plan says and what is measured, by class, with tokens/s.

  bench/papers/memory.py [--row ROW]... [--seconds S] [--budget SECONDS] [--json FILE]

Rows of step_bench (bench/worker/engine/step_rows.cc), each with every level of `recompute`. A row keeps what step_bench
says of it. What fits is memory_limits_bench's, which needs no GPU.
"""
import argparse, sys

import runs

ROWS = {'cuda': ('0.5b_full_1024', '7b_lora_1024'), 'cpu': ('tiny_full_512', 'tiny_lora_512')}
LEVELS = ('none', 'norm_swiglu', 'ffn', 'block', '{every: 4}')


def line(row):
    memory, planned = row['memory_gib'], row['memory_gib']['plan']
    return (f'{row["row"]} {row["recompute"]}: {row["tokens_per_second"]:,.0f} tokens/s, peak {memory["peak"]:.2f} GiB, '
            f'plan {planned:.2f} ({100 * (memory["peak"] / planned - 1):+.1f} %), activations {memory["activations"]:.2f}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--row', action='append')
    parser.add_argument('--seconds', type=float, default=5, help='of timed steps of a row')
    runs.add_options(parser, 460)
    args = parser.parse_args()
    table = runs.Table(args.json, args.budget)
    bad = 0
    for row in args.row or ROWS[runs.DEVICE]:
        for level in LEVELS:
            if table.spent(f'{row} {level}'):
                continue
            try:
                measured, results = runs.step(row, '--set', f'recompute: {level}', '--seconds', str(args.seconds))
                measured['recompute'] = level
                table.add(measured, results)
                print(line(measured), flush=True)
            except runs.Failed as error:
                bad += 1
                table.add({'row': row, 'recompute': level, 'error': str(error)})
                print(f'{row} {level}: {error}', flush=True)
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
