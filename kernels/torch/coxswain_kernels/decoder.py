"""Rotary positions and attention over packed documents as modules, to compose a decoder of."""
import torch
from torch import nn

from . import modules, ops
from .layers import RMSNorm


class RotaryEmbedding(nn.Module):
    """Tables of the rotation of heads: angle position rope_theta^(-2 i / r) of pair i of the first r = rotary_dim
    elements; None: all head_dim. Source: Su et al., "RoFormer", section 3.2.2; pairs lie r / 2 apart, as in
    transformers. No parameters."""

    def __init__(self, head_dim, rope_theta=10000.0, rotary_dim=None):
        super().__init__()
        self.rotary_dim, self.rope_theta = head_dim if rotary_dim is None else rotary_dim, rope_theta
        if self.rotary_dim % 2 or not 0 < self.rotary_dim <= head_dim:
            raise ValueError(f'coxswain_kernels.RotaryEmbedding: rotary_dim is {self.rotary_dim}, must be even and at '
                             f'most head_dim, {head_dim}')

    def forward(self, positions):
        """(cos, sin), float32 [T, r / 2], of positions [T]."""
        exponents = torch.arange(0, self.rotary_dim, 2, dtype=torch.float32, device=positions.device)
        angles = positions[:, None].float() * self.rope_theta ** (-exponents / self.rotary_dim)
        return angles.cos(), angles.sin()


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    """transformers' function of this name: q [B, nq, L, hd] and k [B, nkv, L, hd], turned by cos and sin [B or 1, L,
    r], whose halves are equal. unsqueeze_dim 2: of q and k [B, L, n, hd]. Tables are read in float32."""
    if unsqueeze_dim not in (1, 2):
        raise ValueError(f'coxswain_kernels.apply_rotary_pos_emb: unsqueeze_dim is {unsqueeze_dim}, must be 1 or 2')
    if unsqueeze_dim == 1:
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    (batch, length, heads, head_dim), tokens = q.shape, q.shape[0] * q.shape[1]
    half = cos.shape[-1] // 2
    tables = (t[..., :half].float().reshape(-1, half).contiguous() for t in (cos, sin))
    positions = torch.arange(tokens, dtype=torch.int32, device=q.device) % (cos.shape[0] * length)
    # To the op, whose rows end in a value head, the last of k is the one key head; another one stands for the value.
    rows = torch.cat((q, k, k[:, :, -1:]), 2).view(tokens, -1)
    turned = ops.rope(rows, *tables, positions, heads + k.shape[2] - 1, 1)
    q, k, _ = turned.view(batch, length, -1, head_dim).split((heads, k.shape[2], 1), 2)
    return (q.transpose(1, 2), k.transpose(1, 2)) if unsqueeze_dim == 1 else (q, k)


class Attention(nn.Module):
    """Causal self-attention over documents that lie behind one another, with rotary positions. Parameters as in
    transformers' Llama and Qwen: q_proj, k_proj, v_proj and o_proj, `weight` and, with bias=True, `bias` of the first
    three; with qk_norm=True also q_norm.weight and k_norm.weight [head_dim]. scaling None: head_dim^-0.5. window: the
    last positions that a token sees, 0: all. The documents' own rows alone are read: no mask."""

    def __init__(self, hidden_size, num_heads, num_kv_heads=None, head_dim=None, bias=False, qk_norm=False, eps=1e-6,
                 scaling=None, window=0, softcap=0.0, device=None, dtype=None):
        super().__init__()
        new = dict(device=device, dtype=dtype)
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads or num_heads
        self.head_dim = head_dim or hidden_size // num_heads
        if num_heads % self.num_kv_heads:
            raise ValueError(f'coxswain_kernels.Attention: num_heads {num_heads} is no multiple of num_kv_heads '
                             f'{self.num_kv_heads}')
        self.scaling, self.window, self.softcap = scaling, window, softcap
        for name, heads in (('q', num_heads), ('k', self.num_kv_heads), ('v', self.num_kv_heads)):
            setattr(self, f'{name}_proj', nn.Linear(hidden_size, heads * self.head_dim, bias, **new))
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden_size, bias=False, **new)
        if qk_norm:
            self.q_norm, self.k_norm = (RMSNorm(self.head_dim, eps, **new) for _ in range(2))

    def forward(self, x, cos, sin, cu_seqlens=None, max_length=None):
        """[B, L, H] of x [B, L, H] and the tables of its B L tokens, float32 [B L, r / 2] (RotaryEmbedding). The rows
        of x are the documents; or cu_seqlens, int32 [documents + 1], says where each of the B L tokens' begins, the
        last element being B L, and max_length, an int, how long the longest is."""
        batch, length = x.shape[:2]
        heads, tokens = (self.num_heads, self.num_kv_heads), batch * length
        positions = torch.arange(tokens, dtype=torch.int32, device=x.device)
        if (cu_seqlens is None) != (max_length is None):
            raise ValueError('coxswain_kernels.Attention: cu_seqlens and max_length come together')
        dense = cu_seqlens is None
        if dense:
            cu_seqlens = torch.arange(0, tokens + 1, length, dtype=torch.int32, device=x.device)
        qkv = modules.packed_qkv(self, x, (cos, sin, positions), heads)
        out = ops.packed_attention(qkv, cu_seqlens, length if dense else max_length, *heads, self.scaling, self.window,
                                   self.softcap, dense, torch.are_deterministic_algorithms_enabled())
        return self.o_proj(out.view(batch, length, -1))
