#!/usr/bin/env python3
"""The update of all parameters of a model by AdamW: ours beside torch.optim.AdamW(fused=True), with clipping and without.

  bench/papers/adamw.py [--model NAME]... [--budget SECONDS] [--json FILE]

NAME: a folder of bench/models, whose tensors have random values. bfloat16: values and gradients are; moments are float32
in ours, which rounds values stochastically, and bfloat16 in torch's. float32: all are, in both. clipped: the global norm is
bounded by 1, in ours by the same launches, in torch by clip_grad_norm_. Milliseconds of the device at 20, 50 and 80 %,
caches flushed and the host's time hidden; state_bytes: of values, gradients and moments; extra_bytes: above them. Needs
coxswain_kernels.
"""
import argparse, os, sys, time

import torch
import transformers

import runs
import timing

MODELS = {'cuda': ('0.5b', '1.5b'), 'cpu': ('tiny',)}
TYPES = {'bfloat16': torch.bfloat16, 'float32': torch.float32}


def shapes_of(model):
    config = transformers.AutoConfig.from_pretrained(os.path.join(runs.ROOT, 'bench/models', model))
    with torch.device('meta'):
        return [tuple(p.shape) for p in transformers.AutoModelForCausalLM.from_config(config).parameters()]


def parameters_of(shapes, dtype):
    """With gradients."""
    made = []
    for shape in shapes:
        parameter = torch.nn.Parameter(torch.randn(shape, device=timing.DEVICE, dtype=dtype))
        parameter.grad = torch.randn_like(parameter)
        made.append(parameter)
    return made


def step_of(variant, parameters, clipped):
    """(the optimizer, its whole update)"""
    if variant == 'ours':
        import coxswain_kernels
        optimizer = coxswain_kernels.AdamW(parameters, lr=1e-5, max_norm=1.0 if clipped else 0.0)
        return optimizer, optimizer.step
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)

    def step():
        if clipped:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return optimizer, step


def state_bytes(optimizer, parameters):
    states = [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t)]
    return sum(t.numel() * t.element_size() for t in states + parameters + [p.grad for p in parameters])


def measure(shapes, variant, dtype, clipped):
    parameters = parameters_of(shapes, TYPES[dtype])
    optimizer, step = step_of(variant, parameters, clipped)
    step()
    return {'milliseconds': timing.milliseconds(step, 1.5), 'extra_bytes': timing.extra_bytes(step),
            'state_bytes': state_bytes(optimizer, parameters), 'parameters': sum(p.numel() for p in parameters)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', action='append')
    parser.add_argument('--budget', type=float, default=100, help='seconds after which no row begins')
    parser.add_argument('--json')
    args = parser.parse_args()
    began, rows, copy = time.monotonic(), [], timing.copy_gb_per_s()
    order = [(model, dtype, clipped, variant) for model in args.model or MODELS[timing.DEVICE]
             for dtype in (TYPES if timing.DEVICE == 'cuda' else ('float32',)) for clipped in (True, False)
             for variant in ('ours', 'fused')]
    for model, dtype, clipped, variant in order:
        if time.monotonic() - began > args.budget:
            print(f'{model} {dtype} {variant}: not run, the budget is spent', flush=True)
            continue
        torch.manual_seed(1)
        row = {'model': model, 'dtype': dtype, 'clipped': clipped, 'variant': variant,
               **measure(shapes_of(model), variant, dtype, clipped)}
        rows.append(row)
        print(f'{model} {dtype}{", clipped" if clipped else ""} {variant}: {row["milliseconds"][1]:.3f} ms, '
              f'{row["state_bytes"] / row["parameters"]:.1f} B a parameter, extra {row["extra_bytes"]}', flush=True)
        if args.json:
            timing.write(args.json, ' '.join(['bench/papers/adamw.py'] + sys.argv[1:]), copy_gb_per_s=copy, rows=rows)


if __name__ == '__main__':
    main()
