#!/usr/bin/env python3
"""Wrong input through the real command line: a clear error, the right exit code, nothing lost."""
import json, os, shutil, signal, subprocess, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import QUICKSTART, Cluster, wait_for


class BadInputTest(Cluster):
    def assert_refused(self, replace, *words, verb='plan', code=2):
        result = self.cox(verb, self.job_file('bad.yaml', replace=replace), check=None)
        output = result.stdout + result.stderr
        self.assertEqual(result.returncode, code, output)
        for word in words:
            self.assertIn(word, output)

    def model_with(self, change):
        """A copy of the model directory after change(directory)."""
        path = os.path.join(self.dir, f'model-{len(os.listdir(self.dir))}')
        shutil.copytree(os.path.join(QUICKSTART, 'model'), path)
        change(path)
        return {os.path.join(QUICKSTART, 'model'): path}

    def test_every_yaml_error_at_once(self):
        path = self.job_file('bad.yaml', replace={'max_steps: 40': 'max_step: 40', 'learning_rate: 2.0e-4': 'learning_rate: "2e-4"',
                                                 'sequence_len: 512': 'sequence_len: many\n  sequence_len: 512'})
        result = self.cox('validate', path, check=2)
        output = result.stdout + result.stderr
        for word in ('max_steps', 'learning_rate', 'sequence_len', 'bad.yaml:'):
            self.assertIn(word, output)
        self.assertGreaterEqual(output.count('bad.yaml:'), 3, output)

    def test_model_files(self):
        self.assert_refused(self.model_with(lambda d: os.remove(os.path.join(d, 'config.json'))), 'config.json', code=4)
        def other_architecture(d):
            path = os.path.join(d, 'config.json')
            config = json.load(open(path))
            config['architectures'] = ['FalconForCausalLM']
            json.dump(config, open(path, 'w'))
        self.assert_refused(self.model_with(other_architecture), 'FalconForCausalLM', 'Qwen2', code=2)
        def other_tokenizer(d):
            path = os.path.join(d, 'tokenizer.json')
            tokenizer = json.load(open(path))
            tokenizer['model']['type'] = 'Unigram'
            json.dump(tokenizer, open(path, 'w'))
        self.assert_refused(self.model_with(other_tokenizer), 'Unigram', 'tokenizer.json', code=2)

    def test_job_with_truncated_weights_fails_and_says_so(self):
        self.start_controller()
        self.start_workers(2)
        def truncate(d):
            path = os.path.join(d, 'model.safetensors')
            os.truncate(path, os.path.getsize(path) - 1000)
        job = self.submit(self.job_file('bad.yaml', replace=self.model_with(truncate)))
        wait_for('failure', lambda: self.state(job) == 'FAILED', 60)
        text = self.cox('describe', job).stdout
        self.assertIn('model.safetensors', text)
        self.assertEqual(self.cox_json('get', job)['restarts'], 0, 'a user error is not retried')

    def test_data(self):
        bad = os.path.join(self.dir, 'bad.jsonl')
        lines = open(os.path.join(QUICKSTART, 'train.jsonl')).read().splitlines()[:20]
        lines[6] = '{"instruction": "x", "output": '
        open(bad, 'w').write('\n'.join(lines))
        source = os.path.join(QUICKSTART, 'train.jsonl')
        self.assert_refused({source: bad}, 'bad.jsonl:7')
        open(bad, 'w').write('')
        self.assert_refused({source: bad}, 'bad.jsonl')

    def test_output_that_cannot_be_written(self):
        self.start_controller()
        self.start_workers(2)
        open(os.path.join(self.dir, 'file'), 'w').write('x')
        job = self.submit(self.job_file('job.yaml', replace={f'{self.dir}/out-job.yaml': f'{self.dir}/file/out'}))
        wait_for('failure', lambda: self.state(job) == 'FAILED', 60)
        self.assertIn('file/out', self.cox('describe', job).stdout)

    def test_submit_twice_with_one_key_is_one_job(self):
        self.start_controller()
        path = self.job_file()
        first = self.submit(path, '--idempotency-key', 'k1')
        self.assertEqual(self.submit(path, '--idempotency-key', 'k1'), first)
        other = self.job_file('other.yaml', replace={'max_steps: 40': 'max_steps: 41'})
        result = self.cox('submit', other, '--idempotency-key', 'k1', check=None)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('k1', result.stderr)

    def test_port_in_use(self):
        self.start_controller()
        second = self.start('coxswain-controller', '--listen', self.endpoint['grpc'], '--metrics', '', '--state-dir',
                            os.path.join(self.dir, 'other'))
        self.assertEqual(second.wait(60), 1)
        self.assertIn(self.endpoint['grpc'].split(':')[1], open(second.log_path).read())

    def test_unreachable_server_and_unknown_job(self):
        self.endpoint = {'grpc': '127.0.0.1:1'}
        self.cox('get', check=5)
        self.start_controller()
        self.cox('get', 'no-such-job', check=4)

    def test_signals_end_each_process_cleanly(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            controller = self.start_controller()
            supervisor = self.start_workers(2)
            wait_for('two workers', lambda: len([w for w in self.cox_json('workers')['workers'] if w['state'] == 'READY']) == 2)
            workers = [int(w['pid']) for w in self.cox_json('workers')['workers']]
            supervisor.send_signal(number)
            self.assertEqual(supervisor.wait(60), 0)
            for pid in workers:
                self.assertFalse(os.path.exists(f'/proc/{pid}'), f'worker {pid} outlives its supervisor')
            controller.send_signal(number)
            self.assertEqual(controller.wait(60), 0)


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
