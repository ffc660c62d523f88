#!/usr/bin/env python3
"""Real tokens/s of training by packing strategy. Slots filled and documents of a bin are packing_bench's.

  bench/papers/packing.py [--row ROW]... [--seconds S] [--budget SECONDS] [--json FILE]

Rows of step_bench whose documents are as long as those of Alpaca, of GSM8K and of chats with a long tail.
"""
import argparse, sys

import runs

ROWS = {'cuda': ('0.5b_packed_2048_x1', '0.5b_gsm8k_2048', '0.5b_chat_8192'), 'cpu': ('tiny_packed_512',)}
STRATEGIES = ('best_fit', 'best_fit_decreasing', 'first_fit', 'none')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--row', action='append')
    parser.add_argument('--seconds', type=float, default=3, help='of timed steps of a row')
    runs.add_options(parser, 300)
    args = parser.parse_args()
    table = runs.Table(args.json, args.budget)
    for row in args.row or ROWS[runs.DEVICE]:
        for strategy in STRATEGIES:
            if table.spent(f'{row} {strategy}'):
                continue
            measured, results = runs.step(row, '--set', f'packing: {{strategy: {strategy}}}', '--seconds',
                                          str(args.seconds), '--warmup', '4')
            table.add({'strategy': strategy, **measured}, results)
            print(f'{row} {strategy}: {measured["tokens_per_second"]:,.0f} real tokens/s', flush=True)


if __name__ == '__main__':
    sys.exit(main())
