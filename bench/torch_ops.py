#!/usr/bin/env python3
"""The CUDA kernels as torch.autograd functions, through the C ABI of kernels/c_api.h.

  bench/torch_ops.py build/cuda/bin/libcoxswain_kernels_cuda.so

As a script: forward and backward of every op in bfloat16 beside torch's own op, both against torch in
float64 on the same inputs. Prints the largest error over outputs and gradients, each relative to its
tensor's largest magnitude, and the median time of forward + backward. Exit 1 where our error is above
twice torch's. Needs one GPU and torch; libcublasLt and libcudnn are those that torch has loaded.

Ops without a gradient and the optimizers follow, against torch's or, where the results are integers, exactly.

As a module: load(path) once, then rms_norm, add_rms_norm, swiglu, rope, cross_entropy, linear, attention, and
those of torch_layers, torch_adapters and torch_tensors.
Tensors are contiguous, on one device, float32 or bfloat16.
"""
import ctypes, glob, os, statistics, sys
from ctypes import byref, c_void_p

import torch

import c_structs

DTYPES = {torch.float32: 0, torch.bfloat16: 1}
IGNORED = -100
STRUCTS = c_structs.structs()
_library = None


def load(path):
    """Loads the library; torch has loaded the CUDA libraries that it needs."""
    global _library
    _preload()
    _library = ctypes.CDLL(path)
    for name, returned in c_structs.functions().items():
        getattr(_library, f'coxswain_{name}').restype = returned
    torch.cuda.init()
    _check(_library.coxswain_select_device(torch.cuda.current_device()))


def _preload():
    """Makes CUDA libraries of a Python environment visible to the loader by their names."""
    roots = [os.path.join(p, 'nvidia') for p in sys.path if os.path.isdir(os.path.join(p, 'nvidia'))]
    for name in ('libcudart.so.*', 'libcublas.so.*', 'libcublasLt.so.*', 'libcudnn.so.*'):
        for path in (f for root in roots for f in glob.glob(f'{root}/*/lib/{name}')):
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


def _check(code):
    if code != 0:
        raise RuntimeError(_library.coxswain_last_error().decode())


def _call(name, args):
    _check(getattr(_library, f'coxswain_{name}')(byref(args), c_void_p(torch.cuda.current_stream().cuda_stream)))


def _value(key, value):
    if isinstance(value, (list, tuple)):
        return tuple(_value(key, element) for element in value)
    if isinstance(value, torch.Tensor):
        assert value.is_cuda and value.is_contiguous(), f'{key} is not a contiguous tensor on the GPU'
        return value.data_ptr()
    return value


def _fill(name, **fields):
    """Tensors become their addresses. The caller keeps them alive past the launch: torch's allocator orders reuse."""
    return STRUCTS[name](**{key: _value(key, value) for key, value in fields.items()})


def _args(name, **fields):
    return _fill(f'{name}_args', **fields)


def _lend(name, args):
    """Workspace of the bytes that the op asks for; the tensor lives until the launch is enqueued."""
    bytes_ = getattr(_library, f'coxswain_{name}_workspace_bytes')(byref(args))
    if bytes_ < 0:
        raise RuntimeError(_library.coxswain_last_error().decode())
    workspace = torch.empty(max(bytes_, 16), dtype=torch.uint8, device='cuda')
    args.workspace, args.workspace_bytes = workspace.data_ptr(), bytes_
    return workspace


def _float32(*shape):
    return torch.zeros(*shape, dtype=torch.float32, device='cuda')


def _lent(name, args):
    workspace = _lend(name, args)
    _call(name, args)
    del workspace


class _RmsNorm(torch.autograd.Function):
    """y = RmsNorm(x) or, with a residual, (y, x + residual)."""

    @staticmethod
    def forward(ctx, x, residual, weight, eps):
        hidden = x.shape[-1]
        rows = x.numel() // hidden
        y, total = torch.empty_like(x), None if residual is None else torch.empty_like(x)
        rstd = torch.empty(rows, dtype=torch.float32, device=x.device)
        _call('rms_norm_forward', _args('rms_norm', dtype=DTYPES[x.dtype], rows=rows, hidden=hidden, eps=eps, x=x,
                                        residual=residual, weight=weight, sum=total, y=y, rstd=rstd))
        ctx.save_for_backward(x if residual is None else total, weight, rstd)
        return y if residual is None else (y, total)

    @staticmethod
    def backward(ctx, dy, dsum=None):
        x, weight, rstd = ctx.saved_tensors
        hidden, dy = x.shape[-1], dy.contiguous()
        dx = torch.empty_like(x) if dsum is None else dsum.clone(memory_format=torch.contiguous_format)
        dweight = torch.zeros(hidden, dtype=torch.float32, device=x.device)
        args = _args('rms_norm_backward', dtype=DTYPES[x.dtype], rows=x.numel() // hidden, hidden=hidden,
                     dy=dy, x=x, weight=weight, rstd=rstd, accumulate_dx=int(dsum is not None), dx=dx,
                     dweight=dweight)
        workspace = _lend('rms_norm_backward', args)
        _call('rms_norm_backward', args)
        del workspace
        return dx, None if dsum is None else dx, dweight.to(weight.dtype), None


def rms_norm(x, weight, eps=1e-6):
    return _RmsNorm.apply(x, None, weight, eps)


def add_rms_norm(x, residual, weight, eps=1e-6):
    """(RmsNorm(x + residual), x + residual)."""
    return _RmsNorm.apply(x, residual, weight, eps)


class _Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate_up):
        half = gate_up.shape[-1] // 2
        y = torch.empty(*gate_up.shape[:-1], half, dtype=gate_up.dtype, device=gate_up.device)
        ctx.save_for_backward(gate_up)
        _call('swiglu_forward', _args('swiglu', dtype=DTYPES[y.dtype], rows=y.numel() // half, intermediate=half,
                                      gate_up=gate_up, y=y))
        return y

    @staticmethod
    def backward(ctx, dy):
        gate_up, = ctx.saved_tensors
        gradient, dy = gate_up.clone(), dy.contiguous()
        _call('swiglu_backward', _args('swiglu', dtype=DTYPES[dy.dtype], rows=dy.numel() // dy.shape[-1],
                                       intermediate=dy.shape[-1], dy=dy, gate_up=gradient))
        return gradient


def swiglu(gate_up):
    """silu(gate) up of [..., 2 I]: gate, up."""
    return _Swiglu.apply(gate_up)


class _Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, cos, sin, positions, heads, interleaved):
        ctx.save_for_backward(cos, sin, positions)
        ctx.heads, ctx.interleaved = heads, interleaved
        ctx.mark_dirty(qkv)
        _rotate('rope_forward', qkv, cos, sin, positions, heads, interleaved)
        return qkv

    @staticmethod
    def backward(ctx, dqkv):
        gradient = dqkv.clone(memory_format=torch.contiguous_format)
        _rotate('rope_backward', gradient, *ctx.saved_tensors, ctx.heads, ctx.interleaved)
        return gradient, None, None, None, None, None


def _rotate(name, qkv, cos, sin, positions, heads, interleaved):
    num_heads, num_kv_heads, head_dim = heads
    _call(name, _args('rope', dtype=DTYPES[qkv.dtype], interleaved=int(interleaved), num_heads=num_heads,
                      num_kv_heads=num_kv_heads, head_dim=head_dim, rotated=2 * cos.shape[1], tokens=qkv.shape[0],
                      qkv=qkv, cos=cos, sin=sin, positions=positions))


def rope(qkv, cos, sin, positions, heads, interleaved=False):
    """Rotates the first r elements of q and k heads of [T, (nq + 2 nkv) hd] in place. heads: (nq, nkv, hd); cos, sin
    float32 [positions, r/2]; positions int32 [T]."""
    return _Rope.apply(qkv, cos, sin, positions, heads, interleaved)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, label_smoothing, z_loss, softcap):
        rows, vocab = logits.shape
        targets = targets.to(torch.int32)
        scale = (targets != IGNORED).sum().clamp(min=1).to(torch.float32).reciprocal()
        loss = torch.empty(rows, dtype=torch.float32, device=logits.device)
        _call('cross_entropy', _args('cross_entropy', dtype=DTYPES[logits.dtype], rows=rows, vocab=vocab,
                                     label_smoothing=label_smoothing, z_loss=z_loss, softcap=softcap, logits=logits,
                                     targets=targets, gradient_scale=scale if ctx.needs_input_grad[0] else None,
                                     loss=loss))
        ctx.gradient = logits.detach() if ctx.needs_input_grad[0] else None
        return loss.sum() * scale

    @staticmethod
    def backward(ctx, dloss):
        return ctx.gradient.mul_(dloss), None, None, None, None


def cross_entropy(logits, targets, label_smoothing=0.0, z_loss=0.0, softcap=0.0):
    """Mean over targets other than -100. Consumes the logits: their gradient replaces them when they need one."""
    return _CrossEntropy.apply(logits, targets, label_smoothing, z_loss, softcap)


def _gemm(out, a, b, transpose_a=False, transpose_b=False):
    m, n = out.shape
    workspace = torch.empty(_library.coxswain_gemm_workspace_bytes(), dtype=torch.uint8, device='cuda')
    _call('gemm', _args('gemm', dtype=DTYPES[a.dtype], output_dtype=DTYPES[out.dtype], transpose_a=int(transpose_a),
                        transpose_b=int(transpose_b), m=m, n=n, k=a.shape[0 if transpose_a else 1], alpha=1.0, beta=0.0,
                        a=a, b=b, c=out, lda=a.shape[1], ldb=b.shape[1], ldc=n, workspace=workspace,
                        workspace_bytes=workspace.numel()))
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return _gemm(x.new_empty(x.shape[0], weight.shape[0]), x, weight, transpose_b=True)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dy = dy.contiguous()
        dx = _gemm(torch.empty_like(x), dy, weight) if ctx.needs_input_grad[0] else None
        dweight = _gemm(torch.empty_like(weight), dy, x, transpose_a=True) if ctx.needs_input_grad[1] else None
        return dx, dweight


def linear(x, weight):
    """x [T, K] times the transpose of weight [N, K]."""
    return _Linear.apply(x, weight)


def _heads(packed, heads, names):
    """The views of q, k and v in one packed tensor."""
    num_heads, num_kv_heads, head_dim = heads
    assert packed.is_cuda and packed.is_contiguous(), f'{names} are not in one contiguous tensor on the GPU'
    views = packed.split([num_heads * head_dim, num_kv_heads * head_dim, num_kv_heads * head_dim], 1)
    return {name: view.data_ptr() for name, view in zip(names.split(), views)}


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, cu_seqlens, max_length, heads, dense, deterministic):
        num_heads, num_kv_heads, head_dim = heads
        out = qkv.new_empty(qkv.shape[0], num_heads * head_dim)
        lse = torch.empty(num_heads * qkv.shape[0], dtype=torch.float32, device=qkv.device)
        ctx.fields = dict(dtype=DTYPES[qkv.dtype], deterministic=int(deterministic), num_heads=num_heads,
                          num_kv_heads=num_kv_heads, head_dim=head_dim, scale=head_dim ** -0.5, tokens=qkv.shape[0],
                          documents=cu_seqlens.numel() - 1, max_length=max_length, dense=int(dense))
        args = _args('attention', **ctx.fields, cu_seqlens=cu_seqlens, **_heads(qkv, heads, 'q k v'), out=out, lse=lse)
        _call('prepare_attention', args)
        workspace = _lend('attention_forward', args)
        _call('attention_forward', args)
        del workspace
        ctx.save_for_backward(qkv, cu_seqlens, out, lse)
        return out

    @staticmethod
    def backward(ctx, dout):
        qkv, cu_seqlens, out, lse = ctx.saved_tensors
        dqkv, dout = torch.empty_like(qkv), dout.contiguous()
        heads = [ctx.fields[name] for name in ('num_heads', 'num_kv_heads', 'head_dim')]
        args = _args('attention', **ctx.fields, cu_seqlens=cu_seqlens, **_heads(qkv, heads, 'q k v'), out=out, lse=lse,
                     dout=dout, **_heads(dqkv, heads, 'dq dk dv'))
        workspace = _lend('attention_backward', args)
        _call('attention_backward', args)
        del workspace
        return dqkv, None, None, None, None, None


def attention(qkv, cu_seqlens, max_length, heads, dense=False, deterministic=True):
    """Causal attention of packed documents: qkv [T, (nq + 2 nkv) hd], cu_seqlens int32 [documents + 1]. dense: every
    document has max_length tokens."""
    return _Attention.apply(qkv, cu_seqlens, max_length, heads, dense, deterministic)


# The checks: each case gives inputs, ours and torch's function of them; its outputs are weighted by fixed tensors.


def _randn(*shape, scale=1.0):
    return (torch.randn(*shape, device='cuda') * scale).to(torch.bfloat16)


def _torch_norm(x, weight, eps=1e-6):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)


def _torch_swiglu(gate_up):
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


HEADS = (14, 2, 64)


def _torch_rope(qkv, cos, sin):
    num_heads, num_kv_heads, head_dim = HEADS
    rotated = (num_heads + num_kv_heads) * head_dim
    x = qkv[:, :rotated].view(qkv.shape[0], -1, head_dim)
    a, b = x.chunk(2, -1)
    c, s = cos.to(qkv.dtype)[:, None], sin.to(qkv.dtype)[:, None]
    turned = torch.cat([a * c - b * s, b * c + a * s], -1)
    return torch.cat([turned.reshape(qkv.shape[0], rotated), qkv[:, rotated:]], -1)


def _torch_attention(qkv, batch):
    num_heads, num_kv_heads, head_dim = HEADS
    x = qkv.view(batch, -1, num_heads + 2 * num_kv_heads, head_dim).transpose(1, 2)
    q, k, v = x.split([num_heads, num_kv_heads, num_kv_heads], 1)
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.transpose(1, 2).reshape(qkv.shape[0], num_heads * head_dim)


def _cases():
    """name: (inputs, ours, torch's)."""
    tokens, hidden, intermediate, vocab, batch = 8192, 896, 4864, 151936, 8
    width = (HEADS[0] + 2 * HEADS[1]) * HEADS[2]
    positions = torch.arange(tokens, device='cuda', dtype=torch.int32)
    angle = torch.arange(tokens, device='cuda')[:, None] * 1e6 ** (-torch.arange(0, 64, 2, device='cuda') / 64)
    cos, sin = angle.cos().float().contiguous(), angle.sin().float().contiguous()
    targets = torch.randint(vocab, (2048,), device='cuda')
    targets[5:40] = IGNORED
    boundaries = torch.arange(0, tokens + 1, tokens // batch, device='cuda', dtype=torch.int32)
    weight = 1 + _randn(hidden, scale=0.1)
    yield 'rms_norm', [_randn(tokens, hidden), weight], rms_norm, _torch_norm
    yield ('add_rms_norm', [_randn(tokens, hidden), _randn(tokens, hidden), weight], add_rms_norm,
           lambda x, r, w: (_torch_norm(x + r, w), x + r))
    yield 'swiglu', [_randn(tokens, 2 * intermediate)], swiglu, _torch_swiglu
    yield ('rope', [_randn(tokens, width)], lambda x: rope(x * 1, cos, sin, positions, HEADS),
           lambda x: _torch_rope(x, cos.to(x.dtype), sin.to(x.dtype)))
    yield ('cross_entropy', [_randn(2048, vocab, scale=2.0)], lambda z: cross_entropy(z * 1, targets),
           lambda z: torch.nn.functional.cross_entropy(z * 1, targets))
    yield ('linear', [_randn(tokens, hidden), _randn(2 * intermediate, hidden, scale=hidden ** -0.5)], linear,
           torch.nn.functional.linear)
    for dense in (True, False):
        yield ('attention, dense' if dense else 'attention, packed', [_randn(tokens, width)],
               lambda x, dense=dense: attention(x, boundaries, tokens // batch, HEADS, dense),
               lambda x: _torch_attention(x, batch))
    import torch_adapters, torch_layers  # need this module
    yield from torch_layers.cases(_randn, HEADS)
    yield from torch_adapters.cases(_randn)


def _run(function, inputs, weights):
    """Outputs and gradients; weights are made when there are none."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    outputs = function(*leaves)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    if not weights:
        weights += [torch.ones_like(y) if y.dim() == 0 else _randn(*y.shape) for y in outputs]
    gradients = torch.autograd.grad(outputs, leaves, [w.to(y.dtype) for w, y in zip(weights, outputs)])
    return [y.detach() for y in outputs] + list(gradients)


def _error(got, exact):
    return max(((g.double() - e).abs().max() / e.abs().max()).item() for g, e in zip(got, exact))


def _milliseconds(function, inputs, weights, rounds=20):
    """Median of graph replays, so that the launches cost neither side anything."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            _run(function, inputs, weights)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        _run(function, inputs, weights)
    times = []
    for _ in range(rounds + 5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[5:])


def main():
    load(sys.argv[1])
    torch.manual_seed(1)
    failed = False
    print(f'{torch.cuda.get_device_name()}, torch {torch.__version__}, bfloat16, forward + backward')
    print(f'{"op":<18} {"our error":>10} {"torch error":>12} {"ours ms":>9} {"torch ms":>9} {"ratio":>6}')
    for name, inputs, ours, theirs in _cases():
        weights = []
        peer = _run(theirs, inputs, weights)
        exact = _run(theirs, [x.double() for x in inputs], weights)
        got = _run(ours, inputs, weights)
        error, peer_error = _error(got, exact), _error(peer, exact)
        del peer, exact, got
        _library.coxswain_set_gemm_tuning(1)
        _run(ours, inputs, weights)
        _library.coxswain_set_gemm_tuning(0)
        time, peer_time = _milliseconds(ours, inputs, weights), _milliseconds(theirs, inputs, weights)
        passed = error <= 2 * peer_error + 2 ** -9
        failed |= not passed
        print(f'{name:<18} {error:>10.2e} {peer_error:>12.2e} {time:>9.3f} {peer_time:>9.3f} {peer_time / time:>6.2f}'
              + ('' if passed else '  ERROR ABOVE TWICE TORCH\'S'))
    import torch_layers, torch_tensors  # need this module
    print(f'{"without gradients":<28} {"our error":>10} {"torch error":>12} {"limit":>9}')
    for name, error, peer_error, beyond in (*torch_layers.checks(), *torch_tensors.checks(HEADS)):
        limit = 2 * peer_error + beyond
        failed |= not error <= limit
        print(f'{name:<28} {error:>10.2e} {peer_error:>12.2e} {limit:>9.2e}'
              + ('' if error <= limit else '  ABOVE THE LIMIT'))
    return 1 if failed else 0


if __name__ == '__main__':
    import torch_ops  # under its own name, which torch_layers imports
    sys.exit(torch_ops.main())
