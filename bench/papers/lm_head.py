#!/usr/bin/env python3
"""The LM head with its loss: forward and backward of rows x width by width x vocabulary, by ours and peers.

  bench/papers/lm_head.py [--shape ROWS,WIDTH,VOCABULARY]... [--seconds S] [--json FILE] [--curve MIB,MIB,...]

ours, liger (0.8.5's fused linear cross-entropy), eager and compile (whole logits); ours_frozen: no gradient of the
weight; ours_cut: no chunk of logits. Where the wheel cut-cross-entropy is importable, cce: its linear_cross_entropy as it
comes, which leaves out what softmax makes smaller than 2^-12 of a gradient, and cce_exact, which does not: with random
weights that is nearly all, so each row has the norms of its gradients. One call is loss and gradients, which ours and Liger compute in forward. Each is run for --seconds without a
pause before it is timed, so that the numbers are of a warm card at its power limit, whose clock is kept with them.
--curve runs ours alone, with logits of at most so many MiB at a time: ours_MIB is what the head costs held to that memory,
ours_cut the head without chunks, in 136 MiB.
Products of ours are tuned in the first call. A variant that does not fit has an error. Needs coxswain_kernels.
"""
import argparse, functools, importlib.util, sys, time

import torch
import torch.nn.functional as F

import timing

SHAPES = ('4096,4096,128256', '16384,4096,128256')


def eager(x, weight, targets):
    return F.cross_entropy((x @ weight.t()).float(), targets)


def curve(sizes, vocabulary):
    """Ours with chunks of logits of at most each of `sizes` MiB, in rows of 128 as the products have them."""
    import coxswain_kernels
    found = {}
    for mib in sizes:
        rows = int(mib * 2 ** 20 / (2 * vocabulary)) // 128 * 128
        found[f'ours_{mib}'] = functools.partial(coxswain_kernels.linear_cross_entropy, overwrites=True,
                                                 chunk_rows=max(rows, 128))
    found['ours_cut'] = functools.partial(coxswain_kernels.linear_cross_entropy, overwrites=True, cut=True)
    return found


def variants():
    import coxswain_kernels
    ours = functools.partial(coxswain_kernels.linear_cross_entropy, overwrites=True)
    found = {'ours': ours, 'ours_frozen': ours, 'ours_cut': functools.partial(ours, cut=True),
             'eager': eager, 'compile': torch.compile(eager, dynamic=False)}
    if timing.DEVICE == 'cuda':
        from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy
        found['liger'] = liger_fused_linear_cross_entropy
        if importlib.util.find_spec('cut_cross_entropy'):
            from cut_cross_entropy import linear_cross_entropy
            found['cce'] = linear_cross_entropy
            found['cce_exact'] = functools.partial(linear_cross_entropy, filter_eps=None)
    return found


def warm(function, seconds):
    """Runs it until the card is as warm as it gets in that time; the card's state with calls still queued."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        function()
        if timing.DEVICE == 'cuda':
            torch.cuda.synchronize()
    for _ in range(8):
        function()
    return timing.state()


def measure(name, function, x, weight, targets, seconds):
    if name.startswith('ours'):
        targets = targets.int()
    weight.requires_grad_(name != 'ours_frozen')
    inputs = [t for t in (x, weight) if t.requires_grad]

    def call():
        return torch.autograd.grad(function(x, weight, targets), inputs)
    call()
    busy = warm(call, seconds)
    row = {'milliseconds': timing.milliseconds(call, seconds, warmup=0), 'gpu_under_load': busy,
           'extra_bytes': timing.extra_bytes(call), 'loss': function(x, weight, targets).item(),
           'gradient_norms': [gradient.norm(dtype=torch.float32).item() for gradient in call()]}
    products = 2 if name == 'ours_frozen' else 3
    row['tflop_per_s'] = products * 2 * x.shape[0] * weight.numel() / row['milliseconds'][1] / 1e9
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--shape', action='append')
    parser.add_argument('--seconds', type=float, default=2)
    parser.add_argument('--json')
    parser.add_argument('--curve', type=lambda text: [int(mib) for mib in text.split(',')])
    args = parser.parse_args()
    import coxswain_kernels
    rows = []
    for shape in args.shape or SHAPES:
        tokens, width, vocabulary = map(int, shape.split(','))
        torch.manual_seed(1)
        x = torch.randn(tokens, width, device=timing.DEVICE, dtype=timing.DTYPE).requires_grad_()
        weight = torch.randn(vocabulary, width, device=timing.DEVICE, dtype=timing.DTYPE).mul_(width ** -0.5)
        targets = torch.randint(vocabulary, (tokens,), device=timing.DEVICE)
        found = curve(args.curve, vocabulary) if args.curve else variants()
        for name, function in found.items():
            coxswain_kernels.tune_products(name.startswith('ours'))
            row = {'variant': name, 'rows': tokens, 'width': width, 'vocabulary': vocabulary}
            if args.curve:
                row['chunk_rows'] = function.keywords['chunk_rows']
            try:
                row.update(measure(name, function, x, weight, targets, args.seconds))
                print(f'{shape} {name}: {row["milliseconds"][1]:.2f} ms, {row["tflop_per_s"]:.0f} TFLOP/s, '
                      f'{(row["extra_bytes"] or 0) / 2 ** 30:.2f} GiB, loss {row["loss"]:.4f}, norms '
                      + ', '.join(f'{norm:.5f}' for norm in row['gradient_norms']), flush=True)
            except Exception as error:  # of memory, or of a peer's compiler: the others go on
                row['error'] = (str(error) or type(error).__name__).split('. ')[0][:300]
                print(f'{shape} {name}: {row["error"]}', flush=True)
            rows.append(row)
            if args.json:
                timing.write(args.json, ' '.join(['bench/papers/lm_head.py'] + sys.argv[1:]), rows=rows)


if __name__ == '__main__':
    main()
