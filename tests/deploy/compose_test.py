#!/usr/bin/env python3
"""deploy/compose.yaml with a real engine: its three commands, a job to its end, data in Prometheus and Grafana.

Skips without an engine, and where the images are not built: building them takes longer than every other test.
"""
import json, os, re, subprocess, sys, unittest, urllib.parse, urllib.request
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), 'e2e')]
from deployment import DEPLOY, ROOT, documents, main, need
from processes import wait_for


def commands():
    """The three commands at the head of the file, without --build."""
    with open(os.path.join(DEPLOY, 'compose.yaml')) as f:
        head = f.read().split('\n\n')[0].replace(' \\\n#     ', ' ')
    found = re.findall(r'^#   (docker compose .*)$', head, re.M)
    assert len(found) == 3, found
    return [c.replace(' --build', '') for c in found]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


class ComposeTest(unittest.TestCase):
    def test_up_submit_down(self):
        docker = need('docker', 'docker.io')
        for needed, why in ((['info'], 'no engine answers'), (['compose', 'version'], 'docker has no compose plugin'),
                            (['image', 'inspect', 'coxswain/controller:0.1.0', 'coxswain/worker-cpu:0.1.0'],
                             'the images are not built: docker compose -f deploy/compose.yaml build')):
            if subprocess.run([docker, *needed], capture_output=True).returncode != 0:
                self.skipTest(why)
        up, submit, down = commands()
        self.addCleanup(subprocess.run, down + ' --volumes', shell=True, cwd=ROOT)
        subprocess.run(up, shell=True, cwd=ROOT, check=True)
        subprocess.run(submit.replace(' exec ', ' exec -T '), shell=True, cwd=ROOT, check=True)
        query = urllib.parse.quote('coxswain_grad_norm > 0')
        wait_for('the gradient norm in Prometheus',
                 lambda: get(f'http://127.0.0.1:9090/api/v1/query?query={query}')['data']['result'], 60)
        self.assertEqual(get('http://127.0.0.1:3000/api/dashboards/uid/coxswain')['dashboard']['title'], 'Coxswain')


class GraceTest(unittest.TestCase):
    def test_docker_waits_longer_than_the_controller_for_its_jobs(self):
        controller = documents(os.path.join(DEPLOY, 'compose.yaml'))[0]['services']['controller']
        grace = next(int(arg.split('=')[1]) for arg in controller['command'] if arg.startswith('--grace='))
        self.assertGreaterEqual(int(controller['stop_grace_period'].removesuffix('s')), grace + 10)


class JoinTokenTest(unittest.TestCase):
    def test_controller_and_workers_share_the_file_of_the_join_token_and_workers_do_not_write_it(self):
        services = documents(os.path.join(DEPLOY, 'compose.yaml'))[0]['services']
        for name in ('controller', 'workers-cpu', 'workers-cuda'):
            self.assertIn('--join-token-file=/var/lib/coxswain-join/token', services[name]['command'], name)
            volume = 'join:/var/lib/coxswain-join' + ('' if name == 'controller' else ':ro')
            self.assertIn(volume, services[name]['volumes'], name)


class HeadTest(unittest.TestCase):
    def test_the_head_of_the_file_has_the_three_commands(self):
        up, submit, down = commands()
        self.assertIn(' up -d --wait', up)
        self.assertRegex(submit, r' exec controller cox submit --wait --set checkpoint.output_dir=/data/\S+ /quickstart/job.yaml$')
        self.assertTrue(down.endswith(' down'))


if __name__ == '__main__':
    main()
