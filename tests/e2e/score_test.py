#!/usr/bin/env python3
"""Reward models and classifiers, from records to artifacts, on CPU workers."""
import json, os, random, signal, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from experts_test import load
from preference_test import pairs
from processes import QUICKSTART, Cluster, metrics, value, wait_for

MODEL = os.path.join(QUICKSTART, 'model')
TOPICS = {'sky': ('cloud', 'rain', 'wind'), 'sea': ('wave', 'ship', 'sand'), 'wood': ('tree', 'leaf', 'bark')}


def texts(count, seed):
    """A text of words of one topic, which is its label."""
    draw = random.Random(seed)
    for _ in range(count):
        label = draw.choice(sorted(TOPICS))
        yield {'text': 'I saw ' + ' and '.join(draw.choice(TOPICS[label]) for _ in range(5)), 'label': label}


def rewards(count, seed):
    for record in pairs(count, seed):
        yield dict(record, margin=0.25)


class ScoreTest(Cluster):
    def job(self, name, method, records, more='', adapter='lora', workers=2, steps=12, model=MODEL):
        paths = []
        for part, count, seed in (('train', 96, 1), ('test', 16, 2)):
            paths.append(os.path.join(self.dir, f'{name}-{part}.jsonl'))
            with open(paths[-1], 'w') as file:
                file.writelines(json.dumps(record) + '\n' for record in records(count, seed))
        text = f'''apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {{name: {name}}}
spec:
  base_model: {{path: {model}}}
  method: {method}
  adapter: {adapter}
  {'lora: {r: 8, alpha: 16}' if adapter == 'lora' else ''}
  datasets: [{{path: {paths[0]}}}]
  test_datasets: [{{path: {paths[1]}}}]
  sequence_len: 64
  packing: {{max_documents_per_bin: 8}}
  train: {{global_batch_size: 4, max_steps: {steps}, learning_rate: 1.0e-3}}
  eval: {{eval_steps: {steps}}}
  checkpoint: {{output_dir: {self.dir}/{name}, save_steps: 4, resume: never}}
  resources: {{device: cpu, workers: {workers}}}
{more}'''
        path = os.path.join(self.dir, f'{name}.yaml')
        with open(path, 'w') as file:
            file.write(text)
        return path

    def finished(self, *args, **kwargs):
        job = self.submit(self.job(*args, **kwargs))
        self.wait_state(job, 'SUCCEEDED', 240)
        return job

    def artifact(self, name, *path):
        return os.path.join(self.dir, name, *path)

    def adapter(self, name):
        return load(self.artifact(name, 'adapter', 'adapter_model.safetensors'))

    def check(self, job, of):
        """The accuracy of held-back records rises to nearly all of them."""
        before, after = [event['preference'] for event in self.events(job, 'EvalDone')]
        self.assertEqual((after['of'], after['chosen']), (of, 16))
        self.assertGreater(after['accuracies'], 0.9)
        return before, after

    def test_a_reward_model_prefers_what_was_chosen(self):
        self.start_controller()
        self.start_workers(2)
        job = self.finished('reward', 'reward', rewards, more='  reward: {center_coefficient: 0.01}\n')
        before, after = self.check(job, 'PAIR_SCORES')
        self.assertGreater(after['rewards_chosen'] - after['rewards_rejected'],
                           before['rewards_chosen'] - before['rewards_rejected'] + 0.5)
        text = self.cox('describe', job).stdout
        self.assertIn('rewards: chosen', text)
        self.assertNotIn('perplexity', text)
        self.assertNotIn('log-prob', text)
        self.assertIn('has no head of scores: score.weight of 1 x 256 is new', self.cox('events', job).stdout)
        page = metrics(self.endpoint['metrics'])
        self.assertEqual(value(page, 'coxswain_reward_accuracy_ratio', job=job, of='eval'), after['accuracies'])
        with open(self.artifact('reward', 'adapter', 'adapter_config.json')) as file:
            config = json.load(file)
        self.assertEqual((config['task_type'], config['modules_to_save']), ('SEQ_CLS', ['score']))
        self.assertIn('base_model.model.score.weight', self.adapter('reward'))

    def test_a_classifier_goes_on_from_its_own_export(self):
        self.start_controller()
        self.start_workers(2)
        classes = '  classification: {label_names: [sky, sea, wood]}\n'
        job = self.finished('classes', 'classification', texts, more=classes, adapter='none')
        _, last = self.check(job, 'LABELS')
        page = metrics(self.endpoint['metrics'])
        self.assertEqual(value(page, 'coxswain_label_accuracy_ratio', job=job, of='eval'), last['accuracies'])
        model = self.artifact('classes', 'model')
        with open(os.path.join(model, 'config.json')) as file:
            config = json.load(file)
        self.assertEqual(config['architectures'], ['Qwen2ForSequenceClassification'])
        self.assertEqual(config['label2id'], {'sky': 0, 'sea': 1, 'wood': 2})
        again = self.finished('again', 'classification', texts, more=classes, model=model, steps=4)
        first = self.events(again, 'EvalDone')[0]['preference']
        self.assertEqual(first['accuracies'], last['accuracies'], 'the head of the files goes on where it was')
        text = self.cox('plan', self.job('tokens', 'sft', texts, model=model), check=2).stderr
        self.assertIn('is a model with a head of 3 scores and none of tokens', text)
        two = self.job('two', 'classification', texts, model=model,
                       more='  classification: {label_names: [sky, sea]}\n')
        self.assertIn('has a head of 3 scores', self.cox('plan', two, check=2).stderr)
        self.assertIn('trains a head of scores', self.cox('generate', job, '-p', 'hi', check=1).stderr)

    def test_a_kill_leaves_the_same_bits(self):
        """Of a worker, then of the controller, whose gang goes on."""
        controller = self.start_controller()
        listen = self.endpoint['grpc']
        self.start_workers(2)
        for name in ('calm', 'killed'):
            job = self.submit(self.job(name, 'reward', rewards))
            if name == 'killed':
                wait_for('five steps', lambda: len(self.step_events(job)) >= 5, 120)
                os.kill(int(self.cox_json('workers')['workers'][1]['pid']), signal.SIGKILL)
                wait_for('nine steps', lambda: len(self.step_events(job)) >= 9, 120)
                os.kill(controller.pid, signal.SIGKILL)
                controller.wait()
                controller = self.start_controller(listen=listen)
            self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.adapter('killed'), self.adapter('calm'))

    def test_ranks_agree(self):
        """The cut of the batch over ranks moves the adapter by rounding alone."""
        self.start_controller()
        self.start_workers(4)
        runs = {}
        for workers in (1, 2, 4):
            self.finished(f'ranks-{workers}', 'reward', rewards, workers=workers, steps=4)
            runs[workers] = self.adapter(f'ranks-{workers}')
        for workers in (2, 4):
            for name, (shape, raw) in runs[1].items():
                one, other = memoryview(raw).cast('f'), memoryview(runs[workers][name][1]).cast('f')
                apart = sum((a - b) ** 2 for a, b in zip(one, other)) ** 0.5
                self.assertLess(apart, 1e-4 * max(sum(a * a for a in one) ** 0.5, 1e-3), name)


if __name__ == '__main__':
    unittest.main()
