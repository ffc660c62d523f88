#!/usr/bin/env python3
"""Reads GGUF files of one model with the gguf package: F32, and others within the bounds of their types.

    compare_gguf.py F32 Q8_0 Q4_K_M
"""
import sys

import gguf
import numpy as np

MATRICES = 3 * 7 + 2


def scales(data, size, at):
    """The float16 at byte `at` of each block, in magnitude."""
    blocks = np.ascontiguousarray(data).reshape(-1, size)[:, at:at + 2]
    return np.abs(np.ascontiguousarray(blocks).view(np.float16).astype(np.float64))


def bounds(kind, values, data):
    """The most that the root mean square error of each run of values is, and the length of a run.

    Half a step of codes that span the run, and the rounding of the scale: tests/common/files/gguf_blocks_test.cc.
    """
    run = 16 if kind == 'Q6_K' else 32
    runs = values.reshape(-1, run)
    largest = np.abs(runs).max(axis=1)
    width = runs.max(axis=1) - np.minimum(runs.min(axis=1), 0)

    def of_runs(unit):
        return np.repeat(unit, 256 // run)

    if kind == 'Q8_0':
        return largest * (1 / 254 + 2**-11 + 4 * 2**-24), run
    if kind == 'Q5_0':
        return largest / 15.1 / 2 + scales(data, 22, 0).ravel() * 16 * 2**-10, run
    if kind == 'Q6_K':
        return largest / 31.1 / 2 + of_runs(scales(data, 210, 208)) * 32, run
    assert kind == 'Q4_K', kind
    return width / 14.1 / 2 + of_runs(scales(data, 144, 0)) * 7.5 + of_runs(scales(data, 144, 2)) / 2, run


def compare(exact, path, kinds):
    others = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    assert {tensor.name for tensor in exact} == set(others), 'the files have other tensors'
    seen = []
    for tensor in exact:
        other = others[tensor.name]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64).ravel()
        read = gguf.quants.dequantize(other.data, other.tensor_type).astype(np.float64).ravel()
        kind = other.tensor_type.name
        if kind == 'F32':
            assert (values == read).all(), tensor.name
            continue
        seen.append(kind)
        bound, run = bounds(kind, values, other.data)
        error = np.sqrt(((values - read).reshape(-1, run) ** 2).mean(axis=1))
        assert (error <= bound * (1 + 2**-20)).all(), (tensor.name, kind, (error / bound).max())
        print(f'{tensor.name}: {kind}, at most {(error / bound).max():.2f} of the bound')
    assert set(seen) == kinds and len(seen) == MATRICES, seen


reader = gguf.GGUFReader(sys.argv[1])
assert reader.fields['general.architecture'].contents() == 'llama'
assert len(reader.fields['tokenizer.ggml.tokens'].contents()) == 512
compare(reader.tensors, sys.argv[2], {'Q8_0'})
compare(reader.tensors, sys.argv[3], {'Q4_K', 'Q6_K', 'Q5_0', 'Q8_0'})
print('read back:', len(reader.tensors), 'tensors')
