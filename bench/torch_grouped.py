#!/usr/bin/env python3
"""torch's grouped_mm at the shapes of bench/kernels/cuda/grouped.cc: one row a product, to lie beside those of gpu_bench.

  bench/torch_grouped.py [--seconds SECONDS]

Launches back to back for SECONDS (0.25) of each row, after as long to warm up; milliseconds of one and TFLOP/s. wgrad is
in bfloat16, not added to what is there: torch has no other.
"""
import argparse

import torch

EXPERTS = 128
LINEARS = {'gate_up': (2048, 1536), 'down': (768, 2048)}
MEANS = (2048, 512)
grouped_mm = getattr(torch.nn.functional, 'grouped_mm', None) or torch._grouped_mm


def spreads(mean):
    fullest = torch.full((EXPERTS,), (EXPERTS - 4) * mean // (EXPERTS - 1), dtype=torch.int32)
    fullest[EXPERTS // 2] = 4 * mean
    draws = torch.randint(EXPERTS, (EXPERTS * mean,), generator=torch.Generator().manual_seed(1))
    return {'equal': torch.full((EXPERTS,), mean, dtype=torch.int32),
            'drawn': torch.bincount(draws, minlength=EXPERTS), 'fullest 4x': fullest}


def products(rows, k, n):
    x, dy, w = (torch.randn(*shape, device='cuda', dtype=torch.bfloat16)
                for shape in ((rows, k), (rows, n), (EXPERTS, n, k)))
    return {'forward': lambda ends: grouped_mm(x, w.transpose(-2, -1), offs=ends),
            'dgrad': lambda ends: grouped_mm(dy, w, offs=ends),
            'wgrad bf16': lambda ends: grouped_mm(dy.t(), x, offs=ends)}


def milliseconds(launch, seconds):
    def of(count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            launch()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / count
    of(3)
    count = max(3, round(seconds * 1e3 / of(3)))
    of(count)
    return of(count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seconds', type=float, default=0.25)
    seconds = parser.parse_args().seconds
    print(f'{torch.cuda.get_device_name()}, torch {torch.__version__}', flush=True)
    for linear, (k, n) in LINEARS.items():
        for mean in MEANS:
            for spread, counts in spreads(mean).items():
                rows = int(counts.sum())
                ends = counts.cumsum(0).int().cuda()
                for name, launch in products(rows, k, n).items():
                    ms = milliseconds(lambda: launch(ends), seconds)
                    print(f'torch {linear} {mean} {name} {spread:10}  {ms:8.4f} ms {2 * rows * k * n / ms / 1e9:7.1f} TFLOP/s',
                          flush=True)


if __name__ == '__main__':
    main()
