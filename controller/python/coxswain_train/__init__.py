"""Coxswain from Python.

    import coxswain_train as coxswain
    client = coxswain.Client()
    job = client.submit('job.yaml')
    job.wait(display=coxswain.Progress())
    job.download('out')
"""
import importlib, typing

if typing.TYPE_CHECKING:
    from .client import Client
    from .errors import CoxswainError, InvalidJob, JobFailed, NotFound, NotInstalled, Problem, Unreachable, WrongState
    from .job import Job
    from .local import up
    from .progress import Progress
    from .table import Table

# Imported when they are first asked for: the command cox needs none of them.
_MODULES = {'Client': 'client', 'Job': 'job', 'Progress': 'progress', 'Table': 'table', 'up': 'local',
            **dict.fromkeys(('CoxswainError', 'InvalidJob', 'JobFailed', 'NotFound', 'NotInstalled', 'Problem', 'Unreachable',
                             'WrongState'), 'errors')}
__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f'module {__name__} has no attribute {name}')
    return getattr(importlib.import_module('.' + _MODULES[name], __name__), name)
