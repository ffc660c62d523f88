"""The program cox that came with this package, or else the one on PATH."""
import json, os, shutil, subprocess, sys

from .errors import CoxswainError, InvalidJob, NotFound, NotInstalled, Problem, Unreachable

_ERRORS = {2: InvalidJob, 4: NotFound, 5: Unreachable}  # by the exit code of cox
_HERE = os.path.dirname(os.path.abspath(__file__))


def run():
    """Becomes the program of this package by whose name it was called."""
    path = os.path.join(_HERE, 'bin', os.path.basename(sys.argv[0]))
    try:
        os.execve(path, [path, *sys.argv[1:]], packaged_environment())
    except NotInstalled as error:
        sys.exit(f'{os.path.basename(path)}: {error}')


def packaged_environment():
    """The environment of a program of this package. NotInstalled: the CUDA worker is of another build. NVIDIA's libraries
    are found beside this package, and where there are none, in the other folders of this Python's packages, such as those
    that a virtual environment shares."""
    check_builds()
    if not os.path.exists(os.path.join(_HERE, 'bin', 'coxswain-worker-cuda')):
        return dict(os.environ)
    folders = []
    for library in ('cu13', 'cudnn', 'nccl'):
        places = [os.path.join(path, 'nvidia', library, 'lib') for path in [os.path.dirname(_HERE), *sys.path]]
        found = next((i for i, place in enumerate(places) if os.path.isdir(place)), 0)
        folders += [places[found]] if found > 0 else []
    set_by_user = os.environ.get('LD_LIBRARY_PATH')
    searched = ':'.join(([set_by_user] if set_by_user else []) + folders)
    return {**os.environ, **({'LD_LIBRARY_PATH': searched} if folders else {})}


def check_builds():
    """NotInstalled where the wheels coxswain-train and coxswain-train-cuda are of two builds."""
    try:
        with open(os.path.join(_HERE, 'build')) as file, open(os.path.join(_HERE, 'build_cuda')) as file_cuda:
            build, build_cuda = file.read().split(), file_cuda.read().split()
    except FileNotFoundError:
        return  # one of them is not installed
    if build == build_cuda:
        return
    raise NotInstalled(f'coxswain-train is {build[0]} of commit {build[1]}, coxswain-train-cuda is {build_cuda[0]} of commit '
                       f"{build_cuda[1]}: install both of one release: pip install 'coxswain-train[cuda]=={build[0]}'")


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
    if not _is_ours(found):
        raise NotInstalled(f'{found} is the cox of another product: install the package coxswain-train, or set COXSWAIN_COX')
    return found


def foreign_cox():
    """The path of the cox on PATH where it is that of another product, else None."""
    found = shutil.which('cox')
    return found if found and not _is_ours(found) else None


def _is_ours(cox):
    version = subprocess.run([cox, 'version', '-o', 'json'], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return version.returncode in (0, 5) and 'client' in version.stdout


def run_cox(arguments, text=None, environment=None):
    """What cox prints. Its error, as one of this package, with its exit code as `code`."""
    done = subprocess.run([find_cox(), *arguments], input=text, capture_output=True, text=True,
                          env={**packaged_environment(), **(environment or {}), 'NO_COLOR': '1'})
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
