#!/usr/bin/env python3
"""Preference tuning from records of pairs to an adapter, on CPU workers."""
import json, os, random, signal, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from experts_test import load
from processes import QUICKSTART, Cluster, metrics, value, wait_for

MODEL = os.path.join(QUICKSTART, 'model')


def pairs(count, seed):
    """The chosen answer adds, the rejected one subtracts."""
    draw = random.Random(seed)
    for _ in range(count):
        a, b = draw.randrange(10, 50), draw.randrange(1, 10)
        yield {'prompt': f'What is {a} plus {b}?', 'chosen': f'The sum is {a + b}.', 'rejected': f'I would say {a - b}, or so.'}


def verdicts(records):
    """Each pair as two answers: one is good, one is not."""
    for record in records:
        for side in ('chosen', 'rejected'):
            yield {'prompt': record['prompt'], 'completion': record[side], 'label': side == 'chosen'}


class PreferenceTest(Cluster):
    def records(self, name, records):
        path = os.path.join(self.dir, f'{name}.jsonl')
        with open(path, 'w') as file:
            file.writelines(json.dumps(record) + '\n' for record in records)
        return path

    def job(self, name, method='dpo', more='', adapter='lora', workers=2, steps=12):
        train, held_out = self.records('train', pairs(96, 1)), self.records('test', pairs(16, 2))
        text = f'''apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {{name: {name}}}
spec:
  base_model: {{path: {MODEL}}}
  method: {method}
  adapter: {adapter}
  {'lora: {r: 8, alpha: 16}' if adapter == 'lora' else ''}
  datasets: [{{path: {train}}}]
  test_datasets: [{{path: {held_out}}}]
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

    def finished(self, name, **kwargs):
        job = self.submit(self.job(name, **kwargs))
        self.wait_state(job, 'SUCCEEDED', 240)
        return job

    def adapter(self, name):
        return load(os.path.join(self.dir, name, 'adapter', 'adapter_model.safetensors'))

    def check_learns(self, job):
        """The margin of held-back pairs rises from 0, which every method without a reference need not begin at."""
        before, after = [event['preference'] for event in self.events(job, 'EvalDone')]
        margin = lambda p: p['rewards_chosen'] - p['rewards_rejected']
        self.assertGreater(margin(after), margin(before))
        self.assertGreater(after['accuracies'], 0.9)
        self.assertEqual(after['chosen'], 16)
        return before, after

    def test_dpo_of_a_fresh_adapter(self):
        self.start_controller()
        self.start_workers(2)
        job = self.finished('fresh')
        before, _ = self.check_learns(job)
        self.assertEqual((before['rewards_chosen'], before['rewards_rejected'], before['accuracies']), (0, 0, 0))
        steps = self.events(job, 'StepDone')
        self.assertAlmostEqual(steps[0]['loss'], 0.693147, places=5)  # -log sigmoid(0)
        self.assertLess(steps[-1]['loss'], 0.5)
        text = self.cox('describe', job).stdout
        self.assertIn('rewards: chosen', text)
        self.assertIn('margin +', text)
        self.assertNotIn('perplexity', text)
        page = metrics(self.endpoint['metrics'])
        chosen, rejected = [value(page, 'coxswain_reward_nats', job=job, side=side, of='eval')
                            for side in ('chosen', 'rejected')]
        self.assertGreater(chosen, rejected)

    def test_methods_without_a_reference(self):
        self.start_controller()
        self.start_workers(2)
        for method in ('orpo', 'simpo', 'cpo'):
            with self.subTest(method):
                self.check_learns(self.finished(method, method=method))

    def test_kto_of_labelled_answers(self):
        """Answers with a verdict each; adapter and full training, whose references come in two ways."""
        self.start_controller()
        self.start_workers(2)
        for name, adapter in (('kto', 'lora'), ('kto-full', 'none')):
            with self.subTest(name):
                path = self.job(name, method='kto', adapter=adapter, steps=16)
                self.records('train', verdicts(pairs(96, 1)))
                self.records('test', verdicts(pairs(16, 2)))
                job = self.submit(path)
                self.wait_state(job, 'SUCCEEDED', 240)
                before, after = [event['preference'] for event in self.events(job, 'EvalDone')]
                self.assertEqual((before['rewards_chosen'], before['rewards_rejected']), (0, 0))
                self.assertGreater(after['rewards_chosen'], after['rewards_rejected'])
                self.assertEqual((after['chosen'], after['rejected']), (16, 16))
                self.assertNotIn('accuracy', self.cox('describe', job).stdout.split('rewards:')[1])

    def test_full_training_keeps_its_start(self):
        """A worker that dies costs no bits, also where the log-probabilities of the start are kept."""
        self.start_controller()
        self.start_workers(2)
        runs = {}
        for name in ('calm', 'killed'):
            job = self.submit(self.job(name, adapter='none'))
            if name == 'killed':
                wait_for('five steps', lambda: len(self.step_events(job)) >= 5, 120)
                os.kill(int(self.cox_json('workers')['workers'][1]['pid']), signal.SIGKILL)
            self.wait_state(job, 'SUCCEEDED', 240)
            before, _ = self.check_learns(job)
            self.assertEqual(before['rewards_chosen'], 0)
            runs[name] = load(os.path.join(self.dir, name, 'model', 'model.safetensors'))
        self.assertEqual(runs['killed'], runs['calm'])

    def test_a_controller_that_dies_costs_no_bits(self):
        """KTO asks for its KL term before each step; full training for its start before the first. Gangs go on."""
        controller = self.start_controller()
        listen = self.endpoint['grpc']
        self.start_workers(2)
        for method, adapter in (('kto', 'lora'), ('dpo', 'none')):
            runs = {}
            for name in (f'{method}-calm', f'{method}-killed'):
                path = self.job(name, method=method, adapter=adapter)
                if method == 'kto':
                    self.records('train', verdicts(pairs(96, 1)))
                    self.records('test', verdicts(pairs(16, 2)))
                job = self.submit(path)
                for steps in (2, 6) if name.endswith('killed') else ():
                    wait_for(f'{steps} steps', lambda: len(self.step_events(job)) >= steps, 120)
                    os.kill(controller.pid, signal.SIGKILL)
                    controller.wait()
                    controller = self.start_controller(listen=listen)
                self.wait_state(job, 'SUCCEEDED', 240)
                runs[name] = self.step_events(job)
                self.assertEqual(self.cox_json('get', job)['epoch'], 1)
            with self.subTest(method):
                calm, killed = runs.values()
                self.assertEqual(killed, calm)

    def test_ranks_agree(self):
        """The cut of the batch over ranks moves the adapter by rounding alone."""
        self.start_controller()
        self.start_workers(4)
        runs = {}
        for workers in (1, 2, 4):
            self.finished(f'ranks-{workers}', workers=workers, steps=4)
            runs[workers] = self.adapter(f'ranks-{workers}')
        for workers in (2, 4):
            for name, (shape, raw) in runs[1].items():
                one, other = memoryview(raw).cast('f'), memoryview(runs[workers][name][1]).cast('f')
                apart = sum((a - b) ** 2 for a, b in zip(one, other)) ** 0.5
                self.assertLess(apart, 1e-4 * max(sum(a * a for a in one) ** 0.5, 1e-3), name)

    def test_what_a_person_gets_wrong(self):
        path = self.job('wrong')
        text = self.cox('plan', path, '--set', 'preference.label_smoothing=0.1', check=2).stderr
        self.assertIn('TRL ignores it: for conservative DPO give loss: cdpo', text)
        text = self.cox('plan', path, '--set', 'method=orpo', '--set', 'preference.reference=base', check=2).stderr
        self.assertIn('has no reference', text)
        self.records('train', [{'prompt': 'What is 1 plus 1?', 'chosen': 'It is 2.'}])
        text = self.cox('plan', path, check=2).stderr
        self.assertIn('train.jsonl:1', text)
        self.assertIn('rejected', text)


if __name__ == '__main__':
    unittest.main()
