"""Adapters of the CUDA kernels as torch functions, through the C ABI of kernels/c_api.h.

torch_ops.load(path) once, then dropout, lora_linear, dora_linear. Tensors are contiguous, on one device, float32 or
bfloat16. cases() are the checks that torch_ops runs.
"""
import torch

import torch_ops as ops
from torch_ops import DTYPES, _args, _call, _float32, _lent


def _drop(x, rate, seed, site, step):
    y = torch.empty_like(x)
    rows = torch.arange(x.shape[0], device='cuda', dtype=torch.int32)
    bins = torch.zeros_like(rows)
    _call('dropout_apply', _args('dropout', dtype=DTYPES[x.dtype], rate=rate, rows=x.shape[0], columns=x.shape[1],
                                 key=seed, site=site, step=step, bins=bins, positions=rows, x=x, y=y))
    return y


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step, rate, seed, site):
        ctx.save_for_backward(step)
        ctx.fields = (rate, seed, site)
        return _drop(x, rate, seed, site, step)

    @staticmethod
    def backward(ctx, dy):
        return _drop(dy.contiguous(), *ctx.fields, *ctx.saved_tensors), None, None, None, None


def dropout(x, step, rate, seed=(0, 0), site=0):
    """x [T, K] by a mask of (seed, site, step, row, column); step: one int32 on the device."""
    return _Dropout.apply(x, step, rate, seed, site)


class _LoraLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, a, b, scale):
        rows, n = x.shape[0], b.shape[0]
        ctx.fields = dict(dtype=DTYPES[x.dtype], members=1, in_features=x.shape[1], rank=a.shape[0], out_features=(n,),
                          ldy=n, scale=scale, rows=rows)
        h, y = x.new_empty(rows, a.shape[0]), x.new_empty(rows, n)
        _lent('lora_linear_forward', _args('lora_linear', **ctx.fields, x=x, a=a, b=(b,), h=h, y=y))
        ctx.save_for_backward(x, a, b, h)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, a, b, h = ctx.saved_tensors
        dy, dx = dy.contiguous(), torch.empty_like(x)
        da, db = _float32(*a.shape), _float32(*b.shape)
        _lent('lora_linear_backward', _args('lora_linear', **ctx.fields, x=x, a=a, b=(b,), h=h, dy=dy, da=da, db=(db,),
                                            dx=dx))
        return dx, da.to(a.dtype), db.to(b.dtype), None


def lora_linear(x, a, b, scale):
    """scale (x A^T) B^T: x [T, K], a [r, K], b [N, r]."""
    return _LoraLinear.apply(x, a, b, scale)


class _DoraLinear(torch.autograd.Function):
    """u = x W^T + scale (x A^T) B^T, y = u m / n with n = ||W + scale B A|| by rows, a constant; W is frozen."""

    @staticmethod
    def forward(ctx, x, weight, a, b, magnitude, scale):
        rows, n = x.shape[0], b.shape[0]
        ctx.fields = dict(dtype=DTYPES[x.dtype], members=1, in_features=x.shape[1], rank=a.shape[0],
                          out_features=(n,), ldy=n, scale=scale, rows=rows)
        squares, norm, factor = _float32(n), _float32(n), _float32(n)
        _call('dora_row_squares', _args('dora_row_squares', dtype=DTYPES[x.dtype], rows=n, columns=x.shape[1], w=weight,
                                        squares=squares))
        _lent('dora_factors', _args('dora', **ctx.fields, w=weight, squares=squares, a=a, b=(b,),
                                    magnitude=(magnitude,), norm=norm, factor=factor))
        h, u = x.new_empty(rows, a.shape[0]), ops._gemm(x.new_empty(rows, n), x, weight, transpose_b=True)
        _lent('lora_linear_forward', _args('lora_linear', **ctx.fields, x=x, a=a, b=(b,), h=h, y=u, accumulate_y=1))
        y = torch.empty_like(u)
        _call('dora_forward', _args('dora', **ctx.fields, factor=factor, u=u, y=y))
        ctx.save_for_backward(x, weight, a, b, magnitude, norm, factor, h, u)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, a, b, magnitude, norm, factor, h, u = ctx.saved_tensors
        du = dy.clone(memory_format=torch.contiguous_format)
        da, db, dmagnitude = _float32(*a.shape), _float32(*b.shape), _float32(*magnitude.shape)
        _lent('dora_backward', _args('dora', **ctx.fields, norm=norm, factor=factor, u=u, dy=du,
                                     magnitude=(magnitude,), dmagnitude=(dmagnitude,)))
        dx = ops._gemm(torch.empty_like(x), du, weight)
        _lent('lora_linear_backward', _args('lora_linear', **ctx.fields, x=x, a=a, b=(b,), h=h, dy=du, da=da, db=(db,),
                                            dx=dx, accumulate_dx=1))
        return dx, None, da.to(a.dtype), db.to(b.dtype), dmagnitude.to(magnitude.dtype), None


def dora_linear(x, weight, a, b, magnitude, scale):
    """x [T, K], weight [N, K] without gradient, a [r, K], b [N, r], magnitude [N]."""
    return _DoraLinear.apply(x, weight, a, b, magnitude, scale)


def _torch_dora(x, weight, a, b, magnitude, scale):
    linear = torch.nn.functional.linear
    norm = (weight + scale * (b @ a)).norm(dim=1).detach()
    return (linear(x, weight) + scale * linear(linear(x, a), b)) * (magnitude / norm)


def cases(randn):
    """name: (inputs, ours, torch's)."""
    tokens, hidden, rank = 8192, 896, 16
    linear = torch.nn.functional.linear
    adapters = [randn(rank, hidden, scale=hidden ** -0.5), randn(hidden, rank)]
    yield ('lora_linear', [randn(tokens, hidden), *adapters], lambda x, a, b: lora_linear(x, a, b, 2.0),
           lambda x, a, b: 2 * linear(linear(x, a), b))
    weight, lengths = randn(hidden, hidden, scale=hidden ** -0.5), 1 + randn(hidden, scale=0.1)
    yield ('dora_linear', [randn(tokens, hidden), *adapters, lengths],
           lambda x, a, b, m: dora_linear(x, weight, a, b, m, 2.0),
           lambda x, a, b, m: _torch_dora(x, weight.to(x.dtype), a, b, m, 2.0))
    step, rate = torch.full((1,), 7, device='cuda', dtype=torch.int32), 0.25
    kept = _drop(torch.ones(tokens, hidden, device='cuda'), rate, (1, 2), 3, step) != 0
    share = kept.double().mean().item()
    # Four standard deviations of a share of so many draws.
    assert abs(share - (1 - rate)) < 4 * (rate * (1 - rate) / kept.numel()) ** 0.5, f'{share} of the elements are kept'
    yield ('dropout', [randn(tokens, hidden)], lambda x: dropout(x, step, rate, (1, 2), 3),
           lambda x: x * kept / (1 - rate))
