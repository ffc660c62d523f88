#!/usr/bin/env python3
"""A real Prometheus watches real processes: `cox up --with-prometheus`, the dashboard's queries, alerts that fire."""
import json, os, re, shutil, signal, socket, subprocess, sys, unittest, urllib.error, urllib.parse, urllib.request
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), 'e2e')]
from deployment import main, need
from dashboard_test import ALERTS, dashboard, queries
from processes import BIN, Cluster, wait_for

# What Grafana puts in the place of its variables.
VARIABLES = {'$__rate_interval': '30s', '$namespace': '.*', '$job': '.*', '$rank': '.*'}


def ask(address, path, **parameters):
    url = f'http://{address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}'
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)['data']


def rows(address, query):
    for name, text in VARIABLES.items():
        query = query.replace(name, text)
    label = re.fullmatch(r'label_values\((.*), (\w+)\)', query)
    if label:   # Grafana's own function
        return [r for r in ask(address, 'query', query=label[1])['result'] if label[2] in r['metric']]
    return ask(address, 'query', query=query)['result']


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class PrometheusTest(Cluster):
    def test_every_query_of_the_dashboard_returns_data_during_a_job(self):
        need('prometheus', 'prometheus')
        self.addCleanup(lambda: self.cox('down', check=None))
        up = json.loads(self.cox('up', '--workers', '2', '--with-prometheus', '-o', 'json').stdout)
        self.endpoint = up
        again = json.loads(self.cox('up', '--workers', '2', '--with-prometheus', '-o', 'json').stdout)
        self.assertEqual(again, up)
        job = self.submit(self.job_file(replace={'save_steps: 20': 'save_steps: 3', 'eval_steps: 20': 'eval_steps: 8',
                                                 'max_steps: 40': 'max_steps: 4000'}))
        self.wait_state(job, 'RUNNING')
        missing = dict.fromkeys(queries(dashboard()))
        def all_answered():
            for where, query in list(missing):
                # The annotation is empty while nothing happens; utilisation is of GPUs whose peak is known.
                empty = 'coxswain_mfu_ratio' in query or where == 'Restarts' and 'changes' in query
                if not empty and not rows(up['prometheus'], query):
                    continue
                del missing[where, query]
            return not missing
        try:
            wait_for('data for every query', all_answered, 240)
        except AssertionError as error:
            raise AssertionError(f'{error}: {[where for where, _ in missing]}')
        self.assertEqual(self.state(job), 'RUNNING')
        rules = {r['name'] for g in ask(up['prometheus'], 'rules')['groups'] for r in g['rules']}
        with open(ALERTS) as f:
            self.assertEqual(rules, set(re.findall(r'- alert: (\w+)', f.read())))
        by_job = {r['metric']['job']: float(r['value'][1]) for r in rows(up['prometheus'], 'coxswain_grad_norm')}
        self.assertGreater(by_job[job], 0)
        self.assertEqual(rows(up['prometheus'], 'coxswain_mfu_ratio'), [], 'a CPU has no peak to be held against')
        ranks = {r['metric']['rank'] for r in rows(up['prometheus'], f'coxswain_worker_step{{job="{job}"}}')}
        self.assertEqual(ranks, {'0', '1'})
        host = {r['metric']['instance'] for r in rows(up['prometheus'], 'coxswain_worker_step')}
        self.assertEqual({h.rsplit('/')[-1] for h in host}, {'0', '1'}, 'instance is host/slot')
        self.cox('cancel', job)
        self.wait_state(job, 'CANCELLED')
        self.cox('down')
        with self.assertRaises(OSError):
            ask(up['prometheus'], 'query', query='up')

    def start_prometheus(self):
        """One with the shipped rules; what they wait for (`for:`) is cut to 3 s: longer than one late scrape."""
        with open(ALERTS) as f:
            rules = re.sub(r'^( +for: ).*$', r'\g<1>3s', f.read(), flags=re.M)
        with open(os.path.join(self.dir, 'alerts.yaml'), 'w') as f:
            f.write(rules)
        with open(os.path.join(self.dir, 'prometheus.yaml'), 'w') as f:
            f.write('global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yaml]\nscrape_configs:\n'
                    '  - job_name: coxswain-controller\n    honor_labels: true\n'
                    f'    static_configs: [{{targets: ["{self.endpoint["metrics"]}"], labels: {{namespace: test}}}}]\n')
        address = f'127.0.0.1:{free_port()}'
        log = open(os.path.join(self.dir, 'prometheus.log'), 'w')
        process = subprocess.Popen(
            [shutil.which('prometheus'), f'--config.file={self.dir}/prometheus.yaml', f'--storage.tsdb.path={self.dir}/tsdb',
             f'--web.listen-address={address}'], stdout=log, stderr=log, start_new_session=True)
        self.processes.append(process)
        def ready():
            try:
                return urllib.request.urlopen(f'http://{address}/-/ready', timeout=5).status == 200
            except OSError:
                return False
        wait_for('Prometheus', ready)
        self.prometheus = address

    def firing(self):
        return {(a['labels']['alertname'], a['labels'].get('job')) for a in ask(self.prometheus, 'alerts')['alerts']
                if a['state'] == 'firing'}

    def wait_alert(self, name, job=None, seconds=240):
        wait_for(f'{name} fires', lambda: any(n == name and job in (None, j) for n, j in self.firing()), seconds)

    def test_alerts_fire_on_real_processes(self):
        """A job of NaN, a killed worker, a killed controller."""
        need('prometheus', 'prometheus')
        controller = self.start_controller()
        self.start_workers(2)
        self.start_prometheus()
        job = self.submit(self.job_file(replace={'max_steps: 40': 'max_steps: 4000'}))
        self.wait_state(job, 'RUNNING')
        wait_for('steps in Prometheus', lambda: rows(self.prometheus, f'coxswain_step{{job="{job}"}} > 2'), 240)
        # CoxswainGoodputLow's 15 minutes are cut to 3 s here; CoxswainControllerDown may stand from before the first scrape.
        def quiet():
            return not {n for n, _ in self.firing()} - {'CoxswainGoodputLow'}
        wait_for('no alert while nothing is wrong', quiet)
        os.kill(int(self.cox_json('workers')['workers'][0]['pid']), signal.SIGKILL)
        self.wait_alert('CoxswainWorkerLost')
        self.wait_state(job, 'RUNNING')
        self.wait_alert('CoxswainGoodputLow', job)
        self.cox('cancel', job)
        self.wait_state(job, 'CANCELLED')
        wild = self.submit(self.job_file('wild.yaml', replace={'learning_rate: 2.0e-4': 'learning_rate: 1.0e30',
                                                               'warmup_ratio: 0.1': 'warmup_ratio: 0'}))
        self.wait_alert('CoxswainNonFiniteLoss', wild)
        controller.send_signal(signal.SIGKILL)
        controller.wait()
        self.wait_alert('CoxswainControllerDown')


if __name__ == '__main__':
    main()
