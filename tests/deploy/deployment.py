"""What the tests of deploy/ share: its files, YAML, and the programs that a machine may lack.

YAML comes with kubernetes-validate in COXSWAIN_PYTHON (tests/run.sh); a test that finds neither starts
itself again with that Python, or skips and says so.
"""
import os, re, shutil, sys, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, 'deploy')
SKIPPED = 77      # SKIP_RETURN_CODE of these tests

try:
    import yaml
except ImportError:
    python = os.environ.get('COXSWAIN_PYTHON')
    if python and os.path.realpath(sys.executable) != os.path.realpath(python):
        os.environ.pop('COXSWAIN_PYTHON')
        os.execv(python, [python, *sys.argv])
    print('skipped: no Python here has PyYAML; run tests/run.sh, which makes build/venv')
    sys.exit(SKIPPED)


def need(program, package):
    """Path of a program; skips the test where it is not installed."""
    path = shutil.which(program)
    if path is None:
        raise unittest.SkipTest(f'{program} is not installed (Debian package {package})')
    return path


def documents(path):
    with open(path) as f:
        return [d for d in yaml.safe_load_all(f) if d is not None]


def metric_table():
    """{name: type} of the tables in common/README.md."""
    with open(os.path.join(ROOT, 'common/README.md')) as f:
        rows = re.findall(r'^\| `(coxswain_\w+)(?:\{[^}]*\})?` \| (\w+) \|', f.read(), re.M)
    return dict(rows) | {'coxswain_build_info': 'gauge'}


def metrics_in(query):
    """Names of our metrics that a query reads, series of histograms by the name of the histogram."""
    table, names = metric_table(), set()
    for name in re.findall(r'\bcoxswain_\w+', query):
        base = re.sub(r'_(bucket|sum|count)$', '', name)
        names.add(base if table.get(base) == 'histogram' else name)
    return names


def main():
    program = unittest.main(verbosity=2, warnings='ignore', exit=False)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    skipped = [test for test, _ in result.skipped if not hasattr(test, 'test_case')]     # whole tests, not subtests
    sys.exit(SKIPPED if result.testsRun == len(skipped) else 0)
