#!/usr/bin/env python3
"""AutoCoxswainForCausalLM and what `patch` refuses of models that transformers loads. COXSWAIN_TORCH_DEVICE: cpu
(default) or cuda."""
import importlib.util, tempfile, unittest

import torch
import transformers

import coxswain_kernels as ck
from coxswain_kernels.compare import tolerance
from patch_test import DEVICE, SMALL, batch, tiny, train


class AutoTest(unittest.TestCase):
    def same(self, want, got):
        self.assertLess(((want - got).norm() / want.norm()).item(), tolerance(tiny('Llama').config, torch.float32))

    def test_a_loaded_model_is_patched_and_the_same(self):
        plain, (ids, _) = tiny('Llama'), batch()
        with tempfile.TemporaryDirectory() as folder:
            plain.save_pretrained(folder)
            for more in ({}, dict(verify=True), dict(join=False), dict(device_map=DEVICE), dict(use_cache=False)):
                model = ck.AutoCoxswainForCausalLM.from_pretrained(folder, dtype=torch.float32, **more).to(DEVICE)
                self.assertTrue(ck.is_patched(model))
                attention = model.model.layers[0].self_attn
                joined = attention.k_proj.weight.data_ptr() - attention.q_proj.weight.data_ptr() == 64 * 64 * 4
                if DEVICE == 'cpu' or 'device_map' in more:
                    self.assertEqual(joined, more.get('join', True))
                self.assertEqual(model.config.use_cache, more.get('use_cache', True))
                self.same(plain(ids).logits, model(ids).logits)
            with self.assertRaisesRegex(ValueError, 'is torch.float16 on .*; the kernels take torch.float32'):
                ck.AutoCoxswainForCausalLM.from_pretrained(folder, dtype=torch.float16)

    def test_a_new_model_is_patched(self):
        model = ck.AutoCoxswainForCausalLM.from_config(tiny('Qwen3').config, verify=True)
        self.assertIsInstance(model, transformers.Qwen3ForCausalLM)
        self.assertTrue(ck.is_patched(model))
        self.assertFalse(ck.is_patched(ck.unpatch(model)))

    def test_verify_reaches_patch(self):
        original = ck.patch.__globals__['FORWARDS']['MLP']
        ck.patch.__globals__['FORWARDS']['MLP'] = lambda s, o, x: 1.01 * o(x)
        try:
            with self.assertRaisesRegex(ValueError, 'differ: logits by'):
                ck.AutoCoxswainForCausalLM.from_config(tiny('Llama').config, verify=True)
        finally:
            ck.patch.__globals__['FORWARDS']['MLP'] = original

    def test_refuses_families_without_kernels_before_weights_are_read(self):
        config = transformers.GPT2Config(n_layer=1, n_embd=64, n_head=2, vocab_size=97)
        message = 'GPT2Config.*AutoCoxswainForCausalLM.*\n.*should be one of LlamaConfig, .*DeepseekV3Config'
        with self.assertRaisesRegex(ValueError, message):
            ck.AutoCoxswainForCausalLM.from_config(config)
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)  # no weights beside it
            with self.assertRaisesRegex(ValueError, message):
                ck.AutoCoxswainForCausalLM.from_pretrained(folder)

    def test_an_adapter_is_loaded_over_its_base(self):
        import peft
        ids = batch()[0]
        with tempfile.TemporaryDirectory() as folder:
            tiny('Llama').save_pretrained(f'{folder}/base')
            base = transformers.AutoModelForCausalLM.from_pretrained(f'{folder}/base')
            torch.manual_seed(4)
            adapted = peft.get_peft_model(base, peft.LoraConfig(target_modules='all-linear', init_lora_weights=False))
            adapted.save_pretrained(f'{folder}/adapter')
            model = ck.AutoCoxswainForCausalLM.from_pretrained(f'{folder}/adapter').to(DEVICE)
            self.same(adapted.to(DEVICE)(input_ids=ids).logits, model(ids).logits)
            self.assertTrue(ck.is_patched(model))

    @unittest.skipIf(importlib.util.find_spec('bitsandbytes') is None, 'no bitsandbytes here')
    def test_quantized_linears_stay_and_adapters_of_them_train(self):
        import peft

        def train_adapters(model):
            torch.manual_seed(4)
            lora = peft.LoraConfig(target_modules='all-linear', init_lora_weights=False)
            return train(peft.get_peft_model(model, lora), 3)
        with tempfile.TemporaryDirectory() as folder:
            tiny('Llama').save_pretrained(folder)
            for config in (transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32),
                           transformers.BitsAndBytesConfig(load_in_8bit=True)):
                more = dict(quantization_config=config, dtype=torch.float32)
                plain = transformers.AutoModelForCausalLM.from_pretrained(folder, **more)
                model = ck.AutoCoxswainForCausalLM.from_pretrained(folder, **more)
                self.assertNotEqual(type(model.model.layers[0].mlp.up_proj), torch.nn.Linear)
                self.same(plain(batch()[0]).logits, model(batch()[0]).logits)
                for want, got in zip(train_adapters(plain), train_adapters(model)):
                    self.assertLess(abs(got - want) / want, 1e-5)

    def test_a_classifier_is_patched(self):
        config = transformers.LlamaConfig(**SMALL, num_labels=3)
        model, (ids, _) = ck.AutoCoxswainForSequenceClassification.from_config(config).to(DEVICE), batch()
        got = model(ids).logits
        self.assertEqual(got.shape, (2, 3))
        self.same(ck.unpatch(model)(ids).logits, got)
        with self.assertRaisesRegex(ValueError, 'verify compares the logits of tokens'):
            ck.AutoCoxswainForSequenceClassification.from_config(config, verify=True)

    def test_refuses_several_devices(self):
        model = tiny('Llama')
        for devices in ({'model': 0, 'lm_head': 1}, {'model': 0, 'lm_head': 'cpu'}, {'': 'disk'}):
            model.hf_device_map = devices
            with self.assertRaisesRegex(ValueError, 'device_map puts LlamaForCausalLM on .*one process drives one'):
                ck.patch(model)
        model.hf_device_map = {'': DEVICE}
        self.assertTrue(ck.is_patched(ck.patch(model)))

    def test_disk_offload_of_transformers_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            tiny('Llama').save_pretrained(folder)
            where = {'model.embed_tokens': 'cpu', 'model.layers': 'cpu', 'model.norm': 'cpu', 'model.rotary_emb': 'cpu',
                     'lm_head': 'disk'}
            with self.assertRaisesRegex(ValueError, 'device_map puts LlamaForCausalLM on cpu, disk'):
                ck.AutoCoxswainForCausalLM.from_pretrained(folder, device_map=where, offload_folder=f'{folder}/disk')

    def test_refuses_weights_of_other_kinds_in_plain_linears(self):
        class Quantized(torch.nn.Parameter):
            pass
        model = tiny('Llama')
        linear = model.model.layers[1].mlp.up_proj
        linear.weight = Quantized(linear.weight.data)
        with self.assertRaisesRegex(ValueError, 'weight of model.layers.1.mlp.up_proj is a Quantized in an nn.Linear'):
            ck.patch(model)

    def test_types_are_judged_where_the_model_will_run(self):
        model = tiny('Llama', torch.bfloat16).cpu()
        with self.assertRaisesRegex(ValueError, 'bfloat16 on cpu'):
            ck.patch(model)
        self.assertTrue(ck.is_patched(ck.patch(model, device='cuda')))
        is_available, torch.cuda.is_available = torch.cuda.is_available, lambda: True
        try:
            self.assertTrue(ck.is_patched(ck.AutoCoxswainForCausalLM.from_config(model.config, dtype=torch.bfloat16)))
        finally:
            torch.cuda.is_available = is_available


if __name__ == '__main__':
    unittest.main()
