#!/usr/bin/env python3
"""The Python client against a real controller, its three examples, and its errors."""
import asyncio, importlib.util, io, json, os, signal, subprocess, sys, threading, unittest
from unittest import mock
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

if importlib.util.find_spec('grpc') is None:
    python = os.environ.get('COXSWAIN_PYTHON', '')  # of tests/run.sh, which has grpcio
    if not python or os.path.realpath(python) == os.path.realpath(sys.executable) and sys.prefix != sys.base_prefix:
        print('skipped: this Python has no grpcio')
        sys.exit(0)
    os.execv(python, [python, *sys.argv])

from processes import BIN, ROOT, Cluster, wait_for

PACKAGE = os.path.join(os.path.dirname(BIN), 'python')
EXAMPLES = os.path.join(ROOT, 'controller/python/examples')
os.environ['COXSWAIN_COX'] = os.path.join(BIN, 'cox')
sys.path.insert(0, PACKAGE)
import coxswain_train as coxswain


class PythonClientTest(Cluster):
    def setUp(self):
        super().setUp()
        self.job = self.job_file(replace={'max_steps: 40': 'max_steps: 6', 'eval_steps: 20': 'eval_steps: 3'})

    def client(self):
        client = coxswain.Client(self.endpoint['grpc'])
        self.addCleanup(client.close)
        return client

    def start_all(self):
        self.start_controller()
        self.start_workers(2)
        return self.client()

    def run_example(self, name, *args):
        done = subprocess.run([sys.executable, os.path.join(EXAMPLES, name), *args], capture_output=True, text=True, timeout=240,
                              env=dict(os.environ, PYTHONPATH=PACKAGE, COXSWAIN_SERVER=getattr(self, 'endpoint', {}).get('grpc', ''),
                                       XDG_STATE_HOME=os.path.join(self.dir, 'xdg')))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_job_from_submission_to_its_adapter(self):
        client = self.start_all()
        told = io.StringIO()
        with open(self.job, encoding='utf-8') as file:
            job = client.submit(file.read())
        self.assertEqual(job.name, 'quickstart')
        ended = job.wait(display=coxswain.Progress(told))
        self.assertEqual((ended.state, ended.step, ended.total_steps, ended.error), ('SUCCEEDED', 6, 6, ''))
        self.assertIn('step 6/6  loss ', told.getvalue())
        table = job.metrics()
        self.assertEqual(table.column('step'), [0, 1, 2, 3, 4, 5, 6])
        self.assertEqual(table[6]['loss'], ended.loss)
        self.assertEqual([row['step'] for row in table if row['eval_loss'] is not None], [0, 3, 6])
        self.assertEqual(len(table.to_csv().splitlines()), 8)
        paths = job.download(os.path.join(self.dir, 'down'))
        for path in paths:
            with open(path, 'rb') as ours, open(os.path.join(ended.artifact_dir, os.path.relpath(path, f'{self.dir}/down')), 'rb') as theirs:
                self.assertEqual(ours.read(), theirs.read())
        self.assertIn('adapter_model.safetensors', [os.path.basename(path) for path in paths])
        answers = client.generate(job, ['Hello', 'The'], max_new_tokens=3)
        self.assertEqual(len(answers), 2)
        self.assertTrue(all(json.loads(line.json)['ts'] for line in job.logs(tail=3)))
        self.assertIn('succeeded', client.explain(job))
        self.assertIn(job.id, [each.id for each in client.list()])

    def test_events_come_by_iterator_and_by_asyncio_alike(self):
        client = self.start_all()
        job = client.submit(self.job)
        events = [(event.id, event.type) for event in job.watch()]

        async def again():
            return [(event.id, event.type) async for event in job.watch_async()]

        self.assertEqual(asyncio.run(again()), events)
        self.assertEqual([(event.id, event.type) for event in job.watch(after=events[3][0], follow=False)], events[4:])

    def test_a_watch_outlives_the_controller(self):
        controller = self.start_controller()
        listen = self.endpoint['grpc']
        self.start_workers(2)
        client = self.client()
        job = client.submit(self.job, **{'train.max_steps': 20})
        ids, ids_async, killed = [], [], False

        async def watch_too():
            ids_async.extend([event.id async for event in job.watch_async()])

        other = threading.Thread(target=lambda: asyncio.run(watch_too()))
        other.start()
        self.addCleanup(other.join)
        for event in job.watch():
            ids.append(event.id)
            if event.HasField('step_done') and event.step_done.step == 3 and not killed:
                killed = True
                os.kill(controller.pid, signal.SIGKILL)
                controller.wait()
                self.start_controller(listen=listen)
        self.assertTrue(killed)
        self.assertEqual(job.refresh().state, 'SUCCEEDED')
        self.assertEqual(ids, sorted(set(ids)))
        other.join()
        self.assertEqual(ids_async, ids)
        self.assertEqual(ids, [event.id for event in job.watch(follow=False)])

    def test_a_controller_that_stands_still_is_missed(self):
        controller = self.start_controller()
        client = self.client()
        job = client.submit(self.job, paused=True)
        watched = job.watch()
        next(watched)
        controller.send_signal(signal.SIGSTOP)
        self.addCleanup(controller.send_signal, signal.SIGCONT)
        with mock.patch('coxswain_train.client._CALL_SECONDS', 2), self.assertRaises(coxswain.Unreachable):
            list(watched)  # hangs without keepalive

    def test_a_proxy_of_the_environment_is_not_asked(self):
        self.start_controller()
        with mock.patch.dict(os.environ, http_proxy='http://127.0.0.1:1', no_proxy=''):
            self.assertEqual(self.client().list(), [])

    def test_errors_have_every_fault(self):
        client = self.start_all()
        wrong = {'train.max_stepz': 3, 'train.learning_rate': -1}
        problems = client.validate(self.job, **wrong)
        self.assertEqual({problem.path for problem in problems}, {'spec.train.max_stepz', 'spec.train.learning_rate'})
        for verb in (client.submit, client.plan):
            with self.assertRaises(coxswain.InvalidJob) as raised:
                verb(self.job, **wrong)
            self.assertEqual(raised.exception.problems, problems)
        self.assertEqual(client.validate(self.job), [])
        self.assertEqual(client.plan(self.job)['name'], 'quickstart')
        with self.assertRaises(coxswain.NotFound):
            client.get('no-such-job')
        with self.assertRaises(coxswain.NotFound):
            client.submit(os.path.join(self.dir, 'absent.yaml'))
        job = client.submit(self.job, paused=True)
        self.assertEqual(client.cancel(job).refresh().state, 'CANCELLED')
        with self.assertRaises(coxswain.WrongState):
            client.cancel(job)
        with self.assertRaises(coxswain.JobFailed) as raised:
            job.wait()
        self.assertEqual(raised.exception.job.state, 'CANCELLED')
        with self.assertRaises(coxswain.Unreachable):
            coxswain.Client('127.0.0.1:1').list()
        with self.assertRaises(coxswain.Unreachable):
            coxswain.Client('192.0.2.1:7070').list()  # another machine, and no certificate says which

    def test_a_token_that_is_wrong_is_refused(self):
        self.start_controller()
        with self.assertRaises(coxswain.Unreachable):
            coxswain.Client(self.endpoint['grpc'], token='cox_wrong').list()

    def test_another_products_cox_is_told(self):
        other = os.path.join(self.dir, 'bin')
        os.makedirs(other)
        with open(os.path.join(other, 'cox'), 'w') as file:
            file.write('#!/bin/sh\necho cox 1.2\n')
        os.chmod(os.path.join(other, 'cox'), 0o755)
        environment = {key: text for key, text in os.environ.items() if key != 'COXSWAIN_COX'}
        environment.update(PATH=other + os.pathsep + os.environ['PATH'], PYTHONPATH=PACKAGE)
        code = 'import coxswain_train as c\ntry: c.Client().validate("x.yaml")\nexcept c.NotInstalled as e: print(e)'
        done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, env=environment, timeout=60)
        self.assertIn(f'{other}/cox is the cox of another product', done.stdout, done.stderr)

    def test_examples(self):
        text = self.run_example('train.py', self.job, os.path.join(self.dir, 'adapter'), '2')
        self.assertIn('SUCCEEDED', text)
        self.assertTrue(os.path.exists(os.path.join(self.dir, 'adapter/adapter_model.safetensors')))
        client = self.start_all()
        text = self.run_example('learning_rates.py', self.job, os.path.join(self.dir, 'rates'), '2e-5', '2e-4')
        self.assertRegex(text, r'2e-05: loss .*\n0\.0002: loss .*\nbest: 0\.0002\n')
        job = client.submit(self.job, **{'train.max_steps': 400})
        text = self.run_example('stop_early.py', job.id, '4.0')
        self.assertRegex(text, r'step \d+: loss 3\.\d+\n<Job .* CANCELLED')
        self.assertTrue(wait_for('a checkpoint', lambda: client.get(job).message.checkpoints))

    def test_a_notebook_shows_bar_and_curve(self):
        progress = coxswain.Progress(io.StringIO())
        progress.losses, progress.eval_losses = [(1, 3.0), (2, 2.5)], [(2, 2.75)]
        progress.step, progress.total = 2, 8
        shown = progress._repr_html_()
        self.assertIn('<progress value="2" max="8"', shown)
        self.assertEqual(shown.count('<polyline'), 2)
        self.assertEqual(coxswain.Progress(io.StringIO())._repr_html_().count('<svg'), 0)


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
