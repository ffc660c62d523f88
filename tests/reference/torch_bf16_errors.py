#!/usr/bin/env python3
"""Gradient errors of the GPU engine beside those of torch in bfloat16, both against the float64 golden values.

  torch_bf16_errors.py FIXTURES TESTS_XML      needs: torch with a GPU, transformers, peft, safetensors

TESTS_XML is the report of gpu_tests: its property gradient_errors holds |g - golden| / |golden| of each tensor in
bfloat16. Exit code 1 when a case's error (root of the mean square over its tensors) is more than twice torch's.
"""
import json
import os
import sys
import xml.etree.ElementTree as ElementTree

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

LIMIT = 2.0


def torch_errors(directory):
    """Each sequence of the batch alone, as the golden values were made; weights, activations, gradients in bfloat16."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16, attn_implementation='eager')
    if os.path.isdir(os.path.join(directory, 'adapter')):
        import peft
        model = peft.PeftModel.from_pretrained(model, os.path.join(directory, 'adapter'), is_trainable=True,
                                               autocast_adapter_dtype=False).to(torch.bfloat16)
    model = model.cuda().train()
    batch = {name: tensor.cuda() for name, tensor in load_file(os.path.join(directory, 'batch.safetensors')).items()}
    cuts = batch['cu_seqlens'].tolist()
    logits = torch.cat([model(input_ids=batch['input_ids'][None, a:b]).logits[0] for a, b in zip(cuts, cuts[1:])])
    loss = torch.nn.functional.cross_entropy(logits.float(), batch['labels'], ignore_index=-100)
    loss.backward()
    golden = load_file(os.path.join(directory, 'grads.safetensors'))
    errors = {}
    for name, parameter in model.named_parameters():
        name = name.replace('.modules_to_save.default', '').replace('.default', '')
        if parameter.grad is None or name not in golden:
            continue
        expected = golden[name].double()
        key = name.replace('.lora_magnitude_vector.weight', '.lora_magnitude_vector')  # as in peft's files
        if '.lora_' not in key:
            key = key.removeprefix('base_model.model.')
        errors[key] = float((parameter.grad.double().cpu() - expected).norm() / expected.norm())
    return errors


def our_errors(report):
    """Case -> tensor -> error."""
    cases = {}
    for case in ElementTree.parse(report).getroot().iter('testcase'):
        for item in case.iter('property'):
            if item.get('name') == 'gradient_errors':
                cases[case.get('name').split('/')[-1]] = json.loads(item.get('value'))
    return cases


def root_mean_square(errors):
    return (sum(e * e for e in errors) / len(errors)) ** 0.5


def main():
    fixtures, report = sys.argv[1:]
    cases, bad = our_errors(report), 0
    if not cases:
        sys.exit(f'{report} holds no gradient_errors: gpu_tests ran without its golden cases')
    for name, ours in sorted(cases.items()):
        theirs = torch_errors(os.path.join(fixtures, name))
        common = sorted(set(ours) & set(theirs))
        if len(common) != len(ours):
            sys.exit(f'{name}: torch has no gradient of {sorted(set(ours) - set(theirs))[:3]}')
        a, b = root_mean_square([ours[n] for n in common]), root_mean_square([theirs[n] for n in common])
        worst = max(common, key=lambda n: ours[n] / theirs[n])
        bad += a > LIMIT * b
        print(f'{name}: {len(common)} tensors, error {a:.2e}, torch {b:.2e}, ratio {a / b:.2f}; '
              f'worst tensor {ours[worst] / theirs[worst]:.2f} ({worst})')
    print(f'bfloat16 gradients: {bad} of {len(cases)} cases have more than {LIMIT:.0f} times the error of torch')
    sys.exit(bad > 0)


if __name__ == '__main__':
    main()
