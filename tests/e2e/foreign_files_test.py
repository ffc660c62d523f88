#!/usr/bin/env python3
"""cox train with configurations of another trainer, as they are: two that name one output_dir, one after the other."""
import hashlib, itertools, json, os, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import QUICKSTART, Cluster

LORA = f"""
base_model: {QUICKSTART}/model
datasets: [{{path: ./train.jsonl, type: alpaca}}]
output_dir: ./outputs/out
adapter: lora
lora_target_linear: true
lora_alpha: 16
sequence_len: 256
micro_batch_size: 1
gradient_accumulation_steps: 1
max_steps: 2
learning_rate: 2e-4
bf16: auto
flash_attention: true
"""


def digests(folder):
    """{path: SHA-256} of every file below the folder."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            with open(path, 'rb') as f:
                found[os.path.relpath(path, folder)] = hashlib.sha256(f.read()).hexdigest()
    return found


class ForeignFilesTest(Cluster):
    def setUp(self):
        super().setUp()
        with open(os.path.join(QUICKSTART, 'train.jsonl')) as whole, open(os.path.join(self.dir, 'train.jsonl'), 'w') as few:
            few.writelines(itertools.islice(whole, 20))

    def write(self, name, more):
        path = os.path.join(self.dir, name)
        with open(path, 'w') as f:
            f.write(LORA + more)
        return path

    def train(self, path, *more):
        ran = self.cox('train', path, '--threads', '1', '--set', 'resources.device=cpu', '-o', 'json', *more, timeout=240)
        self.assertIn(f'{path}: imported from Axolotl', ran.stderr)
        job = json.loads(ran.stdout)
        self.assertEqual(job['state'], 'SUCCEEDED')
        return job['artifact_dir']

    def test_two_files_with_one_output_dir_keep_what_each_wrote(self):
        """Invariant import-5."""
        first, second = self.write('lora-8.yml', 'lora_r: 8\n'), self.write('lora-4.yml', 'lora_r: 4\n')
        adapter = self.train(first)
        wrote = os.path.join(self.dir, 'outputs/out/lora-8')
        self.assertTrue(adapter.startswith(wrote + '/'), adapter)
        before = digests(wrote)
        other = self.train(second)
        self.assertTrue(other.startswith(os.path.join(self.dir, 'outputs/out/lora-4/')), other)
        self.assertEqual(digests(wrote), before)
        self.assertTrue(os.path.exists(os.path.join(other, 'adapter_model.safetensors')), other)

    def test_a_checkpoint_of_such_a_job_is_gone_on_from(self):
        path = self.write('lora-8.yml', 'lora_r: 8\n')
        self.train(path)
        checkpoint = os.path.join(self.dir, 'outputs/out/lora-8/checkpoint-2')
        self.train(path, '--set', f'checkpoint.resume={checkpoint}')

    def test_an_import_that_stops_starts_nothing(self):
        path = self.write('relora.yml', 'lora_r: 8\nrelora: true\n')
        ran = self.cox('train', path, check=2)
        self.assertIn('not imported; in the way: relora', ran.stderr.splitlines()[-1])
        self.assertFalse(os.path.exists(os.path.join(self.dir, 'outputs')))


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
