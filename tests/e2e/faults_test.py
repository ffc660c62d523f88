#!/usr/bin/env python3
"""Every fault point x an action: the job's losses, norms and artifact are those of a run without a fault, bit for bit.

  tests/e2e/faults_test.py [kill] [stop] [error] [enospc]     kill alone without arguments
  COXSWAIN_FAULTS=regex chooses among the points

Several points are tried in one job, one after the other as the job comes by them, each once; several clusters run at
once. A point that is not reached fails the test.
"""
import concurrent.futures, os, re, sys, time, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fault_cluster import STEPS, FaultCluster, faults_of

# A worker that dies young is started again later each time: few of them in one cluster.
PROGRAMS = [(['coxswain-controller'], 11), (['coxswain-worker-cpu'], 5), (['coxswain-supervisor'], 6)]
AT_ONCE = 4
# By design the job fails where no gang has trained yet and its data cannot be kept; the user is told why.
ENDS_THE_JOB = {('tokens.publish', 'error'), ('tokens.publish', 'enospc')}


def groups_of(action):
    """Lists of points that share a cluster."""
    seen, groups = set(), []
    wanted = re.compile(os.environ.get('COXSWAIN_FAULTS', '.'))
    for programs, size in PROGRAMS:
        points = [name for name, (actions, _) in faults_of(*programs).items()
                  if action in actions and name not in seen and wanted.search(name) and (name, action) not in ENDS_THE_JOB]
        seen.update(points)
        count = -(-len(points) // size)
        groups += [points[i::count] for i in range(count)]
    return groups


def fault(point, index, action):
    """Spreads a group's faults over the job: a step of its own for points that every step comes by, the first or the second
    time for those of checkpoints, which are taken when the one before is written."""
    condition = ''
    if re.match('train|step', point):
        condition = f':step={3 + index * 2 % (STEPS - 4)}'
    elif re.match(r'snapshot|ckpt\.(?!drop)|save|shard', point):
        condition = f':count={1 + index % 2}'
    return f'{point}{condition}:once=@{point}:{action}'


def try_group(points, action, expected):
    """(what is wrong with it, seconds)."""
    began = time.monotonic()
    cluster = FaultCluster(','.join(fault(point, i, action) for i, point in enumerate(points)))
    try:
        steps, digest = cluster.open().run_tiny()
        missed = [point for point in points if point not in cluster.hits()]
        wrong = [f'{point} was not reached' for point in missed if len(points) == 1]
        if steps != expected[0]:
            differ = sorted(s for s in expected[0] if steps.get(s) != expected[0][s])
            wrong.append(f'steps {differ} have other losses or norms')
        if digest != expected[1]:
            wrong.append('the artifact differs')
        # A gang that goes on without its controller saves no checkpoint again: others came first.
        for point in missed if len(points) > 1 else []:
            wrong += try_group([point], action, expected)[0]
        return wrong, time.monotonic() - began
    except AssertionError as error:
        hit = ', '.join(sorted(cluster.hits()))
        return [f'{error}\ngone off: {hit}'], time.monotonic() - began
    finally:
        cluster.close()


def try_refused(point, action, expected):
    """What is wrong with a job that ends for the fault, and with the same one submitted again."""
    cluster = FaultCluster(fault(point, 0, action))
    try:
        try:
            cluster.open().run_tiny('first')
            return [f'{action} at {point} did not end the job']
        except AssertionError as error:
            wrong = [] if f'fault point {point}' in str(error) else [f'{action} at {point}: its user is told {error}']
        return wrong + ([] if cluster.run_tiny('again') == expected else [f'{action} at {point}: the next job differs'])
    finally:
        cluster.close()


class FaultsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cluster = FaultCluster()
        try:
            cls.expected = cluster.open().run_tiny()
            assert len(cls.expected[0]) == STEPS, cls.expected
        finally:
            cluster.close()

    def every_point(self, action):
        groups = groups_of(action)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            results = list(pool.map(lambda points: try_group(points, action, self.expected), groups))
        bad = []
        for points, (wrong, seconds) in zip(groups, results):
            print(f'{action} {seconds:5.1f} s  {" ".join(points)}' + (f'\n  {wrong}' if wrong else ''), flush=True)
            bad += [f'{action} at one of {points}: {text}' for text in wrong]
        for point in sorted(name for name, refused in ENDS_THE_JOB if refused == action):
            bad += try_refused(point, action, self.expected)
        print(f'{sum(map(len, groups))} points x {action}', flush=True)
        self.assertFalse(bad, '\n'.join(bad))

    def test_kill(self):
        self.every_point('kill')

    def test_stop(self):
        self.every_point('stop')

    def test_error(self):
        self.every_point('error')

    def test_enospc(self):
        self.every_point('enospc')


if __name__ == '__main__':
    actions = sys.argv[1:] or ['kill']
    unittest.main(argv=sys.argv[:1] + [f'FaultsTest.test_{action}' for action in actions], verbosity=2, warnings='ignore')
