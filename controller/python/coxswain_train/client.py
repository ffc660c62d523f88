"""The client of a controller."""
import asyncio, json, os, tempfile, time

import grpc

from . import programs
from .connection import Connection, find_connection, find_token, open_channel
from .errors import CoxswainError, InvalidJob, JobFailed, NotFound, Unreachable, WrongState
from .job import Job
from .table import Table, steps_table
from .v1 import jobs_service_pb2, jobs_service_pb2_grpc

_CALL_SECONDS = 30
_PAUSE_SECONDS = 0.5  # before a controller that is away is asked again, as cox does
_KINDS = {grpc.StatusCode.INVALID_ARGUMENT: InvalidJob, grpc.StatusCode.NOT_FOUND: NotFound,
          grpc.StatusCode.UNAVAILABLE: Unreachable, grpc.StatusCode.DEADLINE_EXCEEDED: Unreachable,
          grpc.StatusCode.UNAUTHENTICATED: Unreachable, grpc.StatusCode.PERMISSION_DENIED: Unreachable, grpc.StatusCode.FAILED_PRECONDITION: WrongState}


class Client:
    """Calls a controller. Without arguments it finds the one that cox would find: by COXSWAIN_SERVER and the other variables,
    the context of `cox config`, the controller of `cox up`, else 127.0.0.1:7070. Methods take a job as its id, a unique
    beginning of it, its name, or a Job. May be used from several threads."""

    def __init__(self, server='', *, ca='', cert='', key='', token='', token_file='', context=''):
        given = Connection(server, ca, cert, key, token, token_file)
        self._connection = find_connection(given, context)
        self._channel = open_channel(self._connection)
        self._stub = jobs_service_pb2_grpc.JobsStub(self._channel)

    @property
    def server(self) -> str:
        """host:port"""
        return self._connection.server

    def close(self):
        self._channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    # Job files. cox reads them: paths, `--set`, and configurations of other trainers are as on its command line.

    def validate(self, job, **settings) -> list:
        """Every Problem of a job file (path, text, or dict). Needs no controller. `settings`: as `--set`; write
        **{'train.max_steps': 40}."""
        return programs.problems_of(job, programs.override_arguments(settings))

    def plan(self, job, **settings) -> dict:
        """Memory, steps and time that cox foresees. Needs no controller. InvalidJob has every fault."""
        name, text = programs.job_arguments(job)
        return json.loads(self._of_job_file('plan', job, ['plan', name, '-o', 'json'], text, settings))

    def submit(self, job, *, paused=False, idempotency_key='', **settings) -> Job:
        """Queues a job (path, text, or dict). InvalidJob has every fault. Relative paths of a text or a dict are those of
        the current folder."""
        name, text = programs.job_arguments(job)
        arguments = ['submit', name, '-o', 'name', *(['--paused'] if paused else [])]
        if idempotency_key:
            arguments += ['--idempotency-key', idempotency_key]
        return self.get(self._of_job_file('submit', job, arguments, text, settings).strip())

    def _of_job_file(self, verb, job, arguments, text, settings):
        overrides = programs.override_arguments(settings)
        try:
            return programs.run_cox([*arguments, *overrides], text, self._environment())
        except InvalidJob as error:
            raise InvalidJob(str(error), programs.problems_of(job, overrides)) from None

    def _environment(self):
        """Variables by which cox reaches the same controller."""
        found = self._connection
        return {'COXSWAIN_SERVER': found.server, 'COXSWAIN_TLS_CA': found.ca, 'COXSWAIN_TLS_CERT': found.cert,
                'COXSWAIN_TLS_KEY': found.key, 'COXSWAIN_TOKEN': found.token, 'COXSWAIN_TOKEN_FILE': found.token_file}

    # Jobs.

    def get(self, job) -> Job:
        return Job(self, self._call('Get', jobs_service_pb2.GetRequest(job=_id(job))))

    def list(self, labels=None) -> list:
        """All jobs, the newest first; with `labels` (a dict) those that have them all."""
        request = jobs_service_pb2.ListRequest(labels=[f'{key}={value}' for key, value in (labels or {}).items()])
        jobs = []
        while True:
            page = self._call('List', request)
            jobs += [Job(self, job) for job in page.jobs]
            if not page.next_page_token:
                return jobs
            request.page_token = page.next_page_token

    def cancel(self, job, *, checkpoint=False) -> Job:
        return Job(self, self._call('Cancel', jobs_service_pb2.CancelRequest(job=_id(job), checkpoint=checkpoint)))

    def pause(self, job) -> Job:
        return Job(self, self._call('Pause', jobs_service_pb2.PauseRequest(job=_id(job))))

    def resume(self, job, *, steps=0) -> Job:
        """`steps` > 0: so many, then it pauses again."""
        return Job(self, self._call('Resume', jobs_service_pb2.ResumeRequest(job=_id(job), steps=steps)))

    def explain(self, job) -> str:
        """Why a job is in its state, in lines for people."""
        return self._call('Explain', jobs_service_pb2.ExplainRequest(job=_id(job))).text

    def workers(self) -> list:
        return list(self._call('ListWorkers', jobs_service_pb2.ListWorkersRequest()).workers)

    def watch(self, job, *, after=0, follow=True):
        """Iterator over the events of a job (v1.job_event_pb2.JobEvent), without gap or duplicate, until the job has ended;
        without `follow` those that there are. A controller that is away for a while is asked again."""
        last = after
        while True:
            request = jobs_service_pb2.WatchRequest(job=_id(job), after_event_id=last, follow=follow)
            try:
                for event in self._stream('Watch', request):
                    last = event.id
                    yield event
                return
            except Unreachable:
                if not self._comes_back(job):
                    raise

    async def watch_async(self, job, *, after=0, follow=True):
        """The same for asyncio: `async for event in client.watch_async(job)`."""
        last = after
        channel = open_channel(self._connection, grpc.aio)
        stub = jobs_service_pb2_grpc.JobsStub(channel)
        try:
            while True:
                request = jobs_service_pb2.WatchRequest(job=_id(job), after_event_id=last, follow=follow)
                try:
                    async for event in stub.Watch(request, metadata=self._metadata()):
                        last = event.id
                        yield event
                    return
                except grpc.RpcError as error:
                    away = _KINDS.get(error.code()) is Unreachable
                    if not (away and await asyncio.to_thread(self._comes_back, job)):
                        raise self._error(error) from None
        finally:
            await channel.close()

    def wait(self, job, *, display=None) -> Job:
        """Returns the job when it has succeeded. JobFailed: it failed or was cancelled. `display`: called with each event,
        for example a Progress."""
        for event in self.watch(job):
            if display is not None:
                display(event)
        ended = self.get(job)
        if ended.state != 'SUCCEEDED':
            raise JobFailed(f'job {ended.id} {ended.state}: {ended.error or "it was cancelled"}', ended)
        return ended

    def logs(self, job, *, rank=-1, tail=100, follow=False):
        """Iterator over log lines (v1.common_pb2.LogLine). `rank` -1: of all ranks and the controller."""
        yield from self._stream('Logs', jobs_service_pb2.LogsRequest(job=_id(job), rank=rank, tail=tail, follow=follow))

    def metrics(self, job) -> Table:
        """A row for each step that counts: a restart takes steps back."""
        return steps_table(self.watch(job, follow=False))

    def artifacts(self, job) -> dict:
        """Bytes of each file of the export, by name."""
        listed = self._call('ListArtifacts', jobs_service_pb2.ListArtifactsRequest(job=_id(job)))
        return {artifact.name: artifact.bytes for artifact in listed.artifacts}

    def download(self, job, folder) -> list:
        """Writes the export of a job into `folder`; returns the paths. A file appears when it is whole."""
        paths = []
        for name, size in self.artifacts(job).items():
            path = os.path.join(folder, name)
            if os.path.relpath(path, folder).startswith('..'):
                raise CoxswainError(f'the controller names a file outside the folder: {name}')
            self._fetch(job, name, size, path)
            paths.append(path)
        return paths

    def _fetch(self, job, name, size, path):
        os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or '.', delete=False) as file:
            try:
                for chunk in self._stream('Fetch', jobs_service_pb2.FetchRequest(job=_id(job), name=name)):
                    file.write(chunk.data)
                file.flush()
                if file.tell() != size:
                    raise CoxswainError(f'{name}: {file.tell()} bytes came, {size} are wanted')
                os.chmod(file.name, 0o644)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise

    def generate(self, source, prompts, **options) -> list:
        """Answers of a model's folder or of a job (id, id:step), in the order of the prompts. `options`: those of
        `cox generate`, for example max_new_tokens=64, temperature=0.7, adapter=folder."""
        arguments = ['generate', _id(source), '-o', 'json']
        for prompt in [prompts] if isinstance(prompts, str) else prompts:
            arguments += ['--prompt', prompt]
        for key, value in options.items():
            arguments += ['--' + key.replace('_', '-'), str(value)]
        answers = json.loads(programs.run_cox(arguments, None, self._environment()))
        return [answer['answer'] for answer in sorted(answers, key=lambda answer: answer['prompt'])]

    # Calls.

    def _metadata(self):
        token = find_token(self._connection)
        return [('authorization', 'Bearer ' + token)] if token else []

    def _call(self, method, request):
        try:
            return getattr(self._stub, method)(request, timeout=_CALL_SECONDS, metadata=self._metadata())
        except grpc.RpcError as error:
            raise self._error(error) from None

    def _stream(self, method, request):
        call = getattr(self._stub, method)(request, metadata=self._metadata())
        try:
            yield from call
        except grpc.RpcError as error:
            raise self._error(error) from None
        finally:
            call.cancel()

    def _comes_back(self, job):
        time.sleep(_PAUSE_SECONDS)
        try:
            grpc.channel_ready_future(self._channel).result(timeout=_CALL_SECONDS)
            self.get(job)
        except (grpc.FutureTimeoutError, Unreachable):
            return False
        return True

    def _error(self, error):
        message = error.details() or str(error.code())
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            message = f'no controller at {self.server}: {message}. cox up starts one'
        return _KINDS.get(error.code(), CoxswainError)(message)


def _id(job):
    return job.id if isinstance(job, Job) else os.fspath(job)
