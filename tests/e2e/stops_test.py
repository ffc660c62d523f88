#!/usr/bin/env python3
"""Jobs are stopped in good order by all who may ask for it, and go on bit for bit. Real processes, one machine."""
import os, signal, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import Cluster, wait_for

# No checkpoint is due while they train: what is saved was asked for.
SHORT = {'global_batch_size: 4': 'global_batch_size: 2',
         'max_steps: 40': 'max_steps: 24', 'save_steps: 20': 'save_steps: 100', 'eval_steps: 20': 'eval_steps: 12'}


class StopsTest(Cluster):
    GRACE = '240'

    def setUp(self):
        super().setUp()
        self.controller = self.start_controller('--grace', self.GRACE)
        self.supervisor = self.start_workers(2)

    def start_job(self, name='job.yaml', **replace):
        job = self.submit(self.job_file(name, replace={**SHORT, **replace}))
        wait_for('five steps', lambda: len(self.step_events(job)) >= 5, 120)
        return job

    def restart_controller(self, seconds=300):
        """SIGTERM, and the next one on the same address."""
        self.controller.send_signal(signal.SIGTERM)
        self.assertEqual(self.controller.wait(seconds), 0)
        self.controller = self.start_controller('--grace', self.GRACE, listen=self.endpoint['grpc'])

    def test_a_controller_that_stops_loses_no_step(self):
        expected = self.undisturbed(SHORT)
        job = self.start_job()
        self.restart_controller()
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.step_events(job), expected, 'every step once, with the same bits')
        final = self.cox_json('get', job)
        self.assertEqual((final['epoch'], final.get('restarts', 0)), (2, 0))

    def test_a_controller_killed_in_a_pause_is_followed_by_one_that_pauses(self):
        expected = self.undisturbed(SHORT)
        job = self.start_job()
        self.cox('pause', job)
        self.controller.kill()
        self.controller.wait()
        self.controller = self.start_controller('--grace', self.GRACE, listen=self.endpoint['grpc'])
        self.wait_state(job, 'PAUSED', 90)
        paused = self.cox_json('get', job)
        self.assertEqual(paused['epoch'], 1, self.events(job, 'ReadoptionFailed'))
        saved = self.events(job, 'CheckpointCommitted')
        self.assertEqual([checkpoint['step'] for checkpoint in saved], [len(self.step_events(job))])
        self.cox('resume', job)
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.step_events(job), expected, 'every step once, with the same bits')

    def test_a_second_signal_ends_the_controller_at_once(self):
        self.supervisor.kill()
        self.process_env = {'COXSWAIN_FAULT': 'shard.begin:delay=600000'}  # a drain that takes its time
        slow = self.start_workers(2, '--host-id', 'slow', folder='slow')
        job = self.start_job()
        self.controller.send_signal(signal.SIGTERM)
        wait_for('draining', lambda: self.state(job) == 'DRAINING')
        self.controller.send_signal(signal.SIGINT)
        self.assertEqual(self.controller.wait(60), 130)
        slow.kill()

    def test_a_job_of_higher_priority_goes_first_and_both_end_as_if_alone(self):
        expected = self.undisturbed(SHORT)
        low = self.start_job('low.yaml')
        high = self.submit(self.job_file('high.yaml', replace={**SHORT, 'workers: 2': 'workers: 2, priority: 5'}))
        self.wait_state(high, 'SUCCEEDED', 240)
        self.wait_state(low, 'SUCCEEDED', 240)
        preempted = self.events(low, 'Preempted')
        self.assertEqual([event['by'] for event in preempted], [high])
        self.assertEqual(self.step_events(low), expected)
        self.assertEqual(self.step_events(high), expected)

    def test_a_cancelled_jobs_last_step_starts_another(self):
        expected = self.undisturbed(SHORT)
        job = self.start_job()
        said = self.cox('cancel', job, '--checkpoint', check=0)
        self.assertIn('CANCELLED', said.stdout)
        saved = self.events(job, 'CheckpointCommitted')
        self.assertEqual(len(saved), 1, said.stderr)
        self.assertIn(saved[0]['directory'], said.stderr)
        steps = self.step_events(job)
        self.assertEqual(steps, expected[:saved[0]['step']])
        path = self.job_file('again.yaml', replace=SHORT)
        again = self.submit(path, '--set', f'checkpoint.resume={job}')
        self.wait_state(again, 'SUCCEEDED', 240)
        self.assertEqual(steps + self.step_events(again), expected)

    def test_a_cordoned_host_gets_no_job_over_a_restart(self):
        wait_for('a worker', lambda: self.cox_json('workers')['workers'], 60)
        host = self.cox_json('workers')['workers'][0]['host']
        self.cox('workers', 'cordon', host, '--reason', 'fan')
        job = self.submit(self.job_file(replace=SHORT))
        wait_for('prepared', lambda: self.state(job) == 'READY', 120)
        self.restart_controller()
        wait_for('both workers', lambda: len(self.cox_json('workers')['workers']) == 2, 60)
        self.assertIn('CORDONED', self.cox('workers').stdout)
        self.assertIn('by a user: fan', self.cox('workers').stdout)
        wait_for('the reason', lambda: 'is cordoned (by a user: fan)' in self.cox('explain', job).stdout, 60)
        self.cox('workers', 'uncordon', host)
        self.wait_state(job, 'SUCCEEDED', 240)


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
