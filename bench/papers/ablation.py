#!/usr/bin/env python3
"""What each thing is worth: steps without one of them, and steps with one after the other.

  bench/papers/ablation.py [--padded] [--row ROW]... [--seconds S] [--budget SECONDS] [--json FILE]

Rows of step_bench over packed Alpaca lengths. Cumulative: without all, then with one more of PARTS in their order;
leave one out: with all but one. The batch is the same documents in every one, so that the gradient norm of the first
step is too. Unfused ways are of the benchmark (bench/worker/engine/without.h), not of the engine:
packing: a document a bin, padded to its end; chunks: logits of a whole micro-step at once; fusions: residual add and
norm, gate, up and their product as ops of their own; fused_update: AdamW a tensor at a time after the host has read the
norm and decided; tuning: the library's first choice for each product; graphs: a launch by the host for each kernel.
--padded: from the batch that trainers have without packing, rows of tokens padded to one length. lengths: each document to
the longest of its 16, as transformers' collator does; in PADDED_TO_512 without packing: each to 512. Real tokens count.
"""
import argparse, sys

import runs

ROWS = {'cuda': ('0.5b_packed_2048_x1', 'llama31_8b_lora_packed_2048'), 'cpu': ('tiny_packed_512',)}
PADDED_ROWS = {'cuda': ('0.5b_packed_2048_x1',), 'cpu': ('tiny_packed_512',)}
PADDED_TO_512 = '0.5b_packed_512'  # bins of 512, as many slots as those of 2,048
PARTS = ('packing', 'chunks', 'fusions', 'fused_update', 'tuning', 'graphs')


def padded_lists(row):
    """(how, parts that it is without) from padded batches, and with all."""
    base = 'packing' if row == PADDED_TO_512 else 'lengths'
    return [('with all', ()), ('padded', (base,)), ('padded, without the rest', (base,) + PARTS[1:])]


def lists():
    """(how, parts that it is without), the fastest first: what a budget leaves out is the longest."""
    every = [('with all', ())]
    every += [('leave one out', (part,)) for part in reversed(PARTS)]
    every += [('cumulative', PARTS[i:]) for i in range(len(PARTS) - 2, -1, -1)]
    return every


def measure(row, how, without, seconds):
    words = [part for word in without for part in ('--without', word)]
    warmup = '1' if {'packing', 'lengths'} & set(without) else '3'  # up to twenty times as many micro-steps
    measured, results = runs.step(row, '--seconds', str(seconds), '--warmup', warmup, *words)
    return {'how': how, 'without': without, **measured}, results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--row', action='append')
    parser.add_argument('--padded', action='store_true', help='from padded batches alone')
    parser.add_argument('--seconds', type=float, default=4, help='of timed steps of a row')
    runs.add_options(parser, 470)
    args = parser.parse_args()
    table = runs.Table(args.json, args.budget, parts=PARTS)
    bad = 0
    rows = PADDED_ROWS[runs.DEVICE] + ((PADDED_TO_512,) if runs.DEVICE == 'cuda' else ()) if args.padded else ROWS[runs.DEVICE]
    for row in args.row or rows:
        for how, without in padded_lists(row) if args.padded else lists():
            if table.spent(f'{row} without {without}'):
                continue
            try:
                measured, results = measure(row, how, without, args.seconds)
                table.add(measured, results)
                print(f'{row} {how}, without {", ".join(without) or "nothing"}: '
                      f'{measured["tokens_per_second"]:,.0f} tokens/s, peak {measured["memory_gib"]["peak"]:.2f} GiB, '
                      f'gradient norm {measured["grad_norm"][0]:.5f}', flush=True)
            except runs.Failed as error:
                bad += 1
                table.add({'row': row, 'how': how, 'without': without, 'error': str(error)})
                print(f'{row} without {without}: {error}', flush=True)
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
