#!/usr/bin/env python3
"""Reads two GGUF files of one model with the gguf package: F32, and Q8_0 within its rounding.

    compare_gguf.py F32 Q8_0
"""
import sys

import gguf
import numpy as np

exact, rounded = (gguf.GGUFReader(path) for path in sys.argv[1:3])
others = {tensor.name: tensor for tensor in rounded.tensors}
assert {tensor.name for tensor in exact.tensors} == set(others), 'the files have other tensors'
assert exact.fields['general.architecture'].contents() == 'llama'
assert len(exact.fields['tokenizer.ggml.tokens'].contents()) == 512
quantised = 0
for tensor in exact.tensors:
    other = others[tensor.name]
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64).ravel()
    read = gguf.quants.dequantize(other.data, other.tensor_type).astype(np.float64).ravel()
    if other.tensor_type == gguf.GGMLQuantizationType.F32:
        assert (values == read).all(), tensor.name
        continue
    quantised += 1
    largest = np.abs(values).reshape(-1, 32).max(axis=1, keepdims=True)
    # Half a step, the float16 rounding of the scale, and four roundings in float32.
    bound = largest * (1 / 254 + 2**-11 + 4 * 2**-24)
    assert (np.abs(values - read).reshape(-1, 32) <= bound).all(), tensor.name
assert quantised == 3 * 7 + 2, quantised
print('read back:', len(others), 'tensors')
