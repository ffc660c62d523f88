"""The ops as functions. Tensors are float32 or bfloat16 (on the CPU float32), of one type in a call; targets, ids,
positions and cu_seqlens int32."""
import torch

from . import library, shapes  # noqa: F401  they define torch.ops.coxswain

_ops = torch.ops.coxswain
ACTIVATIONS = {'silu': 0, 'gelu_tanh': 1, 'gelu': 2}


def rms_norm(x, weight, eps=1e-6, weight_offset=0.0):
    """x / rms(x) (weight_offset + weight) over the last dimension."""
    return _ops.rms_norm(x, weight, eps, weight_offset)[0]


def add_rms_norm(x, residual, weight, eps=1e-6, weight_offset=0.0):
    """(rms_norm(x + residual), x + residual)."""
    return _ops.add_rms_norm(x, residual, weight, eps, weight_offset)[:2]


def layer_norm(x, weight, bias=None, eps=1e-5):
    return _ops.layer_norm(x, weight, bias, eps)[0]


def rope(qkv, cos, sin, positions, num_heads, num_kv_heads, interleaved=False):
    """The first r elements of the q and k heads of qkv [T, (nq + 2 nkv) hd], turned. cos, sin: float32 [L, r / 2];
    positions: [T], rows of these."""
    return _ops.rope(qkv, cos, sin, positions, num_heads, num_kv_heads, interleaved)


def qkv_projection(x, weights, biases, cos, sin, positions, num_heads, num_kv_heads, norms=None, eps=1e-6,
                   weight_offset=0.0, interleaved=False):
    """x by the weights of q, k and v (three, or one with the rows of all), RMSNorm of the q and k heads where `norms`
    has their two weights, rotation: [T, (nq + 2 nkv) hd]. biases: as many, or None."""
    q, k, v = (*weights, None, None)[:3]
    q_bias, k_bias, v_bias = (*(biases or ()), None, None, None)[:3]
    q_norm, k_norm = norms or (None, None)
    return _ops.qkv_projection(x, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm, cos, sin, positions, num_heads,
                               num_kv_heads, eps, weight_offset, interleaved)[0]


def swiglu(gate_up):
    """silu(gate) up of [..., 2 I]: gate, up."""
    return _ops.swiglu(gate_up)


def geglu(gate_up, approximate='tanh'):
    return _ops.geglu(gate_up, approximate == 'none')


def gelu(x, approximate='tanh'):
    return _ops.gelu(x, approximate == 'none')


def gated_mlp(x, gate, up, down, activation='silu', overwrites=False):
    """(act(x gate^T) (x up^T)) down^T. up None: gate has the rows of both. Where up lies behind gate in memory, as
    `patch` lays them, a GPU of compute capability 9.0 runs product and activation in one launch. overwrites: backward
    writes over what forward saved, so that a second backward of the same graph fails."""
    return _ops.gated_mlp(x, gate, up, down, ACTIVATIONS[activation], overwrites)[0]


def cross_entropy(logits, targets, reduction='mean', label_smoothing=0.0, z_loss=0.0, softcap=0.0):
    """Of logits [N, V] and targets [N], -100: ignored. 'none' gives the losses of rows, without a gradient."""
    total, rows, _ = _ops.cross_entropy(logits, targets, label_smoothing, z_loss, softcap)
    if reduction == 'none':
        return rows
    return total if reduction == 'sum' else total / (targets != -100).sum()


def linear_cross_entropy(x, weight, targets, scale=None, label_smoothing=0.0, z_loss=0.0, softcap=0.0,
                         chunk_rows=None, overwrites=False, cut=False):
    """cross_entropy(x weight^T), of x [N, H] and weight [V, H], times scale (one float32 on the device; None: the mean
    over the targets that are not -100). The logits exist in chunks, by default of about 2^29 elements at most.
    overwrites: backward gives the gradients that forward made, scaled in place, so that a second backward of the same
    graph fails. cut: no chunk of logits; their gradient exists for a range of the vocabulary at a time, in up to
    136 MiB, and logits are computed twice."""
    if scale is None:
        scale = (targets != -100).sum().float().reciprocal()
    if cut:
        chunk_rows = 0
    elif chunk_rows is None:
        chunk_rows = max(256, 2 ** 29 // weight.shape[0] // 128 * 128)
    return _ops.linear_cross_entropy(x, weight, targets, scale, label_smoothing, z_loss, softcap, chunk_rows,
                                     overwrites)[0]


def packed_attention(qkv, cu_seqlens, max_length, num_heads, num_kv_heads, scale=None, window=0, softcap=0.0,
                     dense=False, deterministic=True, value_dim=0, sinks=None):
    """Causal attention of documents that lie behind one another in qkv [T, (nq + nkv) hd + nkv vd]: [T, nq vd]. dense:
    each has max_length tokens. window: the last positions that are seen, 0: all. value_dim: vd, 0: hd. sinks [nq]: a
    logit more in the softmax of each head, without a value."""
    head_dim = shapes.packed_head_dim(qkv, num_heads, num_kv_heads, value_dim)
    return _ops.packed_attention(qkv, cu_seqlens, max_length, dense, num_heads, num_kv_heads,
                                 head_dim ** -0.5 if scale is None else scale, window, softcap, deterministic,
                                 value_dim, sinks)[0]


def attention(q, k, v, cu_seqlens, max_length, scale=None, window=0, softcap=0.0, dense=False, deterministic=True,
              sinks=None):
    """The same of q [T, nq, hd], k [T, nkv, hd] and v [T, nkv, vd]: [T, nq, vd]."""
    return _ops.attention(q, k, v, cu_seqlens, max_length, dense, q.shape[2] ** -0.5 if scale is None else scale,
                          window, softcap, deterministic, sinks)[0]


def lora_linear(x, weight, bias, a, b, scale):
    """x weight^T + bias + scale (x a^T) b^T; weight and bias are frozen."""
    return _ops.lora_linear(x, weight, bias, a, b, scale)[0]


def dora_linear(x, weight, bias, a, b, magnitude, scale):
    """(x weight^T + scale (x a^T) b^T) magnitude / ||weight + scale b a|| + bias; the lengths count as constants."""
    return _ops.dora_linear(x, weight, bias, a, b, magnitude, scale)[0]


def embedding(ids, weight, scale=1.0):
    return _ops.embedding(ids, weight, scale)


def route(logits, chosen, score='softmax', bias=None, groups=1, top_groups=1, renormalise=True, scale=1.0,
          padding=None):
    """(weights [T, k], ids [T, k]) of router logits [T, E] in float32: the k = chosen largest, of equals the lower
    index, and their scores. score: 'softmax' or 'sigmoid'. bias [E], groups and top_groups take part in the choice of
    'sigmoid' alone. renormalise: weights are divided by their sum, so that 'softmax' is over the chosen. padding [T]:
    where it is negative, ids are -1 and weights 0."""
    return _ops.route(logits, chosen, {'softmax': False, 'sigmoid': True}[score], bias, groups, top_groups, renormalise,
                      scale, padding)


def router_loss(logits, ids):
    """(balance, z) of router logits [N, E] and ids [N, k], float64: E sum_e f_e P_e of the softmax over all experts, as
    transformers' load_balancing_loss_func, and the mean of the squared log-sum. Concatenated layers are one pool."""
    return _ops.router_loss(logits, ids)[0].unbind()


def sort_by_expert(ids, experts):
    """(order [T k], places [T, k], offsets [E + 1], counts [E]) of ids [T, k], -1: left out. order: the pair, token k +
    slot, at each place, by expert, stable, -1 behind the last; places: the place of each pair, or -1."""
    return _ops.sort_by_expert(ids, experts)


def dispatch(x, order, places):
    """The row of x [T, H] of each pair in `order`: [T k, H]; zeros behind the last."""
    return _ops.dispatch(x, order, places)


def grouped_linear(x, weight, offsets, bias=None):
    """x [R, K] times the weight [E, N, K] of each row's expert, plus its bias [E, N]: [R, N]. Rows behind offsets[E]
    give zeros."""
    return _ops.grouped_linear(x, weight, bias, offsets)


def grouped_gated_linear(x, weight, offsets, bias=None):
    """swiglu of grouped_linear, whose weight [E, 2 I, K] has the rows of gate before those of up: [R, I]. A GPU of compute
    capability 9.0 runs both in one launch."""
    return _ops.grouped_gated_linear(x, weight, bias, offsets)[0]


def grouped_lora_linear(x, weight, offsets, a, b, scale, bias=None):
    """grouped_linear of frozen weight and bias, plus scale times (x by a [E, r, K]) by b [E, N, r] of the row's expert."""
    return _ops.grouped_lora_linear(x, weight, bias, offsets, a, b, scale)[0]


def combine(rows, weights, order, places):
    """The sum of a token's rows [T k, H] by its weights [T, k] in float32: [T, H], in the order of slots."""
    return _ops.combine(rows, weights, order, places)


def nf4_quantize(x):
    """float32 to (codes, absmax of blocks of 64)."""
    return _ops.nf4_quantize(x)


def nf4_dequantize(codes, shape, absmax=None, absmax_codes=None, constants=None, dtype=torch.bfloat16):
    return _ops.nf4_dequantize(codes, absmax, absmax_codes, constants, shape, dtype == torch.bfloat16)


def int8_quantize(x):
    """float32 [N, K] to (codes, absmax of rows)."""
    return _ops.int8_quantize(x)


def int8_dequantize(codes, absmax, dtype=torch.bfloat16):
    return _ops.int8_dequantize(codes, absmax, dtype == torch.bfloat16)


def mxfp4_quantize(x):
    """float32 [..., K] to (codes [..., K / 2], the first of two in the low nibble, and scales [..., K / 32]). K is a
    multiple of 32."""
    return _ops.mxfp4_quantize(x)


def mxfp4_dequantize(codes, scales, dtype=torch.bfloat16):
    """codes [..., K / 2] and scales [..., K / 32], both uint8, to [..., K]. The blocks of gpt-oss [E, N, K / 32, 16] are
    codes.flatten(-2)."""
    return _ops.mxfp4_dequantize(codes, scales, dtype == torch.bfloat16)


def fp8_blocks_dequantize(weight, scale_inv, dtype=torch.bfloat16):
    """float8_e4m3fn [N, K] with float32 [ceil(N / 128), ceil(K / 128)], as DeepSeek publishes them, to [N, K]."""
    return _ops.fp8_blocks_dequantize(weight.view(torch.uint8), scale_inv, dtype == torch.bfloat16)


def tune_products(on=True):
    """While on, the first product of each shape on a GPU is timed by several algorithms and the fastest kept. They are
    timed on its own operands: gradients of such a step may be anything. Throw them away, and turn it off to train."""
    if torch.cuda.is_available():
        _ops.tune_products(on)
