"""Modules to compose a model of: norms, gated MLPs, a linear with an adapter. Parameters have the names of
transformers' modules, so that their state dicts load. Tensors are float32 or bfloat16 (on the CPU float32); inputs
have the type of the weights, except under autocast. A graph through an MLP has one backward: a second one raises."""
import math

import torch
from torch import nn

from . import modules, ops


class RMSNorm(nn.Module):
    """x / rms(x) (offset + weight) over the last dimension, of x [..., hidden_size]. Gemma's has offset 1, and a weight
    that starts at zero; others start at one. Parameter: weight [hidden_size]."""

    def __init__(self, hidden_size, eps=1e-6, offset=0.0, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.full((hidden_size,), 1.0 - offset, device=device, dtype=dtype))
        self.variance_epsilon, self.offset = eps, offset

    def forward(self, x, residual=None):
        """With a residual of x's shape: (the norm of x + residual, x + residual), by one op."""
        if residual is None:
            return modules.rms_norm(self, None, x)
        return ops.add_rms_norm(x, residual, self.weight, self.variance_epsilon, self.offset)

    def extra_repr(self):
        return f'{self.weight.shape[0]}, eps={self.variance_epsilon}, offset={self.offset}'


class LayerNorm(nn.LayerNorm):
    """torch.nn.LayerNorm over the last dimension. Parameters: weight [H] and, with bias=True, bias [H]."""

    def __init__(self, hidden_size, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__(hidden_size, eps, elementwise_affine, bias, device=device, dtype=dtype)
        if len(self.normalized_shape) != 1 or not elementwise_affine:
            raise ValueError(f'coxswain_kernels.LayerNorm: normalized_shape {tuple(self.normalized_shape)}, '
                             f'elementwise_affine={elementwise_affine}; the kernel takes one dimension with a weight. '
                             'torch.nn.LayerNorm does others')

    def forward(self, x):
        return ops.layer_norm(x, self.weight, self.bias, self.eps)


class _GatedMLP(nn.Module):
    def __init__(self, hidden_size, intermediate_size, device=None, dtype=None):
        super().__init__()
        new = dict(bias=False, device=device, dtype=dtype)
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, **new)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, **new)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, **new)

    def _by_linears(self, x):
        """Where a linear has an adapter or was replaced."""
        return self.down_proj(self._gated(torch.cat((self.gate_proj(x), self.up_proj(x)), -1)))

    def forward(self, x):
        return modules.gated_mlp(self, self._by_linears, self._activation, x)


class SwiGLUMLP(_GatedMLP):
    """down_proj(silu(gate_proj(x)) up_proj(x)) of x [..., hidden_size]. Parameters: gate_proj.weight and up_proj.weight
    [intermediate_size, hidden_size], down_proj.weight [hidden_size, intermediate_size]."""
    _activation = 'silu'

    def _gated(self, gate_up):
        return ops.swiglu(gate_up)


class GEGLUMLP(_GatedMLP):
    """SwiGLUMLP with gelu in the place of silu. approximate: 'tanh' or 'none', as torch.nn.GELU has it."""

    def __init__(self, hidden_size, intermediate_size, approximate='tanh', device=None, dtype=None):
        super().__init__(hidden_size, intermediate_size, device, dtype)
        if approximate not in ('tanh', 'none'):
            raise ValueError(f"coxswain_kernels.GEGLUMLP: approximate is {approximate!r}, must be 'tanh' or 'none'")
        self.approximate = approximate

    @property
    def _activation(self):
        return 'gelu_tanh' if self.approximate == 'tanh' else 'gelu'

    def _gated(self, gate_up):
        return ops.geglu(gate_up, self.approximate)


class LoraLinear(nn.Linear):
    """x weight^T + bias + (lora_alpha / r) (x lora_A^T) lora_B^T of x [..., in_features], by one op. weight
    [out_features, in_features] and bias are frozen; lora_A.weight [r, in_features] and lora_B.weight [out_features, r]
    train, and have the names of PEFT's adapter files. No dropout. Source: Hu et al., "LoRA: Low-Rank Adaptation of
    Large Language Models", section 4.1; initialised as PEFT does: lora_A as nn.Linear, lora_B zero."""

    def __init__(self, in_features, out_features, r=8, lora_alpha=16, bias=False, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device, dtype)
        self._adapt(r, lora_alpha)

    @classmethod
    def of(cls, linear, r=8, lora_alpha=16):
        """Over the weight and bias of an nn.Linear, which are shared, not copied."""
        if type(linear) is not nn.Linear:
            raise TypeError(f'coxswain_kernels.LoraLinear: of {type(linear).__name__}, must be torch.nn.Linear')
        adapted = cls(linear.in_features, linear.out_features, r, lora_alpha, linear.bias is not None, device='meta',
                      dtype=linear.weight.dtype)
        adapted.weight, adapted.bias = linear.weight, linear.bias
        adapted._adapt(r, lora_alpha)
        return adapted

    def _adapt(self, r, lora_alpha):
        if r < 1:
            raise ValueError(f'coxswain_kernels.LoraLinear: r is {r}, must be at least 1')
        new = dict(bias=False, device=self.weight.device, dtype=self.weight.dtype)
        self.lora_A, self.lora_B = nn.Linear(self.in_features, r, **new), nn.Linear(r, self.out_features, **new)
        self.scaling = lora_alpha / r
        nn.init.kaiming_uniform_(self.lora_A.weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B.weight)
        for frozen in (self.weight, self.bias):
            if frozen is not None:
                frozen.requires_grad_(False)

    def forward(self, x):
        return ops.lora_linear(x, self.weight, self.bias, self.lora_A.weight, self.lora_B.weight, self.scaling)

    def extra_repr(self):
        return f'{super().extra_repr()}, r={self.lora_A.out_features}, scaling={self.scaling}'
