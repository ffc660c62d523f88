#!/usr/bin/env python3
"""Loads an exported adapter or model in transformers + peft and compares logits.

  load_in_peft.py EXPORT_DIR --base MODEL_DIR [--merged MODEL_DIR]    needs torch, transformers, peft

EXPORT_DIR is what `cox describe` names as artifact: an adapter (adapter_config.json) or a model.
Checks that every tensor of the file is used, that the adapter changes the logits, that the tokenizer
loads, that an adapter which names its base by a path loads by its own name, and with --merged that
the merged model's logits equal base + adapter.
"""
import argparse, json, os, sys
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT = 'Below is an instruction that describes a task.\n\n### Instruction:\nWhat is 3 + 4?\n\n### Response:\n'


def logits(model, ids):
    with torch.no_grad():
        return model(input_ids=ids).logits.double()


def check_adapter(args, ids):
    import peft
    base = AutoModelForCausalLM.from_pretrained(args.base, dtype=torch.float32).eval()
    plain = logits(base, ids)
    model = peft.PeftModel.from_pretrained(base, args.export).eval()
    loaded = peft.get_peft_model_state_dict(model)
    with safe_open(os.path.join(args.export, 'adapter_model.safetensors'), 'pt') as f:
        names = set(f.keys())
        for name in names:
            assert name in loaded, f'peft did not load {name}'
            assert torch.equal(loaded[name].float(), f.get_tensor(name)), f'{name} differs after loading'
    assert names == set(loaded), f'peft expects {sorted(set(loaded) - names)[:3]} too'
    adapted = logits(model, ids)
    change = ((adapted - plain).norm() / plain.norm()).item()
    assert change > 1e-3, f'the adapter changes the logits by {change:.1e} only'
    print(f'adapter: {len(names)} tensors loaded, logits change by {change:.3f} relative')
    base_name = model.peft_config['default'].base_model_name_or_path
    if base_name and os.path.isabs(base_name):
        named = peft.AutoPeftModelForCausalLM.from_pretrained(args.export, dtype=torch.float32).eval()
        assert torch.equal(logits(named, ids), adapted), f'with {base_name}, which it names, the logits differ'
        print(f'adapter: loads over the base that it names, {base_name}')
    return adapted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('export')
    parser.add_argument('--base', required=True)
    parser.add_argument('--merged')
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.export)
    ids = tokenizer(TEXT, return_tensors='pt').input_ids
    if os.path.exists(os.path.join(args.export, 'adapter_config.json')):
        expected = check_adapter(args, ids)
    else:
        expected = logits(AutoModelForCausalLM.from_pretrained(args.export, dtype=torch.float32).eval(), ids)
        plain = logits(AutoModelForCausalLM.from_pretrained(args.base, dtype=torch.float32).eval(), ids)
        change = ((expected - plain).norm() / plain.norm()).item()
        assert change > 1e-3, f'the model equals its base: {change:.1e}'
        print(f'model: loads, logits differ from the base by {change:.3f} relative')
    if args.merged:
        merged_model = AutoModelForCausalLM.from_pretrained(args.merged).eval()
        dtype = merged_model.dtype
        eps = torch.finfo(dtype).eps
        merged = logits(merged_model.float(), ids)
        error = ((merged - expected).norm() / expected.norm()).item()
        # Each weight is rounded once to the stored dtype; errors of the layers add up to a few eps.
        assert error < 4 * eps + 1e-5, f'merged model differs by {error:.1e}'
        print(f'merged: logits equal base + adapter within {error:.1e} (stored as {dtype})')
    return 0


if __name__ == '__main__':
    sys.exit(main())
