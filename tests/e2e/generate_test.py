#!/usr/bin/env python3
"""Answers of real processes: of a model, an adapter, a job's checkpoints, and of a job's sample prompts."""
import json, os, signal, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import QUICKSTART, ROOT, Cluster, wait_for

MODEL = os.path.join(QUICKSTART, 'model')
TRANSFORMERS = json.load(open(os.path.join(ROOT, 'tests/fixtures/quickstart_answers.json')))
QUESTION = TRANSFORMERS[0]['prompt']


JOB = """
apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {name: answers}
spec:
  base_model: %(model)s
  adapter: %(adapter)s
  datasets: [{path: %(data)s, format: alpaca, max_samples: 60}]
  val_set_size: 4
  sequence_len: 128
  excess_length: truncate
  train: {global_batch_size: 2, max_steps: 4, learning_rate: 2.0e-3}
  eval: {eval_steps: 2, sample_tokens: 24, sample_prompts: [%(prompt)s, Why]}
  checkpoint: {output_dir: %(out)s, save_steps: 2, resume: never}
  resources: {device: cpu, workers: 2}
"""


ASKS = """
apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {name: %(name)s}
spec:
  base_model: %(model)s
  method: generate
  generate: {prompts: [%(prompt)s, Why, How many, Write], max_new_tokens: 400, temperature: 1, seed: 3}
  sequence_len: 512
  checkpoint: {output_dir: %(out)s}
  resources: {device: cpu, workers: 1}
"""


class GenerateTest(Cluster):
    def run_job(self, adapter):
        path = os.path.join(self.dir, 'job.yaml')
        with open(path, 'w') as file:
            file.write(JOB % {'model': MODEL, 'adapter': adapter, 'prompt': json.dumps(QUESTION),
                              'data': os.path.join(QUICKSTART, 'train.jsonl'), 'out': os.path.join(self.dir, 'out')})
        self.start_controller()
        self.start_workers()
        job = self.submit(path)
        self.wait_state(job, 'SUCCEEDED')
        return job

    def answers(self, *args):
        return self.cox_json('generate', *args)

    def answer(self, source, *args):
        return self.answers(source, '-p', QUESTION, '-n', '24', *args)[0]['answer']

    def test_a_model_answers_as_transformers_does(self):
        """Without a controller: cox starts its own, and streams the same text that it tells whole."""
        asked = [word for case in TRANSFORMERS for word in ('-p', case['prompt'])]
        for case, told in zip(TRANSFORMERS, self.answers(MODEL, *asked, '-n', '40')):
            self.assertEqual(told['answer'][:len(case['answer'])], case['answer'])
            self.assertGreaterEqual(told['tokens'], case['tokens'])
        streamed = self.cox('generate', MODEL, '-p', QUESTION, '-n', '24')
        self.assertEqual(streamed.stdout, self.answer(MODEL) + '\n')
        self.assertIn('24 tokens, cut at the token limit', streamed.stderr)

    def test_draws_repeat_with_their_seed(self):
        drawn = ['--temperature', '1', '--top-p', '0.9', '--seed']
        first = self.answer(MODEL, *drawn, '1')
        self.assertEqual(self.answer(MODEL, *drawn, '1'), first)
        self.assertNotEqual(self.answer(MODEL, *drawn, '2'), first)

    def test_a_job_its_checkpoints_and_its_adapter(self):
        """What a job answers while it trains is what its checkpoints and its export answer afterwards."""
        job = self.run_job('lora')
        told = self.events(job, 'PromptAnswered')
        self.assertEqual([(e['step'], e['prompt']) for e in told],
                         [(step, prompt) for step in (0, 2, 4) for prompt in (0, 1)])
        samples = self.cox_json('get', job)['samples']
        self.assertEqual((samples[0]['first_answer'], samples[0]['answer']), (told[0]['answer'], told[4]['answer']))
        self.assertNotEqual(told[0]['answer'], told[4]['answer'])
        described = self.cox('describe', job).stdout
        self.assertIn('at step 0', described)
        self.assertIn('at step 4', described)

        alpaca = ['--style', 'alpaca']
        self.assertEqual(self.answer(MODEL, *alpaca), told[0]['answer'])
        self.assertEqual(self.answer(f'{job}:2'), told[2]['answer'])
        self.assertEqual(self.answer(job), told[4]['answer'])
        adapter = self.cox_json('get', job)['artifact_dir']
        self.assertEqual(self.answer(MODEL, '--adapter', adapter, *alpaca), told[4]['answer'])

        refused = self.cox('generate', f'{job}:3', '-p', 'x', check=1)
        self.assertIn('has no committed checkpoint of step 3', refused.stderr)
        self.cox('generate', job, check=2)
        self.assert_extends(job)

    def assert_extends(self, job):
        """checkpoint.extend: real ranks load moments of a recipe of 4 steps into one of 6."""
        longer = ['--set', 'train.max_steps=6', '--set', 'checkpoint.resume=auto', '--set', 'checkpoint.extend=true']
        path = os.path.join(self.dir, 'job.yaml')
        plan = self.cox('plan', path, *longer).stdout
        self.assertIn('extends a recipe of 4 steps to 6, from step 4', plan)
        second = self.submit(path, *longer)
        self.wait_state(second, 'SUCCEEDED')
        self.assertEqual([e['step'] for e in self.events(second, 'StepDone')], [4, 5])
        with open(os.path.join(self.cox_json('get', second)['artifact_dir'], 'coxswain_manifest.json')) as file:
            self.assertEqual(json.load(file)['continues'], {'job': job, 'step': 4, 'total_steps': 4})

    def asked(self, name):
        path = os.path.join(self.dir, f'{name}.yaml')
        with open(path, 'w') as file:
            file.write(ASKS % {'name': name, 'model': MODEL, 'prompt': json.dumps(QUESTION),
                               'out': os.path.join(self.dir, name)})
        return self.submit(path)

    def whole_answers(self, job):
        return [(e['prompt'], e['answer'], e['tokens']) for e in self.events(job, 'PromptAnswered')]

    def test_answers_go_on_over_a_controller_that_is_killed(self):
        """The gang of a job that only generates goes on, and nothing of an answer is lost or told twice."""
        controller = self.start_controller()
        listen = self.endpoint['grpc']
        self.start_workers(1)
        undisturbed = self.asked('undisturbed')
        self.wait_state(undisturbed, 'SUCCEEDED')
        job = self.asked('disturbed')
        for pieces in (1, 3):
            wait_for('a piece of an answer', lambda: len(self.events(job, 'AnswerWritten')) >= pieces)
            os.kill(controller.pid, signal.SIGKILL)
            controller.wait()
            controller = self.start_controller(listen=listen)
        self.wait_state(job, 'SUCCEEDED')
        self.assertEqual(self.whole_answers(job), self.whole_answers(undisturbed))
        self.assertEqual(self.cox_json('get', job)['epoch'], 1)
        self.assertGreaterEqual(len(self.events(job, 'GangReadopted')), 1)
        for prompt, answer, _ in self.whole_answers(job):
            pieces = [e['piece'] for e in self.events(job, 'AnswerWritten') if e.get('prompt', 0) == prompt]
            self.assertEqual(''.join(pieces), answer)

    def test_full_fine_tuning_is_answered_from_its_checkpoint(self):
        job = self.run_job('none')
        told = self.events(job, 'PromptAnswered')
        self.assertEqual(self.answer(job), told[-2]['answer'])
        self.assertEqual(self.answer(self.cox_json('get', job)['artifact_dir'], '--style', 'alpaca'), told[-2]['answer'])


if __name__ == '__main__':
    unittest.main(verbosity=2)
