#!/usr/bin/env python3
"""A mixture of experts, from files as the Hub has them to an adapter, on CPU workers."""
import json, math, os, random, shutil, signal, struct, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import QUICKSTART, Cluster, metrics, value, wait_for

MODEL = os.path.join(QUICKSTART, 'model')
HIDDEN, INNER, EXPERTS, CHOSEN, LAYERS, HEADS, KEYS, WIDTH, RANK = 64, 32, 8, 2, 2, 4, 2, 16, 4
EXPERT_STACKS = ['mlp.experts.gate_up_proj', 'mlp.experts.down_proj']


def save(path, tensors):
    """{name: (shape, values)} as float32 safetensors."""
    header, data = {}, b''
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f'<{len(values)}f', *values)
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + data)


def load(path):
    """{name: (shape, raw bytes)}"""
    with open(path, 'rb') as file:
        header = json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))
        data = file.read()
    return {name: (entry['shape'], data[slice(*entry['data_offsets'])])
            for name, entry in header.items() if name != '__metadata__'}


def drawing(seed):
    """Tensors of a shape, as save() takes them: normal and of ones."""
    draw = random.Random(seed)

    def normal(*shape):
        count = 1
        for extent in shape:
            count *= extent
        return list(shape), [draw.gauss(0, 0.05) for _ in range(count)]

    def ones(*shape):
        return list(shape), [1.0] * shape[0]

    return normal, ones


def mlp(normal, at, width):
    return {f'{at}{name}_proj.weight': normal(rows, cols)
            for name, rows, cols in (('gate', width, HIDDEN), ('up', width, HIDDEN), ('down', HIDDEN, width))}


def tensors_of(vocab, router=None):
    normal, ones = drawing(5)
    out = {'model.embed_tokens.weight': normal(vocab, HIDDEN), 'model.norm.weight': ones(HIDDEN),
           'lm_head.weight': normal(vocab, HIDDEN)}
    for layer in range(LAYERS):
        at = f'model.layers.{layer}.'
        for name in ('input_layernorm', 'post_attention_layernorm'):
            out[f'{at}{name}.weight'] = ones(HIDDEN)
        for name, rows, cols in (('q', HEADS * WIDTH, HIDDEN), ('k', KEYS * WIDTH, HIDDEN), ('v', KEYS * WIDTH, HIDDEN),
                                 ('o', HIDDEN, HEADS * WIDTH)):
            out[f'{at}self_attn.{name}_proj.weight'] = normal(rows, cols)
        for name in ('q_norm', 'k_norm'):
            out[f'{at}self_attn.{name}.weight'] = ones(WIDTH)
        out[f'{at}mlp.gate.weight'] = normal(EXPERTS, HIDDEN) if router is None else ([EXPERTS, HIDDEN], router)
        for expert in range(EXPERTS):
            out.update(mlp(normal, f'{at}mlp.experts.{expert}.', INNER))
    return out


LATENT = {'q_lora_rank': 24, 'kv_lora_rank': 16, 'qk_nope_head_dim': 16, 'qk_rope_head_dim': 8, 'v_head_dim': 16}


def latent_tensors(vocab):
    """Of DeepSeek-V3: the first layer is dense."""
    normal, ones = drawing(6)
    query, kv, nope, rope, value = LATENT.values()
    out = {'model.embed_tokens.weight': normal(vocab, HIDDEN), 'model.norm.weight': ones(HIDDEN),
           'lm_head.weight': normal(vocab, HIDDEN)}
    for layer in range(LAYERS):
        at = f'model.layers.{layer}.'
        for name in ('input_layernorm', 'post_attention_layernorm'):
            out[f'{at}{name}.weight'] = ones(HIDDEN)
        for name, rows, cols in (('q_a_proj', query, HIDDEN), ('q_b_proj', HEADS * (nope + rope), query),
                                 ('kv_a_proj_with_mqa', kv + rope, HIDDEN), ('kv_b_proj', HEADS * (nope + value), kv),
                                 ('o_proj', HIDDEN, HEADS * value)):
            out[f'{at}self_attn.{name}.weight'] = normal(rows, cols)
        out[f'{at}self_attn.q_a_layernorm.weight'] = ones(query)
        out[f'{at}self_attn.kv_a_layernorm.weight'] = ones(kv)
        if layer == 0:
            out.update(mlp(normal, f'{at}mlp.', 2 * INNER))
            continue
        out[f'{at}mlp.gate.weight'] = normal(EXPERTS, HIDDEN)
        out[f'{at}mlp.gate.e_score_correction_bias'] = [EXPERTS], [0.0] * EXPERTS
        out.update(mlp(normal, f'{at}mlp.shared_experts.', INNER))
        for expert in range(EXPERTS):
            out.update(mlp(normal, f'{at}mlp.experts.{expert}.', INNER))
    return out


class ExpertsTest(Cluster):
    def folder_of(self, name, tensors, **settings):
        """The quickstart's model with other settings, and tensors(vocab)."""
        folder = os.path.join(self.dir, name)
        shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns('*.safetensors'))
        with open(os.path.join(folder, 'config.json')) as file:
            config = json.load(file)
        for key in ('layer_types', 'max_window_layers', 'use_sliding_window', 'sliding_window', 'head_dim'):
            config.pop(key, None)
        config.update(hidden_size=HIDDEN, intermediate_size=2 * INNER, moe_intermediate_size=INNER,
                      num_experts_per_tok=CHOSEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                      tie_word_embeddings=False, **settings)
        with open(os.path.join(folder, 'config.json'), 'w') as file:
            json.dump(config, file)
        save(os.path.join(folder, 'model.safetensors'), tensors(config['vocab_size']))
        return folder

    def model(self, router=None):
        return self.folder_of('model', lambda vocab: tensors_of(vocab, router), architectures=['Qwen3MoeForCausalLM'],
                              model_type='qwen3_moe', num_experts=EXPERTS, norm_topk_prob=True, decoder_sparse_step=1,
                              mlp_only_layers=[], num_key_value_heads=KEYS, head_dim=WIDTH, output_router_logits=True,
                              router_aux_loss_coef=0.01)

    def latent_model(self):
        return self.folder_of('latent', latent_tensors, architectures=['DeepseekV3ForCausalLM'],
                              model_type='deepseek_v3', n_routed_experts=EXPERTS, n_shared_experts=1, n_group=2,
                              topk_group=1, first_k_dense_replace=1, num_key_value_heads=HEADS, **LATENT)

    def job(self, name, model, adapter='lora', modules='[q_proj, v_proj]', stacks=EXPERT_STACKS, more=''):
        stacks = json.dumps(stacks)
        text = f'''apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {{name: {name}}}
spec:
  base_model: {{path: {model}}}
  adapter: {adapter}
  lora: {{r: {RANK}, alpha: 8, target_modules: {modules}, target_parameters: {stacks}}}
  datasets: [{{path: {QUICKSTART}/train.jsonl, format: alpaca, max_samples: 120}}]
  sequence_len: 256
  train: {{global_batch_size: 4, max_steps: 8, learning_rate: 2.0e-3}}
  checkpoint: {{output_dir: {self.dir}/{name}, save_steps: 4, resume: never}}
  resources: {{device: cpu, workers: 2}}
{more}'''
        path = os.path.join(self.dir, f'{name}.yaml')
        with open(path, 'w') as file:
            file.write(text)
        return path

    def finished(self, name, model, **kwargs):
        job = self.submit(self.job(name, model, **kwargs))
        self.wait_state(job, 'SUCCEEDED', 240)
        return job

    def test_adapters_of_every_expert(self):
        self.start_controller()
        self.start_workers(2)
        model = self.model()
        job = self.finished('adapted', model)
        losses = [loss for _, loss, *_ in self.step_events(job)]
        self.assertEqual(len(losses), 8)
        self.assertLess(losses[-1], losses[0])
        folder = os.path.join(self.dir, 'adapted', 'adapter')
        with open(os.path.join(folder, 'adapter_config.json')) as file:
            self.assertEqual(json.load(file)['target_parameters'], EXPERT_STACKS)
        adapter = load(os.path.join(folder, 'adapter_model.safetensors'))
        at = 'base_model.model.model.layers.1.mlp.experts.'
        self.assertEqual({name: shape for name, (shape, _) in adapter.items() if name.startswith(at)},
                         {f'{at}base_layer.lora_A.weight': [RANK * EXPERTS, HIDDEN],
                          f'{at}base_layer.lora_B.weight': [2 * INNER, RANK * EXPERTS],
                          f'{at}lora_A.weight': [RANK * EXPERTS, INNER],
                          f'{at}lora_B.weight': [HIDDEN, RANK * EXPERTS]})

    def test_latent_attention_trains_and_answers(self):
        """What the job's checkpoint answers is what its adapter does; a second job goes on from the adapter."""
        self.start_controller()
        self.start_workers(2)
        model = self.latent_model()
        job = self.finished('adapted', model, modules='all-linear')
        losses = [loss for _, loss, *_ in self.step_events(job)]
        self.assertLess(losses[-1], losses[0])
        adapter = os.path.join(self.dir, 'adapted', 'adapter')
        with open(os.path.join(adapter, 'adapter_config.json')) as file:
            settings = json.load(file)
        self.assertEqual(settings['target_modules'],
                         ['kv_a_proj_with_mqa', 'kv_b_proj', 'o_proj', 'q_a_proj', 'q_b_proj'])
        for name in EXPERT_STACKS + ['mlp.shared_experts.up_proj.weight', 'mlp.down_proj.weight']:
            self.assertIn(name, settings['target_parameters'])
        question = ['-p', 'What is 3 + 4?', '-n', '16']
        base = [model, '--style', 'alpaca']
        answers = [self.cox_json('generate', *source, *question)[0]['answer']
                   for source in (base, [*base, '--adapter', adapter], [job])]
        self.assertEqual(answers[1], answers[2])
        self.assertNotEqual(answers[0], answers[1])
        self.cox('plan', self.job('attention', model, modules='[q_a_proj, q_b_proj, kv_b_proj]', stacks=[]))
        further = self.job('further', model, modules='all-linear')
        self.cox('plan', further, '--set', f'lora.init_from={adapter}')

    def test_a_worker_that_dies_costs_no_bits(self):
        self.start_controller()
        self.start_workers(2)
        model = self.model()
        runs = {}
        for name in ('calm', 'killed'):
            job = self.submit(self.job(name, model, adapter='none'))
            if name == 'killed':
                wait_for('five steps', lambda: len(self.step_events(job)) >= 5, 120)
                os.kill(int(self.cox_json('workers')['workers'][1]['pid']), signal.SIGKILL)
            self.wait_state(job, 'SUCCEEDED', 240)
            runs[name] = load(os.path.join(self.dir, name, 'model', 'model.safetensors'))
        self.assertEqual(runs['killed'], runs['calm'])
        # A tensor of each expert, as in the base's files.
        self.assertEqual(set(runs['calm']), set(load(os.path.join(model, 'model.safetensors'))))

    def test_one_expert_may_get_every_token(self):
        """Its router prefers the experts 3 and 5 by far, whatever the token."""
        self.start_controller()
        self.start_workers(2)
        # Rows of opposite signs: |x . w| is large for every x, and one of the two is chosen before all others.
        draw = random.Random(7)
        row = [draw.gauss(0, 4) for _ in range(HIDDEN)]
        zero = [0.0] * HIDDEN
        rows = {3: row, 5: [-value for value in row]}
        job = self.finished('skewed', self.model(router=[v for e in range(EXPERTS) for v in rows.get(e, zero)]))
        for use in [event['experts'] for event in self.events(job, 'StepDone')]:
            # The second choice of every token is the first of the others, which are alike.
            self.assertEqual(use['worst_load_ratio'], EXPERTS / CHOSEN)
            self.assertEqual(use['load_ratio'], EXPERTS / CHOSEN)
            self.assertGreaterEqual(use['unused_experts'], LAYERS * (EXPERTS - 3))
            self.assertEqual(use['nonfinite_tokens'], 0)
            self.assertLess(use['router_entropy'], math.log(EXPERTS) / 2)  # far from all alike
            self.assertGreater(use['balance_loss'], CHOSEN)
        self.assertIn('experts: the fullest has ', self.cox('describe', job).stdout)
        self.assertEqual(value(metrics(self.endpoint['metrics']), 'coxswain_expert_load_ratio', job=job), EXPERTS / CHOSEN)

    def test_what_a_person_gets_wrong(self):
        model = self.model()
        path = self.job('wrong', model)
        text = self.cox('plan', path, '--set', 'lora.target_parameters=[mlp.experts.up_proj]', check=2).stderr
        self.assertIn('"mlp.experts.up_proj" names no stack of experts', text)
        self.assertIn('mlp.experts.gate_up_proj', text)
        broken = os.path.join(self.dir, 'broken')
        shutil.copytree(model, broken)
        tensors = tensors_of(json.load(open(os.path.join(model, 'config.json')))['vocab_size'])
        del tensors['model.layers.1.mlp.experts.7.up_proj.weight']
        save(os.path.join(broken, 'model.safetensors'), tensors)
        text = self.cox('plan', self.job('broken-job', broken), check=2).stderr
        self.assertIn('"model.layers.1.mlp.experts.7.up_proj.weight" is missing', text)


if __name__ == '__main__':
    unittest.main()
