#!/usr/bin/env python3
"""The experts of a layer of Qwen3-30B-A3B between router and sum, in torch: coxswain_kernels, transformers' grouped_mm
(torch's), and Liger's fused MoE, by turns.

  bench/torch_experts.py [--tokens T]... [--seconds S] [--turns N] [--json FILE]

128 experts, 8 of a token, 2048 -> 2 x 768 -> 2048, bfloat16; ids drawn evenly, and with one expert that half of the
tokens meet, which is 8 times the mean. Rows: forward; forward and backward with frozen experts (gradients of tokens and
router's weights), and with trained ones. Milliseconds by CUDA events, median over turns; what the outputs and gradients
differ by, of their norms. A way that cannot be imported is left out, and said so. Needs one GPU, torch, transformers.
"""
import argparse, json, statistics

import torch

EXPERTS, CHOSEN, HIDDEN, INNER = 128, 8, 2048, 768
CONFIG = dict(num_experts=EXPERTS, num_experts_per_tok=CHOSEN, hidden_size=HIDDEN, moe_intermediate_size=INNER,
              num_hidden_layers=1, vocab_size=8)


def ours(module):
    from coxswain_kernels import modules
    return lambda *inputs: modules.experts(module, None, *inputs)


def grouped_mm(module):
    from transformers.integrations.moe import grouped_mm_experts_forward
    return lambda *inputs: grouped_mm_experts_forward(module, *inputs)


def liger(module):
    from liger_kernel.ops.fused_moe import LigerFusedMoEFunction
    return lambda x, ids, weights: LigerFusedMoEFunction.apply(x, module.gate_up_proj, module.down_proj,
                                                               ids.to(torch.int32), weights)


WAYS = {'coxswain': ours, 'grouped_mm': grouped_mm, 'liger': liger}


def experts(device):
    from transformers.models.qwen3_moe import Qwen3MoeConfig
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts
    torch.manual_seed(1)
    config = Qwen3MoeConfig(**CONFIG)
    config._experts_implementation = 'grouped_mm'
    module = Qwen3MoeExperts(config).to(device=device, dtype=torch.bfloat16)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.02)
    return module


def batch(tokens, spread, device):
    scores = torch.rand(tokens, EXPERTS, generator=torch.Generator().manual_seed(2))
    if spread == 'fullest 8x':
        scores[: tokens // 2, 0] = 2
        scores[tokens // 2:, 0] = -1
    ids = scores.topk(CHOSEN).indices.to(device)
    x = torch.randn(tokens, HIDDEN, device=device, dtype=torch.bfloat16, requires_grad=True)
    weights = torch.rand(tokens, CHOSEN, device=device).softmax(-1).to(torch.bfloat16).requires_grad_()
    return x, ids, weights


def once(forward, module, inputs, mode, dy):
    """Output, and in a backward the gradients."""
    x, ids, weights = inputs
    if mode == 'forward':
        with torch.no_grad():
            return [forward(x, ids, weights)]
    wanted = [x, weights] + (list(module.parameters()) if mode == 'trained' else [])
    y = forward(x, ids, weights)
    return [y.detach(), *torch.autograd.grad(y, wanted, dy)]


def milliseconds(call, seconds):
    def of(count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / count
    of(2)
    return of(max(3, round(seconds * 1e3 / of(3))))


def measure(module, forwards, tokens, spread, mode, args):
    for weight in module.parameters():
        weight.requires_grad_(mode == 'trained')
    inputs = batch(tokens, spread, 'cuda')
    dy = torch.randn(tokens, HIDDEN, device='cuda', dtype=torch.bfloat16)
    row = {'tokens': tokens, 'spread': spread, 'mode': mode, 'ms': {}, 'differs': {}}
    want = None
    for name, forward in forwards.items():
        answers = [t.float() for t in once(forward, module, inputs, mode, dy)]
        want = want or answers
        row['differs'][name] = max(((a - b).norm() / b.norm()).item() for a, b in zip(answers, want))
    times = {name: [] for name in forwards}
    for _ in range(args.turns):
        for name, forward in forwards.items():
            times[name].append(milliseconds(lambda f=forward: once(f, module, inputs, mode, dy), args.seconds))
    row['ms'] = {name: statistics.median(of) for name, of in times.items()}
    return row


def write(path, rows):
    if not path:
        return
    with open(path, 'w', encoding='utf-8') as file:
        json.dump({'device': torch.cuda.get_device_name(), 'torch': torch.__version__, 'rows': rows}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tokens', type=int, action='append')
    parser.add_argument('--seconds', type=float, default=0.2)
    parser.add_argument('--turns', type=int, default=3)
    parser.add_argument('--json')
    args = parser.parse_args()
    module, forwards = experts('cuda'), {}
    for name, way in WAYS.items():
        try:
            forwards[name] = way(module)
        except ImportError as error:
            print(f'{name}: left out, {error}')
    print(f'{torch.cuda.get_device_name()}, torch {torch.__version__}', flush=True)
    rows = []
    for tokens in args.tokens or (16384, 4096):
        for spread in ('even', 'fullest 8x'):
            for mode in ('forward', 'frozen', 'trained'):
                row = measure(module, forwards, tokens, spread, mode, args)
                rows.append(row)
                write(args.json, rows)
                print(f'{tokens:6} {spread:10} {mode:8} ' + ', '.join(
                    f'{name} {ms:.3f} ms ({row["differs"][name]:.1e})' for name, ms in row['ms'].items()), flush=True)


if __name__ == '__main__':
    main()
