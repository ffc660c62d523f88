#!/usr/bin/env python3
"""cox as its users type it, over real processes: connections by contexts and TLS; cox train on a terminal and from standard
input, and what it leaves."""
import fcntl, json, os, pty, re, struct, subprocess, sys, termios, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import BIN, ROOT, Cluster


class ConnectionTest(Cluster):
    """A controller on loopback that speaks TLS and asks for certificates."""

    def setUp(self):
        super().setUp()
        self.certificates('tls')
        tls = os.path.join(self.dir, 'tls/controller/')
        self.start_controller('--tls-cert', tls + 'tls.crt', '--tls-key', tls + 'tls.key', '--tls-ca', tls + 'ca.crt')
        self.address = self.endpoint['grpc']
        self.endpoint = {}  # contexts and flags say it, not the environment

    def certificates(self, folder):
        subprocess.run([os.path.join(ROOT, 'deploy/tls/make-certificates.sh'), os.path.join(self.dir, folder)], check=True,
                       capture_output=True)

    def context(self, name, client, *more, ca='tls'):
        folder = os.path.join(self.dir, client)
        self.cox('config', 'set-context', name, '--server', self.address, '--ca', os.path.join(self.dir, ca, 'ca.crt'),
                 '--cert', f'{folder}/client/tls.crt', '--key', f'{folder}/client/tls.key', *more)

    def said(self, *args):
        said = self.cox('get', *args, check=5).stderr
        print(said)
        self.assertIn(f'cannot reach the controller at {self.address}', said)
        return said

    def test_a_context_says_once_what_every_call_needs(self):
        self.context('lab', 'tls')
        self.cox('config', 'use-context', 'lab')
        self.assertEqual(self.cox('get').stderr, 'no jobs\n')
        self.cox('config', 'use-context', '--none')
        self.assertEqual(self.cox('get', '--context', 'lab').stderr, 'no jobs\n')
        self.assertEqual(self.cox('get', env={'COXSWAIN_CONTEXT': 'lab'}).stderr, 'no jobs\n')

    def test_what_keeps_a_call_from_arriving_is_told_with_what_to_do(self):
        self.assertIn('If it speaks TLS, give --tls-ca', self.said('--server', self.address))
        ca = os.path.join(self.dir, 'tls/ca.crt')
        self.assertIn('give --tls-cert and --tls-key', self.said('--server', self.address, '--tls-ca', ca))
        self.certificates('other')
        self.context('wrong-ca', 'tls', ca='other')
        self.assertIn(f'The CA in {self.dir}/other/ca.crt did not sign', self.said('--context', 'wrong-ca'))
        self.context('wrong-client', 'other')
        self.assertIn(f'It may not accept the certificate in {self.dir}/other/client/tls.crt',
                      self.said('--context', 'wrong-client'))


SHORT = {'global_batch_size: 4': 'global_batch_size: 2', 'max_steps: 40': 'max_steps: 3', 'save_steps: 20': 'save_steps: 3',
         'eval_steps: 20': 'eval_steps: 3'}


class TrainTest(Cluster):
    """cox train, whose controller ends with it."""

    def short_job(self, **more):
        return self.job_file(held_out=2, replace={**SHORT, **more})

    def kept(self, verb, folder):
        return json.loads(self.cox(verb, folder, '-o', 'json').stdout)

    def test_a_job_from_standard_input_leaves_its_history_and_its_curves(self):
        resources = 'resources: {device: cpu, workers: 2}'
        job = self.short_job(**{resources: resources + '\n  logging: {report_to: [jsonl, tensorboard, wandb]}'})
        env = dict(os.environ, XDG_STATE_HOME=os.path.join(self.dir, 'xdg'), XDG_CONFIG_HOME=self.dir, NO_COLOR='1', COXSWAIN_SERVER='192.0.2.1:1')
        with open(job) as text:
            ran = subprocess.run([os.path.join(BIN, 'cox'), 'train', '-', '--workers', '2'], stdin=text, text=True,
                                 capture_output=True, timeout=240, env=env, cwd=self.dir)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        out = os.path.join(self.dir, 'out-job.yaml')
        folder = re.search(r'^history: cox describe (\S+) ', ran.stderr, re.M).group(1)
        self.assertTrue(folder.startswith(out + '/history/'), folder)
        events = self.kept('events', out)['events']
        self.assertEqual([e['id'] for e in events], sorted({e['id'] for e in events}), 'each once, in order')
        self.assertEqual([e['data']['step'] for e in events if e['type'] == 'StepDone'], [0, 1, 2])
        self.assertEqual(events[-1]['state'], 'SUCCEEDED')
        described = self.kept('describe', folder)
        self.assertEqual((described['state'], described['progress']['step']), ('SUCCEEDED', 3))
        self.assertIn('Checkpoints', self.cox('describe', out).stdout)
        self.check_curves(out, described['id'], [e['data'] for e in events if e['type'] == 'StepDone'])

    def test_a_broken_folder_of_trackers_is_told_and_stops_nothing(self):
        resources = 'resources: {device: cpu, workers: 2}'
        logging = '{report_to: wandb, dir: ./job.yaml/curves}'
        job = self.short_job(**{resources: f'{resources}\n  logging: {logging}'})
        ran = self.cox('train', job, '--workers', '2', '--progress', 'plain', timeout=240)
        told = [line for line in (ran.stdout + ran.stderr).splitlines() if 'logging.report_to' in line]
        print('\n'.join(told))
        self.assertEqual(len(told), 1, ran.stdout + ran.stderr)
        self.assertIn(f'{job}/curves cannot be written: ', told[0])
        self.assertIn('The job goes on', told[0])

    def check_curves(self, out, job, steps):
        """What trackers got is what the history says, as their own packages read it where they are installed."""
        lines = [json.loads(line) for line in open(f'{out}/trackers/jsonl/{job}.jsonl')]
        self.assertEqual([(l['step'], l['train/loss']) for l in lines if 'train/loss' in l],
                         [(s['step'] + 1, s['loss']) for s in steps])
        self.assertEqual([l['step'] for l in lines if 'eval/loss' in l], [0, 3])
        reader = os.path.join(ROOT, 'tests/e2e/read_trackers.py')
        python = os.environ.get('COXSWAIN_TRACKERS_PYTHON', sys.executable)
        read = subprocess.run([python, reader, f'{out}/trackers', job], text=True, capture_output=True)
        print(read.stdout + read.stderr)
        self.assertEqual(read.returncode, 0, read.stdout + read.stderr)
        picture = os.path.join(self.dir, 'curve.svg')
        self.cox('plot', out, '-o', picture)
        self.assertIn(f'>{job}<', open(picture).read())

    def test_a_terminal_shows_events_above_the_bar(self):
        job = self.short_job(**{'eval_steps: 3': "eval_steps: 3, sample_prompts: ['Why?'], sample_tokens: 4"})
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 100, 0, 0))
        env = dict(os.environ, XDG_STATE_HOME=os.path.join(self.dir, 'xdg'), XDG_CONFIG_HOME=self.dir, NO_COLOR='1')
        train = subprocess.Popen([os.path.join(BIN, 'cox'), 'train', job, '--workers', '2'], stdin=theirs, stdout=theirs,
                                 stderr=theirs, env=env)
        os.close(theirs)
        text = b''
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:     # the other end is closed
                break
            if not chunk:
                break
            text += chunk
        os.close(ours)
        text = text.decode().replace('\r\n', '\n')
        self.assertEqual(train.wait(60), 0, text)
        self.assertRegex(text, r'\nstatus page: http://127\.0\.0\.1:\d+/jobs/\S+\n')
        self.assertRegex(text, r'\r\x1b\[KEvalDone: ')
        self.assertRegex(text, r'PromptAnswered: [^\n]*\n    prompt\n      Why\?\n    answer\n      ')
        self.assertNotIn('StepDone', text)


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
