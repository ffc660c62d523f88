"""Layers and the optimizer of the CUDA kernels as torch functions, through the C ABI of kernels/c_api.h.

torch_ops.load(path) once, then geglu, gelu, gated_mlp, layer_norm, qk_norm, embedding, add_bias, gather_rows, AdamW.
Tensors are contiguous, on one device, float32 or bfloat16. cases() are the checks that torch_ops runs.
"""
import torch

import torch_ops as ops
from torch_ops import DTYPES, _args, _call, _fill, _float32, _lent

ACTIVATIONS = {'silu': 0, 'gelu_tanh': 1, 'gelu': 2}
TENSOR_CHUNK = 16384


class _Geglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate_up, erf):
        half = gate_up.shape[-1] // 2
        y = gate_up.new_empty(*gate_up.shape[:-1], half)
        ctx.save_for_backward(gate_up)
        ctx.erf = int(erf)
        _call('geglu_forward', _args('geglu', dtype=DTYPES[y.dtype], erf=ctx.erf, rows=y.numel() // half,
                                     intermediate=half, gate_up=gate_up, y=y))
        return y

    @staticmethod
    def backward(ctx, dy):
        gradient, dy = ctx.saved_tensors[0].clone(), dy.contiguous()
        _call('geglu_backward', _args('geglu', dtype=DTYPES[dy.dtype], erf=ctx.erf,
                                      rows=dy.numel() // dy.shape[-1], intermediate=dy.shape[-1], dy=dy,
                                      gate_up=gradient))
        return gradient, None


def geglu(gate_up, erf=False):
    """gelu(gate) up of [..., 2 I]: gate, up."""
    return _Geglu.apply(gate_up, erf)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, erf):
        y = torch.empty_like(x)
        ctx.save_for_backward(x)
        ctx.fields = dict(dtype=DTYPES[x.dtype], erf=int(erf), rows=x.numel() // x.shape[-1], columns=x.shape[-1])
        _call('gelu_forward', _args('gelu', **ctx.fields, x=x, y=y))
        return y

    @staticmethod
    def backward(ctx, dy):
        gradient, dy = ctx.saved_tensors[0].clone(), dy.contiguous()
        _call('gelu_backward', _args('gelu', **ctx.fields, dy=dy, x=gradient))
        return gradient, None


def gelu(x, erf=False):
    return _Gelu.apply(x, erf)


def _gated(name, fields, x, weight, gate_up, y, wants_y=0):
    workspace = torch.empty(ops._library.coxswain_gemm_workspace_bytes(), dtype=torch.uint8, device='cuda')
    _call(name, _args('gated_linear', **fields, x=x, weight=weight, gate_up=gate_up, y=y, wants_y=wants_y,
                      workspace=workspace, workspace_bytes=workspace.numel()))


class _GatedMlp(torch.autograd.Function):
    """Backward recomputes y from gate_up, which it overwrites."""

    @staticmethod
    def forward(ctx, x, gate_up_weight, down_weight, activation):
        rows, intermediate = x.shape[0], down_weight.shape[1]
        gate_up, y = x.new_empty(rows, 2 * intermediate), x.new_empty(rows, intermediate)
        ctx.fields = dict(dtype=DTYPES[x.dtype], activation=ACTIVATIONS[activation], rows=rows, hidden=x.shape[1],
                          intermediate=intermediate)
        _gated('gated_linear_forward', ctx.fields, x, gate_up_weight, gate_up, y)
        ctx.save_for_backward(x, gate_up_weight, down_weight, gate_up)
        return ops._gemm(x.new_empty(rows, down_weight.shape[0]), y, down_weight, transpose_b=True)

    @staticmethod
    def backward(ctx, dout):
        x, gate_up_weight, down_weight, gate_up = ctx.saved_tensors
        gradient, dout = gate_up.clone(), dout.contiguous()
        y = x.new_empty(x.shape[0], down_weight.shape[1])
        _gated('gated_linear_backward', ctx.fields, dout, down_weight, gradient, y, wants_y=1)
        return (ops._gemm(torch.empty_like(x), gradient, gate_up_weight),
                ops._gemm(torch.empty_like(gate_up_weight), gradient, x, transpose_a=True),
                ops._gemm(torch.empty_like(down_weight), dout, y, transpose_a=True), None)


def gated_mlp(x, gate_up_weight, down_weight, activation='silu'):
    """x [T, H], gate_up_weight [2 I, H], down_weight [H, I]: (act(gate) up) of the one by the other."""
    return _GatedMlp.apply(x, gate_up_weight, down_weight, activation)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        y, rows = torch.empty_like(x), x.numel() // x.shape[-1]
        mean, rstd = _float32(rows), _float32(rows)
        ctx.fields = dict(dtype=DTYPES[x.dtype], rows=rows, hidden=x.shape[-1], eps=eps)
        _call('layer_norm_forward', _args('layer_norm', **ctx.fields, x=x, weight=weight, bias=bias, y=y, mean=mean,
                                          rstd=rstd))
        ctx.save_for_backward(x, weight, mean, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, mean, rstd = ctx.saved_tensors
        dx, dy = torch.empty_like(x), dy.contiguous()
        dweight, dbias = _float32(weight.numel()), _float32(weight.numel())
        _lent('layer_norm_backward', _args('layer_norm', **ctx.fields, x=x, weight=weight, mean=mean, rstd=rstd, dy=dy,
                                           dx=dx, dweight=dweight, dbias=dbias))
        return dx, dweight.to(weight.dtype), dbias.to(weight.dtype), None


def layer_norm(x, weight, bias, eps=1e-5):
    return _LayerNorm.apply(x, weight, bias, eps)


class _QkNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, q_weight, k_weight, heads, eps, whole):
        num_heads, num_kv_heads, head_dim = heads
        ctx.fields = dict(dtype=DTYPES[qkv.dtype], num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim,
                          eps=eps, whole=int(whole), tokens=qkv.shape[0])
        saved = qkv.new_empty(qkv.shape[0], (num_heads + num_kv_heads) * head_dim)
        rstd = _float32(qkv.shape[0], 2 if whole else num_heads + num_kv_heads)
        ctx.mark_dirty(qkv)
        _call('qk_norm_forward', _args('qk_norm', **ctx.fields, qkv=qkv, saved_qk=saved, rstd=rstd,
                                       q_weight=q_weight, k_weight=k_weight))
        ctx.save_for_backward(saved, rstd, q_weight, k_weight)
        return qkv

    @staticmethod
    def backward(ctx, dqkv):
        saved, rstd, q_weight, k_weight = ctx.saved_tensors
        gradient = dqkv.clone(memory_format=torch.contiguous_format)
        dq, dk = _float32(q_weight.numel()), _float32(k_weight.numel())
        _lent('qk_norm_backward', _args('qk_norm', **ctx.fields, qkv=gradient, saved_qk=saved, rstd=rstd,
                                        q_weight=q_weight, k_weight=k_weight, dq_weight=dq, dk_weight=dk))
        return gradient, dq.to(q_weight.dtype), dk.to(k_weight.dtype), None, None, None


def qk_norm(qkv, q_weight, k_weight, heads, eps=1e-6, whole=False):
    """RMSNorm of the q and k heads of [T, (nq + 2 nkv) hd] in place; whole: one norm over all heads."""
    return _QkNorm.apply(qkv, q_weight, k_weight, heads, eps, whole)


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ids, weight, scale):
        out = weight.new_empty(ids.numel(), weight.shape[1])
        ctx.fields = dict(dtype=DTYPES[weight.dtype], vocab=weight.shape[0], hidden=weight.shape[1],
                          tokens=ids.numel(), scale=scale)
        ctx.save_for_backward(ids)
        _call('embedding_forward', _args('embedding', **ctx.fields, ids=ids, weight=weight, out=out))
        return out

    @staticmethod
    def backward(ctx, dout):
        dweight, dout = _float32(ctx.fields['vocab'], ctx.fields['hidden']), dout.contiguous()
        _lent('embedding_backward', _args('embedding', **ctx.fields, ids=ctx.saved_tensors[0], dout=dout,
                                          dweight=dweight))
        return None, dweight.to(dout.dtype), None


def embedding(ids, weight, scale=1.0):
    """Rows of weight [V, H] by int32 ids [T], times scale."""
    return _Embedding.apply(ids, weight, scale)


class _AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, dy):
        dbias, dy = _float32(dy.shape[1]), dy.contiguous()
        _lent('bias_backward', _args('bias', dtype=DTYPES[dy.dtype], rows=dy.shape[0], columns=dy.shape[1], dy=dy,
                                     dbias=dbias))
        return dy, dbias.to(dy.dtype)


def add_bias(x, bias):
    """x [T, N] + bias [N] by torch; the gradient of the bias by its kernel."""
    return _AddBias.apply(x, bias)


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, index):
        out = x.new_empty(index.numel(), x.shape[1])
        ctx.save_for_backward(index)
        ctx.tall = x.shape[0]
        _call('gather_rows', _args('row_gather', dtype=DTYPES[x.dtype], rows=index.numel(), columns=x.shape[1],
                                   index=index, **{'in': x}, out=out))
        return out

    @staticmethod
    def backward(ctx, dout):
        index, = ctx.saved_tensors
        dx, dout = dout.new_zeros(ctx.tall, dout.shape[1]), dout.contiguous()
        _call('scatter_add_rows', _args('row_gather', dtype=DTYPES[dx.dtype], rows=index.numel(),
                                        columns=dx.shape[1], index=index, **{'in': dout}, out=dx))
        return dx, None


def gather_rows(x, index):
    """x[index] for int32 indices that are all different."""
    return _GatherRows.apply(x, index)


def _upload(structs):
    """Structures as they lie in the memory of the device."""
    array = (type(structs[0]) * len(structs))(*structs)
    return torch.frombuffer(bytearray(array), dtype=torch.uint8).cuda()


class AdamW:
    """Global norm, clipping and AdamW of float32 parameters in three launches. Gradients stay where they are."""

    def __init__(self, parameters, gradients, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, max_norm=0.0):
        self._kept = [(p, g, torch.zeros_like(p), torch.zeros_like(p)) for p, g in zip(parameters, gradients)]
        tensors, norms, chunks = [], [], 0
        for p, g, m, v in self._kept:
            tensors.append(_fill('adamw_tensor', p=p, g=g, m=m, v=v, n=p.numel(), first_chunk=chunks, lr_scale=1.0,
                                 weight_decay=weight_decay))
            norms.append(_fill('norm_tensor', data=g, elements=g.numel(), first_chunk=chunks))
            chunks += -(-p.numel() // TENSOR_CHUNK)
        self._chunks, self._max_norm = chunks, max_norm
        self._tensors, self._norms = _upload(tensors), _upload(norms)
        self._scalars = _upload([_fill('optimizer_scalars', lr=lr, beta1=betas[0], beta2=betas[1], eps=eps,
                                       clip_factor=1.0)])
        self._sums = torch.zeros(2, dtype=torch.float64, device='cuda')
        self.norm = torch.zeros(1, dtype=torch.float64, device='cuda')  # of the gradients, before clipping

    def step(self):
        count = len(self._kept)
        _lent('global_norm', _args('global_norm', tensors=self._norms, count=count, chunks=self._chunks,
                                   sums=self._sums))
        _call('decide_update', _args('decide_update', sums=self._sums, max_norm=self._max_norm,
                                     scalars=self._scalars, norm=self.norm))
        _call('adamw', _args('adamw', tensors=self._tensors, count=count, chunks=self._chunks,
                             scalars=self._scalars))


# The checks.


def _torch_geglu(gate_up, approximate):
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.gelu(gate, approximate=approximate) * up


def _torch_qk_norm(qkv, q_weight, k_weight, heads):
    num_heads, num_kv_heads, head_dim = heads
    q, k, v = qkv.split([num_heads * head_dim, num_kv_heads * head_dim, num_kv_heads * head_dim], -1)
    norm = torch.nn.functional.rms_norm
    q = norm(q.reshape(len(q), -1, head_dim), (head_dim,), q_weight, 1e-6).flatten(1)
    k = norm(k.reshape(len(k), -1, head_dim), (head_dim,), k_weight, 1e-6).flatten(1)
    return torch.cat([q, k, v], -1)


def cases(randn, heads):
    """name: (inputs, ours, torch's)."""
    tokens, hidden, intermediate, vocab = 8192, 896, 4864, 151936
    linear, gelu_of = torch.nn.functional.linear, torch.nn.functional.gelu
    for erf, form in ((False, 'tanh'), (True, 'none')):
        yield (f'geglu {form}', [randn(tokens, 2 * intermediate)], lambda x, e=erf: geglu(x, e),
               lambda x, f=form: _torch_geglu(x, f))
        yield (f'gelu {form}', [randn(tokens, intermediate)], lambda x, e=erf: gelu(x, e),
               lambda x, f=form: gelu_of(x, approximate=f))
    weights = [randn(2 * intermediate, hidden, scale=hidden ** -0.5), randn(hidden, intermediate, scale=0.02)]
    yield ('gated_mlp gelu_tanh', [randn(tokens, hidden), *weights],
           lambda x, w, v: gated_mlp(x, w, v, 'gelu_tanh'), lambda x, w, v: linear(_torch_geglu(linear(x, w), 'tanh'), v))
    width = (heads[0] + 2 * heads[1]) * heads[2]
    yield ('qk_norm', [randn(tokens, width), 1 + randn(heads[2], scale=0.1), 1 + randn(heads[2], scale=0.1)],
           lambda x, q, k: qk_norm(x * 1, q, k, heads), lambda x, q, k: _torch_qk_norm(x, q, k, heads))
    yield ('layer_norm', [randn(tokens, hidden), 1 + randn(hidden, scale=0.1), randn(hidden)], layer_norm,
           lambda x, w, b: torch.nn.functional.layer_norm(x, (hidden,), w, b))
    ids = torch.randint(vocab, (tokens,), device='cuda', dtype=torch.int32)
    yield 'embedding', [randn(vocab, hidden)], lambda w: embedding(ids, w), lambda w: torch.nn.functional.embedding(ids, w)
    yield 'add_bias', [randn(tokens, hidden), randn(hidden)], add_bias, lambda x, b: x + b
    index = torch.randperm(tokens, device='cuda')[:2048].to(torch.int32)
    yield 'gather_rows', [randn(tokens, hidden)], lambda x: gather_rows(x, index), lambda x: x[index.long()]


def checks(updates=5):
    """name, error, torch's error, what is allowed beyond twice that: AdamW in float32 against torch in float64."""
    parameters = [torch.randn(n, device='cuda') for n in (1, 1000, 3 * TENSOR_CHUNK + 7)]
    gradients = [torch.randn_like(p) for p in parameters]

    def torch_updates(dtype):
        leaves = [p.to(dtype).requires_grad_() for p in (q.clone() for q in parameters)]
        optimizer = torch.optim.AdamW(leaves, lr=0.01, weight_decay=0.1)
        for _ in range(updates):
            for leaf, g in zip(leaves, gradients):
                leaf.grad = g.to(dtype)
            torch.nn.utils.clip_grad_norm_(leaves, 1.0)
            optimizer.step()
        return [leaf.detach() for leaf in leaves]

    exact, theirs = torch_updates(torch.float64), torch_updates(torch.float32)
    ours = [p.clone() for p in parameters]
    optimizer = AdamW(ours, gradients, lr=0.01, weight_decay=0.1, max_norm=1.0)
    for _ in range(updates):
        optimizer.step()
    yield 'adamw, clipped', ops._error(ours, exact), ops._error(theirs, exact), 2 ** -22
