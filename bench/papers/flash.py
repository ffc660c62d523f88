"""FlashAttention as this machine has it: causal attention over documents, with a window or none, forward and backward.

In torch's own build the backward is deterministic where torch.use_deterministic_algorithms says so, in the packages of
FlashAttention by an argument of theirs.
"""
import functools, importlib, itertools, math

import torch

import timing

LAUNCHED_MS = 0.5  # calls between two events: below this an event is a part of what is timed


def offsets(layout):
    """[documents + 1], int32 on the device."""
    return torch.tensor([0, *itertools.accumulate(layout.lengths)], dtype=torch.int32, device=timing.DEVICE)


def tensors(layout):
    """q [tokens, heads, head_dim], k and v [tokens, kv_heads, head_dim], normal values that want gradients; dout like q."""
    def normal(heads):
        return torch.randn(sum(layout.lengths), heads, layout.head_dim, device=timing.DEVICE, dtype=timing.DTYPE)
    return [normal(n).requires_grad_() for n in (layout.heads, layout.kv_heads, layout.kv_heads)], normal(layout.heads)


def batched(layout, *of):
    """Documents of equal length as [documents, length, heads, head_dim]."""
    return [t.view(len(layout.lengths), -1, *t.shape[1:]) for t in of]


def by_torch(layout, deterministic):
    """The function of q, k and v. Its backward obeys what is set when it runs: deterministic() sets it."""
    longest, cumulative = max(layout.lengths), offsets(layout)
    call = functools.partial(
        torch.ops.aten._flash_attention_forward, max_q=longest, max_k=longest, dropout_p=0.0, is_causal=True,
        return_debug_mask=False, window_size_left=layout.window - 1 if layout.window else None, window_size_right=0)
    if layout.equal:
        return lambda *qkv: call(*batched(layout, *qkv), cum_seq_q=None, cum_seq_k=None)[0].flatten(0, 1)
    return lambda *qkv: call(*qkv, cum_seq_q=cumulative, cum_seq_k=cumulative)[0]


def by_package(package, layout, deterministic):
    """flash_attn_func and flash_attn_varlen_func of `package`; some releases return the log-sum-exp beside the output."""
    longest, cumulative = max(layout.lengths), offsets(layout)
    options = {'causal': True, 'deterministic': deterministic,
               'window_size': (layout.window - 1, 0) if layout.window else (-1, -1)}

    def first(out):
        return out[0] if isinstance(out, tuple) else out
    if layout.equal:
        return lambda *qkv: first(package.flash_attn_func(*batched(layout, *qkv), **options)).flatten(0, 1)
    return lambda *qkv: first(package.flash_attn_varlen_func(
        *qkv, cu_seqlens_q=cumulative, cu_seqlens_k=cumulative, max_seqlen_q=longest, max_seqlen_k=longest, **options))


def plain(layout):
    """The same by its formula in float32, a document after the other."""
    def call(*qkv):
        out = []
        for q, k, v in zip(*(t.float().transpose(0, 1).split(layout.lengths, 1) for t in qkv)):
            k, v = (t.repeat_interleave(layout.heads // layout.kv_heads, 0) for t in (k, v))
            seen = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool, device=q.device).tril()
            if layout.window:
                seen = seen.triu(1 - layout.window)
            scores = (q @ k.transpose(1, 2) / math.sqrt(layout.head_dim)).masked_fill(~seen, -math.inf)
            out.append((scores.softmax(-1) @ v).transpose(0, 1))
        return torch.cat(out)
    return call


def found():
    """(what it is, the function of a layout and deterministic), of the newest that is importable."""
    for module, what in (('flash_attn_interface', 'FlashAttention-3'), ('flash_attn', 'FlashAttention-2')):
        try:
            package = importlib.import_module(module)
        except ImportError:
            continue
        version = getattr(package, '__version__', '')
        return f'{what}, package {module} {version}'.strip(), functools.partial(by_package, package)
    return f"FlashAttention-2 in torch {torch.__version__}, aten::_flash_attention_forward", by_torch


def check(make, layout):
    """ValueError where the function of make(layout, False) is not what the formula gives. bfloat16 weights and output are
    off by 2^-9 of the largest value each; twice that is allowed."""
    qkv, _ = tensors(layout)
    with torch.no_grad():
        error = (make(layout, False)(*qkv).float() - plain(layout)(*qkv)).abs().max().item()
        allowed = 4 * torch.finfo(timing.DTYPE).eps / 2 * qkv[2].abs().max().item()
    if not error <= allowed:
        raise ValueError(f'off by {error:.4f} from its formula, {allowed:.4f} allowed')


def repeated(call, seconds, samples):
    """Microseconds of one call at 20, 50 and 80 %: as many are timed together as take LAUNCHED_MS."""
    count = math.ceil(LAUNCHED_MS / timing.milliseconds(call, 0, samples=5)[1])

    def calls():
        for _ in range(count):
            call()
    return [1e3 * t / count for t in timing.milliseconds(calls, seconds, samples, warmup=1)]


def measure(make, layout, seconds, samples=30):
    """{deterministic: (forward, backward)}, microseconds at 20, 50 and 80 % of the kernels of each."""
    qkv, dout = tensors(layout)
    measured = {}
    torch.utils.deterministic.fill_uninitialized_memory = False  # else every output is filled first
    for deterministic in (False, True):
        call = make(layout, deterministic)
        out = call(*qkv)
        torch.use_deterministic_algorithms(deterministic)
        try:
            measured[deterministic] = (
                repeated(lambda: call(*qkv), seconds, samples),
                repeated(lambda: torch.autograd.grad(out, qkv, dout, retain_graph=True), seconds, samples))
        finally:
            torch.use_deterministic_algorithms(False)
    return measured
