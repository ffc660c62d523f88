"""Inputs of every op of coxswain_kernels with the same formula by torch, small, with odd extents."""
import os

import torch
import torch.nn.functional as F

import coxswain_kernels as ck

DEVICE = os.environ.get('COXSWAIN_TORCH_DEVICE', 'cpu')
DTYPES = (torch.float32,) if DEVICE == 'cpu' else (torch.float32, torch.bfloat16)
HEADS, KV_HEADS, HEAD_DIM, TOKENS = 4, 2, 32, 40
WIDTH = (HEADS + 2 * KV_HEADS) * HEAD_DIM
LENGTHS = (17, 23)


def normal(dtype, *shape, scale=1.0):
    return (torch.randn(*shape, device=DEVICE) * scale).to(dtype)


def integers(values):
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def _rms(x, weight, offset=0.0, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * (weight + offset)


def _turned(heads, cos, sin):
    half = cos.shape[1]
    a, b, rest = heads.split([half, half, heads.shape[-1] - 2 * half], -1)
    c, s = cos.to(heads.dtype)[:, None], sin.to(heads.dtype)[:, None]
    return torch.cat([a * c - b * s, b * c + a * s, rest], -1)


def _turned_qkv(qkv, cos, sin):
    heads = qkv.view(TOKENS, -1, HEAD_DIM)
    return torch.cat([_turned(heads[:, :-KV_HEADS], cos, sin), heads[:, -KV_HEADS:]], 1).flatten(1)


def _attention_with_sinks(q, k, v, sinks):
    out = []
    for a, b, c in zip(q.split(LENGTHS), k.split(LENGTHS), v.split(LENGTHS)):
        b, c = (x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (b, c))
        hidden = torch.ones(len(a), len(a), dtype=torch.bool, device=a.device).triu(1)
        scores = torch.einsum('ihd,jhd->hij', a, b) * a.shape[2] ** -0.5
        logits = sinks.to(scores.dtype)[:, None, None].expand(-1, len(a), 1)
        p = torch.cat([scores.masked_fill(hidden, float('-inf')), logits], 2).softmax(-1)[:, :, :-1]
        out.append(torch.einsum('hij,jhd->ihd', p, c))
    return torch.cat(out)


def _attention(q, k, v, window=0):
    out = []
    for a, b, c in zip(q.split(LENGTHS), k.split(LENGTHS), v.split(LENGTHS)):
        at = torch.arange(len(a), device=a.device)
        seen = (at[:, None] >= at) & ((at[:, None] - at < window) if window else True)
        a, b, c = (x.transpose(0, 1) for x in (a, b, c))
        out.append(F.scaled_dot_product_attention(a, b, c, seen, enable_gqa=True).transpose(0, 1))
    return torch.cat(out)


def _packed_attention(qkv, window=0):
    return _attention(*qkv.view(TOKENS, -1, HEAD_DIM).split([HEADS, KV_HEADS, KV_HEADS], 1), window).flatten(1)


def _cross_entropy(logits, targets, z_loss=0.0, softcap=0.0, label_smoothing=0.0):
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    z = softcap * torch.tanh(z / softcap) if softcap else z
    loss = F.cross_entropy(z, targets.long(), label_smoothing=label_smoothing, reduction='sum')
    loss = loss + z_loss * (torch.logsumexp(z, -1).square() * (targets != -100)).sum()
    return loss / (targets != -100).sum()


def _dora(x, weight, bias, a, b, magnitude):
    norm = (weight + 2 * (b @ a)).norm(dim=1).detach()
    return (F.linear(x, weight) + 2 * F.linear(F.linear(x, a), b)) * (magnitude / norm) + bias


def samples(dtype):
    """name, inputs that have gradients, ours, torch's: each gives a tensor or several."""
    def n(*shape, scale=1.0):
        return normal(dtype, *shape, scale=scale)

    weight = 1 + n(96, scale=0.1)
    yield 'rms_norm', [n(2, 7, 96), weight], lambda x, w: ck.rms_norm(x, w, weight_offset=1.0), lambda x, w: _rms(x, w, 1)
    yield 'add_rms_norm', [n(7, 96), n(7, 96), weight], ck.add_rms_norm, lambda x, r, w: (_rms(x + r, w), x + r)
    yield ('layer_norm', [n(7, 96), weight, n(96)], ck.layer_norm,
           lambda x, w, b: F.layer_norm(x, (96,), w, b))
    yield 'swiglu', [n(7, 96)], ck.swiglu, lambda x: F.silu(x[:, :48]) * x[:, 48:]
    for form in ('tanh', 'none'):
        yield (f'geglu {form}', [n(7, 96)], lambda x, f=form: ck.geglu(x, f),
               lambda x, f=form: F.gelu(x[:, :48], approximate=f) * x[:, 48:])
        yield (f'gelu {form}', [n(7, 96)], lambda x, f=form: ck.gelu(x, f),
               lambda x, f=form: F.gelu(x, approximate=f))
    for activation, act in (('silu', F.silu), ('gelu_tanh', lambda x: F.gelu(x, approximate='tanh'))):
        yield (f'gated_mlp {activation}', [n(2, 20, 64), n(128, 64, scale=0.2), n(128, 64, scale=0.2),
                                           n(64, 128, scale=0.1)],
               lambda x, g, u, d, a=activation: ck.gated_mlp(x, g, u, d, a),
               lambda x, g, u, d, a=act: F.linear(a(F.linear(x, g)) * F.linear(x, u), d))
    yield ('gated_mlp joined', [n(40, 64), n(256, 64, scale=0.2), n(64, 128, scale=0.1)],
           lambda x, w, d: ck.gated_mlp(x, w, None, d),
           lambda x, w, d: F.linear(F.silu(F.linear(x, w[:128])) * F.linear(x, w[128:]), d))
    targets = integers([3, 0, -100, 62, 7, 9, 1])
    options = dict(label_smoothing=0.1, z_loss=0.01, softcap=5.0)
    for kind in ({}, options):
        yield (f'cross_entropy {len(kind)}', [n(7, 63, scale=2.0)], lambda z, k=kind: ck.cross_entropy(z, targets, **k),
               lambda z, k=kind: _cross_entropy(z, targets, **k))
        yield (f'linear_cross_entropy {len(kind)}', [n(7, 64), n(63, 64, scale=0.3)],
               lambda x, w, k=kind: ck.linear_cross_entropy(x, w, targets, chunk_rows=4, **k),
               lambda x, w, k=kind: _cross_entropy(F.linear(x, w), targets, **k))
        yield (f'linear_cross_entropy cut {len(kind)}', [n(7, 64), n(63, 64, scale=0.3)],
               lambda x, w, k=kind: ck.linear_cross_entropy(x, w, targets, cut=True, **k),
               lambda x, w, k=kind: _cross_entropy(F.linear(x, w), targets, **k))
    yield from _head_samples(n)
    yield from _expert_samples(dtype, n)
    adapters = [n(2, 20, 64), n(8, 64, scale=0.2), n(96, 8)]
    base, bias, lengths = n(96, 64, scale=0.2), n(96), 1 + n(96, scale=0.1)
    yield ('lora_linear', adapters, lambda x, a, b: ck.lora_linear(x, base, bias, a, b, 2.0),
           lambda x, a, b: F.linear(x, base.to(x.dtype), bias.to(x.dtype)) + 2 * F.linear(F.linear(x, a), b))
    yield ('dora_linear', [*adapters, lengths], lambda x, a, b, m: ck.dora_linear(x, base, bias, a, b, m, 2.0),
           lambda x, a, b, m: _dora(x, base.to(x.dtype), bias.to(x.dtype), a, b, m))
    ids = integers([[3, 1, 3], [0, 62, 3]])
    yield ('embedding', [n(63, 64)], lambda w: ck.embedding(ids, w, 0.5), lambda w: 0.5 * F.embedding(ids.long(), w))


def _expert_samples(dtype, n):
    def weights(scores, values):
        chosen = scores.gather(1, values.topk(3).indices)
        return chosen / chosen.sum(-1, keepdim=True)
    # Logits lie apart, so that every type chooses the same.
    logits = torch.stack([torch.randperm(9) for _ in range(7)]).to(DEVICE, dtype) / 4
    yield ('route softmax', [logits], lambda x: ck.route(x.float(), 3)[0], lambda x: weights(x.softmax(-1), x))
    bias = integers([0, 0, 0, 5, 5, 5, 0, 0, 0]).float()
    yield ('route sigmoid', [logits], lambda x: ck.route(x.float(), 3, 'sigmoid', bias, groups=3, top_groups=1)[0],
           lambda x: weights(x.sigmoid(), x + 9 * bias))
    ids = integers([[0, 1], [4, 2], [1, 0], [3, 1]])
    use = F.one_hot(ids.long(), 6).sum(1).double().mean(0)
    yield ('router_loss', [n(4, 6)], lambda x: tuple(loss.float() for loss in ck.router_loss(x.float(), ids)),
           lambda x: ((use * x.softmax(-1).mean(0)).sum() * 6, x.logsumexp(-1).square().mean()))

    def moved(x, weight):
        order, places, _, _ = ck.sort_by_expert(ids, 6)
        return ck.combine(ck.dispatch(x, order, places), weight.float(), order, places)
    yield 'dispatch and combine', [n(4, 8), n(4, 2)], moved, lambda x, weight: x * weight.sum(-1, keepdim=True)
    if DEVICE != 'cpu':
        return

    def ours(x, w, b, weight):
        order, places, offsets, _ = ck.sort_by_expert(ids, 6)
        return ck.combine(ck.grouped_linear(ck.dispatch(x, order, places), w, offsets, b), weight, order, places)

    def theirs(x, w, b, weight):
        return sum((weight * (ids == e)).sum(-1, keepdim=True) * F.linear(x, w[e], b[e]) for e in range(6))
    yield 'experts', [n(4, 8), n(6, 5, 8), n(6, 5), n(4, 2)], ours, theirs
    offsets, base, bias = ck.sort_by_expert(ids, 6)[2], n(6, 16, 8, scale=0.3), n(6, 16)
    expert = torch.repeat_interleave(offsets.diff())

    def gated(x, w, b):
        gate, up = torch.stack([F.linear(row, w[e], b[e]) for row, e in zip(x, expert)]).chunk(2, -1)
        return F.silu(gate) * up
    yield ('grouped_gated_linear', [n(8, 8), n(6, 16, 8, scale=0.3), n(6, 16)],
           lambda x, w, b: ck.grouped_gated_linear(x, w, offsets, b), gated)
    yield ('grouped_lora_linear', [n(8, 8), n(6, 4, 8, scale=0.3), n(6, 16, 4)],
           lambda x, a, b: ck.grouped_lora_linear(x, base, offsets, a, b, 2.0, bias),
           lambda x, a, b: torch.stack([F.linear(row, base[e].to(row.dtype), bias[e].to(row.dtype)) +
                                        2 * F.linear(F.linear(row, a[e]), b[e]) for row, e in zip(x, expert)]))


def _head_samples(n):
    angle = torch.rand(TOKENS, HEAD_DIM // 4, device=DEVICE) * 6
    cos, sin, positions = angle.cos(), angle.sin(), torch.arange(TOKENS, dtype=torch.int32, device=DEVICE)
    yield ('rope', [n(TOKENS, WIDTH)], lambda x: ck.rope(x, cos, sin, positions, HEADS, KV_HEADS),
           lambda x: _turned_qkv(x, cos, sin))
    inputs = [n(TOKENS, 64)] + [n(h * HEAD_DIM, 64, scale=0.2) for h in (HEADS, KV_HEADS, KV_HEADS)]
    yield ('qkv_projection', inputs,
           lambda x, *w: ck.qkv_projection(x, w, None, cos, sin, positions, HEADS, KV_HEADS),
           lambda x, *w: _turned_qkv(F.linear(x, torch.cat(w)), cos, sin))
    biases = [n(h * HEAD_DIM) for h in (HEADS, KV_HEADS, KV_HEADS)]
    norms = [1 + n(HEAD_DIM, scale=0.1), 1 + n(HEAD_DIM, scale=0.1)]

    def normed(x, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm):
        q, k = (_rms(F.linear(x, w, b).view(TOKENS, -1, HEAD_DIM), m).flatten(1)
                for w, b, m in ((q, q_bias, q_norm), (k, k_bias, k_norm)))
        return _turned_qkv(torch.cat([q, k, F.linear(x, v, v_bias)], 1), cos, sin)
    yield ('qkv_projection, norms and biases', [*inputs, *biases, *norms],
           lambda x, *w: ck.qkv_projection(x, w[:3], w[3:6], cos, sin, positions, HEADS, KV_HEADS, w[6:]), normed)
    cu = integers([0, LENGTHS[0], TOKENS])
    for window in (0, 5):
        yield (f'packed_attention, window {window}', [n(TOKENS, WIDTH)],
               lambda x, w=window: ck.packed_attention(x, cu, max(LENGTHS), HEADS, KV_HEADS, window=w),
               lambda x, w=window: _packed_attention(x, w))
    yield ('attention', [n(TOKENS, h, HEAD_DIM) for h in (HEADS, KV_HEADS, KV_HEADS)],
           lambda q, k, v: ck.attention(q, k, v, cu, max(LENGTHS)), _attention)
    values = HEAD_DIM // 2
    inputs = [n(TOKENS, HEADS, HEAD_DIM), n(TOKENS, KV_HEADS, HEAD_DIM), n(TOKENS, KV_HEADS, values), n(HEADS)]
    yield ('attention, sinks and values of another width', inputs,
           lambda q, k, v, s: ck.attention(q, k, v, cu, max(LENGTHS), sinks=s), _attention_with_sinks)
    heads = (HEADS + KV_HEADS) * HEAD_DIM
    yield ('packed_attention, sinks and values of another width', [n(TOKENS, heads + KV_HEADS * values), n(HEADS)],
           lambda x, s: ck.packed_attention(x, cu, max(LENGTHS), HEADS, KV_HEADS, value_dim=values, sinks=s),
           lambda x, s: _attention_with_sinks(
               *x[:, :heads].view(TOKENS, -1, HEAD_DIM).split([HEADS, KV_HEADS], 1),
               x[:, heads:].view(TOKENS, KV_HEADS, values), s).flatten(1))
