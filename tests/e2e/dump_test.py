#!/usr/bin/env python3
"""cox dump and cox explain, over real processes of which one stands still."""
import json, os, re, signal, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import Cluster, wait_for

CHANGES = {'global_batch_size: 4': 'global_batch_size: 2',
           'max_steps: 40': 'max_steps: 60', 'save_steps: 20': 'save_steps: 5', 'eval_steps: 20': 'eval_steps: 30'}


class DumpTest(Cluster):
    def setUp(self):
        super().setUp()
        self.start_controller('--silence-seconds', '8')  # a rank that is stopped is dumped before it is lost
        self.start_workers(2)

    def lineage(self, job):
        """The last event of each step: what survived."""
        return [e for _, e in sorted({e[0]: e for e in self.step_events(job)}.items())]

    def running(self, name='job.yaml'):
        """A job that has trained, and the pids of its ranks."""
        job = self.submit(self.job_file(name, replace=CHANGES))
        wait_for('seven steps', lambda: len(self.step_events(job)) >= 7, 300)
        workers = [w for w in self.cox_json('workers')['workers'] if w['state'] != 'LOST']
        return job, {int(w.get('rank', 0)): int(w['pid']) for w in workers}

    def test_a_rank_that_is_stopped_is_named(self):
        expected = self.undisturbed(CHANGES)
        job, pids = self.running()
        os.kill(pids[1], signal.SIGSTOP)
        text = self.cox('dump', job).stdout
        print(text)
        self.assertRegex(text, rf'(?m)^1 .*{pids[1]} T \(stopped\)')
        self.assertIn('rank 1 gave no dump: ', text)
        self.assertIn('the process of rank 1 is stopped', text)
        self.assertRegex(text, r'(rank 1 stands|ranks 0, 1 stand) at\n')
        explained = self.cox('explain', job).stdout
        print(explained)
        self.assertIn('Odd: rank 1. ', explained)
        self.assertIn(f'send SIGCONT to process {pids[1]} on ', explained)
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.lineage(job), expected, 'replay is not bit for bit')
        kept = self.events(job, 'IncidentKept')
        self.assertEqual(sorted(e['reason'] for e in kept), ['asked', 'failure'], kept)
        for incident in kept:
            self.assertEqual(incident['odd_ranks'], [1], incident)
            with open(incident['path']) as file:
                self.assertEqual(len(json.load(file)['ranks']), 2)
        failure = self.cox_json('dump', job)['last_failure']
        stopped = next(rank for rank in failure['ranks'] if rank['rank'] == 1)
        if 'stacks_error' in stopped:  # a busy machine: a recovery waits 2 s for them
            self.assertIn('Deadline Exceeded', stopped['stacks_error'])
        else:
            self.assertEqual(stopped['process']['state'], 'T (stopped)')
            self.assertIn('stacks of process', stopped['stacks'])

    def test_stop_dumps_and_goes_on_from_the_checkpoint(self):
        expected = self.undisturbed(CHANGES)
        job, pids = self.running()
        path = os.path.join(self.dir, 'dump.json')
        ran = self.cox('dump', job, '--stop', '-o', path)
        self.assertEqual(ran.stdout.strip(), path)
        with open(path) as file:
            dump = json.load(file)
        for rank in dump['ranks']:
            self.assertGreater(len(rank['dump']['commands']), 5)
            self.assertGreater(rank['dump']['commands'][-1]['begun_unix_ms'], 0)
            self.assertTrue(rank['dump']['collectives']['communicators'], rank['dump'])
            self.assertGreater(rank['dump']['memory']['weights'], 0)
            self.assertGreater(rank['dump']['device']['resident_bytes'], 0)
            self.assertEqual(rank['process']['pid'], pids[rank['rank']])
            self.assertEqual(rank['controller']['phase'], 'RUNNING')
            self.assertTrue(re.search(r'(?i)thread ', rank['stacks']), rank['stacks'])
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.lineage(job), expected, 'replay is not bit for bit')
        final = self.cox_json('get', job)
        self.assertEqual((final['epoch'], final.get('restarts', 0)), (2, 0))
        refused = self.cox('dump', job, '--stop', check=None)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn('no gang that could be stopped', refused.stderr)

    def test_pause_and_cancel_while_ranks_are_dumped(self):
        for verb, state in (('pause', 'PAUSED'), ('cancel', 'CANCELLED')):
            job, pids = self.running(f'{verb}.yaml')
            os.kill(pids[1], signal.SIGSTOP)
            wait_for('the dump', lambda: any(e['stage'] == 'dump' for e in self.events(job, 'RecoveryStage')))
            self.cox(verb, job)
            self.wait_state(job, state)
            wait_for('another in its place', lambda: len(
                [w for w in self.cox_json('workers')['workers'] if w['state'] == 'READY']) == 2, 60)


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
