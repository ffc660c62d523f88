"""Coxswain from Python.

    import coxswain_train as coxswain
    client = coxswain.Client()
    job = client.submit('job.yaml')
    job.wait(display=coxswain.Progress())
    job.download('out')
"""
from .client import Client
from .errors import CoxswainError, InvalidJob, JobFailed, NotFound, NotInstalled, Problem, Unreachable, WrongState
from .job import Job
from .local import up
from .progress import Progress
from .table import Table

__all__ = ['Client', 'CoxswainError', 'InvalidJob', 'Job', 'JobFailed', 'NotFound', 'NotInstalled', 'Problem', 'Progress', 'Table',
           'Unreachable', 'WrongState', 'up']
