#!/usr/bin/env python3
"""Fused kernels over 4,096 rows by ours, torch eager, torch.compile and Liger: Liger's sweeps and models' shapes.

  bench/papers/kernels.py [--op OP]... [--rows N] [--budget SECONDS] [--json FILE]

Forward, backward (of a saved graph) and full (both): milliseconds of the device at 20, 50 and 80 %, caches flushed and
the host's time hidden; extra memory of full; bytes that must move over time, as a part of the device's copy. Liger's
cross-entropy computes its gradient in forward and writes it over the logits: compare full. swiglu, geglu: ours, eager
and compile take [N, 2 I], Liger two tensors. lora: r in {8 ... 256} of 4,096 to 4,096, over the plain product in place
of the copy. rope: q and k of HEADS by hidden size, Liger's sweep and models; ours is of packed q, k and v, of which it
makes a copy first, the others of two tensors, which Liger writes over. qkv_rope: x by the weights of q, k and v, RMSNorm of
the q and k heads and the rotation, which ours has as one op: Qwen3's shapes. Rows that do not begin before the budget ends are named. Needs coxswain_kernels; Liger on a GPU.
"""
import argparse, sys, time

import torch
import torch.nn.functional as F

import rotations
import timing

WIDTHS = {'cross_entropy': (40960, 81920, 122880, 163840, 151936, 128256, 262144),
          'rms_norm': (4096, 8192, 16384, 896, 3584, 2560), 'layer_norm': (4096, 8192, 16384),
          'swiglu': (4096, 8192, 16384, 4864, 18944, 14336), 'geglu': (4096, 8192, 16384, 10240),
          'lora': (8, 16, 32, 64, 128, 256), 'rope': (4096, 896, 3584, 2048, 8192), 'qkv_rope': (2560, 4096, 5120)}
LORA_WIDTH = 4096
# Heads of q, of k and v, and their dimension, by op and hidden size.
HEADS = {'rope': {896: (14, 2, 64), 2048: (32, 8, 64), 3584: (28, 4, 128), 4096: (32, 8, 128), 8192: (32, 8, 256)},
         'qkv_rope': {2560: (32, 8, 128), 4096: (32, 8, 128), 5120: (40, 8, 128)}}
# Tensors of rows x width (of the dtype) that forward and backward must read or write.
MOVED = {'cross_entropy': (1, 2), 'rms_norm': (2, 3), 'layer_norm': (2, 3), 'swiglu': (3, 5), 'geglu': (3, 5)}


def leaf(*shape):
    return torch.randn(*shape, device=timing.DEVICE, dtype=timing.DTYPE).requires_grad_()


def inputs_of(op, rows, width):
    if op == 'cross_entropy':
        return [leaf(rows, width), torch.randint(width, (rows,), device=timing.DEVICE)]
    if op == 'lora':
        weight = leaf(LORA_WIDTH, LORA_WIDTH).requires_grad_(False)
        return [leaf(rows, LORA_WIDTH), weight, leaf(width, LORA_WIDTH), leaf(LORA_WIDTH, width)]
    if op in HEADS:
        return rotations.inputs(op, rows, width, HEADS[op][width], leaf)
    if op in ('swiglu', 'geglu'):
        return [leaf(rows, 2 * width)]
    return [leaf(rows, width)] + [leaf(width) for _ in range(1 + (op == 'layer_norm'))]


def gated(activation):
    def forward(x):
        gate, up = x.chunk(2, -1)
        return activation(gate) * up
    return forward


EAGER = {'cross_entropy': lambda x, t: F.cross_entropy(x.float(), t),
         'rms_norm': lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
         'layer_norm': lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5),
         'swiglu': gated(F.silu), 'geglu': gated(lambda x: F.gelu(x, approximate='tanh')),
         'lora': lambda x, w, a, b: x @ w.t() + 2.0 * ((x @ a.t()) @ b.t())}


def ours_of(op, width):
    import coxswain_kernels as ours
    if op in HEADS:
        return rotations.ours(op, HEADS[op][width])
    if op == 'lora':
        return lambda x, w, a, b: ours.lora_linear(x, w, None, a, b, 2.0)
    if op == 'cross_entropy':
        return lambda x, t: ours.cross_entropy(x, t.int())
    return getattr(ours, op)


def liger_of(op, width):
    if op in HEADS:
        return rotations.liger(op, HEADS[op][width])
    from liger_kernel.transformers import functional as liger
    return {'cross_entropy': liger.liger_cross_entropy, 'swiglu': liger.liger_swiglu, 'geglu': liger.liger_geglu,
            'rms_norm': lambda x, w: liger.liger_rms_norm(x, w, 1e-6),
            'layer_norm': lambda x, w, b: liger.liger_layer_norm(x, w, b, 1e-5)}[op]


def functions_of(op, width):
    torch._dynamo.reset()
    eager = rotations.eager(op, HEADS[op][width]) if op in HEADS else EAGER[op]
    found = {'ours': ours_of(op, width), 'eager': eager, 'compile': torch.compile(eager, dynamic=False)}
    if timing.DEVICE == 'cuda' and op != 'lora':
        found['liger'] = liger_of(op, width)
    if op == 'lora':
        found['plain'] = lambda x, w, a, b: x @ w.t()
    return found


def over(make, tensors):
    """make of a tensor, or of each of a tuple."""
    return tuple(map(make, tensors)) if isinstance(tensors, tuple) else make(tensors)


def measure(name, op, width, function, inputs, copy):
    if name == 'liger' and op in ('swiglu', 'geglu'):
        inputs = [half.detach().contiguous().requires_grad_() for half in inputs[0].chunk(2, -1)]
    if name == 'plain':
        inputs = inputs[:2] + [t.detach() for t in inputs[2:]]
    if op == 'rope' and name != 'ours':
        inputs = rotations.apart(inputs, HEADS[op][width])
    wanted = [t for t in inputs if t.requires_grad]
    dy = over(torch.ones_like, function(*inputs))

    def full(dy):
        return torch.autograd.grad(function(*inputs), wanted, dy)

    def backward(out, dy):
        return torch.autograd.grad(out, wanted, dy)

    # Some backwards of Liger write over dy and over what forward saved: both are new for each call.
    row = {'forward_ms': timing.milliseconds(lambda: function(*inputs), 0.15),
           'backward_ms': timing.milliseconds(backward, 0.15, prepare=lambda: (function(*inputs), over(torch.clone, dy))),
           'full_ms': timing.milliseconds(full, 0.15, prepare=lambda: (over(torch.clone, dy),))}
    row['extra_bytes'] = timing.extra_bytes(lambda: full(dy))
    if op in MOVED:
        columns = inputs[0].shape[-1] // (2 if op in ('swiglu', 'geglu') and name != 'liger' else 1)
        moved = sum(MOVED[op]) * inputs[0].shape[0] * columns * inputs[0].element_size()
        row['percent_of_copy'] = 100 * moved / row['full_ms'][1] / 1e6 / copy
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--op', action='append', choices=WIDTHS)
    parser.add_argument('--rows', type=int, default=4096)
    parser.add_argument('--budget', type=float, default=150, help='seconds after which no row begins')
    parser.add_argument('--json')
    args = parser.parse_args()
    import coxswain_kernels
    coxswain_kernels.tune_products(True)
    began, rows, copy = time.monotonic(), [], timing.copy_gb_per_s()
    ceilings = {'copy_gb_per_s': copy, 'gemm_tflop_per_s': timing.gemm_tflop_per_s(), 'gpu_before': timing.state()}
    print(ceilings, flush=True)
    # The first width of every op, then the second: a budget that ends leaves something of each.
    order = [(op, widths[i]) for i in range(7) for op, widths in WIDTHS.items()
             if i < len(widths) and op in (args.op or WIDTHS)]
    for op, width in order:
        if time.monotonic() - began > args.budget:
            print(f'{op} {width}: not run, the budget is spent', flush=True)
            continue
        torch.manual_seed(1)
        for name, function in functions_of(op, width).items():
            row = {'op': op, 'rows': args.rows, 'width': width, 'variant': name,
                   **measure(name, op, width, function, inputs_of(op, args.rows, width), copy)}
            rows.append(row)
            print(f'{op} {width} {name}: ' + ', '.join(f'{k[:-3]} {row[k][1] * 1e3:.0f}' for k in (
                'forward_ms', 'backward_ms', 'full_ms')) + ' us', flush=True)
        if args.json:
            timing.write(args.json, ' '.join(['bench/papers/kernels.py'] + sys.argv[1:]), **ceilings, rows=rows,
                         gpu_after=timing.state())


if __name__ == '__main__':
    main()
