#!/usr/bin/env python3
"""deploy/slurm/workers.sbatch with the real supervisor and workers; srun and scontrol are fakes that run and note."""
import os, signal, stat, subprocess, sys, unittest
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), 'e2e')]
from deployment import DEPLOY, main
from processes import BIN, Cluster, wait_for

SCRIPT = os.path.join(DEPLOY, 'slurm/workers.sbatch')
# srun runs the step here and ends with its code; the file tells whom Slurm would signal.
SRUN = '#!/bin/bash\n[[ $1 == --kill-on-bad-exit=0 ]] && shift\n"$@" & echo $! >"$TMPDIR/step.pid"\nwait $!\n'
SCONTROL = '#!/bin/bash\necho "$@" >>"$TMPDIR/scontrol"\n'


class SlurmTest(Cluster):
    def start_script(self, **env):
        tools = os.path.join(self.dir, 'tools')
        os.makedirs(tools, exist_ok=True)
        for name, text in (('srun', SRUN), ('scontrol', SCONTROL)):
            path = os.path.join(tools, name)
            with open(path, 'w') as f:
                f.write(text)
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        self.log = open(os.path.join(self.dir, 'sbatch.log'), 'w')
        process = subprocess.Popen(
            ['bash', SCRIPT], stdout=self.log, stderr=self.log, start_new_session=True,
            env={**os.environ, 'PATH': f'{tools}:{os.environ["PATH"]}', 'TMPDIR': self.dir, 'SLURM_JOB_ID': '7',
                 'COXSWAIN_PREFIX': os.path.dirname(BIN), 'COXSWAIN_CONTROLLER': self.endpoint['grpc'], **env})
        self.processes.append(process)
        return process

    def text(self, name):
        path = os.path.join(self.dir, name)
        return open(path).read() if os.path.exists(path) else ''

    def test_signal_drains_and_queues_again(self):
        self.start_controller()
        script = self.start_script(COXSWAIN_CPU_WORKERS='2')
        wait_for('two workers', lambda: len(self.cox_json('workers')['workers']) == 2, 60)
        os.kill(int(self.text('step.pid')), signal.SIGTERM)     # as --signal=TERM@150 does, which spares the script
        self.assertEqual(script.wait(60), 0, self.text('sbatch.log'))
        self.assertEqual(self.text('scontrol'), 'requeue 7\n')
        self.assertIn('drained', self.text('coxswain-7/worker-0.log'))

    def test_a_refused_worker_is_not_queued_again(self):
        self.start_controller()
        script = self.start_script(COXSWAIN_CONTROLLER='nowhere')
        self.assertEqual(script.wait(60), 64, self.text('sbatch.log'))
        self.assertEqual(self.text('scontrol'), '')

    def test_directives(self):
        with open(SCRIPT) as f:
            directives = [line.split(' ', 1)[1].strip() for line in f if line.startswith('#SBATCH ')]
        self.assertIn('--requeue', directives)
        self.assertIn('--ntasks-per-node=1', directives)
        notice = next(int(d.split('@')[1]) for d in directives if d.startswith('--signal=TERM@'))
        with open(SCRIPT) as f:
            grace = int(f.read().split('--grace-seconds ')[1].split()[0])
        self.assertGreaterEqual(notice, grace + 10, 'the end comes before the supervisors have stopped')


if __name__ == '__main__':
    main()
