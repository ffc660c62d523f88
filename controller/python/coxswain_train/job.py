"""What is known of a job, and the calls of it."""
from .v1 import job_pb2

ENDED = ('SUCCEEDED', 'FAILED', 'CANCELLED')


class Job:
    """A job as it was when it was asked for. `message` is the whole (v1.job_pb2.Job)."""

    def __init__(self, client, message):
        self._client = client
        self.message = message

    @property
    def id(self) -> str:
        return self.message.id

    @property
    def name(self) -> str:
        return self.message.name

    @property
    def state(self) -> str:
        """For example "RUNNING"."""
        return job_pb2.JobState.Name(self.message.state).removeprefix('JOB_STATE_')

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def error(self) -> str:
        """Why it failed; empty: it did not."""
        return self.message.error.message

    @property
    def step(self) -> int:
        """Finished steps."""
        return self.message.progress.step

    @property
    def total_steps(self) -> int:
        """0: not known yet."""
        return self.message.progress.total_steps

    @property
    def loss(self) -> float:
        """Of the last finished step."""
        return self.message.progress.loss

    @property
    def artifact_dir(self) -> str:
        """Folder of the export; empty before the end."""
        return self.message.artifact_dir

    def refresh(self) -> 'Job':
        self.message = self._client.get(self.id).message
        return self

    def watch(self, **options):
        return self._client.watch(self, **options)

    def watch_async(self, **options):
        return self._client.watch_async(self, **options)

    def wait(self, **options) -> 'Job':
        return self._client.wait(self, **options)

    def logs(self, **options):
        return self._client.logs(self, **options)

    def metrics(self):
        return self._client.metrics(self)

    def cancel(self, **options) -> 'Job':
        return self._client.cancel(self, **options)

    def download(self, folder) -> list:
        return self._client.download(self, folder)

    def generate(self, prompts, **options) -> list:
        return self._client.generate(self, prompts, **options)

    def __repr__(self):
        return f'<Job {self.id} {self.state}, step {self.step} of {self.total_steps or "?"}>'
