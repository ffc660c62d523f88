#!/usr/bin/env python3
"""A decoder of two layers, composed of the modules of coxswain_kernels, trained for three steps on packed documents.

  kernels/torch/examples/compose.py [cpu|cuda]       needs torch, and the wheel that deploy/wheel.sh makes

Its parameters have the names of transformers' Llama, whose state dict it loads.
"""
import sys

import torch
from torch import nn

import coxswain_kernels as ck


class Layer(nn.Module):
    def __init__(self, hidden_size, intermediate_size, heads, kv_heads):
        super().__init__()
        self.input_layernorm = ck.RMSNorm(hidden_size)
        self.self_attn = ck.Attention(hidden_size, heads, kv_heads)
        self.post_attention_layernorm = ck.RMSNorm(hidden_size)
        self.mlp = ck.SwiGLUMLP(hidden_size, intermediate_size)

    def forward(self, x, cos, sin, cu_seqlens, max_length):
        attended = self.self_attn(self.input_layernorm(x), cos, sin, cu_seqlens, max_length)
        normed, x = self.post_attention_layernorm(attended, x)
        return x + self.mlp(normed)


class Decoder(nn.Module):
    def __init__(self, vocab_size=97, hidden_size=64, intermediate_size=128, layers=2, heads=4, kv_heads=2):
        super().__init__()
        self.model = nn.ModuleDict({
            'embed_tokens': nn.Embedding(vocab_size, hidden_size),
            'layers': nn.ModuleList(Layer(hidden_size, intermediate_size, heads, kv_heads) for _ in range(layers)),
            'norm': ck.RMSNorm(hidden_size)})
        self.rotary_emb = ck.RotaryEmbedding(hidden_size // heads)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)
        self.loss = ck.FusedLinearCrossEntropyLoss()

    def forward(self, ids, positions, targets, cu_seqlens, max_length):
        """The mean loss of ids [1, T] with positions [T] and targets [T], -100: none; documents as ck.Attention has
        them."""
        x = self.model.embed_tokens(ids)
        cos, sin = self.rotary_emb(positions)
        for layer in self.model.layers:
            x = layer(x, cos, sin, cu_seqlens, max_length)
        return self.loss(self.lm_head.weight, self.model.norm(x), targets)


def pack(documents):
    """The arguments of Decoder of tensors of ids that lie behind one another, each predicting its own next tokens."""
    lengths = torch.tensor([len(d) for d in documents])
    targets = torch.cat([nn.functional.pad(d[1:], (0, 1), value=-100) for d in documents])
    positions = torch.cat([torch.arange(len(d)) for d in documents])
    ends = nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
    return torch.cat(documents)[None], positions, targets, ends, int(lengths.max())


def train(device, steps=3):
    torch.manual_seed(1)
    decoder = Decoder().to(device)
    optimizer = ck.AdamW(decoder.parameters(), lr=1e-2, max_norm=1.0)
    documents = [torch.randint(97, (length,)) for length in (17, 40, 23)]
    inputs = [x.to(device) if isinstance(x, torch.Tensor) else x for x in pack(documents)]
    losses = []
    for _ in range(steps):
        loss = decoder(*inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


if __name__ == '__main__':
    for step, loss in enumerate(train(sys.argv[1] if len(sys.argv) > 1 else 'cpu'), 1):
        print(f'step {step}: loss {loss:.3f}')
