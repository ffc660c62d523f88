#!/usr/bin/env python3
"""The quickstart as a newcomer runs it, watched through its metrics, and its variants."""
import glob, json, os, re, subprocess, sys, threading, time, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import BIN, QUICKSTART, ROOT, Cluster, metrics, value, wait_for

REFERENCE = json.load(open(os.path.join(QUICKSTART, 'reference.json')))['methods']
PYTHON = os.environ.get('COXSWAIN_PYTHON')


class Watcher(threading.Thread):
    """Scrapes every /metrics of a cluster until stopped; keeps what it saw."""

    def __init__(self, find_pages):
        super().__init__(daemon=True)
        self.find_pages, self.pages, self.done, self.errors = find_pages, [], threading.Event(), []

    def run(self):
        while not self.done.wait(0.2):
            try:
                addresses = self.find_pages()
                if addresses:
                    self.pages.append([metrics(a) for a in addresses])
            except OSError:
                continue      # a process is starting or going down

    def series(self, index, name):
        found = [value(page[index], name) for page in self.pages if len(page) > index]
        return [v for v in found if v is not None]


class QuickstartTest(Cluster):
    def assert_falls_like_reference(self, method, before, after):
        wanted = 0.98 * REFERENCE[method]['mean_fall']
        print(f'{method}: held-back loss {before:.4f} -> {after:.4f}, fall {before - after:.4f}, '
              f'transformers + peft {REFERENCE[method]["mean_fall"]:.4f}')
        self.assertGreaterEqual(before - after, wanted, method)
        self.assertAlmostEqual(before, REFERENCE[method]['before'], delta=1e-4 * before)

    def test_train_from_yaml_to_adapter(self):
        """cox train: job in, adapter out, everything shut down (invariants deploy-1, deploy-2)."""
        job = self.job_file(held_out=None)
        started = time.monotonic()
        result = self.cox('train', job, '--workers', '2', '--threads', '1', '-o', 'json', timeout=600)
        seconds = time.monotonic() - started
        print(f'cox train took {seconds:.1f} s')
        final = json.loads(result.stdout)
        progress = final['progress']
        self.assertEqual(progress['step'], '40' if isinstance(progress['step'], str) else 40)
        self.assert_falls_like_reference('lora_plus', progress['first_eval_loss'], progress['eval_loss'])
        adapter = final['artifact_dir']
        self.assertTrue(os.path.exists(os.path.join(adapter, 'adapter_model.safetensors')), adapter)
        self.assert_reads_back(adapter)
        alive = subprocess.run(['pgrep', '-f', os.path.join(self.dir, 'xdg')], capture_output=True, text=True).stdout
        self.assertEqual(alive, '', 'processes outlive cox train')

    def assert_reads_back(self, adapter):
        if PYTHON is None:
            print('COXSWAIN_PYTHON is not set: the safetensors package does not read the adapter back')
            return
        code = ('import sys, numpy as np\nfrom safetensors import safe_open\n'
                'f = safe_open(sys.argv[1], "np"); n = list(f.keys())\n'
                'assert f.metadata() == {"format": "pt"} and len(n) == 56, (f.metadata(), len(n))\n'
                'assert all(np.isfinite(f.get_tensor(k)).all() and np.abs(f.get_tensor(k)).max() > 0 for k in n)')
        subprocess.run([PYTHON, '-c', code, os.path.join(adapter, 'adapter_model.safetensors')], check=True)

    def test_metrics_tell_the_truth_while_it_runs(self):
        """Tokens rise, tokens per second and loss are there, the grad norm equals that of the last step event."""
        self.start_controller()
        self.start_workers(2)
        wait_for('two workers', lambda: len(self.cox_json('workers')['workers']) == 2)
        workers = [w['metrics_address'] for w in self.cox_json('workers')['workers']]
        watcher = Watcher(lambda: [self.endpoint['metrics'], *workers])
        watcher.start()
        job = self.submit(self.job_file(replace={'max_steps: 40': 'max_steps: 16', 'eval_steps: 20': 'eval_steps: 8'}))
        self.wait_state(job, 'SUCCEEDED', 240)
        last = self.events(job, 'StepDone')[-1]
        page = metrics(self.endpoint['metrics'])
        watcher.done.set()
        watcher.join(10)
        tokens = watcher.series(0, 'coxswain_train_tokens_total')
        self.assertGreater(len(set(tokens)), 2, f'tokens counter does not rise: {tokens}')
        self.assertEqual(tokens, sorted(tokens))
        self.assertGreater(max(watcher.series(0, 'coxswain_tokens_per_second')), 0)
        self.assertAlmostEqual(value(page, 'coxswain_grad_norm'), last['grad_norm'], delta=1e-9 * last['grad_norm'])
        self.assertAlmostEqual(value(page, 'coxswain_train_loss'), last['loss'], delta=1e-9 * last['loss'])
        for rank in (1, 2):   # pages of the workers
            rising = watcher.series(rank, 'coxswain_worker_train_tokens_total')
            self.assertGreater(len(set(rising)), 1, rising)
            norms = [n for n in watcher.series(rank, 'coxswain_worker_grad_norm') if n > 0]   # 0 before the first step
            self.assertTrue(norms)
            seen = [n for _, _, n in self.step_events(job)]
            for norm in norms:
                self.assertTrue(any(abs(norm - n) <= 1e-9 * n for n in seen), (norm, seen))

    def test_lora_and_full_fine_tuning(self):
        self.start_controller()
        self.start_workers(2)
        at_the_ends = {'eval_steps: 20': 'eval_steps: 40'}
        jobs = {'lora': self.submit(self.job_file('lora.yaml', 'job-lora.yaml', held_out=None, replace=at_the_ends)),
                'full': self.submit(self.job_file('full.yaml', 'job-full.yaml', held_out=None, replace=at_the_ends))}
        for method, job in jobs.items():
            self.wait_state(job, 'SUCCEEDED', 400)
            progress = self.cox_json('get', job)['progress']
            self.assert_falls_like_reference(method, progress['first_eval_loss'], progress['eval_loss'])
        model = self.cox_json('get', jobs['full'])['artifact_dir']
        for name in ('config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'):
            self.assertTrue(os.path.exists(os.path.join(model, name)), name)
        # A job that is given another job's adapter goes on from there.
        adapter = self.cox_json('get', jobs['lora'])['artifact_dir']
        again = self.submit(self.job_file('again.yaml', 'job-lora.yaml', held_out=None, replace={
            'loraplus_lr_ratio: 1': f'loraplus_lr_ratio: 1, init_from: {adapter}', 'max_steps: 40': 'max_steps: 4'}))
        self.wait_state(again, 'SUCCEEDED', 200)
        first = self.cox_json('get', again)['progress']['first_eval_loss']
        after = self.cox_json('get', jobs['lora'])['progress']['eval_loss']
        self.assertAlmostEqual(first, after, delta=1e-5 * after)

    def test_dora(self):
        """Magnitudes train, are exported as peft writes them, start a next job, and are the rows' lengths when merged."""
        self.start_controller()
        self.start_workers(2)
        short = {'max_steps: 40': 'max_steps: 6', 'eval_steps: 20': 'eval_steps: 6'}
        job = self.submit(self.job_file('dora.yaml', 'job-lora.yaml', replace={
            'loraplus_lr_ratio: 1': 'loraplus_lr_ratio: 1, use_dora: true', **short}))
        self.wait_state(job, 'SUCCEEDED', 200)
        adapter = self.cox_json('get', job)['artifact_dir']
        with open(os.path.join(adapter, 'adapter_config.json')) as f:
            self.assertTrue(json.load(f)['use_dora'])
        again = self.submit(self.job_file('dora-again.yaml', 'job-lora.yaml', replace={
            'loraplus_lr_ratio: 1': f'loraplus_lr_ratio: 1, use_dora: true, init_from: {adapter}',
            'checkpoint:': 'export: {merge: true, dtype: float32}\n  checkpoint:', **short}))
        self.wait_state(again, 'SUCCEEDED', 200)
        first, after = (self.cox_json('get', again)['progress']['first_eval_loss'],
                        self.cox_json('get', job)['progress']['eval_loss'])
        self.assertAlmostEqual(first, after, delta=1e-5 * after)
        if PYTHON is None:
            return
        code = ('import sys, numpy as np\nfrom safetensors import safe_open\n'
                'a, m = (safe_open(p, "np") for p in sys.argv[1:])\n'
                'keys = [k for k in a.keys() if k.endswith(".lora_magnitude_vector")]\n'
                'assert len(keys) == 28, len(keys)\n'
                'for k in keys:\n'
                '    name = k[len("base_model.model."):].replace(".lora_magnitude_vector", ".weight")\n'
                '    length = np.linalg.norm(m.get_tensor(name).astype(np.float64), axis=1)\n'
                '    assert np.allclose(length, np.abs(a.get_tensor(k)), rtol=1e-6), k')
        out = os.path.dirname(self.cox_json('get', again)['artifact_dir'])
        subprocess.run([PYTHON, '-c', code, os.path.join(out, 'adapter/adapter_model.safetensors'),
                        os.path.join(out, 'model/model.safetensors')], check=True)


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
