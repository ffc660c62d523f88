"""The program cox that came with this package, or else the one on PATH."""
import json, os, shutil, subprocess, sys

from .errors import CoxswainError, InvalidJob, NotFound, NotInstalled, Problem, Unreachable

_ERRORS = {2: InvalidJob, 4: NotFound, 5: Unreachable}  # by the exit code of cox
_HERE = os.path.dirname(os.path.abspath(__file__))


def run():
    """Becomes the program of this package by whose name it was called."""
    path = os.path.join(_HERE, 'bin', os.path.basename(sys.argv[0]))
    os.execv(path, [path, *sys.argv[1:]])


def find_cox():
    """The path of cox. $COXSWAIN_COX names another one. NotInstalled: there is none, or the one on PATH is of another
    product of that name."""
    chosen = os.environ.get('COXSWAIN_COX')
    if chosen:
        return chosen
    packaged = os.path.join(_HERE, 'bin', 'cox')
    if os.path.exists(packaged):
        return packaged
    found = shutil.which('cox')
    if found is None:
        raise NotInstalled('there is no program cox: install the package coxswain-train, or set COXSWAIN_COX')
    version = subprocess.run([found, 'version', '-o', 'json'], capture_output=True, text=True)
    if version.returncode not in (0, 5) or 'client' not in version.stdout:
        raise NotInstalled(f'{found} is the cox of another product: install the package coxswain-train, or set COXSWAIN_COX')
    return found


def run_cox(arguments, text=None, environment=None):
    """What cox prints. Its error, as one of this package, with its exit code as `code`."""
    done = subprocess.run([find_cox(), *arguments], input=text, capture_output=True, text=True,
                          env={**os.environ, **(environment or {}), 'NO_COLOR': '1'})
    if done.returncode == 0:
        return done.stdout
    message = done.stderr.strip() or done.stdout.strip() or f'cox {arguments[0]} ended with {done.returncode}'
    error = _ERRORS.get(done.returncode, CoxswainError)(message.removeprefix('cox: '))
    error.code, error.stdout = done.returncode, done.stdout
    raise error


def job_arguments(job):
    """The argument of cox that names a job file, and what cox reads on its standard input. `job`: a path, the text of a
    job (it has a line feed), or a dict."""
    if isinstance(job, dict):
        return '-', json.dumps(job)  # which is YAML
    if isinstance(job, str) and '\n' in job:
        return '-', job
    return os.fspath(job), None


def problems_of(job, overrides):
    """Every fault of a job file; empty: it is valid."""
    name, text = job_arguments(job)
    try:
        printed = run_cox(['validate', name, '-o', 'json', *overrides], text)
    except InvalidJob as error:
        printed = error.stdout
        if not printed.strip():
            raise
    return [Problem(**problem) for problem in json.loads(printed)['errors']]


def override_arguments(overrides):
    return [part for key, value in overrides.items()
            for part in ('--set', f'{key}={value if isinstance(value, str) else json.dumps(value)}')]
