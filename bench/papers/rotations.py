"""The rotation of q and k heads for kernels.py, alone and behind the projection with QK-norm: inputs, and each way.

`heads`: of q, of k and v, and their dimension. Tokens stand at 0, 1, ... in one sequence. Eager is transformers' code of
Llama and Qwen3. Source: Su et al., "RoFormer", 2021, section 3.2.2, pairs half a head apart.
"""
import torch
import torch.nn.functional as F

import timing

EPS, THETA = 1e-6, 1e6


def places(rows, dim):
    """cos and sin, float32 [rows, dim / 2], and positions, int32 [rows]."""
    at = torch.arange(rows, device=timing.DEVICE)
    angles = at[:, None] * THETA ** (-torch.arange(0, dim, 2, device=timing.DEVICE) / dim)
    return [angles.cos(), angles.sin(), at.int()]


def inputs(op, rows, width, heads, leaf):
    of_q, of_kv, dim = heads
    if op == 'rope':
        return [leaf(rows, (of_q + 2 * of_kv) * dim), *places(rows, dim)]
    weights = [(leaf(count * dim, width).detach() * width ** -0.5).requires_grad_() for count in (of_q, of_kv, of_kv)]
    return [leaf(rows, width), *weights, leaf(dim), leaf(dim), *places(rows, dim)]


def apart(packed, heads):
    """What is not packed of: q, k [1, rows, n, dim], and cos, sin [1, rows, dim] of their type, whose halves are equal."""
    of_q, of_kv, dim = heads
    parts = packed[0].detach().split((of_q * dim, of_kv * dim, of_kv * dim), -1)[:2]
    return [part.reshape(1, part.shape[0], -1, dim).contiguous().requires_grad_() for part in parts] + wide(*packed[1:3])


def wide(cos, sin):
    return [torch.cat((table, table), -1)[None].to(timing.DTYPE) for table in (cos, sin)]


def turned(x, cos, sin):
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def eager_rope(q, k, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    return turned(q.transpose(1, 2), cos, sin), turned(k.transpose(1, 2), cos, sin)


def projected(dim, norm, rope):
    """x by three products, `norm` of the heads of q and k, `rope` of both: q, k and v."""
    def forward(x, of_q, of_k, of_v, q_norm, k_norm, cos, sin, positions):
        q, k, v = (F.linear(x, weight).view(1, x.shape[0], -1, dim) for weight in (of_q, of_k, of_v))
        return (*rope(norm(q, q_norm), norm(k, k_norm), *wide(cos, sin)), v)
    return forward


def eager(op, heads):
    return eager_rope if op == 'rope' else projected(heads[2], lambda x, w: F.rms_norm(x, w.shape, w, EPS), eager_rope)


def ours(op, heads):
    import coxswain_kernels
    of_q, of_kv, _ = heads
    if op == 'rope':
        return lambda qkv, cos, sin, positions: coxswain_kernels.rope(qkv, cos, sin, positions, of_q, of_kv)

    def projection(x, weight_q, weight_k, weight_v, q_norm, k_norm, cos, sin, positions):
        return coxswain_kernels.qkv_projection(x, (weight_q, weight_k, weight_v), None, cos, sin, positions, of_q, of_kv,
                                               norms=(q_norm, k_norm), eps=EPS)
    return projection


def liger(op, heads):
    from liger_kernel.transformers import functional

    def rope(q, k, cos, sin):
        return functional.liger_rope(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
    if op == 'rope':
        return rope
    return projected(heads[2], lambda x, w: functional.liger_rms_norm(x, w, EPS), rope)
