#!/usr/bin/env python3
"""Dashboard and alert files: their structure, their metric names, promtool's view of the rules."""
import json, os, re, subprocess, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from deployment import DEPLOY, ROOT, documents, main, metric_table, metrics_in, need

DASHBOARD = os.path.join(DEPLOY, 'grafana/coxswain.json')
ALERTS = os.path.join(DEPLOY, 'prometheus/alerts.yaml')


def dashboard():
    with open(DASHBOARD) as f:
        return json.load(f)


def queries(board):
    """[(where, PromQL)] of panels, annotations and variables."""
    found = [(p['title'], t['expr']) for p in board['panels'] for t in p.get('targets', [])]
    found += [(a['name'], a['expr']) for a in board['annotations']['list']]
    return found + [(v['name'], v['definition']) for v in board['templating']['list'] if v['type'] == 'query']


def alerts():
    return [rule for group in documents(ALERTS)[0]['groups'] for rule in group['rules']]


class DashboardTest(unittest.TestCase):
    def test_rows_and_variables(self):
        board = dashboard()
        rows = [p['title'] for p in board['panels'] if p['type'] == 'row']
        self.assertEqual([r.split()[0] for r in rows], ['Overview', 'Job', 'GPU', 'Reliability'])
        self.assertEqual([v['name'] for v in board['templating']['list']], ['datasource', 'namespace', 'job', 'rank'])
        self.assertGreaterEqual(board['schemaVersion'], 36)
        self.assertEqual(board['uid'], 'coxswain')

    def test_panels_are_whole(self):
        board, ids, cells = dashboard(), set(), {}
        for panel in board['panels']:
            self.assertNotIn(panel['id'], ids)
            ids.add(panel['id'])
            place = panel['gridPos']
            self.assertLessEqual(place['x'] + place['w'], 24, panel['title'])
            for x in range(place['x'], place['x'] + place['w']):
                for y in range(place['y'], place['y'] + place['h']):
                    self.assertNotIn((x, y), cells, f'{panel["title"]} lies on {cells.get((x, y))}')
                    cells[x, y] = panel['title']
            if panel['type'] == 'row':
                continue
            self.assertIn(panel['type'], ('timeseries', 'stat', 'gauge', 'table'))
            self.assertTrue(panel['title'] and panel['description'] and panel['targets'], panel['title'])
            self.assertTrue(panel['fieldConfig']['defaults']['unit'], panel['title'])
            refs = [t['refId'] for t in panel['targets']]
            self.assertEqual(len(refs), len(set(refs)))
            for target in panel['targets']:
                self.assertEqual(target['datasource']['uid'], '${datasource}', panel['title'])

    def test_every_query_names_a_metric_that_exists(self):
        table = metric_table()
        self.assertGreater(len(table), 40)
        for where, query in queries(dashboard()):
            names = metrics_in(query)
            self.assertTrue(names, f'{where}: reads nothing of ours: {query}')
            self.assertEqual(names - table.keys(), set(), where)
        for rule in alerts():
            self.assertEqual(metrics_in(rule['expr']) - table.keys(), set(), rule['alert'])

    def test_counters_are_read_as_rates_and_histograms_by_their_series(self):
        table = metric_table()
        totals = {'Tokens trained', 'Skipped steps', 'Restarts'}   # panels that show the count itself
        for where, query in queries(dashboard()):
            for name in re.findall(r'\bcoxswain_\w+', query):
                base = re.sub(r'_(bucket|sum|count)$', '', name)
                kind = table.get(name) or table[base]
                if kind == 'counter' and where not in totals:
                    self.assertRegex(query, rf'(rate|increase)\({name}', where)
                if kind == 'histogram':
                    self.assertNotEqual(name, base, f'{where}: a histogram has no series of its own name')


class AlertTest(unittest.TestCase):
    def test_promtool_accepts_the_rules(self):
        result = subprocess.run([need('promtool', 'prometheus'), 'check', 'rules', ALERTS], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_each_alert_fires_in_its_scenario_and_not_before(self):
        scenarios = os.path.join(ROOT, 'tests/deploy/alerts_test.yaml')
        result = subprocess.run([need('promtool', 'prometheus'), 'test', 'rules', scenarios], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        cases = [case for test in documents(scenarios)[0]['tests'] for case in test['alert_rule_test']]
        for rule in alerts():
            of_rule = [c for c in cases if c['alertname'] == rule['alert']]
            self.assertTrue([c for c in of_rule if c.get('exp_alerts')], f'{rule["alert"]} fires in no scenario')
            self.assertTrue([c for c in of_rule if not c.get('exp_alerts')], f'{rule["alert"]} is silent in no scenario')

    def test_each_alert_has_a_severity_and_a_runbook(self):
        with open(os.path.join(DEPLOY, 'README.md')) as f:
            anchors = {re.sub(r'[^a-z0-9-]', '', h.lower().replace(' ', '-')) for h in re.findall(r'^#+ (.*)$', f.read(), re.M)}
        for rule in alerts():
            self.assertIn(rule['labels']['severity'], ('critical', 'warning'))
            self.assertEqual(set(rule['annotations']), {'summary', 'description', 'runbook_url'}, rule['alert'])
            page, anchor = rule['annotations']['runbook_url'].split('#')
            self.assertEqual(page, 'deploy/README.md')
            self.assertIn(anchor, anchors, f'{rule["alert"]}: no such section in {page}')


if __name__ == '__main__':
    main()
