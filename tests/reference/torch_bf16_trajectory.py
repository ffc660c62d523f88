#!/usr/bin/env python3
"""How far 20 steps of torch in bfloat16 lie from those of a golden case in float64: losses and trained weights.

  tests/reference/torch_bf16_trajectory.py [--attention eager|sdpa] CASE...

CASE: a folder as in fixtures/moe, "dequantised" within it where its files are in blocks; with "adapter" within it, that
trains. Weights, products and gradients are bfloat16, masters and AdamW float32, as a GPU worker trains. Prints the largest
error of a loss, the losses' errors, and the error of the weights over the way that they went, of all tensors together and
of the worst but for key biases. Needs torch, transformers and peft, no GPU.
"""
import argparse, json, os

import safetensors.torch
import torch
import transformers


def load(case, dtype, attention):
    inner = os.path.join(case, 'dequantised')
    model = transformers.AutoModelForCausalLM.from_pretrained(inner if os.path.isdir(inner) else case, dtype=dtype,
                                                              attn_implementation=attention)
    if os.path.isdir(os.path.join(case, 'adapter')):
        import peft
        model = peft.PeftModel.from_pretrained(model, os.path.join(case, 'adapter'), is_trainable=True,
                                               autocast_adapter_dtype=False).to(dtype)
    return model.train()


def trained(model):
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def groups(masters, settings):
    ratio = settings.get('lora_plus_ratio', 1.0)
    faster = [weight for name, weight in masters.items() if 'lora_B' in name or 'lora_embedding_B' in name]
    others = [weight for weight in masters.values() if not any(weight is other for other in faster)]
    return [({'params': others}, 1.0), ({'params': faster}, ratio)] if faster and ratio != 1 else [({'params': list(masters.values())}, 1.0)]


def run(case, attention):
    """Relative errors of the losses, the masters before and after."""
    with open(os.path.join(case, 'expected.json'), encoding='utf-8') as file:
        expected = json.load(file)
    exact, model = load(case, torch.float32, attention), load(case, torch.bfloat16, attention)
    masters, weights = trained(exact), trained(model)
    before = {name: master.detach().clone() for name, master in masters.items()}
    batch = safetensors.torch.load_file(os.path.join(case, 'batch.safetensors'))
    ids, labels, ends = batch['input_ids'], batch['labels'], batch['cu_seqlens'].tolist()
    settings = expected['optimizer']
    rates = groups(masters, settings)
    optimizer = torch.optim.AdamW([group for group, _ in rates], betas=settings['betas'], eps=settings['eps'],
                                  weight_decay=settings['weight_decay'])
    errors = []
    for step in expected['trajectory']:
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(masters[name])
                weight.grad = None
        logits = torch.cat([model(input_ids=ids[None, a:b]).logits[0] for a, b in zip(ends, ends[1:])]).float()
        loss = torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100)
        loss.backward()
        for name, weight in weights.items():
            masters[name].grad = None if weight.grad is None else weight.grad.float()
        torch.nn.utils.clip_grad_norm_(masters.values(), settings['clip_global_norm'])
        for group, (_, ratio) in zip(optimizer.param_groups, rates):
            group['lr'] = step['lr'] * ratio
        optimizer.step()
        errors.append(loss.item() / step['loss'] - 1)
    return errors, before, {name: master.detach() for name, master in masters.items()}


def errors_of_the_way(case, before, after):
    """By tensor: |end - want| over |want - start|, and the same of all together."""
    path = os.path.join(case, 'final.safetensors')
    if not os.path.exists(path):
        return None
    want = safetensors.torch.load_file(path)
    name_of = lambda name: name.replace('.default', '').replace('lora_magnitude_vector.weight', 'lora_magnitude_vector')
    squares, by_tensor = [0.0, 0.0], {}
    ends = {name_of(name): value for name, value in want.items()}
    for name in before:
        end = ends[name_of(name)].double()
        wrong = (after[name].double() - end).square().sum().item()
        way = (end - before[name].double()).square().sum().item()
        by_tensor[name] = (wrong / way) ** 0.5
        squares[0] += wrong
        squares[1] += way
    # A key bias moves by rounding alone.
    worst = max((name for name in by_tensor if 'k_proj.bias' not in name), key=by_tensor.get)
    return (squares[0] / squares[1]) ** 0.5, by_tensor[worst], worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--attention', default='eager')
    parser.add_argument('cases', nargs='+')
    args = parser.parse_args()
    for case in args.cases:
        errors, before, after = run(case, args.attention)
        way = errors_of_the_way(case, before, after)
        print(f'{os.path.basename(case)}: at most {max(map(abs, errors)):.4f};', ' '.join(f'{e:.3f}' for e in errors),
              '' if way is None else f'; way {way[0]:.3f}, worst tensor {way[1]:.3f} ({way[2]})', flush=True)


if __name__ == '__main__':
    main()
