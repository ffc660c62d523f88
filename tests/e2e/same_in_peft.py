#!/usr/bin/env python3
"""Loads two adapters of one base in peft and compares the logits they give.

  same_in_peft.py BASE ADAPTER OTHER      exits with 77 where torch, transformers or peft is missing
"""
import sys
try:
    import peft, torch, transformers
except ImportError:
    sys.exit(77)


def logits(base, adapter):
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(model, adapter).eval()
    ids = torch.arange(3, 35)[None] * 7 % model.config.vocab_size
    with torch.no_grad():
        return model(input_ids=ids).logits


def main(base, adapter, other):
    first, second = logits(base, adapter), logits(base, other)
    plain = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    with torch.no_grad():
        ids = torch.arange(3, 35)[None] * 7 % plain.config.vocab_size
        change = ((first - plain(input_ids=ids).logits).norm() / first.norm()).item()
    assert change > 1e-2, f'the adapter changes the logits by {change:.1e} only'
    assert torch.equal(first, second), f'logits differ by {(first - second).abs().max().item():.1e}'
    print(f'equal logits, {change:.3f} away from those of the base')


if __name__ == '__main__':
    main(*sys.argv[1:4])
