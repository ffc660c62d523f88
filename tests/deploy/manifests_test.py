#!/usr/bin/env python3
"""The Kubernetes manifests: strict schemas, and that names, selectors, ports and probes match each other."""
import functools, os, re, shutil, subprocess, sys, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from deployment import DEPLOY, documents, main, yaml

K8S = os.path.join(DEPLOY, 'k8s')
OVERLAYS = sorted(os.listdir(os.path.join(K8S, 'overlays')))
KUBERNETES = '1.32'

# Fields of the custom resources that we use, by their own documentation; our list, not their schemas.
# A dict names all fields, a list holds one item's form, a type or a set of values is a leaf.
ANY = object()
CUSTOM = {
    ('monitoring.coreos.com/v1', 'ServiceMonitor'): {'selector': {'matchLabels': ANY}, 'endpoints': [
        {'port': str, 'path': str, 'interval': str, 'scrapeTimeout': str, 'honorLabels': bool}]},
    ('monitoring.coreos.com/v1', 'PrometheusRule'): {'groups': [{'name': str, 'rules': [
        {'alert': str, 'expr': str, 'for': str, 'labels': ANY, 'annotations': ANY}]}]},
    ('cert-manager.io/v1', 'Issuer'): {'selfSigned': {}, 'ca': {'secretName': str}},
    ('cert-manager.io/v1', 'Certificate'): {
        'isCA': bool, 'commonName': str, 'secretName': str, 'duration': str, 'dnsNames': [str],
        'usages': [{'server auth', 'client auth', 'digital signature'}],
        'privateKey': {'algorithm': {'ECDSA', 'RSA', 'Ed25519'}, 'size': int},
        'issuerRef': {'name': str, 'kind': {'Issuer', 'ClusterIssuer'}}},
    ('jobset.x-k8s.io/v1alpha2', 'JobSet'): {
        'network': {'enableDNSHostnames': bool, 'subdomain': str, 'publishNotReadyAddresses': bool},
        'failurePolicy': {'maxRestarts': int},
        'replicatedJobs': [{'name': str, 'replicas': int, 'template': {'spec': ANY}}]},
}


def unknown_fields(value, form, where):
    if form is ANY:
        return
    if isinstance(form, dict):
        for key in value:
            if key in form:
                yield from unknown_fields(value[key], form[key], f'{where}.{key}')
            else:
                yield f'{where}.{key}: no such field'
    elif isinstance(form, list):
        for i, item in enumerate(value):
            yield from unknown_fields(item, form[0], f'{where}[{i}]')
    elif isinstance(form, set):
        if value not in form:
            yield f'{where}: {value!r} is none of {sorted(form)}'
    elif type(value) is not form:
        yield f'{where}: {value!r} is no {form.__name__}'


def source_files():
    for folder, _, names in os.walk(K8S):
        for name in names:
            if name.endswith('.yaml') and name != 'kustomization.yaml':
                yield os.path.join(folder, name)


def plain_base():
    """What kustomize makes of base, as far as these tests look: its documents with the tags of their images."""
    kustomization = documents(os.path.join(K8S, 'base/kustomization.yaml'))[0]
    text = yaml.safe_dump_all(d for name in kustomization['resources'] for d in documents(os.path.join(K8S, 'base', name)))
    for image in kustomization['images']:
        text = text.replace(f'image: {image["name"]}', f'image: {image["name"]}:{image["newTag"]}')
    return text


@functools.cache
def render(overlay):
    kubectl = shutil.which('kubectl') or shutil.which('kustomize')
    if kubectl is None and overlay == 'base':
        return plain_base()
    if kubectl is None:
        raise unittest.SkipTest('neither kubectl nor kustomize is installed: overlays are not rendered')
    build = [kubectl, 'build'] if kubectl.endswith('kustomize') else [kubectl, 'kustomize']
    result = subprocess.run([*build, os.path.join(K8S, overlay)], capture_output=True, text=True)
    if result.returncode != 0:
        raise AssertionError(f'{overlay}: {result.stderr}')
    return result.stdout


class Rendered:
    """The documents of one overlay, by what they are."""

    def __init__(self, overlay):
        self.overlay = overlay
        self.all = [d for d in yaml.safe_load_all(render(overlay)) if d]

    def kind(self, kind):
        return {d['metadata']['name']: d for d in self.all if d['kind'] == kind}

    def workers(self):
        """Job spec of the workers, wherever it stands."""
        sets = self.kind('JobSet')
        if sets:
            return sets['coxswain']['spec']['replicatedJobs'][0]['template']['spec']
        return self.kind('Job')['coxswain-workers']['spec']

    def controller(self):
        return self.kind('StatefulSet')['coxswain-controller']['spec']

    def templates(self):
        return {'controller': self.controller()['template'], 'worker': self.workers()['template']}


def flag(container, name):
    env = {e['name']: e.get('value', '') for e in container.get('env', [])}
    for arg in container['args']:
        if arg.startswith(f'--{name}='):
            return re.sub(r'\$\((\w+)\)', lambda m: env[m[1]], arg.split('=', 1)[1])
    raise AssertionError(f'--{name} is not among {container["args"]}')


def each_overlay(test):
    def run(self):
        for overlay in ['base'] + [f'overlays/{o}' for o in OVERLAYS]:
            with self.subTest(overlay):
                test(self, Rendered(overlay))
    run.__name__ = test.__name__
    return run


class SchemaTest(unittest.TestCase):
    def validate(self, document, where):
        import kubernetes_validate
        key = (document['apiVersion'], document['kind'])
        if key in CUSTOM:
            self.assertEqual(set(document) - {'apiVersion', 'kind', 'metadata', 'spec'}, set(), where)
            errors = list(unknown_fields(document['spec'], CUSTOM[key], f'{where}: {key[1]}.spec'))
            self.assertEqual(errors, [])
        else:
            try:
                kubernetes_validate.validate(document, KUBERNETES, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                self.fail(f'{where}: {key[1]} {document["metadata"].get("name")}: {error}')

    def setUp(self):
        try:
            import kubernetes_validate  # noqa: F401
        except ImportError:
            self.skipTest('kubernetes-validate is not installed (PyPI); tests/run.sh puts it into build/venv')

    def test_every_document_as_written(self):
        count = 0
        for path in source_files():
            for document in documents(path):
                if '/components/' in path and document['kind'] in ('Job', 'Service', 'JobSet'):
                    continue    # a patch or a skeleton: whole only where it is rendered
                self.validate(document, os.path.relpath(path, K8S))
                count += 1
        self.assertGreater(count, 15)

    @each_overlay
    def test_every_document_as_rendered(self, rendered):
        for document in rendered.all:
            self.validate(document, rendered.overlay)
        for jobset in rendered.kind('JobSet').values():
            for job in jobset['spec']['replicatedJobs']:
                self.validate({'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': {'name': 'x'}, **job['template']},
                              f'{rendered.overlay}: job {job["name"]}')

    def test_a_misspelled_field_is_found(self):
        with self.assertRaises(AssertionError):
            self.validate({'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'x'}, 'spec': {'portz': []}}, 'x')
        with self.assertRaises(AssertionError):
            self.validate({'apiVersion': 'cert-manager.io/v1', 'kind': 'Issuer', 'metadata': {'name': 'x'},
                           'spec': {'selfsigned': {}}}, 'x')


class MatchTest(unittest.TestCase):
    @each_overlay
    def test_selectors_find_their_pods_and_services(self, rendered):
        pods = {name: t['metadata']['labels'] for name, t in rendered.templates().items()}
        def found(selector):
            return {name for name, labels in pods.items() if selector.items() <= labels.items()}
        services = rendered.kind('Service')
        for name, service in services.items():
            self.assertEqual(found(service['spec']['selector']), {name.removeprefix('coxswain-').rstrip('s')}, name)
        self.assertEqual(found(rendered.controller()['selector']['matchLabels']), {'controller'})
        self.assertIn(rendered.controller()['serviceName'], services)
        self.assertIn(rendered.workers()['template']['spec']['subdomain'], services)
        for kind, key in (('PodDisruptionBudget', 'selector'), ('NetworkPolicy', 'podSelector')):
            for name, document in rendered.kind(kind).items():
                self.assertEqual(len(found(document['spec'][key]['matchLabels'])), 1, name)
        for name, monitor in rendered.kind('ServiceMonitor').items():
            labels = monitor['spec']['selector']['matchLabels']
            matched = [s for s in services.values() if labels.items() <= s['metadata']['labels'].items()]
            self.assertEqual([s['metadata']['name'] for s in matched], [name])
            ports = {p['name'] for p in matched[0]['spec']['ports']}
            scraped = {e['port'] for e in monitor['spec']['endpoints']}
            self.assertTrue({p for p in ports if p.startswith(('metrics', 'http'))} <= scraped, name)
            self.assertTrue(all(e['honorLabels'] for e in monitor['spec']['endpoints']))

    @each_overlay
    def test_ports_are_those_of_the_flags(self, rendered):
        for name, template in rendered.templates().items():
            container = template['spec']['containers'][0]
            ports = {p['name']: p['containerPort'] for p in container['ports']}
            self.assertEqual(len(set(ports.values())), len(ports))
            listen = int(flag(container, 'listen').split(':')[1])
            metrics = int(flag(container, 'metrics').split(':')[1])
            processes = 1
            if name == 'worker':
                processes = int(flag(container, 'workers')) + int(flag(container, 'gpus'))
            wanted = {'health': int(flag(container, 'health').split(':')[1])}
            if processes > 1:
                wanted['relay'] = listen - 2    # the supervisor's default
            for i in range(processes):
                suffix = f'-{i}' if i else ''
                wanted['grpc' + suffix] = listen + i
                wanted[('http' if name == 'controller' else 'metrics') + suffix] = metrics + i
            self.assertEqual(ports, wanted, name)
            for service in rendered.kind('Service').values():
                if service['spec']['selector'].items() <= template['metadata']['labels'].items():
                    for port in service['spec']['ports']:
                        target = port['targetPort']
                        self.assertIn(target, ports if isinstance(target, str) else ports.values(), port)
                        self.assertEqual(port['port'], ports[target] if isinstance(target, str) else target)
            policy = rendered.kind('NetworkPolicy')['coxswain-' + name + ('s' if name == 'worker' else '')]['spec']
            opened = [range(p['port'], p.get('endPort', p['port']) + 1) for rule in policy['ingress'] for p in rule.get('ports', [])]
            for port_name, port in ports.items():
                if port_name != 'health':
                    self.assertTrue(any(port in r for r in opened), f'{port_name} is closed')

    @each_overlay
    def test_probes_ask_services_that_the_binaries_have(self, rendered):
        names = {'controller': {'', 'coxswain.v1.Jobs'}, 'worker': {'coxswain.v1.Supervisor', 'coxswain.v1.Worker'}}
        for name, template in rendered.templates().items():
            container = template['spec']['containers'][0]
            port = int(flag(container, 'health').split(':')[1])
            for probe in ('startupProbe', 'readinessProbe', 'livenessProbe'):
                self.assertEqual(container[probe]['grpc']['port'], port)
                self.assertIn(container[probe]['grpc'].get('service', ''), names[name])
        live = rendered.workers()['template']['spec']['containers'][0]['livenessProbe']
        self.assertEqual(live['grpc']['service'], 'coxswain.v1.Supervisor', 'liveness must not depend on training')

    @each_overlay
    def test_termination_grace_covers_the_drain(self, rendered):
        spec = rendered.workers()['template']['spec']
        container = spec['containers'][0]
        processes = int(flag(container, 'workers')) + int(flag(container, 'gpus'))
        self.assertGreaterEqual(spec['terminationGracePeriodSeconds'], int(flag(container, 'grace-seconds')) + 10 * processes)
        stopped = int(flag(container, 'stopped-exit-code'))
        ignored = [r['onExitCodes']['values'] for r in rendered.workers()['podFailurePolicy']['rules']
                   if r['action'] == 'Ignore' and 'onExitCodes' in r]
        self.assertIn([stopped], ignored)
        spec = rendered.controller()['template']['spec']
        self.assertGreaterEqual(spec['terminationGracePeriodSeconds'], int(flag(spec['containers'][0], 'grace')) + 10)

    @each_overlay
    def test_a_refused_worker_ends_no_other_and_a_node_can_be_drained(self, rendered):
        actions = {code: rule['action'] for rule in rendered.workers()['podFailurePolicy']['rules']
                   for code in rule.get('onExitCodes', {}).get('values', [])}
        self.assertEqual(actions[77], 'FailIndex')
        self.assertIn('backoffLimitPerIndex', rendered.workers())  # without it FailIndex is refused
        for budget in rendered.kind('PodDisruptionBudget').values():
            self.assertGreaterEqual(budget['spec']['maxUnavailable'], 1)

    @each_overlay
    def test_pods_are_confined(self, rendered):
        for name, template in rendered.templates().items():
            spec, container = template['spec'], template['spec']['containers'][0]
            self.assertTrue(spec['securityContext']['runAsNonRoot'])
            self.assertGreater(spec['securityContext']['runAsUser'], 0)
            self.assertTrue(container['securityContext']['readOnlyRootFilesystem'])
            self.assertEqual(container['securityContext']['capabilities'], {'drop': ['ALL']})
            self.assertFalse(spec['automountServiceAccountToken'])
            self.assertIn(spec['serviceAccountName'], rendered.kind('ServiceAccount'))
            self.assertNotIn('latest', container['image'])
            self.assertIn(':', container['image'])
            mounted = {m['mountPath'] for m in container['volumeMounts']}
            volumes = {v['name'] for v in spec['volumes']} | {
                c['metadata']['name'] for c in rendered.controller().get('volumeClaimTemplates', []) if name == 'controller'}
            self.assertEqual({m['name'] for m in container['volumeMounts']}, volumes)
            for path in ('state-dir', 'tls-cert', 'tls-key', 'tls-ca'):
                value = flag(container, path)
                self.assertTrue(any(value.startswith(m + '/') for m in mounted), f'--{path}={value} is on no volume')

    @each_overlay
    def test_certificates_fit_the_names_that_are_dialled(self, rendered):
        container = rendered.workers()['template']['spec']['containers'][0]
        env = {e['name']: e for e in container['env']}
        env['POD_NAMESPACE']['value'], env['POD_INDEX']['value'] = 'coxswain', '0'
        env['POD_HOST']['value'] = env['POD_HOST']['value'].replace('$(POD_INDEX)', '0')
        dialled = flag(container, 'controller').rsplit(':', 1)[0]
        advertised = flag(container, 'advertise')
        mounted = {v['secret']['secretName'] for t in rendered.templates().values() for v in t['spec']['volumes'] if 'secret' in v}
        issued = {c['spec']['secretName']: c['spec'] for c in rendered.kind('Certificate').values()}
        self.assertEqual(mounted, {'coxswain-controller-tls', 'coxswain-worker-tls'})
        if issued:
            self.assertTrue(mounted <= issued.keys())
            self.assertIn(dialled, issued['coxswain-controller-tls']['dnsNames'])
            self.assertIn('*.' + advertised.split('.', 1)[1], issued['coxswain-worker-tls']['dnsNames'])
            self.assertEqual({name: issued[f'coxswain-{name}-tls']['uris'] for name in ('controller', 'worker', 'client')},
                             {'controller': ['coxswain://role/controller'], 'worker': ['coxswain://role/supervisor'],
                              'client': ['coxswain://role/operator']})
            issuers = rendered.kind('Issuer')
            self.assertTrue(all(c['issuerRef']['name'] in issuers for c in issued.values()))


class LoaderTest(unittest.TestCase):
    def test_it_writes_what_jobs_read_and_is_admitted(self):
        (pod,) = documents(os.path.join(K8S, 'loader.yaml'))
        claims = [d['metadata']['name'] for d in documents(os.path.join(K8S, 'base/storage.yaml'))]
        self.assertEqual([v['persistentVolumeClaim']['claimName'] for v in pod['spec']['volumes']], claims)
        (controller,) = [d for d in documents(os.path.join(K8S, 'base/controller.yaml')) if d['kind'] == 'StatefulSet']
        jobs = controller['spec']['template']['spec']
        (container,) = pod['spec']['containers']
        self.assertEqual(container['volumeMounts'],
                         [m for m in jobs['containers'][0]['volumeMounts'] if m['name'] == 'data'])
        self.assertEqual(pod['spec']['securityContext'], jobs['securityContext'])    # its files are theirs
        self.assertEqual(container['securityContext'], jobs['containers'][0]['securityContext'])


class OverlayTest(unittest.TestCase):
    def test_gpu_is_two_nodes_of_eight(self):
        rendered = Rendered('overlays/gpu')
        job, container = rendered.workers(), rendered.workers()['template']['spec']['containers'][0]
        self.assertEqual(job['completions'] * int(container['resources']['limits']['nvidia.com/gpu']), 16)
        self.assertEqual(flag(container, 'gpus'), container['resources']['limits']['nvidia.com/gpu'])
        self.assertEqual(flag(container, 'workers'), '0')
        self.assertIn('worker-cuda', container['image'])
        self.assertIn('nvidia.com/gpu', [t['key'] for t in job['template']['spec']['tolerations']])
        rdma = Rendered('overlays/gpu-rdma').workers()['template']['spec']['containers'][0]['resources']
        self.assertEqual(rdma['requests']['rdma/hca'], rdma['limits']['rdma/hca'])

    def test_jobset_holds_the_job_of_base(self):
        rendered, base = Rendered('overlays/jobset'), Rendered('base')
        self.assertEqual(rendered.kind('Job'), {})
        ours, theirs = rendered.workers(), base.workers()
        env = [e for e in ours['template']['spec']['containers'][0]['env'] if e['name'] == 'POD_HOST'][0]
        self.assertEqual(env['value'], 'coxswain-workers-0-$(POD_INDEX)')
        env['value'] = 'coxswain-workers-$(POD_INDEX)'
        self.assertEqual(ours, theirs)

    def test_kueue_and_monitoring(self):
        job = Rendered('overlays/kueue').kind('Job')['coxswain-workers']
        self.assertEqual(job['metadata']['labels']['kueue.x-k8s.io/queue-name'], 'coxswain')
        self.assertTrue(job['spec']['suspend'])
        rendered = Rendered('overlays/production')
        with open(os.path.join(DEPLOY, 'grafana/coxswain.json')) as f:
            self.assertEqual(rendered.kind('ConfigMap')['coxswain-dashboard']['data']['coxswain.json'], f.read())

    def test_the_rules_are_those_of_the_file(self):
        alerts = documents(os.path.join(DEPLOY, 'prometheus/alerts.yaml'))[0]
        rule = documents(os.path.join(K8S, 'components/monitoring/rules.yaml'))[0]
        self.assertEqual(rule['spec'], alerts)


if __name__ == '__main__':
    main()
