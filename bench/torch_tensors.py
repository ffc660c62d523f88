"""Ops without a gradient of the CUDA kernels as torch functions, through the C ABI of kernels/c_api.h.

torch_ops.load(path) once, then add_, convert, random_fill, checksum, all_zero, total, argmax, target_hits,
cached_attention, nf4_quantize, nf4_dequantize, int8_quantize, int8_dequantize, AdamW8bit. Tensors are contiguous, on
one device, float32 or bfloat16 where nothing else is said. checks() are those that torch_ops runs.
"""
import os, re

import torch

import torch_ops as ops
from torch_layers import TENSOR_CHUNK, _upload
from torch_ops import DTYPES, _args, _call, _fill, _float32, _lent

NF4_BLOCK, NF4_GROUP, STATE_BLOCK = 64, 256, 256
FILLS = {'constant': 0, 'uniform': 1, 'normal': 2}


def _new(dtype, *shape, value=0):
    return torch.full(shape, value, dtype=dtype, device='cuda')


def add_(y, x, alpha=1.0):
    """y += alpha x for an alpha other than 0; x of y's type or bfloat16."""
    _call('add', _args('add', dtype=DTYPES[y.dtype], x_dtype=DTYPES[x.dtype], count=y.numel(), alpha=alpha, x=x, y=y))
    return y


def convert(x, dtype):
    out = torch.empty_like(x, dtype=dtype)
    _call('convert', _args('convert', **{'from': DTYPES[x.dtype]}, to=DTYPES[dtype], count=x.numel(), **{'in': x},
                           out=out))
    return out


def random_fill(out, kind, value, key=(0, 0), counter=(0, 0), first=0):
    """Constant, uniform within +- value, or normal of that deviation; out[0] is element `first`."""
    _call('random_fill', _args('random_fill', dtype=DTYPES[out.dtype], kind=FILLS[kind], value=value, key=key,
                               counter=counter, first=first, count=out.numel(), out=out))
    return out


def checksum(x):
    """One int64: another one when a bit of x is."""
    total_ = _new(torch.int64, 1)
    _call('checksum', _args('checksum', dtype=DTYPES[x.dtype], count=x.numel(), values=x, sum=total_))
    return total_


def all_zero(x):
    """One int32, 1 or 0."""
    zero = _new(torch.int32, 1, value=1)
    _call('all_zero', _args('all_zero', dtype=DTYPES[x.dtype], count=x.numel(), values=x, all_zero=zero))
    return zero


def total(x):
    """The sum of float32 values, one float64."""
    result = _new(torch.float64, 1)
    _call('sum', _args('sum', count=x.numel(), values=x, sum=result))
    return result


def argmax(x):
    """Columns of the first maxima of [N, V], int32; -1 where a row holds a NaN."""
    columns = _new(torch.int32, x.shape[0])
    _call('argmax', _args('argmax', dtype=DTYPES[x.dtype], rows=x.shape[0], width=x.shape[1], values=x,
                          columns=columns))
    return columns


def target_hits(logits, targets):
    """1.0 where the int32 target is the row's first maximum, else 0.0."""
    hits = _float32(logits.shape[0])
    _call('target_hits', _args('target_hits', dtype=DTYPES[logits.dtype], rows=logits.shape[0], vocab=logits.shape[1],
                               logits=logits, targets=targets, hits=hits))
    return hits


def _cache_fields(qkv, keys, values, sequences, positions, heads):
    num_heads, num_kv_heads, head_dim = heads
    return dict(dtype=DTYPES[qkv.dtype], num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim,
                scale=head_dim ** -0.5, length=keys.shape[1], rows=qkv.shape[0], sequences=sequences,
                positions=positions, qkv=qkv, keys=keys, values=values)


def cache_append(qkv, keys, values, sequences, positions, heads):
    """Keys and values of rows [R, (nq + 2 nkv) hd] into caches [S, L, nkv hd]; sequences, positions int32 [R]."""
    _call('cache_append', _args('cached_attention', **_cache_fields(qkv, keys, values, sequences, positions, heads)))


def cached_attention(qkv, keys, values, sequences, positions, heads):
    """[R, nq hd]: each row over what its sequence has cached up to its position."""
    out = qkv.new_empty(qkv.shape[0], heads[0] * heads[2])
    _lent('cached_attention', _args('cached_attention', out=out,
                                    **_cache_fields(qkv, keys, values, sequences, positions, heads)))
    return out


def nf4_quantize(x):
    """float32 to (codes, absmax)."""
    n = x.numel()
    codes, absmax = _new(torch.uint8, -(-n // 2)), _float32(-(-n // NF4_BLOCK))
    _call('nf4_quantize', _args('nf4_quantize', elements=n, **{'in': x}, codes=codes, absmax=absmax))
    return codes, absmax


def nf4_quantize_scales(absmax):
    """Double quantisation: (codes, constants)."""
    codes, constants = _new(torch.uint8, absmax.numel()), _float32(1 + -(-absmax.numel() // NF4_GROUP))
    _call('nf4_quantize_scales', _args('nf4_quantize_scales', blocks=absmax.numel(), absmax=absmax, codes=codes,
                                       constants=constants))
    return codes, constants


def nf4_dequantize(n, dtype, codes, absmax=None, absmax_codes=None, constants=None):
    """Without absmax: of its codes and constants."""
    out = _new(dtype, n)
    _call('nf4_dequantize', _args('nf4_dequantize', dtype=DTYPES[dtype], elements=n, codes=codes, absmax=absmax,
                                  absmax_codes=absmax_codes, constants=constants, out=out))
    return out


def int8_quantize(x):
    """float32 [rows, columns] to (codes, absmax of the rows)."""
    codes, absmax = torch.empty_like(x, dtype=torch.int8), _float32(x.shape[0])
    _call('int8_quantize_rows', _args('int8_quantize_rows', rows=x.shape[0], cols=x.shape[1], **{'in': x}, codes=codes,
                                      absmax=absmax))
    return codes, absmax


def int8_dequantize(codes, absmax, dtype):
    out = torch.empty_like(codes, dtype=dtype)
    _call('int8_dequantize_rows', _args('int8_dequantize_rows', dtype=DTYPES[dtype], rows=codes.shape[0],
                                        cols=codes.shape[1], codes=codes, absmax=absmax, out=out))
    return out


class AdamW8bit:
    """AdamW of one float32 parameter with states of 8 bits, unclipped."""

    def __init__(self, parameter, gradient, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        n = parameter.numel()
        blocks = -(-n // STATE_BLOCK)
        self.m, self.v = _new(torch.uint8, n), _new(torch.uint8, n)  # codes
        self.m_absmax, self.v_absmax = _float32(blocks), _float32(blocks)
        tensor = _fill('adamw_tensor', p=parameter, g=gradient, n=n, lr_scale=1.0, weight_decay=weight_decay)
        self._tensors = _upload([_fill('adamw_8bit_tensor', tensor=tensor, m_codes=self.m, v_codes=self.v,
                                       m_absmax=self.m_absmax, v_absmax=self.v_absmax)])
        self._scalars = _upload([_fill('optimizer_scalars', lr=lr, beta1=betas[0], beta2=betas[1], eps=eps,
                                       clip_factor=1.0)])
        self._chunks, self._kept = -(-n // TENSOR_CHUNK), (parameter, gradient)

    def step(self):
        _call('adamw_8bit', _args('adamw_8bit', tensors=self._tensors, count=1, chunks=self._chunks,
                                  scalars=self._scalars))


# The checks: name, error, torch's error, what is allowed beyond twice that. Exact ones count what differs.


def _nf4_map():
    header = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'kernels', 'nf4.h')
    with open(header, encoding='utf-8') as f:
        values = re.search(r'kNf4Map = \{(.*?)\};', f.read(), re.S)[1]
    return torch.tensor([float(v) for v in re.findall(r'(-?[\d.]+)f', values)], dtype=torch.float64, device='cuda')


def _dynamic_map(signed):
    """Source: kernels/dynamic_map.h."""
    values = [0.0, 1.0]
    for i in range(7):
        parts = (1 if signed else 2) << i
        bounds = torch.linspace(0.1, 1, parts + 1, dtype=torch.float64)
        middles = [10.0 ** (i - 6) * m for m in ((bounds[1:] + bounds[:-1]) / 2).tolist()]
        values += middles + ([-m for m in middles] if signed else [])
    return torch.tensor(sorted(values), dtype=torch.float64, device='cuda')


def _differ(got, want):
    return (got != want).double().mean().item()


def _whole_tensor_checks(n=1_000_003):
    x, y = torch.randn(n, device='cuda'), torch.randn(n, device='cuda').bfloat16()
    exact = y.double() + 0.75 * x.bfloat16().double()
    theirs = torch.add(y, x.bfloat16(), alpha=0.75)
    yield 'add', ops._error([add_(y.clone(), x.bfloat16(), 0.75)], [exact]), ops._error([theirs], [exact]), 2 ** -9
    yield 'convert, to bfloat16', _differ(convert(x, torch.bfloat16), x.bfloat16()), 0, 0
    yield 'convert, to float32', _differ(convert(y, torch.float32), y.float()), 0, 0
    yield 'sum', ops._error([total(x)], [x.double().sum()[None]]), 0, 2 ** -40
    changed = x.clone()
    changed[n // 2] = -changed[n // 2]
    yield 'checksum, of a changed sign', float((checksum(x) == checksum(changed)).item()), 0, 0
    yield 'checksum, again', float((checksum(x) != checksum(x.clone())).item()), 0, 0
    one = torch.zeros_like(x)
    zeros = all_zero(one).item()
    one[-1] = 1
    yield 'all_zero', float(zeros != 1 or all_zero(one).item() != 0), 0, 0


def _fill_checks(n=1_000_003):
    """Four standard deviations of mean and mean square of so many draws; a part is that of the whole."""
    for kind, square, fourth in (('uniform', 1 / 3, 1 / 5), ('normal', 1, 3)):
        whole = random_fill(_float32(n), kind, 0.5, key=(1, 2), counter=(3, 4))
        part = random_fill(_float32(1000), kind, 0.5, key=(1, 2), counter=(3, 4), first=1001)
        unit = whole.double() / 0.5
        yield f'random_fill, {kind} mean', abs(unit.mean().item()), 0, 4 * (square / n) ** 0.5
        yield (f'random_fill, {kind} square', abs((unit ** 2).mean().item() - square), 0,
               4 * ((fourth - square ** 2) / n) ** 0.5)
        yield f'random_fill, {kind} part', _differ(part, whole[1001:2001]), 0, 0
    yield 'random_fill, constant', _differ(random_fill(_float32(n), 'constant', 0.5), 0.5), 0, 0


def _maximum_checks(rows=512, vocab=151936):
    logits = torch.randn(rows, vocab, device='cuda').bfloat16()
    # The first of equals; torch.argmax on a GPU names any of them.
    columns = torch.arange(vocab, device='cuda')
    first = torch.where(logits == logits.amax(1, keepdim=True), columns, vocab).amin(1).to(torch.int32)
    yield 'argmax', _differ(argmax(logits), first), 0, 0
    targets = first.clone()
    targets[::2] = (targets[::2] + 1) % vocab
    targets[5] = ops.IGNORED
    yield 'target_hits', _differ(target_hits(logits, targets), (targets == first).float()), 0, 0


def _torch_last_row(qkv, heads, dtype):
    """The last row of causal attention over all of [T, (nq + 2 nkv) hd]."""
    num_heads, num_kv_heads, head_dim = heads
    x = qkv.to(dtype).view(len(qkv), -1, head_dim).transpose(0, 1)
    q, k, v = x.split([num_heads, num_kv_heads, num_kv_heads], 0)
    out = torch.nn.functional.scaled_dot_product_attention(q[None, :, -1:], k[None], v[None], enable_gqa=True)
    return out.reshape(1, -1)


def _cache_checks(heads, lengths=(1, 40, 700, 1500)):
    num_heads, num_kv_heads, head_dim = heads
    qkv = torch.randn(sum(lengths), (num_heads + 2 * num_kv_heads) * head_dim, device='cuda').bfloat16()
    documents = qkv.split(lengths)
    sequences = torch.cat([_new(torch.int32, n, value=s) for s, n in enumerate(lengths)])
    positions = torch.cat([torch.arange(n, device='cuda', dtype=torch.int32) for n in lengths])
    keys = _new(torch.bfloat16, len(lengths), max(lengths), num_kv_heads * head_dim, value=float('nan'))
    values = keys.clone()
    cache_append(qkv, keys, values, sequences, positions, heads)
    last = torch.tensor(lengths, device='cuda').cumsum(0) - 1
    ours = cached_attention(qkv[last].contiguous(), keys, values, sequences[last].contiguous(),
                            positions[last].contiguous(), heads)
    exact = torch.cat([_torch_last_row(d, heads, torch.float64) for d in documents])
    theirs = torch.cat([_torch_last_row(d, heads, torch.bfloat16) for d in documents])
    yield 'cached_attention', ops._error([ours], [exact]), ops._error([theirs], [exact]), 2 ** -9


def _quantized_checks(rows=1003, columns=4099):
    x = torch.randn(rows, columns, device='cuda')
    flat, n, values = x.flatten(), x.numel(), _nf4_map()
    codes, absmax = nf4_quantize(flat)
    padded = torch.nn.functional.pad(flat.double(), (0, -n % NF4_BLOCK)).view(-1, NF4_BLOCK)
    largest = padded.abs().amax(1)
    middles = (values[1:] + values[:-1]) / 2
    nearest = (values[torch.bucketize(padded / largest[:, None], middles)] * largest[:, None]).flatten()[:n]
    once = nf4_dequantize(n, torch.float32, codes, absmax)
    # A quotient within three roundings of a middle of two values may take either; quotients are about evenly spread.
    yield 'nf4, absmax', _differ(absmax, largest.float()), 0, 0
    yield ('nf4, not the nearest', ((once - nearest).abs() > 1e-6 * nearest.abs()).double().mean().item(), 0,
           15 * 6 * 2 ** -24)
    scale_codes, constants = nf4_quantize_scales(absmax)
    scales = nf4_dequantize(n, torch.float32, codes, None, scale_codes, constants)
    # Half the widest gap of the signed map, of the largest distance from the mean.
    half_gap = (_dynamic_map(True).diff().max() / 2 * (absmax.double() - absmax.double().mean()).abs().max()).item()
    yield 'nf4, doubly quantised', (scales - once).abs().max().item(), 0, half_gap * (1 + 2 ** -10)
    codes, absmax = int8_quantize(x)
    want = (x.double() * 127 / x.double().abs().amax(1, keepdim=True)).round()
    yield 'int8, other codes', _differ(codes.double(), want), 0, 127 * 6 * 2 ** -24
    back, exact = int8_dequantize(codes, absmax, torch.bfloat16), codes.double() * absmax.double()[:, None] / 127
    yield 'int8, back', ops._error([back], [exact]), ops._error([exact.bfloat16()], [exact]), 2 ** -22


def _adamw_8bit_checks(n=3 * TENSOR_CHUNK + 7):
    """The first update is that of AdamW; its states are kept to half a step of their maps."""
    parameter, gradient = torch.randn(n, device='cuda'), torch.randn(n, device='cuda')

    def torch_update(dtype):
        leaf = parameter.to(dtype).clone().requires_grad_()
        leaf.grad = gradient.to(dtype)
        torch.optim.AdamW([leaf], lr=0.01, weight_decay=0.1).step()
        return [leaf.detach()]

    ours, exact = parameter.clone(), torch_update(torch.float64)
    optimizer = AdamW8bit(ours, gradient, lr=0.01, weight_decay=0.1)
    optimizer.step()
    yield ('adamw_8bit, first update', ops._error([ours], exact), ops._error(torch_update(torch.float32), exact),
           2 ** -22)
    for name, codes, absmax, state, signed in (('m', optimizer.m, optimizer.m_absmax, 0.1 * gradient.double(), True),
                                               ('v', optimizer.v, optimizer.v_absmax, 0.001 * gradient.double() ** 2,
                                                False)):
        values = _dynamic_map(signed)
        largest = absmax.double().repeat_interleave(STATE_BLOCK)[:n]
        error = ((values[codes.long()] - state / largest).abs()).max().item()
        yield f'adamw_8bit, {name}', error, 0, (values.diff().max() / 2).item() * (1 + 2 ** -10)


def checks(heads):
    yield from _whole_tensor_checks()
    yield from _fill_checks()
    yield from _maximum_checks()
    yield from _cache_checks(heads)
    yield from _quantized_checks()
    yield from _adamw_8bit_checks()
