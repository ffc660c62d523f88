#!/usr/bin/env python3
"""Processes die; the job does not. Real processes, SIGKILL, one machine."""
import contextlib, fcntl, glob, os, shutil, signal, sqlite3, subprocess, sys, time, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import Cluster, metrics, value, wait_for

SHORT = {'global_batch_size: 4': 'global_batch_size: 2',
         'max_steps: 40': 'max_steps: 12', 'save_steps: 20': 'save_steps: 4', 'eval_steps: 20': 'eval_steps: 6'}
# Evaluates behind its last step alone: what ends a rank before that ends it in training.
TRAINS_ALONE = {'global_batch_size: 4': 'global_batch_size: 2', 'eval_steps: 20': 'eval_steps: 40'}


class RecoveryTest(Cluster):
    def worker_pids(self):
        return [int(w['pid']) for w in self.cox_json('workers')['workers'] if w['state'] != 'LOST']

    def lineage(self, job):
        """The last event of each step: what survived."""
        return [e for _, e in sorted({e[0]: e for e in self.step_events(job)}.items())]

    def test_controller_killed_after_submit(self):
        controller = self.start_controller()
        listen = self.endpoint['grpc']
        self.start_workers(2)
        expected = self.undisturbed(SHORT)
        job = self.submit(self.job_file(replace=SHORT))
        os.kill(controller.pid, signal.SIGKILL)
        controller.wait()
        self.start_controller(listen=listen)
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.lineage(job), expected)

    def test_controller_killed_while_training(self):
        controller = self.start_controller()
        listen = self.endpoint['grpc']
        self.start_workers(2)
        expected = self.undisturbed(SHORT)
        job = self.submit(self.job_file(replace=SHORT))
        wait_for('five steps', lambda: len(self.step_events(job)) >= 5, 120)
        os.kill(controller.pid, signal.SIGKILL)
        controller.wait()
        self.start_controller(listen=listen)
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.step_events(job), expected, 'a step is missing, repeated or has other bits')
        self.assertEqual(self.cox_json('get', job)['epoch'], 1)
        self.assertEqual(len(self.events(job, 'GangReadopted')), 1)
        self.assertEqual(value(metrics(self.endpoint['metrics']), 'coxswain_gangs_readopted_total', job=job), 1)

    def test_controller_killed_again_and_again(self):
        """At steps, in evaluations, during checkpoints: the gang goes on each time, and every step is trained once."""
        controller = self.start_controller()
        listen = self.endpoint['grpc']
        self.start_workers(2)
        expected = self.undisturbed(SHORT)
        job = self.submit(self.job_file(replace=SHORT))
        for steps in (2, 4, 6, 8):
            wait_for(f'{steps} steps', lambda: len(self.step_events(job)) >= steps, 120)
            os.kill(controller.pid, signal.SIGKILL)
            controller.wait()
            controller = self.start_controller(listen=listen)
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.step_events(job), expected)
        self.assertEqual(self.cox_json('get', job)['epoch'], 1)

    def die(self, controller):
        os.kill(controller.pid, signal.SIGKILL)
        controller.wait()

    def state_file(self, name):
        return os.path.join(self.dir, 'state', name)

    def test_store_restored_among_living_workers(self):
        """As deploy/README.md has it: the backup is older than the workers' newest terms and the job's newest steps."""
        controller = self.start_controller()
        listen = self.endpoint['grpc']
        self.start_workers(2)
        expected = self.undisturbed(SHORT)
        job = self.submit(self.job_file(replace=SHORT))
        wait_for('two steps', lambda: len(self.step_events(job)) >= 2, 120)
        pids = self.worker_pids()
        backup = os.path.join(self.dir, 'backup.db')
        with contextlib.closing(sqlite3.connect(self.state_file('coxswain.db'))) as store:
            store.execute(f"VACUUM INTO '{backup}'")
        for steps in (4, 6, 9):  # beyond the second checkpoint, of step 8
            self.die(controller)
            controller = self.start_controller(listen=listen)
            wait_for(f'{steps} steps', lambda: len(self.step_events(job)) >= steps, 120)
        self.die(controller)
        for ending in ('', '-wal', '-shm'):
            if os.path.exists(self.state_file('coxswain.db' + ending)):
                os.remove(self.state_file('coxswain.db' + ending))
        shutil.copy(backup, self.state_file('coxswain.db'))
        self.start_controller(listen=listen)
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.lineage(job), expected)
        self.assertEqual(self.events(job, 'AttemptFailed'), [])
        self.assertEqual(self.worker_pids(), pids)

    def test_controller_and_worker_killed_while_training(self):
        """A gang of which a rank is gone does not go on: its job does, from the last checkpoint."""
        controller = self.start_controller()
        listen = self.endpoint['grpc']
        self.start_workers(2)
        expected = self.undisturbed(SHORT)
        job = self.submit(self.job_file(replace=SHORT))
        wait_for('five steps', lambda: len(self.step_events(job)) >= 5, 120)
        victim = self.worker_pids()[1]
        os.kill(controller.pid, signal.SIGKILL)
        controller.wait()
        os.kill(victim, signal.SIGKILL)
        self.start_controller(listen=listen)
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.lineage(job), expected, 'replay is not bit for bit')
        self.assertEqual(self.cox_json('get', job)['epoch'], 2)
        self.assertRegex(self.events(job, 'ReadoptionFailed')[0]['reason'], r'^rank [01] \(')

    def test_worker_killed_while_training(self):
        self.start_controller()
        self.start_workers(2)
        saves = {**TRAINS_ALONE, 'max_steps: 40': 'max_steps: 80', 'save_steps: 20': 'save_steps: 4',
                 'eval_steps: 20': 'eval_steps: 80'}
        expected = self.undisturbed(saves)
        job = self.submit(self.job_file(replace=saves))
        wait_for('five steps', lambda: len(self.step_events(job)) >= 5, 120)
        self.wait_heartbeats()
        os.kill(self.worker_pids()[1], signal.SIGKILL)
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.lineage(job), expected, 'replay is not bit for bit')
        final = self.cox_json('get', job)
        self.assertEqual(final['restarts'], 1)
        self.assert_named(job, r'^rank 1 \(\S+\), (train: .*collectives: .*#\d+|save_shard: )')

    def wait_heartbeats(self):
        """One of every worker from now on: the controller knows collectives by them."""
        now = time.monotonic()
        def all_came():
            asked = time.monotonic()
            return all(asked - w.get('heartbeat_age_seconds', 0) > now for w in self.cox_json('workers')['workers'])
        wait_for('a heartbeat of every worker', all_came)

    def assert_named(self, job, pattern):
        """The failed attempt names rank 1, its host, the phase, and the collective that the other one was in."""
        failed = [e for e in self.cox_json('events', job)['events'] if e['type'] == 'AttemptFailed']
        self.assertEqual(len(failed), 1, failed)
        print(failed[0]['message'])
        self.assertRegex(failed[0]['message'], pattern)

    def test_worker_stopped_while_training(self):
        """A process that hangs: its heartbeat ends, the other rank waits in a collective; its supervisor ends it."""
        self.start_controller('--silence-seconds', '4')
        self.start_workers(2)
        job = self.submit(self.job_file(replace={**TRAINS_ALONE, 'save_steps: 20': 'save_steps: 40'}))
        wait_for('five steps', lambda: len(self.step_events(job)) >= 5, 120)
        victim = self.worker_pids()[1]
        os.kill(victim, signal.SIGSTOP)
        wait_for('its name', lambda: self.events(job, 'AttemptFailed'))
        wait_for('another in its place', lambda: len(self.worker_pids()) == 2 and victim not in self.worker_pids())
        with self.assertRaises(ProcessLookupError):
            os.kill(victim, 0)
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assert_named(job, r'^rank 1 \(\S+\), train: worker lost: no heartbeat for \d+ ms, limit 4000 ms; '
                          r'collectives: rank 0 in #\d+ \((all_reduce|all_gather|reduce_scatter) of ')

    def test_worker_that_comes_back_on_another_host(self):
        """Hosts played on one machine. CPU ranks add up alike wherever they are: the replay is compared, and equal."""
        self.start_controller()
        self.start_workers(1, '--host-id', 'one', folder='one')
        away = self.start_workers(1, '--host-id', 'two', folder='two')
        expected = self.undisturbed(SHORT)
        for pid in self.worker_pids():  # they started again with pinned threads
            with open(f'/proc/{pid}/comm') as name:
                self.assertEqual(name.read().strip(), 'coxswain-worker-cpu'[:15])
        job = self.submit(self.job_file(replace=SHORT))
        wait_for('five steps', lambda: len(self.step_events(job)) >= 5, 120)
        away.kill()
        self.start_workers(1, '--host-id', 'one', '--first-slot', '1', folder='one-more')
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.lineage(job), expected, 'replay is not bit for bit')
        gangs = self.events(job, 'GangFormed')
        self.assertEqual([gang['workers'] for gang in gangs], [['one/0', 'two/0'], ['one/0', 'one/1']])
        for gang in gangs:
            self.assertTrue(gang['fingerprint'].endswith(' transport=gloo'), gang)
            # OpenBLAS takes what is for SSE3 on CPUs that it does not know.
            self.assertNotRegex(gang['fingerprint'], 'vector=avx.*/(Prescott|Barcelona) ')
        told = [e['message'] for e in self.cox_json('events', job)['events'] if e['type'] == 'Warning']
        self.assertFalse([text for text in told if 'bit by bit' in text], told)

    def test_controller_stopped_while_training(self):
        """Nobody is heard while the controller itself stands still: that is not the workers' silence."""
        controller = self.start_controller('--silence-seconds', '5')
        self.start_workers(2)
        expected = self.undisturbed(SHORT)
        job = self.submit(self.job_file(replace={**SHORT, 'max_steps: 40': 'max_steps: 400'}))
        wait_for('five steps', lambda: len(self.step_events(job)) >= 5, 120)
        os.kill(controller.pid, signal.SIGSTOP)
        time.sleep(8)  # what is tested: longer than a lease
        os.kill(controller.pid, signal.SIGCONT)
        before = len(self.step_events(job))
        wait_for('more steps', lambda: len(self.step_events(job)) >= before + 20, 120)
        final = self.cox_json('get', job)
        self.assertEqual((final['epoch'], final.get('restarts', 0)), (1, 0), self.events(job, 'AttemptFailed'))
        self.assertEqual(self.lineage(job)[0], expected[0])
        self.assertGreater(value(metrics(self.endpoint['metrics']), 'coxswain_loop_stall_seconds_sum'), 6)
        self.cox('cancel', job)
        self.wait_state(job, 'CANCELLED', 60)

    def test_preparations_that_wait_hold_up_no_commit(self):
        """Preparations that stand still (here: for a lock) do not keep a job from its checkpoints."""
        self.start_controller()
        self.start_workers(2)
        job = self.submit(self.job_file(replace=SHORT))
        wait_for('prepared', lambda: self.state(job) == 'RUNNING', 120)
        locks = glob.glob(os.path.join(self.dir, 'state/token-cache/*.lock'))
        self.assertEqual(len(locks), 1, locks)
        with open(locks[0], 'r+') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            waiting = [self.submit(self.job_file(f'waits-{i}.yaml')) for i in range(6)]
            self.wait_state(job, 'SUCCEEDED', 240)
            self.assertEqual([self.state(w) for w in waiting], ['PREPARING'] * 6)
            for w in waiting:
                self.cox('cancel', w)
                self.wait_state(w, 'CANCELLED', 30)
            other = self.submit(self.job_file('other.yaml', replace={**SHORT, 'sequence_len: 512': 'sequence_len: 256'}))
            self.wait_state(other, 'SUCCEEDED', 240)  # the cancelled ones have left the lane

    def test_pause_step_resume_and_cancel(self):
        self.start_controller()
        self.start_workers(2)
        expected = self.undisturbed(SHORT)
        job = self.submit(self.job_file(replace=SHORT))
        wait_for('two steps', lambda: len(self.step_events(job)) >= 2, 120)
        self.cox('pause', job)
        self.wait_state(job, 'PAUSED', 60)
        before = len(self.lineage(job))
        text = self.cox('step', job, '-n', '3').stdout
        print(text)
        self.assertEqual(self.state(job), 'PAUSED')
        self.assertEqual(len(self.lineage(job)), before + 3)
        for rank in ('0', '1'):
            self.assertIn(rank, text)
        self.cox('resume', job)
        self.wait_state(job, 'SUCCEEDED', 240)
        self.assertEqual(self.lineage(job), expected)
        other = self.submit(self.job_file('other.yaml', replace={'max_steps: 40': 'max_steps: 400'}))
        wait_for('a step', lambda: self.step_events(other), 120)
        self.cox('cancel', other)
        self.wait_state(other, 'CANCELLED', 60)
        self.cox('submit', self.job_file('waits.yaml', replace={'workers: 2': 'workers: 3'}), '-o', 'name')
        wait_for('explanation', lambda: '3' in self.cox('explain', 'quickstart').stdout, 60)
        print(self.cox('explain', 'quickstart').stdout)


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
