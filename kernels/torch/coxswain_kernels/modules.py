"""Forward functions of transformers' modules over the ops. Each takes its module as `self`; `original` is the forward
that it stands for, which does what the ops do not: a cache, masks, dropout of attention, adapters."""
import torch
from torch import nn

from . import ops

ACTIVATIONS = {'silu': 'silu', 'swish': 'silu', 'gelu': 'gelu', 'gelu_pytorch_tanh': 'gelu_tanh',
               'gelu_new': 'gelu_tanh', 'gelu_fast': 'gelu_tanh'}


def is_linear(module, bias=None):
    """No adapter around it; bias: whether it must have one."""
    return type(module) is nn.Linear and (bias is None or (module.bias is not None) == bias)


def is_shard(tensor):
    """A DTensor, as FSDP2 makes of parameters; known without torch.distributed, which not every torch has."""
    return hasattr(tensor, 'device_mesh')


def norm_arguments(module):
    """eps and what is added to the weight."""
    gemma = type(module).__name__ == 'GemmaRMSNorm'
    return (module.eps if gemma else module.variance_epsilon), (1.0 if gemma else getattr(module, 'offset', 0.0))


def rms_norm(self, original, hidden_states):
    eps, offset = norm_arguments(self)
    weight = self.weight
    if weight.dtype != hidden_states.dtype and not torch.is_autocast_enabled(hidden_states.device.type):
        widest = torch.promote_types(weight.dtype, hidden_states.dtype)
        return ops.rms_norm(hidden_states.to(widest), weight.to(widest), eps, offset)
    return ops.rms_norm(hidden_states, weight, eps, offset)


def rotary_embedding(self, original, x, position_ids):
    cos, sin = original(x.new_empty((), dtype=torch.float32), position_ids)
    half = cos.shape[-1] // 2
    batch, length = x.shape[:2]
    positions = torch.arange(position_ids.shape[0] * length, dtype=torch.int32, device=x.device)
    if position_ids.shape[0] != batch:
        positions = positions.repeat(batch)
    cu_seqlens = torch.arange(0, batch * length + 1, length, dtype=torch.int32, device=x.device)
    return (cos[..., :half].reshape(-1, half).contiguous(), sin[..., :half].reshape(-1, half).contiguous(), positions,
            cu_seqlens)


def usual_tables(tables, batch, length, dtype):
    """What the original rotary embedding returns."""
    cos, sin = (torch.cat((t, t), -1).view(-1, length, 2 * t.shape[-1]).to(dtype) for t in tables[:2])
    return cos, sin


def packed_qkv(self, x, tables, heads):
    """[T, (nq + 2 nkv) hd] of x [..., T, H] by the module's linears, with its norms of heads, rotated by tables: cos and
    sin, float32 [L, r / 2], and the row of each token, int32 [T]. One op where no linear has an adapter."""
    cos, sin, positions = tables[:3]
    norms = (self.q_norm, self.k_norm) if hasattr(self, 'q_norm') else None
    linears = (self.qkv_proj,) if hasattr(self, 'qkv_proj') else (self.q_proj, self.k_proj, self.v_proj)
    if all(is_linear(m, linears[0].bias is not None) for m in linears if type(m) is nn.Linear) and all(
            type(m) is nn.Linear for m in linears):
        biases = None if linears[0].bias is None else [m.bias for m in linears]
        eps, offset = norm_arguments(norms[0]) if norms else (1e-6, 0.0)
        return ops.qkv_projection(x, [m.weight for m in linears], biases, cos, sin, positions, *heads,
                                  [n.weight for n in norms] if norms else None, eps, offset)
    parts = [m(x).flatten(0, -2) for m in linears]
    if norms:
        for i, norm in enumerate(norms):
            parts[i] = norm(parts[i].view(parts[i].shape[0], -1, self.head_dim)).flatten(1)
    return ops.rope(torch.cat(parts, -1), cos, sin, positions, *heads)


def attention(self, original, hidden_states, position_embeddings=None, attention_mask=None, **kwargs):
    """Causal over whole rows, or over the documents that cu_seq_lens_q and max_length_q tell, as
    DataCollatorWithFlattening gives them."""
    batch, length = hidden_states.shape[:2]
    documents = kwargs.get('cu_seq_lens_q')
    cache = kwargs.get('cache') if kwargs.get('cache') is not None else kwargs.get('past_key_values')
    dropped = self.training and self.attention_dropout > 0
    if cache is not None or dropped or (attention_mask is not None and documents is None):
        usual = usual_tables(position_embeddings, batch, length, hidden_states.dtype)
        return original(hidden_states=hidden_states, position_embeddings=usual, attention_mask=attention_mask,
                        **kwargs)
    config = self.config
    heads = (config.num_attention_heads, config.num_key_value_heads)
    qkv = packed_qkv(self, hidden_states, position_embeddings, heads)
    window = sliding_window(self) or 0
    deterministic = torch.are_deterministic_algorithms_enabled()
    if documents is None:
        out = ops.packed_attention(qkv, position_embeddings[3], length, *heads, self.scaling,
                                   window if window < length else 0, dense=True, deterministic=deterministic)
    else:
        out = ops.packed_attention(qkv, documents.to(torch.int32), int(kwargs['max_length_q']), *heads, self.scaling,
                                   window, deterministic=deterministic)
    return self.o_proj(out.view(batch, length, -1)), None


def sliding_window(module):
    """As the attention of its family has it: of the module where it has one, else of a model whose layers all do."""
    if hasattr(module, 'sliding_window'):
        return module.sliding_window
    return getattr(module.config, 'sliding_window', None) if module.config.model_type in ('mistral', 'phi3') else None


def mlp(self, original, hidden_states):
    return gated_mlp(self, original, ACTIVATIONS.get(self.config.hidden_act), hidden_states)


def gated_mlp(self, original, activation, hidden_states):
    """activation: of ops.ACTIVATIONS, or None where the ops have none."""
    joined = hasattr(self, 'gate_up_proj')
    linears = ((self.gate_up_proj,) if joined else (self.gate_proj, self.up_proj)) + (self.down_proj,)
    if activation is None or not all(is_linear(m, bias=False) for m in linears):
        return original(hidden_states)
    gate, up = (linears[0].weight, None) if joined else (linears[0].weight, linears[1].weight)
    return ops.gated_mlp(hidden_states, gate, up, self.down_proj.weight, activation,
                         overwrites=not torch.compiler.is_compiling())


def experts(self, original, hidden_states, top_k_index, top_k_weights):
    """The stacks of experts of a mixture. The router, and who is chosen, stay the original's."""
    usual = getattr(self, 'is_concatenated', True) and not any(
        getattr(self, name, False) for name in ('is_transposed', 'has_bias', '_is_expert_parallel'))
    mixed = not torch.is_autocast_enabled(hidden_states.device.type) and self.gate_up_proj.dtype != hidden_states.dtype
    if mixed or not usual or type(self.act_fn).__name__ not in ('SiLU', 'SiLUActivation'):
        return original(hidden_states, top_k_index, top_k_weights)
    return sum_of_experts(self, hidden_states, top_k_index, top_k_weights)


def sum_of_experts(self, hidden_states, top_k_index, top_k_weights):
    """Of hidden_states [T, H], ids and weights [T, k]: [T, H], of the module's gate_up_proj [E, 2 I, H] and down_proj
    [E, H, I]."""
    order, places, offsets, _ = ops.sort_by_expert(top_k_index.to(torch.int32), self.gate_up_proj.shape[0])
    rows = ops.dispatch(hidden_states, order, places)
    rows = ops.grouped_gated_linear(rows, self.gate_up_proj, offsets)
    rows = ops.grouped_linear(rows, self.down_proj, offsets)
    return ops.combine(rows, top_k_weights.float(), order, places).to(hidden_states.dtype)


def decoder_layer(self, original, hidden_states, attention_mask=None, position_embeddings=None, **kwargs):
    residual = hidden_states
    hidden_states = self.input_layernorm(hidden_states)
    hidden_states, _ = self.self_attn(hidden_states=hidden_states, attention_mask=attention_mask,
                                      position_embeddings=position_embeddings, **kwargs)
    if hasattr(self, 'resid_attn_dropout'):
        hidden_states = self.resid_attn_dropout(hidden_states)
    norm = self.post_attention_layernorm
    if hidden_states.dtype == residual.dtype == norm.weight.dtype:
        hidden_states, residual = ops.add_rms_norm(hidden_states, residual, norm.weight, *norm_arguments(norm))
    else:
        residual = residual + hidden_states
        hidden_states = norm(residual)
    hidden_states = self.mlp(hidden_states)
    if hasattr(self, 'resid_mlp_dropout'):
        hidden_states = self.resid_mlp_dropout(hidden_states)
    return residual + hidden_states


def causal_lm(self, original, input_ids=None, labels=None, logits_to_keep=0, **kwargs):
    """With labels, in training: the loss without the logits, which are None then. Not where the model adds the losses of
    its routers."""
    balanced = kwargs.get('output_router_logits')
    if balanced is None:
        balanced = getattr(self.config, 'output_router_logits', False)
    if labels is None or not self.training or not is_linear(self.lm_head, bias=False) or balanced or not (
            isinstance(logits_to_keep, int) and logits_to_keep == 0):
        return original(input_ids=input_ids, labels=labels, logits_to_keep=logits_to_keep, **kwargs)
    from transformers.modeling_outputs import CausalLMOutputWithPast
    items, targets = kwargs.pop('num_items_in_batch', None), kwargs.pop('shift_labels', None)
    kwargs['use_cache'] = False
    outputs = self.model(input_ids=input_ids, **kwargs)
    if targets is None:
        targets = nn.functional.pad(labels, (0, 1), value=-100)[..., 1:]
    hidden = outputs.last_hidden_state
    targets = targets.reshape(-1).to(device=hidden.device, dtype=torch.int32)
    count = (targets != -100).sum() if items is None else torch.as_tensor(items, device=hidden.device)
    loss = ops.linear_cross_entropy(hidden.flatten(0, -2), self.lm_head.weight, targets, count.float().reciprocal(),
                                    overwrites=not torch.compiler.is_compiling())
    return CausalLMOutputWithPast(loss=loss, hidden_states=outputs.hidden_states, attentions=outputs.attentions)


def joinable(module):
    """Its linears that take the same input, without adapters; [] for a module that has none."""
    for names in (('gate_proj', 'up_proj'), ('q_proj', 'k_proj', 'v_proj')):
        linears = [getattr(module, name, None) for name in names]
        if all(is_linear(m) for m in linears):
            return linears
    return []


def join(module):
    """One piece of memory for such weights that are plain, of one type, and of one width."""
    weights = [m.weight for m in joinable(module)]
    if not weights or any(type(w) is not nn.Parameter or w.is_meta for w in weights):
        return
    if len({(w.device, w.dtype, w.shape[1]) for w in weights}) != 1:
        return
    whole = torch.cat([w.data for w in weights])
    for weight, rows in zip(weights, whole.split([w.shape[0] for w in weights])):
        weight.data = rows
