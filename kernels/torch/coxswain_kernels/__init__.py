"""Fused kernels of Coxswain for PyTorch.

  import coxswain_kernels
  coxswain_kernels.patch(model)           # a transformers model: Llama, Qwen2, Qwen3, Mistral, Gemma, Phi-3
  coxswain_kernels.AutoCoxswainForCausalLM.from_pretrained(...)       # comes patched
  Trainer(..., callbacks=[coxswain_kernels.CoxswainKernels()])        # patches the model that it trains
  coxswain_kernels.SwiGLUMLP(4096, 14336) # or modules, to compose a model of
  coxswain_kernels.rms_norm(x, weight)    # or single ops; they work in torch.compile and checkpointing

DDP and FSDP2 were run by two processes on a CPU (tests/kernels/torch/sharded_test.py), not on GPUs.
"""
import importlib

from .decoder import Attention, RotaryEmbedding, apply_rotary_pos_emb
from .layers import GEGLUMLP, LayerNorm, LoraLinear, RMSNorm, SwiGLUMLP
from .losses import CrossEntropyLoss, FusedLinearCrossEntropyLoss
from .mixture import Experts, SparseMoeBlock
from .ops import (add_rms_norm, attention, combine, cross_entropy, dispatch, dora_linear, embedding,
                  fp8_blocks_dequantize, gated_mlp, geglu, gelu, grouped_gated_linear, grouped_linear, grouped_lora_linear, int8_dequantize, int8_quantize,
                  layer_norm, linear_cross_entropy, lora_linear, mxfp4_dequantize, mxfp4_quantize, nf4_dequantize,
                  nf4_quantize, packed_attention, qkv_projection, rms_norm, rope, route, router_loss, sort_by_expert,
                  swiglu, tune_products)
from .optimizer import AdamW
from .patch import is_patched, join_weights, patch, unpatch

# What needs transformers, and where it is.
_OF_TRANSFORMERS = {'AutoCoxswainForCausalLM': 'auto', 'AutoCoxswainForSequenceClassification': 'auto',
                    'CoxswainKernels': 'trainer'}
__all__ = ['AdamW', 'Attention', 'CrossEntropyLoss', 'Experts', 'FusedLinearCrossEntropyLoss', 'GEGLUMLP', 'LayerNorm',
           'LoraLinear', 'RMSNorm', 'RotaryEmbedding', 'SparseMoeBlock', 'SwiGLUMLP', 'add_rms_norm',
           'apply_rotary_pos_emb', 'attention', 'combine', 'cross_entropy', 'dispatch', 'dora_linear', 'embedding',
           'fp8_blocks_dequantize', 'gated_mlp', 'geglu', 'gelu', 'grouped_gated_linear', 'grouped_linear', 'grouped_lora_linear', 'int8_dequantize', 'int8_quantize',
           'is_patched', 'join_weights', 'layer_norm', 'linear_cross_entropy', 'lora_linear', 'mxfp4_dequantize',
           'mxfp4_quantize', 'nf4_dequantize', 'nf4_quantize', 'packed_attention', 'patch', 'qkv_projection',
           'rms_norm', 'rope', 'route', 'router_loss', 'sort_by_expert', 'swiglu', 'tune_products', 'unpatch']


def __getattr__(name):
    if name not in _OF_TRANSFORMERS:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(f'.{_OF_TRANSFORMERS[name]}', __name__), name)
