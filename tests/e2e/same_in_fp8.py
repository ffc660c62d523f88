#!/usr/bin/env python3
"""Reads a model in FP8 with transformers: dequantised it is bit for bit what another folder holds in float32.

    same_in_fp8.py FP8 FLOAT32

FLOAT32 is the model that Coxswain made of FP8. The modules that transformers makes of config.json, were they to stay in
FP8, have the names, dtypes and shapes of the files. Exit code 77: torch or transformers is not there.
"""
import glob, os, sys

try:
    import torch
    from safetensors import safe_open
    from transformers import AutoConfig, AutoModelForCausalLM, FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import replace_with_fp8_linear
except ImportError:
    sys.exit(77)


def tensors(folder):
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, '*.safetensors'))):
        with safe_open(path, 'pt') as file:
            found |= {name: file.get_tensor(name) for name in file.keys()}
    return found


def check_modules(folder, written):
    config = AutoConfig.from_pretrained(folder)
    settings = FineGrainedFP8Config(**config.quantization_config)
    del config.quantization_config
    with torch.device('meta'):
        model = AutoModelForCausalLM.from_config(config)
    replace_with_fp8_linear(model, settings.modules_to_not_convert, settings, pre_quantized=True)
    expected = model.state_dict()
    if config.tie_word_embeddings:
        del expected['lm_head.weight']
    assert set(expected) == set(written), sorted(set(expected) ^ set(written))[:4]
    for name, tensor in expected.items():
        assert tensor.shape == written[name].shape, f'{name}: {tuple(tensor.shape)}, {tuple(written[name].shape)}'
        codes = [t.dtype == torch.float8_e4m3fn for t in (tensor, written[name])]
        assert codes[0] == codes[1], f'{name}: {tensor.dtype}, {written[name].dtype}'


def main():
    fp8, float32 = sys.argv[1:]
    written, ours = tensors(fp8), tensors(float32)
    check_modules(fp8, written)
    model, report = AutoModelForCausalLM.from_pretrained(fp8, dtype=torch.float32, output_loading_info=True,
                                                         quantization_config=FineGrainedFP8Config(dequantize=True))
    assert not any(report.values()), report
    theirs = model.state_dict()
    in_fp8 = [name for name, tensor in written.items() if tensor.dtype == torch.float8_e4m3fn]
    assert in_fp8
    for name in in_fp8:
        assert theirs[name].dtype == ours[name].dtype == torch.float32, name
        assert torch.equal(theirs[name].view(torch.int32), ours[name].view(torch.int32)), f'{name} differs'
    print(f'{len(in_fp8)} matrices in FP8: transformers reads the same bits')


if __name__ == '__main__':
    main()
