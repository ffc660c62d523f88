#!/usr/bin/env python3
"""bench/tiny_hub: each family's tiny model is one that cox trains, and records have the columns that a file's type reads."""
import json, os, subprocess, sys, tempfile, unittest
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get('COXSWAIN_BIN', os.path.join(ROOT, 'build/cpu/bin')))
sys.path.insert(0, os.path.join(ROOT, 'bench'))
try:
    import tiny_hub
except ImportError as absent:
    python = os.environ.get('COXSWAIN_PYTHON', sys.executable)
    if python != sys.executable:
        os.execv(python, [python, __file__])
    print(f'skipped: {absent}')
    sys.exit(0)

NAMES = {'gemma3_images': 'google/gemma-3-12b-it', 'gemma3_text': 'google/gemma-3-1b-it', 'gemma2': 'google/gemma-2-9b',
         'gemma': 'mhenrichsen/gemma-7b', 'mistral3': 'mistralai/Ministral-3-3B-Reasoning-2512', 'qwen3': 'Qwen/Qwen3-8B',
         'qwen2': 'Qwen/Qwen2-7B', 'phi3': 'microsoft/Phi-3-mini-4k-instruct', 'glm4': 'THUDM/GLM-4-32B-0414',
         'cohere2': 'CohereForAI/c4ai-command-r7b-12-2024', 'starcoder2': 'bigcode/starcoder2-3b',
         'mistral': 'mistralai/Mistral-7B-v0.1', 'llama': 'NousResearch/Llama-2-7b-hf',
         'mixtral': 'mistralai/Mixtral-8x7B-v0.1', 'qwen2_moe': 'Qwen/Qwen1.5-MoE-A2.7B',
         'qwen3_moe': 'Qwen/Qwen3-30B-A3B', 'glm4_moe': 'zai-org/GLM-4.5-Air', 'gpt_oss': 'openai/gpt-oss-20b'}


class TinyHubTest(unittest.TestCase):
    def test_every_family_is_supported(self):
        self.assertEqual(set(NAMES), set(tiny_hub.ARCHITECTURES))
        with tempfile.TemporaryDirectory() as folder:
            for family, name in NAMES.items():
                tiny_hub.write_model(f'{folder}/{family}', name)
                ran = subprocess.run([os.path.join(BIN, 'cox'), 'models', f'{folder}/{family}'], capture_output=True, text=True)
                self.assertIn(f'supported: {tiny_hub.ARCHITECTURES[family]}', ran.stdout, ran.stderr)

    def test_records_have_the_columns_of_the_type(self):
        self.assertEqual(list(tiny_hub.record({'type': 'alpaca'}, 1)), ['instruction', 'input', 'output'])
        self.assertEqual(list(tiny_hub.record({'type': 'completion', 'field': 'chapter'}, 1)), ['chapter'])
        talk = tiny_hub.record({'type': 'chat_template', 'field_messages': 'conversations',
                                'message_property_mappings': {'role': 'from', 'content': 'value'}}, 1)
        self.assertEqual([turn['from'] for turn in talk['conversations']], ['human', 'gpt'])

    def test_sources_lie_under_their_names(self):
        with tempfile.TemporaryDirectory() as folder:
            tiny_hub.write_hub(folder, [{'base_model': 'org/m', 'revision_of_model': 'v1',
                                         'pretraining_dataset': {'path': 'org/d', 'name': 'en', 'type': 'pretrain'}}])
            with open(f'{folder}/datasets/org/d/@main/en/train.jsonl') as f:
                self.assertEqual(len([json.loads(line)['text'] for line in f]), tiny_hub.RECORDS)
            self.assertTrue(os.path.exists(f'{folder}/models/org/m/@v1/model.safetensors'))


if __name__ == '__main__':
    unittest.main(verbosity=2)
