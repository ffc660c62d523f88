"""Jobs and answers of one `cox up` on this machine: one worker, on a GPU where runs.DEVICE says so. cox is on PATH, with
coxswain-controller, coxswain-supervisor and a worker beside it."""
import json, os, subprocess

import first_model
import runs


class Service:
    """Runs while it is entered, in a state directory of its own."""

    def __init__(self, folder):
        self.env = dict(os.environ, XDG_STATE_HOME=os.path.join(folder, 'state'), XDG_CACHE_HOME=os.path.join(folder, 'cache'),
                        NO_COLOR='1')

    def __enter__(self):
        self.cox('up', *(('--gpus', '1') if runs.DEVICE == 'cuda' else ('--workers', '1')))
        return self

    def __exit__(self, *_):
        subprocess.run([first_model.cox(), 'down'], capture_output=True, env=self.env)

    def cox(self, *args):
        """What it prints. Failed: its exit code is not 0."""
        run = subprocess.run([first_model.cox(), *args], capture_output=True, text=True, env=self.env)
        if run.returncode != 0:
            raise runs.Failed((run.stderr + run.stdout).strip()[-1500:] or f'cox {args[0]}: exit code {run.returncode}')
        return run.stdout

    def train(self, job, settings):
        """The ended job of the file, with these keys set. Failed: it did not succeed."""
        sets = [part for pair in settings.items() for part in ('--set', '%s=%s' % pair)]
        return json.loads(self.cox('submit', job, '--wait', '-o', 'json', *sets))

    def answers(self, model, adapter, prompts, tokens):
        """The likeliest answer to each prompt, asked by the chat template, of at most so many tokens."""
        asked = [word for prompt in prompts for word in ('-p', prompt)]
        told = json.loads(self.cox('generate', model, '--adapter', adapter, '--style', 'chat', '-n', str(tokens), '-o', 'json',
                                   *asked))
        return [each['answer'] for each in told]

    def origin(self):
        """{commit, machine} of the worker: the card, or the CPU and its cores."""
        worker = json.loads(self.cox('workers', '-o', 'json'))['workers'][0]
        cores = '' if runs.DEVICE == 'cuda' else f' x {os.cpu_count()}'
        return {'commit': worker['build']['commit'], 'machine': worker['device_name'] + cores}
