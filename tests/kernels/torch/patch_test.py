#!/usr/bin/env python3
"""Invariant torch-2. coxswain_kernels.patch on tiny models of transformers: what they compute, how they train, torch.compile, sharding.
COXSWAIN_TORCH_DEVICE: cpu (default, float32) or cuda (bfloat16 too)."""
import copy, os, tempfile, unittest

import torch
import transformers

import coxswain_kernels as ck
from coxswain_kernels.compare import tolerance

DEVICE = os.environ.get('COXSWAIN_TORCH_DEVICE', 'cpu')
DTYPES = (torch.float32,) if DEVICE == 'cpu' else (torch.float32, torch.bfloat16)
SMALL = dict(vocab_size=97, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2)
FAMILIES = {
    'Llama': {'rope_parameters': dict(rope_type='llama3', rope_theta=1e4, factor=8.0, low_freq_factor=1.0,
                                      high_freq_factor=4.0, original_max_position_embeddings=64)},
    'Qwen2': {'tie_word_embeddings': True},
    'Qwen3': {'head_dim': 32},
    'Mistral': {'sliding_window': 8},
    'Gemma': {'head_dim': 32, 'hidden_activation': 'gelu_pytorch_tanh', 'hidden_act': 'gelu_pytorch_tanh'},
    'Phi3': {'sliding_window': None},
    'Mixtral': {'num_local_experts': 5, 'num_experts_per_tok': 2, 'sliding_window': None},
    'Qwen2Moe': {'num_experts': 5, 'num_experts_per_tok': 2, 'moe_intermediate_size': 48,
                 'shared_expert_intermediate_size': 80, 'mlp_only_layers': [1]},
    'Qwen3Moe': {'head_dim': 32, 'num_experts': 5, 'num_experts_per_tok': 2, 'moe_intermediate_size': 48,
                 'norm_topk_prob': True},
    'Glm4Moe': {'head_dim': 32, 'n_routed_experts': 6, 'num_experts_per_tok': 2, 'moe_intermediate_size': 48,
                'n_shared_experts': 1, 'n_group': 1, 'topk_group': 1, 'first_k_dense_replace': 1},
    'DeepseekV3': {'n_routed_experts': 8, 'num_experts_per_tok': 2, 'moe_intermediate_size': 48, 'n_group': 2,
                   'topk_group': 1, 'first_k_dense_replace': 1, 'kv_lora_rank': 16, 'q_lora_rank': 24,
                   'qk_rope_head_dim': 8, 'qk_nope_head_dim': 16, 'v_head_dim': 16, 'num_key_value_heads': 4},
}


def tiny(family, dtype=torch.float32, **more):
    torch.manual_seed(1)
    config = getattr(transformers, f'{family}Config')(**{**SMALL, **FAMILIES[family], **more})
    model = getattr(transformers, f'{family}ForCausalLM')(config).to(device=DEVICE, dtype=dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:  # biases and norms that a wrong formula would show
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def batch(rows=2, length=24):
    ids = torch.randint(3, SMALL['vocab_size'], (rows, length), generator=torch.Generator().manual_seed(2)).to(DEVICE)
    labels = ids.clone()
    labels[0, :4] = -100
    return ids, labels


def train(model, steps=20, lr=0.05, **more):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    losses = []
    for step in range(steps):
        ids, labels = batch()
        ids, labels = ids.roll(step, 1), labels.roll(step, 1)
        loss = model(input_ids=ids, labels=labels, **more).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


class PatchTest(unittest.TestCase):
    def test_is_the_unpatched_model_up_to_rounding(self):
        for family in FAMILIES:
            for dtype in DTYPES:
                with self.subTest(family, dtype=dtype):
                    ck.patch(tiny(family, dtype), verify=True)

    def test_refuses_what_differs_and_leaves_the_model_as_it_was(self):
        model, ids = tiny('Llama'), batch()[0]
        before = model(input_ids=ids).logits
        original, ck.patch.__globals__['FORWARDS']['MLP'] = ck.patch.__globals__['FORWARDS']['MLP'], lambda s, o, x: 1.01 * o(x)
        try:
            with self.assertRaisesRegex(ValueError, 'differ: logits by'):
                ck.patch(model, verify=True)
        finally:
            ck.patch.__globals__['FORWARDS']['MLP'] = original
        self.assertTrue(torch.equal(model(input_ids=ids).logits, before))
        with self.assertRaisesRegex(ValueError, 'no module'):
            ck.patch(torch.nn.Linear(2, 2))
        with self.assertRaisesRegex(ValueError, 'float16'):
            ck.patch(tiny('Llama', torch.float16))

    def test_unpatch_gives_the_same_bits_as_before(self):
        for family in FAMILIES:
            with self.subTest(family):
                model, ids = tiny(family), batch()[0]
                before = model(input_ids=ids).logits
                self.assertTrue(torch.equal(ck.unpatch(ck.patch(model))(input_ids=ids).logits, before))

    def test_a_deep_copy_computes_with_its_own_weights(self):
        model, ids = ck.patch(tiny('Llama')), batch()[0]
        before = model(input_ids=ids).logits
        copied = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        self.assertTrue(ck.is_patched(copied))
        self.assertTrue(torch.equal(copied(input_ids=ids).logits, before))
        self.assertTrue(torch.equal(ck.unpatch(copied)(input_ids=ids).logits, tiny('Llama')(input_ids=ids).logits))

    def test_trains_as_the_unpatched_model(self):
        for family in FAMILIES:
            with self.subTest(family):
                want, got = train(tiny(family)), train(ck.patch(tiny(family)))
                self.assertLess(want[-1], want[0])
                for step, (a, b) in enumerate(zip(want, got)):
                    # A difference of the gradients moves the next weights: twenty steps of it at most.
                    self.assertLess(abs(a - b) / a, 20 * tolerance(tiny(family).config, torch.float32), f'step {step}')

    def test_trainer_runs_twenty_steps_of_the_same_losses(self):
        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return 40

            def __getitem__(self, index):
                row = batch(40)[0][index].cpu()
                return {'input_ids': row, 'labels': row}

        def losses(model):
            with tempfile.TemporaryDirectory() as folder:
                arguments = transformers.TrainingArguments(
                    folder, max_steps=20, per_device_train_batch_size=2, logging_steps=1, learning_rate=1e-3,
                    report_to=[], save_strategy='no', use_cpu=DEVICE == 'cpu', disable_tqdm=True,
                    gradient_accumulation_steps=2, seed=3)
                trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Rows())
                trainer.train()
                return [row['loss'] for row in trainer.state.log_history if 'loss' in row]
        want, got = losses(tiny('Qwen2')), losses(ck.patch(tiny('Qwen2')))
        self.assertEqual(len(want), 20)
        for a, b in zip(want, got):
            # Adam's first updates are the signs of gradients: where one is zero but for rounding it moves 2 lr.
            self.assertLess(abs(a - b) / a, 1e-3)

    def test_padding_packing_and_caches(self):
        plain, model, (ids, _) = tiny('Llama'), ck.patch(tiny('Llama')), batch()
        mask = torch.ones_like(ids)
        mask[1, -7:] = 0
        bound = tolerance(model.config, torch.float32)

        def equal(**inputs):
            with torch.no_grad():
                want, got = plain(**inputs).logits, model(**inputs).logits
            self.assertLess(((want - got).norm() / want.norm()).item(), bound)
        equal(input_ids=ids, attention_mask=mask)
        positions = torch.cat([torch.arange(10), torch.arange(14)])[None].to(DEVICE)
        equal(input_ids=ids[:1], position_ids=positions, use_cache=False)
        cu = torch.tensor([0, 10, 24], dtype=torch.int32, device=DEVICE)
        with torch.no_grad():
            want = plain(input_ids=ids[:1], position_ids=positions, use_cache=False).logits
            got = model(input_ids=ids[:1], position_ids=positions, use_cache=False, cu_seq_lens_q=cu, cu_seq_lens_k=cu,
                        max_length_q=14, max_length_k=14).logits
        self.assertLess(((want - got).norm() / want.norm()).item(), bound)
        generate = dict(max_new_tokens=6, do_sample=False)
        self.assertTrue(torch.equal(plain.generate(ids, **generate), model.generate(ids, **generate)))

    def test_compiles_as_one_graph(self):
        for family in FAMILIES:
            with self.subTest(family):
                torch._dynamo.reset()
                model, (ids, labels) = ck.patch(tiny(family)).train(), batch()
                compiled = torch.compile(model, fullgraph=True, backend='inductor' if DEVICE == 'cuda' else 'aot_eager')
                losses = []
                for run in (model, compiled):
                    model.zero_grad()
                    loss = run(input_ids=ids, labels=labels, use_cache=False).loss
                    loss.backward()
                    first = next(model.model.layers[-1].mlp.parameters())
                    losses.append((loss.item(), first.grad.norm().item()))
                for a, b in zip(*losses):
                    self.assertLessEqual(abs(a - b), 1e-5 * abs(a))

    def test_gradient_checkpointing(self):
        plain, model = train(ck.patch(tiny('Llama')), 3), ck.patch(tiny('Llama'))
        model.gradient_checkpointing_enable({'use_reentrant': False})
        self.assertEqual(plain, train(model, 3))

    def test_adapters_of_peft(self):
        import peft
        configuration = peft.LoraConfig(r=4, lora_alpha=8, target_modules='all-linear', init_lora_weights=False)

        def adapted(patched):
            model = tiny('Llama')
            torch.manual_seed(4)
            model = peft.get_peft_model(model, configuration)
            return train(ck.patch(model) if patched else model, 5)
        want, got = adapted(False), adapted(True)
        for a, b in zip(want, got):
            self.assertLess(abs(a - b) / a, 1e-4)

    def test_adapters_of_experts(self):
        import peft
        configuration = peft.LoraConfig(r=4, lora_alpha=8, target_modules=['q_proj', 'v_proj'], init_lora_weights=False,
                                        target_parameters=['mlp.experts.gate_up_proj', 'mlp.experts.down_proj'])

        def adapted(patched):
            model = tiny('Qwen3Moe')
            torch.manual_seed(4)
            model = peft.get_peft_model(model, configuration)
            return train(ck.patch(model) if patched else model, 5)
        want, got = adapted(False), adapted(True)
        for a, b in zip(want, got):
            self.assertLess(abs(a - b) / a, 1e-4)

    def test_losses_of_routers_stay(self):
        more = {'output_router_logits': True, 'router_aux_loss_coef': 0.1}
        plain, patched = tiny('Qwen3Moe', **more).train(), ck.patch(tiny('Qwen3Moe', **more)).train()
        ids, labels = batch()
        want, got = (model(input_ids=ids, labels=labels) for model in (plain, patched))
        self.assertGreater(want.aux_loss.item(), 0)
        for name in ('loss', 'aux_loss'):
            self.assertLess(abs(want[name] - got[name]).item(), 1e-5 * want[name].item())

    def test_a_saved_model_is_the_same_files(self):
        model = tiny('Llama')
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(f'{folder}/plain')
            ck.patch(model).save_pretrained(f'{folder}/patched')
            import safetensors.torch
            plain, patched = (safetensors.torch.load_file(f'{folder}/{name}/model.safetensors')
                              for name in ('plain', 'patched'))
        self.assertEqual(plain.keys(), patched.keys())
        self.assertTrue(all(torch.equal(plain[name], patched[name]) for name in plain))


if __name__ == '__main__':
    unittest.main()
