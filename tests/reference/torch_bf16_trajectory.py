#!/usr/bin/env python3
"""How far 20 losses of torch in bfloat16 lie from those of a golden case of full training in float64.

  tests/reference/torch_bf16_trajectory.py CASE...

CASE: a folder as in fixtures/moe, "dequantised" within it where its files are in blocks. Weights, products and gradients
are bfloat16, masters and AdamW float32, as a GPU worker trains. Needs torch and transformers, no GPU.
"""
import json, os, sys

import safetensors.torch
import torch
import transformers


def load(case, dtype):
    inner = os.path.join(case, 'dequantised')
    return transformers.AutoModelForCausalLM.from_pretrained(inner if os.path.isdir(inner) else case, dtype=dtype,
                                                             attn_implementation='eager').train()


def relative_errors(case):
    with open(os.path.join(case, 'expected.json'), encoding='utf-8') as file:
        expected = json.load(file)
    masters, model = load(case, torch.float32), load(case, torch.bfloat16)
    batch = safetensors.torch.load_file(os.path.join(case, 'batch.safetensors'))
    ids, labels, ends = batch['input_ids'], batch['labels'], batch['cu_seqlens'].tolist()
    settings = expected['optimizer']
    optimizer = torch.optim.AdamW(masters.parameters(), betas=settings['betas'], eps=settings['eps'],
                                  weight_decay=settings['weight_decay'])
    for step in expected['trajectory']:
        with torch.no_grad():
            for master, weight in zip(masters.parameters(), model.parameters()):
                weight.copy_(master)
                weight.grad = None
        logits = torch.cat([model(input_ids=ids[None, a:b]).logits[0] for a, b in zip(ends, ends[1:])]).float()
        loss = torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100)
        loss.backward()
        for master, weight in zip(masters.parameters(), model.parameters()):
            master.grad = None if weight.grad is None else weight.grad.float()
        torch.nn.utils.clip_grad_norm_(masters.parameters(), settings['clip_global_norm'])
        optimizer.param_groups[0]['lr'] = step['lr']
        optimizer.step()
        yield loss.item() / step['loss'] - 1


def main():
    for case in sys.argv[1:]:
        errors = list(relative_errors(case))
        print(f'{os.path.basename(case)}: at most {max(map(abs, errors)):.4f};', ' '.join(f'{e:.3f}' for e in errors), flush=True)


if __name__ == '__main__':
    main()
