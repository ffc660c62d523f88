#!/usr/bin/env python3
"""A plain training loop of a transformers model, in bfloat16, five ways: as it is, by torch.compile, with Liger, with
coxswain_kernels, and with these by torch.compile.

  bench/torch_train.py [ROW...] [--steps N] [--warmup N] [--limit SECONDS] [--profile] [--json FILE]
                                                                                      ROW: SHAPE_VARIANT, or all

SHAPE: llama3_8b, 4 rows of 2,048 tokens, plain SGD (fused, no momentum: beside weights and gradients no state fits in 80
GB), activations checkpointed by layer; qwen25_05b, 16 rows of 1,024, fused AdamW with bfloat16 states, no
checkpointing. The same for all variants: shapes of bench/models, random weights and tokens, every target valid, SDPA
attention where it is not ours, no clipping. compile: each layer, the final norm and the loss, which costs less time
than the model as a whole and gives the same kernels. ours: products are tuned in the warm-up. VARIANT: plain,
compile, liger, ours, ours_compile. A process for each row. Median over the steps, by CUDA events; memory is that of torch's allocator.
--profile: a step more, its kernels by what they do, and the peaks of memory of its forward and backward.
Needs one GPU, torch, transformers, and liger_kernel or coxswain_kernels.
"""
import argparse, json, math, multiprocessing, os, statistics, time

import torch
import transformers

import row_file
import torch_kernels

SHAPES = {'llama3_8b': ('llama31_8b', 4, 2048), 'qwen25_05b': ('0.5b', 16, 1024)}
VARIANTS = ('plain', 'compile', 'liger', 'ours', 'ours_compile')
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'models')


def config_of(shape):
    config = transformers.AutoConfig.from_pretrained(os.path.join(MODELS, SHAPES[shape][0]))
    config.use_cache = False
    return config


def make_model(shape, variant, checkpointed):
    config = config_of(shape)
    if variant == 'liger':
        from liger_kernel.transformers import _apply_liger_kernel
        _apply_liger_kernel(config.model_type)
    with torch.device('cuda'):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation='sdpa', dtype=torch.bfloat16)
    if checkpointed:
        model.gradient_checkpointing_enable({'use_reentrant': False})
    if variant.startswith('ours'):
        import coxswain_kernels
        coxswain_kernels.patch(model)
    if variant.endswith('compile'):
        for layer in model.model.layers:
            layer.compile()
        model.model.norm.compile()
        if variant == 'compile':
            model.loss_function = torch.compile(model.loss_function)
    return model.train()


def make_optimizer(shape, parameters):
    if shape == 'llama3_8b':
        return torch.optim.SGD(parameters, lr=1e-3, fused=True)
    return torch.optim.AdamW(parameters, lr=1e-5, fused=True)


def peaks_of(forward):
    """GiB allocated at most in a forward and in its backward."""
    peaks = {}
    for phase in ('forward', 'backward'):
        torch.cuda.reset_peak_memory_stats()
        if phase == 'forward':
            loss = forward()
        else:
            loss.backward()
        torch.cuda.synchronize()
        peaks[phase] = torch.cuda.max_memory_allocated() / 2 ** 30
    return peaks


def make_step(args):
    """The forward, which returns the loss, and a whole step over it."""
    _, rows, length = SHAPES[args.shape]
    model = make_model(args.shape, args.variant, args.shape == 'llama3_8b')
    optimizer = make_optimizer(args.shape, model.parameters())
    random = torch.Generator(device='cuda').manual_seed(1)

    def forward():
        ids = torch.randint(model.config.vocab_size, (rows, length), device='cuda', generator=random)
        return model(input_ids=ids, labels=ids).loss

    def step():
        loss = forward()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()
    return forward, step


def tune_products(args, on):
    if args.variant.startswith('ours'):
        import coxswain_kernels
        coxswain_kernels.tune_products(on)


def train(args):
    """Milliseconds of the timed steps, first and last loss; memory and what was profiled."""
    forward, step = make_step(args)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(args.steps + 1)]
    tune_products(args, True)
    losses = [step() for _ in range(args.warmup)]
    tune_products(args, False)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    events[0].record()
    for event in events[1:]:
        losses.append(step())
        event.record()
    torch.cuda.synchronize()
    more = {'peak_gib': torch.cuda.max_memory_allocated() / 2 ** 30,
            'reserved_gib': torch.cuda.max_memory_reserved() / 2 ** 30}
    if args.profile:
        more['profile'] = {**torch_kernels.kernel_times(step), 'peak_gib': peaks_of(forward)}
    return [a.elapsed_time(b) for a, b in zip(events, events[1:])], losses[0].item(), losses[-1].item(), more


def measure(args):
    _, rows, length = SHAPES[args.shape]
    try:
        milliseconds, first, last, more = train(args)
    except torch.cuda.OutOfMemoryError as error:
        return {'error': str(error).split('. ')[0]}
    if not (math.isfinite(first) and math.isfinite(last) and last != first):
        return {'error': f'loss {first} and then {last}: no speed'}
    rates = [rows * length * 1e3 / m for m in milliseconds]
    return {'tokens_per_second': statistics.median(rates), 'tokens_per_second_range': [min(rates), max(rates)],
            'ms_per_step': statistics.median(milliseconds), 'steps_timed': len(milliseconds), 'loss': [first, last],
            **more}


def run(row, args):
    """In a process of its own."""
    shape, variant = next((s, v) for s in SHAPES for v in VARIANTS if row == f'{s}_{v}')
    args.shape, args.variant = shape, variant
    torch.manual_seed(1)
    result = {'row': row, 'device': torch.cuda.get_device_name(), 'torch': torch.__version__,
              'transformers': transformers.__version__, **measure(args)}
    if args.json:
        row_file.keep(args.json, result)
    if 'profile' in result:
        print(json.dumps(result['profile'], indent=1), flush=True)
    if 'error' in result:
        print(f'{row}: {result["error"]}', flush=True)
        raise SystemExit(1)
    print(f'{row}: {result["tokens_per_second"]:,.0f} tokens/s ({result["ms_per_step"]:.1f} ms), peak '
          f'{result["peak_gib"]:.1f} GiB, loss {result["loss"][0]:.3f} -> {result["loss"][1]:.3f}', flush=True)


def main():
    rows = [f'{shape}_{variant}' for shape in reversed(SHAPES) for variant in VARIANTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('rows', nargs='*', help=f'of {", ".join(rows)}')
    parser.add_argument('--steps', type=int, default=10)
    parser.add_argument('--warmup', type=int, default=4)
    parser.add_argument('--limit', type=float, default=120, help='seconds of a row')
    parser.add_argument('--profile', action='store_true', help='kernels and memory of a step more')
    parser.add_argument('--json', help='file whose "rows" gain these')
    args = parser.parse_args()
    unknown = set(args.rows) - set(rows)
    if unknown:
        parser.error(f'no row {", ".join(unknown)}')
    with torch.device('meta'):  # imports what the rows need, once
        for shape in SHAPES:
            transformers.AutoModelForCausalLM.from_config(config_of(shape))
    failed = 0
    for row in args.rows or rows:
        # Forked before the first call of CUDA.
        began, process = time.monotonic(), multiprocessing.get_context('fork').Process(target=run, args=(row, args))
        process.start()
        process.join(args.limit)
        if process.is_alive():
            process.kill()
            process.join()
            print(f'{row}: not done after {args.limit:.0f} s', flush=True)
        failed += process.exitcode != 0
        print(f'  {time.monotonic() - began:.0f} s', flush=True)
    return failed


if __name__ == '__main__':
    raise SystemExit(main())
