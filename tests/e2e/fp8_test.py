#!/usr/bin/env python3
"""Products and files in FP8 as a user has them: the quickstart's job on CPU workers, and what is refused."""
import json, os, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import QUICKSTART, Cluster

RECIPES = ['tensorwise', 'rowwise', 'blockwise', 'delayed']
# Of the loss that falls in 12 steps. An operand in E4M3 is off by 2^-4 at most, a product by 2^-3, which is noise over
# the terms of a sum; the papers' page has the held-back losses of whole runs.
SHARE = 0.05


class Fp8Test(Cluster):
    def job(self, name, precision, source='job-full.yaml'):
        return self.job_file(f'{name}.yaml', source, held_out=40, replace={
            'max_steps: 40': 'max_steps: 12', 'eval_steps: 20': 'eval_steps: 12', 'save_steps: 20': 'save_steps: 6',
            'spec:\n': f'spec:\n  precision: {precision}\n'})

    def losses(self, name, precision, **kwargs):
        """Held-back loss before and after."""
        job = self.submit(self.job(name, precision, **kwargs))
        self.wait_state(job, 'SUCCEEDED', 240)
        progress = self.cox_json('get', job)['progress']
        return progress['first_eval_loss'], progress['eval_loss']

    def test_every_recipe_learns_as_float32_does(self):
        self.start_controller()
        self.start_workers(2)
        for source in ('job-full.yaml', 'job-lora.yaml'):
            before, after = self.losses('float32', '{compute: float32}', source=source)
            for recipe in RECIPES:
                first, last = self.losses(recipe, f'{{compute: fp8, fp8: {{recipe: {recipe}}}}}', source=source)
                print(f'{source} {recipe}: {first:.4f} -> {last:.4f}, float32 {before:.4f} -> {after:.4f}')
                self.assertNotEqual(last, after, recipe)
                self.assertAlmostEqual(last, after, delta=SHARE * (before - after), msg=recipe)

    def test_attention_learns_as_float32_does(self):
        self.start_controller()
        self.start_workers(2)
        before, after = self.losses('float32', '{compute: float32}')
        alone, _ = self.losses('linears', '{compute: fp8}')
        first, last = self.losses('attention', '{compute: fp8, fp8: {attention: fp8}}')
        print(f'attention: {first:.4f} -> {last:.4f}, float32 {before:.4f} -> {after:.4f}')
        self.assertNotEqual(first, alone)
        self.assertAlmostEqual(last, after, delta=SHARE * (before - after))

    def test_the_plan_says_what_is_in_fp8(self):
        page = self.cox('plan', self.job('plan', '{compute: fp8, fp8: {exclude: [down_proj]}}')).stdout
        self.assertIn('12 of 16 linears in FP8, tensorwise, gradients E5M2', page)
        self.assertIn("held-back loss within 0.2 % of bfloat16's", page)
        delayed = self.cox('plan', self.job('delayed', '{compute: fp8, fp8: {recipe: delayed}}')).stdout
        self.assertIn('16 of 16 linears in FP8, delayed, gradients E5M2', delayed)
        self.assertIn("held-back loss within 0.1 % of bfloat16's", delayed)
        attention = self.cox('plan', self.job('attention', '{compute: fp8, fp8: {attention: fp8}}')).stdout
        self.assertIn('forward in FP8, heads 64 wide', attention)
        layout = json.loads(self.cox('plan', self.job('json', '{compute: fp8}'), '-o', 'json').stdout)['layout']
        self.assertEqual(layout['fp8']['linears'], 16)

    def test_a_model_that_learned_in_fp8_is_exported_in_it_and_is_a_base_again(self):
        self.start_controller()
        self.start_workers(2)
        spec = '{compute: fp8}\n  export: {dtype: fp8}'
        job = self.submit(self.job('export', spec))
        self.wait_state(job, 'SUCCEEDED', 240)
        folder = self.cox_json('get', job)['artifact_dir']
        with open(os.path.join(folder, 'config.json')) as file:
            self.assertEqual(json.load(file)['quantization_config']['quant_method'], 'fp8')
        with open(os.path.join(folder, 'coxswain_manifest.json')) as file:
            self.assertEqual(json.load(file)['verification'], {'outcome': 'skipped', 'reason': 'weights in FP8 are rounded'})
        again = self.submit(self.job_file('again.yaml', 'job-full.yaml', held_out=40, replace={
            os.path.join(QUICKSTART, 'model'): folder, 'max_steps: 40': 'max_steps: 1',
            'eval_steps: 20': 'eval_steps: 1', 'save_steps: 20': 'save_steps: 1'}))
        self.wait_state(again, 'SUCCEEDED', 240)
        learned = self.cox_json('get', job)['progress']
        rounded = self.cox_json('get', again)['progress']['first_eval_loss']
        self.assertAlmostEqual(rounded, learned['eval_loss'],
                               delta=SHARE * (learned['first_eval_loss'] - learned['eval_loss']))

    def test_what_cannot_be_is_refused_by_name(self):
        cases = [('{compute: fp8, fp8: {exclude: [down]}}', '"down" means no linear of a block'),
                 ('{compute: float32, fp8: {recipe: rowwise}}', 'goes with precision.compute: fp8')]
        for i, (precision, message) in enumerate(cases):
            result = self.cox('plan', self.job(f'wrong{i}', precision), check=None)
            self.assertNotEqual(result.returncode, 0, precision)
            self.assertIn(message, result.stderr + result.stdout)


if __name__ == '__main__':
    unittest.main()
