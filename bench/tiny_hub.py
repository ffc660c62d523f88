"""A folder of tiny models and small datasets under the names that Axolotl's files give, as coxswain-test-hub serves it.

A model has the architecture, tensors and special tokens of its family, two blocks of 64 dimensions (of a mixture eight
experts, two a token), random weights, and the quickstart's tokenizer. A dataset has records of the form that the file's `type` and field names read.
"""
import json, os, re, subprocess
import numpy as np
from safetensors.numpy import save_file

QUICKSTART = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'deploy/quickstart/model')
HIDDEN, INNER, HEADS, KV_HEADS, HEAD, LAYERS, VOCAB = 64, 128, 4, 2, 16, 2, 4160  # 64 rows for special tokens
EXPERTS, EXPERT = 8, 32  # of a mixture; the width of one
RECORDS = 240

# The first pattern that a name has decides.
FAMILIES = ((r'mixtral', 'mixtral'), (r'qwen3-.*-a\d+b', 'qwen3_moe'), (r'qwen.*-(moe-a|a14b)', 'qwen2_moe'),
            (r'glm-4\.[567]', 'glm4_moe'), (r'gpt-oss', 'gpt_oss'),
            (r'gemma-3-(4|12|27)b', 'gemma3_images'), (r'gemma-3', 'gemma3_text'), (r'gemma-2', 'gemma2'),
            (r'gemma', 'gemma'), (r'ministral-3-', 'mistral3'), (r'qwen3|plano', 'qwen3'),
            (r'qwen|deepcoder', 'qwen2'), (r'phi-3', 'phi3'), (r'glm-4', 'glm4'), (r'command-r7b', 'cohere2'),
            (r'starcoder2', 'starcoder2'), (r'mistral|magistral|devstral', 'mistral'), (r'', 'llama'))
ARCHITECTURES = {'gemma3_images': 'Gemma3ForConditionalGeneration', 'gemma3_text': 'Gemma3ForCausalLM',
                 'gemma2': 'Gemma2ForCausalLM', 'gemma': 'GemmaForCausalLM', 'mistral3': 'Mistral3ForConditionalGeneration',
                 'qwen3': 'Qwen3ForCausalLM', 'qwen2': 'Qwen2ForCausalLM', 'phi3': 'Phi3ForCausalLM',
                 'glm4': 'Glm4ForCausalLM', 'cohere2': 'Cohere2ForCausalLM', 'starcoder2': 'Starcoder2ForCausalLM',
                 'mistral': 'MistralForCausalLM', 'llama': 'LlamaForCausalLM', 'mixtral': 'MixtralForCausalLM',
                 'qwen3_moe': 'Qwen3MoeForCausalLM', 'qwen2_moe': 'Qwen2MoeForCausalLM', 'glm4_moe': 'Glm4MoeForCausalLM',
                 'gpt_oss': 'GptOssForCausalLM'}
TIED = ('gemma', 'gemma2', 'gemma3_text', 'gemma3_images', 'cohere2', 'starcoder2')
MIXTURES = ('mixtral', 'qwen3_moe', 'qwen2_moe', 'glm4_moe', 'gpt_oss')
IMAGES = ('gemma3_images', 'mistral3')
MARKS = ('<|begin_of_text|>', '<|end_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>', '<bos>', '<eos>',
         '<start_of_turn>', '<end_of_turn>', '<s>', '</s>', '[INST]', '[/INST]', '<unk>')


def family_of(name):
    return next(family for pattern, family in FAMILIES if re.search(pattern, name.lower()))


def config_of(family):
    base = {'hidden_size': HIDDEN, 'intermediate_size': INNER, 'num_attention_heads': HEADS, 'num_key_value_heads': KV_HEADS,
            'num_hidden_layers': LAYERS, 'head_dim': HEAD, 'vocab_size': VOCAB, 'max_position_embeddings': 32768,
            'rope_theta': 10000.0, 'rms_norm_eps': 1e-6, 'tie_word_embeddings': family in TIED}
    own = {'gemma2': {'query_pre_attn_scalar': HEAD, 'sliding_window': 4096},
           'gemma3_text': {'query_pre_attn_scalar': HEAD, 'sliding_window': 512},
           'gemma3_images': {'query_pre_attn_scalar': HEAD, 'sliding_window': 1024},
           'glm4': {'attention_bias': True, 'partial_rotary_factor': 0.5},
           'cohere2': {'layer_norm_eps': 1e-5, 'logit_scale': 0.25, 'sliding_window': 4096},
           'starcoder2': {'norm_epsilon': 1e-5, 'use_bias': True, 'hidden_act': 'gelu_pytorch_tanh'},
           'mixtral': {'num_local_experts': EXPERTS, 'num_experts_per_tok': 2, 'intermediate_size': EXPERT},
           'qwen3_moe': {'num_experts': EXPERTS, 'num_experts_per_tok': 2, 'moe_intermediate_size': EXPERT,
                         'norm_topk_prob': True},
           'qwen2_moe': {'num_experts': EXPERTS, 'num_experts_per_tok': 2, 'moe_intermediate_size': EXPERT,
                         'shared_expert_intermediate_size': INNER, 'norm_topk_prob': False},
           'glm4_moe': {'n_routed_experts': EXPERTS, 'num_experts_per_tok': 2, 'moe_intermediate_size': EXPERT,
                        'n_shared_experts': 1, 'n_group': 1, 'topk_group': 1, 'first_k_dense_replace': 1,
                        'norm_topk_prob': True, 'routed_scaling_factor': 1.5, 'attention_bias': True,
                        'partial_rotary_factor': 0.5, 'use_qk_norm': True},
           'gpt_oss': {'num_local_experts': EXPERTS, 'num_experts_per_tok': 2, 'intermediate_size': EXPERT,
                       'sliding_window': 128, 'layer_types': ['sliding_attention', 'full_attention'],
                       'attention_bias': True}}.get(family, {})
    if family.startswith('gemma'):
        own['hidden_activation'] = 'gelu_pytorch_tanh'
    if family in ('cohere2', 'starcoder2'):
        base.pop('rms_norm_eps')
    text = {**base, **own, 'model_type': family}
    whole = {'architectures': [ARCHITECTURES[family]], 'dtype': 'bfloat16', 'eos_token_id': 4093}
    if family not in IMAGES:
        return {**whole, **text}
    text['model_type'] = {'gemma3_images': 'gemma3_text', 'mistral3': 'ministral3'}[family]
    kind = {'gemma3_images': 'gemma3', 'mistral3': 'mistral3'}[family]
    return {**whole, 'model_type': kind, 'text_config': text, 'tie_word_embeddings': family in TIED}


def gated(prefix, width):
    return {f'{prefix}.{p}_proj.weight': (HIDDEN, width) if p == 'down' else (width, HIDDEN) for p in ('gate', 'up', 'down')}


def mixture_shapes(family):
    """Name -> shape of the router, the experts and the shared expert."""
    if family == 'gpt_oss':
        return {'mlp.router.weight': (EXPERTS, HIDDEN), 'mlp.router.bias': (EXPERTS,), 'self_attn.sinks': (HEADS,),
                'mlp.experts.gate_up_proj': (EXPERTS, HIDDEN, 2 * EXPERT), 'mlp.experts.gate_up_proj_bias': (EXPERTS, 2 * EXPERT),
                'mlp.experts.down_proj': (EXPERTS, EXPERT, HIDDEN), 'mlp.experts.down_proj_bias': (EXPERTS, HIDDEN)}
    if family == 'mixtral':
        own = {f'block_sparse_moe.experts.{e}.{w}.weight': (HIDDEN, EXPERT) if w == 'w2' else (EXPERT, HIDDEN)
               for e in range(EXPERTS) for w in ('w1', 'w2', 'w3')}
        return {'block_sparse_moe.gate.weight': (EXPERTS, HIDDEN), **own}
    shapes = {'mlp.gate.weight': (EXPERTS, HIDDEN)}
    for expert in range(EXPERTS):
        shapes |= gated(f'mlp.experts.{expert}', EXPERT)
    if family == 'qwen2_moe':
        shapes |= {**gated('mlp.shared_expert', INNER), 'mlp.shared_expert_gate.weight': (1, HIDDEN)}
    if family == 'glm4_moe':
        shapes |= {**gated('mlp.shared_experts', EXPERT), 'mlp.gate.e_score_correction_bias': (EXPERTS,)}
    return shapes


def block_shapes(family, layer):
    """Name -> shape of one block's tensors."""
    q, kv = HEADS * HEAD, KV_HEADS * HEAD
    shapes = {'self_attn.o_proj.weight': (HIDDEN, q), 'input_layernorm.weight': (HIDDEN,)}
    if family == 'phi3':
        shapes['self_attn.qkv_proj.weight'] = (q + 2 * kv, HIDDEN)
    else:
        shapes |= {f'self_attn.{p}_proj.weight': (n, HIDDEN) for p, n in (('q', q), ('k', kv), ('v', kv))}
    if family in ('qwen2', 'glm4', 'starcoder2', 'qwen2_moe', 'glm4_moe', 'gpt_oss'):
        shapes |= {f'self_attn.{p}_proj.bias': (n,) for p, n in (('q', q), ('k', kv), ('v', kv))}
    if family == 'gpt_oss':
        shapes['self_attn.o_proj.bias'] = (HIDDEN,)
    if family in ('qwen3', 'gemma3_text', 'gemma3_images', 'qwen3_moe', 'glm4_moe'):
        shapes |= {f'self_attn.{p}_norm.weight': (HEAD,) for p in 'qk'}
    if family in MIXTURES and not (family == 'glm4_moe' and layer == 0):
        shapes |= mixture_shapes(family)
    elif family in ('phi3', 'glm4'):
        shapes |= {'mlp.gate_up_proj.weight': (2 * INNER, HIDDEN), 'mlp.down_proj.weight': (HIDDEN, INNER)}
    elif family == 'starcoder2':
        shapes |= {'mlp.c_fc.weight': (INNER, HIDDEN), 'mlp.c_fc.bias': (INNER,), 'mlp.c_proj.weight': (HIDDEN, INNER),
                   'mlp.c_proj.bias': (HIDDEN,), 'self_attn.o_proj.bias': (HIDDEN,), 'input_layernorm.bias': (HIDDEN,),
                   'post_attention_layernorm.bias': (HIDDEN,)}
    else:
        shapes |= gated('mlp', INNER)
    norms = {'cohere2': (), 'glm4': ('post_self_attn', 'post_attention', 'post_mlp'),
             **dict.fromkeys(('gemma2', 'gemma3_text', 'gemma3_images'),
                             ('post_attention', 'pre_feedforward', 'post_feedforward'))}.get(family, ('post_attention',))
    return shapes | {f'{norm}_layernorm.weight': (HIDDEN,) for norm in norms}


def tensors_of(family, seed):
    shapes = {'embed_tokens.weight': (VOCAB, HIDDEN), 'norm.weight': (HIDDEN,)}
    if family == 'starcoder2':
        shapes['norm.bias'] = (HIDDEN,)
    for layer in range(LAYERS):
        shapes |= {f'layers.{layer}.{name}': shape for name, shape in block_shapes(family, layer).items()}
    text = 'language_model.' if family in IMAGES else ''
    shapes = {f'{text}model.{name}': shape for name, shape in shapes.items()}
    if family not in TIED:
        shapes[f'{text}lm_head.weight'] = (VOCAB, HIDDEN)
    random = np.random.default_rng(seed)
    from_one = family.startswith('gemma')  # norms that are stored less one

    def draw(name, shape):
        if 'norm' in name:
            return np.full(shape, 0.0 if from_one or name.endswith('bias') else 1.0, np.float32)
        return (0.05 * random.standard_normal(shape)).astype(np.float32)
    return {name: draw(name, shape) for name, shape in shapes.items()}


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f:
        json.dump(value, f)


def write_model(folder, name):
    family = family_of(name)
    write_json(f'{folder}/config.json', config_of(family))
    with open(f'{QUICKSTART}/tokenizer.json') as f:
        tokenizer = json.load(f)
    usual = tokenizer['added_tokens'][0]
    for mark in MARKS:
        tokenizer['added_tokens'].append({**usual, 'id': 4093 + len(tokenizer['added_tokens']), 'content': mark})
    write_json(f'{folder}/tokenizer.json', tokenizer)
    with open(f'{QUICKSTART}/tokenizer_config.json') as f:
        write_json(f'{folder}/tokenizer_config.json', json.load(f))
    save_file(tensors_of(family, len(name)), f'{folder}/model.safetensors', {'format': 'pt'})


def record(source, at):
    """A record of the columns that the type of a source reads."""
    question, answer = f'What is {at} plus {at % 7}?', f'It is {at + at % 7}, which one sees by counting on {at % 7} times.'
    kind = str(source.get('type') or '')
    if kind.startswith('chat_template'):
        mapping = source.get('message_property_mappings') or {}
        role = source.get('message_field_role') or mapping.get('role', 'role')
        content = source.get('message_field_content') or mapping.get('content', 'content')
        names = ('human', 'gpt') if role == 'from' else ('user', 'assistant')
        turns = [{role: names[0], content: question}, {role: names[1], content: answer}]
        return {source.get('field_messages') or 'messages': turns}
    if kind.startswith(('completion', 'pretrain')):
        return {source.get('field') or source.get('text_column') or 'text': f'{question} {answer}'}
    return {'instruction': question, 'input': '' if at % 3 else 'Say it in one sentence.', 'output': answer}


def write_dataset(folder, source):
    lines = ''.join(json.dumps(record(source, at)) + '\n' for at in range(RECORDS))
    subset = source.get('name')
    files = source.get('data_files') or (f'{subset}/train.jsonl' if subset else 'train.jsonl')
    for name in [files] if isinstance(files, str) else files:
        path = f'{folder}/{name}'
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path.removesuffix('.zst'), 'w') as f:
            f.write(lines)
        if name.endswith('.zst'):
            subprocess.run(['zstd', '-q', '-f', '--rm', path.removesuffix('.zst')], check=True)


    if subset:
        with open(f'{folder}/README.md', 'w') as f:
            f.write(f'---\nconfigs:\n- config_name: {subset}\n  data_files: {subset}/train.jsonl\n---\n')


def sources_of(config):
    """The datasets of a configuration, each as a map."""
    listed = config.get('pretraining_dataset') or config.get('datasets') or []
    for source in listed if isinstance(listed, list) else [listed]:
        yield source if isinstance(source, dict) else {'path': source, 'type': 'pretrain'}


def write_hub(folder, configs):
    """Every base model and dataset of Hub names of `configs`, at the revisions they name."""
    for config in configs:
        revision = config.get('revision_of_model') or 'main'
        model = f"{folder}/models/{config['base_model']}/@{revision}"
        if not os.path.exists(model):
            write_model(model, config['base_model'])
        for source in sources_of(config):
            data = f"{folder}/datasets/{source['path']}/@{source.get('revision') or 'main'}"
            write_dataset(data, source)
