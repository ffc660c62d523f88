#!/usr/bin/env python3
"""Jobs that name model and data on the Hub, against a Hub on loopback: trained, offline, refused, killed in mid-download."""
import json, os, shutil, signal, subprocess, sys, unittest, urllib.request
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import BIN, QUICKSTART, Cluster, data_of, wait_for

TOKEN = 'hf_TheSecretOfThisTest'
CARD = '---\nconfigs:\n- config_name: main\n  data_files: [{split: train, path: main/train.jsonl}, {split: test, path: main/test.jsonl}]\n---\n'
JOB = '''apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {{name: {name}}}
spec:
  base_model: {model}
  adapter: lora
  lora: {{r: 8, alpha: 16, loraplus_lr_ratio: 1}}
  datasets: [{{path: {data}, format: alpaca, prompt_style: alpaca{more}}}]
  sequence_len: 512
  train: {{global_batch_size: 2, max_steps: 2, learning_rate: 1.0e-3}}
  checkpoint: {{output_dir: {out}, save_steps: 2, resume: never}}
  resources: {{device: cpu, workers: 1}}
'''


class HubJobTest(Cluster):
    def setUp(self):
        super().setUp()
        hub = os.path.join(self.dir, 'hub')
        shutil.copytree(os.path.join(QUICKSTART, 'model'), os.path.join(hub, 'models/org/tiny/@main'))
        data = os.path.join(hub, 'datasets/org/gsm/@main')
        os.makedirs(os.path.join(data, 'main'))
        shutil.copy(os.path.join(QUICKSTART, 'train.jsonl'), os.path.join(data, 'main/train.jsonl'))
        shutil.copy(os.path.join(QUICKSTART, 'held_out.jsonl'), os.path.join(data, 'main/test.jsonl'))
        with open(os.path.join(data, 'README.md'), 'w') as f:
            f.write(CARD)
        self.hub = subprocess.Popen([os.path.join(BIN, 'coxswain-test-hub'), hub], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop_hub)
        self.hub_url = self.hub.stdout.readline().strip()
        self.process_env = {'HF_ENDPOINT': self.hub_url, 'HF_HOME': os.path.join(self.dir, 'hf')}
        for name in [name for name in os.environ if name.startswith(('HF_', 'HUGGING'))]:
            del os.environ[name]

    def stop_hub(self):
        self.hub.stdin.close()
        self.hub.wait(timeout=20)
        self.hub.stdout.close()

    def tell(self, what='counters'):
        with urllib.request.urlopen(f'{self.hub_url}/-/{what}', timeout=20) as answer:
            return json.load(answer)

    def job(self, name, model='org/tiny', data='org/gsm', more=''):
        path = os.path.join(self.dir, f'{name}.yaml')
        with open(path, 'w') as f:
            f.write(JOB.format(name=name, model=model, data=data, more=more, out=os.path.join(self.dir, 'out-' + name)))
        return path

    def train(self, path, check=0, **env):
        return self.cox('train', path, check=check, timeout=240,
                        env={**self.process_env, 'XDG_CACHE_HOME': os.path.join(self.dir, 'cache'), **env})

    def losses(self, name):
        events = self.cox_json('events', os.path.join(self.dir, 'out-' + name))['events']
        return [data_of(event)['loss'] for event in events if event['type'] == 'StepDone']

    def test_names_train_as_paths_do_and_again_without_a_network(self):
        named = self.job('named')
        ended = self.train(named)
        self.assertIn('SourceResolved: model org/tiny at main: commit ', ended.stderr)
        self.assertIn('SourceFetched: dataset org/gsm: 2 files', ended.stderr)
        commit = ended.stderr.split('model org/tiny at main: commit ')[1][:40]
        with open(os.path.join(self.dir, 'out-named/adapter/adapter_config.json')) as f:
            adapter = json.load(f)
        self.assertEqual((adapter['base_model_name_or_path'], adapter['revision']), ('org/tiny', commit))
        paths = self.job('paths', os.path.join(QUICKSTART, 'model'), os.path.join(QUICKSTART, 'train.jsonl'))
        self.train(paths)
        env = {**self.process_env, 'XDG_CACHE_HOME': os.path.join(self.dir, 'cache')}
        plan = self.cox('plan', named, '--set', 'checkpoint.output_dir=' + os.path.join(self.dir, 'planned'), env=env).stdout
        self.assertIn(f'org/tiny at {commit}', plan)
        self.assertIn('source       org/gsm at ', plan)
        source = self.cox_json('plan', named, '--set', 'checkpoint.output_dir=' + os.path.join(self.dir, 'planned'),
                               env=env)['data']['sources'][0]
        self.assertEqual((source['hub'], len(source['revision'])), ('org/gsm', 40))
        asked = self.tell()['api']
        self.train(self.job('offline'), HF_HUB_OFFLINE='1')
        self.assertEqual(self.tell()['api'], asked)
        self.assertEqual(len(self.losses('named')), 2)
        self.assertEqual(self.losses('named'), self.losses('paths'))
        self.assertEqual(self.losses('named'), self.losses('offline'))

    def test_what_the_hub_refuses_is_refused_at_submission_by_the_key(self):
        def refused(path, *texts, **env):
            stderr = self.train(path, check=None, **env).stderr
            for text in texts:
                self.assertIn(text, stderr)
            self.assertNotIn(TOKEN, stderr)
        refused(self.job('nomodel', model='org/none'), 'spec.base_model: ', 'org/none')
        refused(self.job('norevision', model='{hub: org/tiny, revision: v9}'), 'spec.base_model: ', 'v9')
        refused(self.job('nosplit', more=', split: dev'), 'spec.datasets[0]: ', '"dev"', 'train, test')
        refused(self.job('noconfig', more=', name: french'), 'spec.datasets[0]: ', 'french', 'main')
        self.tell('set?gated=1')
        refused(self.job('gated'), 'spec.base_model: ', 'conditions', HF_HOME=os.path.join(self.dir, 'empty'))
        self.tell('set?gated=0&token=hf_other')
        refused(self.job('wrong'), 'spec.base_model: ', 'HF_TOKEN', HF_TOKEN=TOKEN)

    def test_two_controllers_of_one_cache_download_once_and_tell_no_token(self):
        self.tell(f'set?token={TOKEN}')
        env = dict(os.environ, **self.process_env, HF_TOKEN=TOKEN, NO_COLOR='1', XDG_STATE_HOME=os.path.join(self.dir, 'xdg'),
                   XDG_CONFIG_HOME=os.path.join(self.dir, 'config'), XDG_CACHE_HOME=os.path.join(self.dir, 'cache'))
        runs = [subprocess.Popen([os.path.join(BIN, 'cox'), 'train', self.job(name)], env=env, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for name in ('one', 'two')]
        told = ''.join(run.communicate(timeout=240)[0] for run in runs)
        self.assertEqual([run.returncode for run in runs], [0, 0], told)
        self.assertEqual(self.losses('one'), self.losses('two'))
        model = sum(os.path.getsize(os.path.join(QUICKSTART, 'model', name)) for name in os.listdir(os.path.join(QUICKSTART, 'model')))
        self.assertLess(self.tell()['body_bytes'], 1.5 * model)
        told += self.cox('describe', os.path.join(self.dir, 'out-one'), '-o', 'json').stdout
        self.assertNotIn(TOKEN, told)
        for folder, _, names in os.walk(self.dir):
            for name in names:
                with open(os.path.join(folder, name), 'rb') as f:
                    self.assertNotIn(TOKEN.encode(), f.read(), os.path.join(folder, name))

    def test_a_job_goes_on_with_the_commits_of_its_checkpoint(self):
        path = self.job('moved')
        self.train(path)
        with open(os.path.join(self.dir, 'hub/datasets/org/gsm/@main/main/train.jsonl'), 'a') as f:
            f.write('{"instruction": "one more", "output": "record"}\n')
        self.tell('load')
        more = ('--set', 'checkpoint.resume=auto', '--set', 'checkpoint.extend=true', '--set', 'train.max_steps=3')
        ended = self.cox('train', path, *more, timeout=240,
                         env={**self.process_env, 'XDG_CACHE_HOME': os.path.join(self.dir, 'cache')})
        self.assertIn('Resuming: ', ended.stderr)
        self.assertIn('3/3', ended.stdout)

    def test_a_slice_of_a_split_and_a_pinned_revision(self):
        self.start_controller()
        self.start_workers(1)
        job = self.submit(self.job('slice', more=', name: main, split: "train[:10]"'))
        self.wait_state(job, 'SUCCEEDED', 120)
        shown = self.cox_json('get', job)
        self.assertEqual(int(shown['data']['records_read']), 10)
        self.assertTrue(shown['status_page'].endswith('/jobs/' + job))
        spec = shown['effective']['spec']
        self.assertEqual(spec['base_model']['hub'], 'org/tiny')
        self.assertEqual(len(spec['base_model']['revision']), 40)
        self.assertTrue(spec['base_model']['path'].endswith('/snapshots/' + spec['base_model']['revision']))

    def test_a_controller_that_is_killed_in_mid_download_goes_on(self):
        self.tell('set?hold_after=3000000')
        controller = self.start_controller()
        self.start_workers(1)
        job = self.submit(self.job('killed'))
        wait_for('bytes of the model', lambda: self.tell()['body_bytes'] >= 3000000)
        wait_for('the download is told', lambda: 'downloads model org/tiny' in self.cox('explain', job).stdout)
        before = self.tell()['body_bytes']
        controller.send_signal(signal.SIGKILL)
        controller.wait(timeout=20)
        self.tell('set?hold_after=-1')
        self.start_controller(listen=self.endpoint['grpc'])
        self.wait_state(job, 'SUCCEEDED', 180)
        size = os.path.getsize(os.path.join(QUICKSTART, 'model/model.safetensors'))
        self.assertLess(self.tell()['body_bytes'] - before, size, 'what was there was not fetched again')


if __name__ == '__main__':
    unittest.main()
