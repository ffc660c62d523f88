"""Every error of this package. All words of cox and of the controller are in it."""
import dataclasses


class CoxswainError(Exception):
    """What went wrong, and what to do. The other errors are kinds of it."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """One fault of a job file."""
    path: str  # of the key, for example "spec.train.learning_rate"
    line: int  # 1-based in the text of the job, 0: the key is not there
    message: str

    def __str__(self):
        return f'line {self.line}: {self.path}: {self.message}' if self.line else f'{self.path}: {self.message}'


class InvalidJob(CoxswainError):
    """The job file is wrong. `problems` has every fault of it; empty: the fault is no key's."""

    def __init__(self, message, problems=()):
        super().__init__(message)
        self.problems = list(problems)


class NotFound(CoxswainError):
    """There is no such job, worker, file or repository."""


class Unreachable(CoxswainError):
    """No controller answers, or it does not know who calls."""


class WrongState(CoxswainError):
    """The job is in a state in which this cannot be done."""


class JobFailed(CoxswainError):
    """The job that was waited for failed, or was cancelled. `job` is what is known of it."""

    def __init__(self, message, job):
        super().__init__(message)
        self.job = job


class NotInstalled(CoxswainError):
    """The program cox is not there, or is that of another product."""
