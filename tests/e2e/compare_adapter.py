#!/usr/bin/env python3
"""Reads an exported adapter back with the safetensors package and compares it with a golden one.

  compare_adapter.py EXPORTED_DIR GOLDEN_DIR [--values]

Always: same keys, shapes, float32, format metadata, and the settings of adapter_config.json that fix the
function. With --values also every value, bit for bit. Needs safetensors and numpy only.
"""
import json, os, sys
import numpy as np
from safetensors import safe_open

SETTINGS = ['peft_type', 'task_type', 'r', 'lora_alpha', 'use_rslora', 'use_dora', 'bias', 'fan_in_fan_out', 'modules_to_save',
            'rank_pattern', 'alpha_pattern', 'layers_to_transform', 'init_lora_weights', 'lora_dropout']


def tensors(directory):
    with safe_open(os.path.join(directory, 'adapter_model.safetensors'), 'np') as f:
        assert f.metadata() == {'format': 'pt'}, f.metadata()
        return {name: f.get_tensor(name) for name in f.keys()}


def main(exported_dir, golden_dir, values):
    exported, golden = tensors(exported_dir), tensors(golden_dir)
    assert set(exported) == set(golden), sorted(set(exported) ^ set(golden))[:4]
    for name, value in golden.items():
        assert exported[name].shape == value.shape, (name, exported[name].shape, value.shape)
        assert exported[name].dtype == np.float32, (name, exported[name].dtype)
        if values:
            assert exported[name].tobytes() == value.tobytes(), f'{name} differs'
    text = open(os.path.join(exported_dir, 'adapter_config.json')).read()
    config, expected = json.loads(text), json.load(open(os.path.join(golden_dir, 'adapter_config.json')))
    for key in SETTINGS:
        assert config[key] == expected[key], (key, config[key], expected[key])
    # PEFT may list a module once a layer, by its whole path.
    last = lambda modules: {module.rsplit('.', 1)[-1] for module in modules}
    assert last(config['target_modules']) == last(expected['target_modules'])
    assert set(config) <= set(expected), f'keys that peft does not know: {set(config) - set(expected)}'
    assert text == json.dumps(config, indent=2, sort_keys=True), 'not the layout peft writes'
    print(f'{len(golden)} tensors agree' + (' bit for bit' if values else ''))


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], '--values' in sys.argv)
