#!/usr/bin/env python3
"""Loads two adapters of one base in peft and compares the logits they give.

  same_in_peft.py BASE ADAPTER OTHER [BOUND]      exits with 77 where torch, transformers or peft is missing

They are equal to the bit or, with a bound, no further apart than that part of their norm: peft fuses the adapters of
single experts into ones of twice the rank.
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


def main(base, adapter, other, bound='0'):
    first, second = logits(base, adapter), logits(base, other)
    plain = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    with torch.no_grad():
        ids = torch.arange(3, 35)[None] * 7 % plain.config.vocab_size
        change = ((first - plain(input_ids=ids).logits).norm() / first.norm()).item()
    assert change > 1e-2, f'the adapter changes the logits by {change:.1e} only'
    apart = ((first - second).norm() / first.norm()).item()
    assert apart <= float(bound), f'logits differ by {apart:.1e}'
    print(f'logits {apart:.1e} apart, {change:.3f} away from those of the base')


if __name__ == '__main__':
    main(*sys.argv[1:5])
