"""Shapes of what the ops return, for torch.compile and every other user of tensors without data."""
import torch
from torch.library import register_fake


def _floats(like, *shape):
    return like.new_empty(shape, dtype=torch.float32)


def _contiguous(like):
    return torch.empty_like(like, memory_format=torch.contiguous_format)


def _rows(x):
    rows = 1
    for extent in x.shape[:-1]:
        rows = rows * extent
    return rows


def _wanted(like, wanted):
    return _contiguous(like) if wanted else like.new_empty((0,))


@register_fake('coxswain::rms_norm')
def _(x, weight, eps, weight_offset):
    return _contiguous(x), _floats(x, _rows(x))


@register_fake('coxswain::add_rms_norm')
def _(x, residual, weight, eps, weight_offset):
    return _contiguous(x), _contiguous(x), _floats(x, _rows(x))


@register_fake('coxswain::rms_norm_backward')
def _(dy, dsum, x, weight, rstd, weight_offset, wants_weight):
    return _contiguous(x), _wanted(weight, wants_weight)


@register_fake('coxswain::layer_norm')
def _(x, weight, bias, eps):
    return _contiguous(x), _floats(x, _rows(x)), _floats(x, _rows(x))


@register_fake('coxswain::layer_norm_backward')
def _(dy, x, weight, mean, rstd, wants_weight, wants_bias):
    return _contiguous(x), _wanted(weight, wants_weight), _wanted(weight, wants_bias)


@register_fake('coxswain::rope')
def _(qkv, cos, sin, positions, num_heads, num_kv_heads, interleaved):
    return _contiguous(qkv)


@register_fake('coxswain::rope_backward')
def _(dout, cos, sin, positions, num_heads, num_kv_heads, interleaved):
    return _contiguous(dout)


@register_fake('coxswain::qkv_projection')
def _(x, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm, cos, sin, positions, num_heads, num_kv_heads, eps,
      weight_offset, interleaved):
    rows, width = _rows(x), q.shape[0] + (0 if k is None else k.shape[0] + v.shape[0])
    heads = num_heads + num_kv_heads
    if q_norm is None:
        return x.new_empty((rows, width)), x.new_empty((0,)), _floats(x, 0)
    head_dim = width // (heads + num_kv_heads)
    return x.new_empty((rows, width)), x.new_empty((rows, heads * head_dim)), _floats(x, rows, heads)


@register_fake('coxswain::qkv_rotation_backward')
def _(dqkv, saved, rstd, q_norm, k_norm, cos, sin, positions, num_heads, num_kv_heads, weight_offset, interleaved,
      wants_norm):
    if q_norm is None:
        return _contiguous(dqkv), dqkv.new_empty((0,)), dqkv.new_empty((0,))
    return _contiguous(dqkv), _wanted(q_norm, wants_norm), _wanted(k_norm, wants_norm)


@register_fake('coxswain::qkv_products_backward')
def _(dqkv, x, q, k, v, wants_x, wants_weights, wants_biases):
    none = x.new_empty
    parts = (q, k, v)
    weights = [none((0,)) if w is None else _wanted(w, wants_weights) for w in parts]
    biases = [none((w.shape[0],)) if w is not None and wants_biases else none((0,)) for w in parts]
    return _wanted(x, wants_x), *weights, *biases


@register_fake('coxswain::swiglu')
def _(gate_up):
    return gate_up.new_empty((*gate_up.shape[:-1], gate_up.shape[-1] // 2))


@register_fake('coxswain::swiglu_backward')
def _(dy, gate_up):
    return _contiguous(gate_up)


@register_fake('coxswain::geglu')
def _(gate_up, erf):
    return gate_up.new_empty((*gate_up.shape[:-1], gate_up.shape[-1] // 2))


@register_fake('coxswain::geglu_backward')
def _(dy, gate_up, erf):
    return _contiguous(gate_up)


@register_fake('coxswain::gelu')
def _(x, erf):
    return _contiguous(x)


@register_fake('coxswain::gelu_backward')
def _(dy, x, erf):
    return _contiguous(x)


@register_fake('coxswain::gated_mlp')
def _(x, gate, up, down, activation, overwrites):
    return x.new_empty((*x.shape[:-1], down.shape[0])), x.new_empty((_rows(x), 2 * down.shape[1]))


@register_fake('coxswain::gated_mlp_activation')
def _(x, gate, up, activation):
    width = gate.shape[0] // (2 if up is None else 1)
    return x.new_empty((*x.shape[:-1], width)), x.new_empty((_rows(x), 2 * width))


@register_fake('coxswain::gated_mlp_product')
def _(y, down):
    return y.new_empty((*y.shape[:-1], down.shape[0]))


def _gated_mlp_backward(dout, x, gate_up, gate, up, down, activation, wants_x, wants_gate_up, wants_down):
    dup = x.new_empty((0,)) if up is None else _wanted(up, wants_gate_up)
    return _wanted(x, wants_x), _wanted(gate, wants_gate_up), dup, _wanted(down, wants_down)


register_fake('coxswain::gated_mlp_backward', _gated_mlp_backward)
register_fake('coxswain::gated_mlp_backward_', _gated_mlp_backward)


@register_fake('coxswain::cross_entropy')
def _(logits, targets, label_smoothing, z_loss, softcap):
    rows = logits.shape[0]
    return _floats(logits), _floats(logits, rows), _floats(logits, rows)


@register_fake('coxswain::cross_entropy_backward')
def _(dsum, logits, targets, label_smoothing, z_loss, softcap):
    return _contiguous(logits)


@register_fake('coxswain::linear_cross_entropy')
def _(x, weight, targets, scale, label_smoothing, z_loss, softcap, chunk_rows, overwrites=False, wants_x=False,
      wants_weight=False):
    return _floats(x), _wanted(x, wants_x), _wanted(weight, wants_weight)


@register_fake('coxswain::scale_')
def _(x, factor):
    return None


def packed_head_dim(qkv, num_heads, num_kv_heads, value_dim):
    """hd of rows [(nq + nkv) hd + nkv vd]; value_dim 0: vd is hd."""
    if value_dim:
        return (qkv.shape[1] - num_kv_heads * value_dim) // (num_heads + num_kv_heads)
    return qkv.shape[1] // (num_heads + 2 * num_kv_heads)


def _sink_gradient(first, sinks):
    return first.new_empty((0,)) if sinks is None else _contiguous(sinks)


@register_fake('coxswain::packed_attention')
def _(qkv, cu_seqlens, max_length, dense, num_heads, num_kv_heads, scale, window, softcap, deterministic,
      value_dim=0, sinks=None):
    width = value_dim or packed_head_dim(qkv, num_heads, num_kv_heads, 0)
    return qkv.new_empty((qkv.shape[0], num_heads * width)), _floats(qkv, num_heads * qkv.shape[0])


@register_fake('coxswain::packed_attention_backward')
def _(dout, qkv, cu_seqlens, out, lse, max_length, dense, num_heads, num_kv_heads, scale, window, softcap,
      deterministic, value_dim=0, sinks=None):
    return _contiguous(qkv), _sink_gradient(qkv, sinks)


@register_fake('coxswain::attention')
def _(q, k, v, cu_seqlens, max_length, dense, scale, window, softcap, deterministic, sinks=None):
    return q.new_empty((q.shape[0], q.shape[1], v.shape[2])), _floats(q, q.shape[1] * q.shape[0])


@register_fake('coxswain::attention_backward')
def _(dout, q, k, v, cu_seqlens, out, lse, max_length, dense, scale, window, softcap, deterministic, sinks=None):
    return _contiguous(q), _contiguous(k), _contiguous(v), _sink_gradient(q, sinks)


@register_fake('coxswain::lora_linear')
def _(x, weight, bias, a, b, scale):
    return x.new_empty((*x.shape[:-1], weight.shape[0])), x.new_empty((_rows(x), a.shape[0]))


@register_fake('coxswain::lora_linear_backward')
def _(dy, x, weight, a, b, h, scale, wants_x):
    return _wanted(x, wants_x), _contiguous(a), _contiguous(b)


@register_fake('coxswain::dora_linear')
def _(x, weight, bias, a, b, magnitude, scale):
    rows, columns = _rows(x), weight.shape[0]
    return (x.new_empty((*x.shape[:-1], columns)), x.new_empty((rows, a.shape[0])), x.new_empty((rows, columns)),
            _floats(x, columns), _floats(x, columns))


@register_fake('coxswain::dora_linear_backward')
def _(dy, x, weight, a, b, magnitude, h, u, norm, factor, scale, wants_x):
    return _wanted(x, wants_x), _contiguous(a), _contiguous(b), _contiguous(magnitude)


@register_fake('coxswain::embedding')
def _(ids, weight, scale):
    return weight.new_empty((*ids.shape, weight.shape[1]))


@register_fake('coxswain::embedding_backward')
def _(dout, ids, weight, scale):
    return _contiguous(weight)


@register_fake('coxswain::route')
def _(logits, chosen, sigmoid, bias, groups, top_groups, renormalise, scale, padding):
    tokens = logits.shape[0]
    return _floats(logits, tokens, chosen), logits.new_empty((tokens, chosen), dtype=torch.int32)


@register_fake('coxswain::route_backward')
def _(dweights, logits, *_):
    return _contiguous(logits)


@register_fake('coxswain::router_loss')
def _(logits, ids):
    double = dict(dtype=torch.float64)
    return logits.new_empty((2,), **double), logits.new_empty((2 * logits.shape[1] + 2,), **double)


@register_fake('coxswain::router_loss_backward')
def _(dlosses, logits, ids, sums):
    return _contiguous(logits)


@register_fake('coxswain::sort_by_expert')
def _(ids, experts):
    return (ids.new_empty((ids.shape[0] * ids.shape[1],)), _contiguous(ids), ids.new_empty((experts + 1,)),
            ids.new_empty((experts,)))


@register_fake('coxswain::dispatch')
def _(x, order, places):
    return x.new_empty((places.shape[0] * places.shape[1], x.shape[1]))


@register_fake('coxswain::dispatch_backward')
def _(drows, places):
    return drows.new_empty((places.shape[0], drows.shape[1]))


@register_fake('coxswain::combine')
def _(rows, weights, order, places):
    return rows.new_empty((places.shape[0], rows.shape[1]))


@register_fake('coxswain::combine_backward')
def _(dy, rows, weights, order, places, wants_rows, wants_weights):
    return _wanted(rows, wants_rows), _wanted(weights, wants_weights)


@register_fake('coxswain::grouped_linear')
def _(x, weight, bias, offsets):
    return x.new_empty((x.shape[0], weight.shape[1]))


@register_fake('coxswain::grouped_linear_backward')
def _(dy, x, weight, offsets, wants_x, wants_weight, wants_bias):
    dbias = weight.new_empty(weight.shape[:2] if wants_bias else (0,))
    return _wanted(x, wants_x), _wanted(weight, wants_weight), dbias


@register_fake('coxswain::grouped_gated_linear')
def _(x, weight, bias, offsets):
    return x.new_empty((x.shape[0], weight.shape[1] // 2)), x.new_empty((x.shape[0], weight.shape[1]))


@register_fake('coxswain::grouped_lora_linear')
def _(x, weight, bias, offsets, a, b, scale):
    return x.new_empty((x.shape[0], weight.shape[1])), x.new_empty((x.shape[0], a.shape[1]))


@register_fake('coxswain::grouped_lora_linear_backward')
def _(dy, x, weight, offsets, a, b, h, scale, wants_x):
    return _wanted(x, wants_x), _contiguous(a), _contiguous(b)


@register_fake('coxswain::nf4_dequantize')
def _(codes, absmax, absmax_codes, constants, shape, bfloat16):
    return codes.new_empty(shape, dtype=torch.bfloat16 if bfloat16 else torch.float32)


@register_fake('coxswain::nf4_quantize')
def _(x):
    n = x.numel()
    return x.new_empty(((n + 1) // 2,), dtype=torch.uint8), _floats(x, (n + 63) // 64)


@register_fake('coxswain::int8_dequantize')
def _(codes, absmax, bfloat16):
    return codes.new_empty(codes.shape, dtype=torch.bfloat16 if bfloat16 else torch.float32)


@register_fake('coxswain::int8_quantize')
def _(x):
    return x.new_empty(x.shape, dtype=torch.int8), _floats(x, x.shape[0])


@register_fake('coxswain::mxfp4_dequantize')
def _(codes, scales, bfloat16):
    shape = (*codes.shape[:-1], codes.shape[-1] * 2)
    return codes.new_empty(shape, dtype=torch.bfloat16 if bfloat16 else torch.float32)


@register_fake('coxswain::mxfp4_quantize')
def _(x):
    *rows, k = x.shape
    return x.new_empty((*rows, k // 2), dtype=torch.uint8), x.new_empty((*rows, k // 32), dtype=torch.uint8)


@register_fake('coxswain::fp8_blocks_dequantize')
def _(codes, scales, bfloat16):
    return codes.new_empty(codes.shape, dtype=torch.bfloat16 if bfloat16 else torch.float32)


@register_fake('coxswain::adamw')
def _(parameters, *_):
    return parameters[0].new_empty((), dtype=torch.float64)
