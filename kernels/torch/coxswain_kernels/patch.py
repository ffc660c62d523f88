"""patch(model): the modules of a transformers model over the ops of this package; unpatch(model) takes it back."""
import functools, types

import torch
from torch import nn

from . import modules
from .compare import require_equal

FORWARDS = {'RMSNorm': modules.rms_norm, 'RotaryEmbedding': modules.rotary_embedding, 'MLP': modules.mlp,
            'Attention': modules.attention, 'Experts': modules.experts, 'DecoderLayer': modules.decoder_layer,
            'ForCausalLM': modules.causal_lm}
FAMILIES = {**dict.fromkeys(('llama', 'qwen2', 'qwen3', 'mistral', 'gemma', 'phi3', 'mixtral', 'qwen2_moe', 'qwen3_moe'),
                            FORWARDS),
            **dict.fromkeys(('glm4_moe', 'deepseek_v3'), ('RMSNorm', 'MLP', 'Experts', 'ForCausalLM'))}


def patch(model, verify=False, join=True, device=None):
    """Changes `model` in place and returns it. verify: compares logits and gradients with those of the unpatched model
    on a small random batch, and raises, with the model as it was, where they differ by more than rounding. join: the
    weights of gate and up, and those of q, k and v, are laid behind one another, for one product each. device: where
    the model will run, if its weights are not there yet."""
    parts = list(_parts(model))
    if not parts:
        raise ValueError(f'coxswain_kernels: {type(model).__name__} has no module of {", ".join(FAMILIES)}')
    _require_one_device(model)
    if any('forward' in vars(module) for module, _ in parts):
        raise ValueError('coxswain_kernels: the forward of a module is replaced already; unpatch first')
    _require_types(model, device)
    if verify:
        require_equal(model, functools.partial(_put, parts, join), unpatch)
    else:
        _put(parts, join)
    return model


def unpatch(model):
    for module, _ in _parts(model):
        if hasattr(vars(module).get('forward'), 'coxswain_original'):
            del module.forward
            for linear in modules.joinable(module):
                linear.weight.data = linear.weight.data.clone()
    return model


def join_weights(model):
    """Lays the weights of gate and up, and those of q, k and v, behind one another, for one product each, and returns
    the model. `patch` does it; model.to(device) parts them. safetensors.torch.save_model refuses them, save_pretrained
    and torch.save do not."""
    for module in model.modules():
        modules.join(module)
    return model


def is_patched(model):
    """Whether any module has a forward of this package."""
    return any(hasattr(vars(module).get('forward'), 'coxswain_original') for module in model.modules())


def _parts(model):
    for module in model.modules():
        for cls in type(module).__mro__:
            place, _, name = cls.__module__.rpartition('.')[2].partition('_')
            family = cls.__module__.split('.')[-2] if cls.__module__.startswith('transformers.models.') else None
            kind = next((k for k in FORWARDS if cls.__name__.endswith(k)), None)
            if kind in FAMILIES.get(family, ()) and place == 'modeling':
                yield module, kind
                break


def _require_one_device(model):
    devices = {str(device) for device in (getattr(model, 'hf_device_map', None) or {}).values()}
    if len(devices) > 1 or 'disk' in devices:
        raise ValueError(f'coxswain_kernels: device_map puts {type(model).__name__} on {", ".join(sorted(devices))}; '
                         "one process drives one device: device_map={'': 0}, or a process for each GPU")


def _require_types(model, device):
    for name, parameter in model.named_parameters():
        place = torch.device(device or parameter.device)
        kinds = (torch.float32,) if place.type == 'cpu' else (torch.float32, torch.bfloat16)
        if parameter.is_floating_point() and parameter.dtype not in kinds:
            raise ValueError(f'coxswain_kernels: {name} is {parameter.dtype} on {place}; the kernels take '
                             f'{" and ".join(str(k) for k in kinds)} there')
    for name, module in model.named_modules():
        kind = type(module.weight) if type(module) is nn.Linear else nn.Parameter
        if kind not in (nn.Parameter, torch.Tensor) and not modules.is_shard(module.weight):
            raise ValueError(f'coxswain_kernels: the weight of {name} is a {kind.__name__} in an nn.Linear, which the '
                             'kernels do not read; of quantized models they take those whose linears have a class of '
                             'their own, as those of bitsandbytes')


def _put(parts, join):
    for module, kind in parts:
        module.forward = types.MethodType(_forward(FORWARDS[kind], type(module).forward), module)
        if join:
            modules.join(module)


def _forward(function, original):
    """A method, so that a deep copy of the module computes with its own weights."""
    @functools.wraps(original)
    def forward(self, *args, **kwargs):
        return function(self, functools.partial(original, self), *args, **kwargs)
    forward.coxswain_original = original
    return forward
