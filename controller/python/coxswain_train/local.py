"""A controller and workers on this machine, for as long as they are needed."""
import contextlib, json, os, tempfile

from . import programs
from .client import Client


@contextlib.contextmanager
def up(*, workers=None, gpus=None, threads=None, state_dir=None):
    """Starts what `cox up` starts and gives a Client of it; ends it afterwards. `state_dir`: where its state is kept;
    without one it is lost at the end, and another `cox up` of this user is not touched.

        with coxswain.up() as client:
            client.submit('job.yaml').wait()
    """
    with contextlib.ExitStack() as stack:
        folder = state_dir or stack.enter_context(tempfile.TemporaryDirectory(prefix='coxswain-'))
        environment = {'XDG_STATE_HOME': os.path.abspath(folder)}
        arguments = ['up', '-o', 'json']
        for flag, value in (('--workers', workers), ('--gpus', gpus), ('--threads', threads)):
            if value is not None:
                arguments += [flag, str(value)]
        started = json.loads(programs.run_cox(arguments, None, environment))
        stack.callback(programs.run_cox, ['down'], None, environment)
        yield stack.enter_context(Client(started['grpc']))
