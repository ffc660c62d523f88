#!/usr/bin/env python3
"""A base of pytorch_model.bin: the same bits as of the same base in safetensors, and nothing of it is run."""
import os, pickle, shutil, subprocess, sys, unittest, zipfile
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import QUICKSTART, ROOT, Cluster

MODEL = os.path.join(QUICKSTART, 'model')
SHORT = {'max_steps: 40': 'max_steps: 4', 'save_steps: 20': 'save_steps: 4', 'eval_steps: 20': 'eval_steps: 4'}


class Runs:
    """Pickled, it is a call of os.mkdir."""
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


class TorchFilesTest(Cluster):
    def job(self, name, model):
        changes = {**SHORT, MODEL: model, 'quickstart-full': name}
        return self.job_file(f'{name}.yaml', source='job-full.yaml', replace=changes)

    def converted(self, shards):
        folder = os.path.join(self.dir, f'model-{shards}')
        tool = os.path.join(ROOT, 'tests/fixtures/torch_files/torch_file.py')
        subprocess.run([sys.executable, tool, MODEL, folder, '--shards', str(shards)], check=True)
        return folder

    def test_trains_with_the_bits_of_safetensors(self):
        self.start_controller()
        self.start_workers(2)
        whole, sharded = self.converted(1), self.converted(3)
        runs = {}
        for name, model in (('safetensors', MODEL), ('whole', whole), ('sharded', sharded)):
            job = self.submit(self.job(name, model))
            self.wait_state(job, 'SUCCEEDED', 240)
            runs[name] = self.step_events(job)
        self.assertEqual(len(runs['safetensors']), 4)
        self.assertEqual(runs['whole'], runs['safetensors'])
        self.assertEqual(runs['sharded'], runs['safetensors'])

    def test_the_plan_says_which_it_took(self):
        both = self.converted(1)
        self.assertIn('pytorch_model.bin', self.cox('plan', self.job('bin', both)).stdout)
        self.assertEqual(self.cox_json('plan', self.job('bin', both))['model']['weights'], 'pytorch_model.bin')
        shutil.copy(os.path.join(MODEL, 'model.safetensors'), both)
        self.assertEqual(self.cox_json('plan', self.job('both', both))['model']['weights'], 'model.safetensors')

    def test_what_is_no_tensor_is_refused_and_never_run(self):
        folder, made = os.path.join(self.dir, 'hostile'), os.path.join(self.dir, 'made')
        shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns('*.safetensors'))
        path = os.path.join(folder, 'pytorch_model.bin')
        with zipfile.ZipFile(path, 'w') as archive:
            archive.writestr('a/data.pkl', pickle.dumps({'w': Runs(made)}, 2))
        text = self.cox('plan', self.job('hostile', folder), check=2).stderr
        self.assertIn(f'{path} is not read: data.pkl, byte', text)
        self.assertIn('posix.mkdir', text)
        self.assertFalse(os.path.exists(made))


if __name__ == '__main__':
    unittest.main()
