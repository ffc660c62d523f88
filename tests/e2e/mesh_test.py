#!/usr/bin/env python3
"""One job over several meshes of CPU workers: the same numbers, checkpoints for each other, the same artifact."""
import glob, json, os, struct, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import Cluster, wait_for

SHORT = {'max_steps: 40': 'max_steps: 6', 'save_steps: 20': 'save_steps: 3', 'eval_steps: 20': 'eval_steps: 3'}
RESOURCES = 'resources: {device: cpu, workers: 2}'


def model_of(directory):
    """Header and words of an exported model in one file of bfloat16."""
    with open(os.path.join(directory, 'model.safetensors'), 'rb') as file:
        header = file.read(struct.unpack('<Q', file.read(8))[0])
        values = file.read()
    return header, struct.unpack(f'<{len(values) // 2}H', values)


class MeshTest(Cluster):
    def mesh(self, name, workers, parallelism='', resume='never'):
        changes = {**SHORT, RESOURCES: f'resources: {{device: cpu, workers: {workers}}}',
                   'resume: never': f'resume: {resume}', 'quickstart-full': name}
        if parallelism:
            changes[RESOURCES] += f'\n  parallelism: {{{parallelism}}}'
        return self.job_file(f'{name}.yaml', source='job-full.yaml', replace=changes)

    def run_to_end(self, path):
        job = self.submit(path)
        self.wait_state(job, 'SUCCEEDED', 240)
        return job

    def assert_same_run(self, job, expected):
        """Loss within 2e-6 and gradient norm within 2e-5, relative."""
        steps = self.step_events(job)
        self.assertEqual([s[0] for s in steps], [s[0] for s in expected])
        for (step, loss, norm), (_, one_loss, one_norm) in zip(steps, expected):
            self.assertAlmostEqual(loss / one_loss, 1, delta=2e-6, msg=f'{job}: loss of step {step}')
            self.assertAlmostEqual(norm / one_norm, 1, delta=2e-5, msg=f'{job}: norm of step {step}')

    def assert_same_model(self, job, other):
        """The same tensors at the same places; all but a few words are rounded alike."""
        (header, words), (wanted_header, wanted) = (
            model_of(self.cox_json('get', name)['artifact_dir']) for name in (job, other))
        self.assertEqual(json.loads(header), json.loads(wanted_header))
        different = sum(a != b for a, b in zip(words, wanted))
        print(f'{job}: {different} of {len(words)} words differ from those of {other}')
        self.assertLess(different, len(words) / 100)

    def test_meshes_equal_one_rank(self):
        self.start_controller()
        self.start_workers(4)
        wait_for('four workers', lambda: len(self.cox_json('workers')['workers']) == 4)
        one = self.run_to_end(self.mesh('one', 1))
        expected = self.step_events(one)

        hybrid = self.run_to_end(self.mesh('hybrid', 4, 'replicate: 2, shard: 2, zero: 3'))
        self.assert_same_run(hybrid, expected)
        self.assert_same_model(hybrid, one)

        # Another mesh goes on from the checkpoint that four ranks wrote.
        saved = glob.glob(os.path.join(self.dir, 'out-hybrid.yaml', '**', 'rank-3.safetensors'), recursive=True)
        self.assertTrue(saved, 'four ranks write four files')
        other = self.run_to_end(self.mesh('other', 2, 'shard: 2, zero: 2', resume=f'{hybrid}:3'))
        self.assert_same_run(other, expected[3:])
        self.assert_same_model(other, one)

        # What was measured when a gang first formed is in the plans of those like it.
        again = self.run_to_end(self.mesh('again', 2, 'shard: 2, zero: 1, overlap: false', resume=f'{hybrid}:3'))
        self.assert_same_run(again, expected[3:])
        first, second = (self.events(job, 'GangFormed')[0] for job in (other, again))
        print(second['links'], second['predicted'])
        self.assertTrue(first['links'] and all(link['bytes_per_second'] > 0 for link in first['links']))
        self.assertEqual([e['predicted']['links_measured'] for e in (first, second)], [False, True])
        self.assertGreater(second['predicted']['exposed_seconds'], 0)
        self.assertAlmostEqual(second['predicted']['exposed_seconds'] / second['predicted']['comm_seconds'], 1)
        self.assertAlmostEqual(first['predicted']['exposed_seconds'] / first['predicted']['comm_seconds'], 1)  # on CPUs

    def test_plan_names_mesh_and_memory(self):
        """The planner's own choice, and what stages save of a rank."""
        self.start_controller()
        stages = ['zero: 0', 'zero: 1', 'zero: 2', 'zero: 3, resident_blocks: 2']
        plans = {zero: self.cox_json('plan', self.mesh(f'zero{zero}', 4, stages[zero])) for zero in range(4)}
        chosen = self.cox_json('plan', self.mesh('auto', 4))
        self.assertEqual([chosen['layout'][k] for k in ('replicate', 'shard', 'zero')], [1, 4, 1])
        total = [plans[zero]['memory_bytes_per_rank']['total'] for zero in range(4)]
        print(total)
        self.assertEqual(total, sorted(total, reverse=True))
        self.assertEqual(len(set(total)), 4)
        for plan in plans.values():
            self.assertGreater(plan['predicted']['comm_seconds_per_step'], 0)
        # What is free keeps every gathered block: more memory, fewer gathers.
        resident = self.cox_json('plan', self.mesh('resident', 4, 'zero: 3'))
        self.assertGreater(resident['memory_bytes_per_rank']['total'], total[3])
        self.assertLess(resident['predicted']['comm_seconds_per_step'], plans[3]['predicted']['comm_seconds_per_step'])
        text = self.cox('plan', self.mesh('page', 2)).stdout
        self.assertRegex(text, r'Mesh +replicate 1 x shard 2, ZeRO 1')
        refused = self.cox('submit', self.mesh('bad', 2, 'replicate: 2, shard: 2'), check=None)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn('replicate 2 x shard 2 is 4, resources.workers is 2', refused.stderr + refused.stdout)


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
