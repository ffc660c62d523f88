"""A model of any shape that has read the questions of the quickstart's records: what an adapter can be trained on where
no pretrained weights of that shape are at hand. By a job of cox, on PATH or beside train_bench."""
import json, os, shutil, subprocess

import runs

SEQUENCE, BATCH = 512, 16  # tokens of a bin, bins of a step
JOB = """apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {{name: first-model}}
spec:
  base_model: {{path: {shape}, init: random}}
  method: pretrain
  datasets: [{{path: {folder}/questions.jsonl, format: completion}}]
  sequence_len: {sequence}
  train: {{global_batch_size: {batch}, max_steps: {steps}, learning_rate: 3.0e-4}}
  checkpoint: {{output_dir: {folder}/out, save_steps: 100000, resume: never}}
  resources: {{device: {device}, workers: 1}}
"""


def cox():
    return shutil.which('cox') or os.path.join(os.path.dirname(os.path.dirname(runs.program('train_bench'))), 'bin', 'cox')


def write_questions(path):
    with open(os.path.join(runs.ROOT, 'deploy/quickstart/train.jsonl'), encoding='utf-8') as records, \
            open(path, 'w', encoding='utf-8') as file:
        for line in records:
            file.write(json.dumps({'text': json.loads(line)['instruction']}) + '\n')


def make(shape, steps):
    """Trains a model of `shape`, a folder of config.json and a tokenizer, from random weights; its Hugging Face
    directory, which goes with the process. Failed: the job did."""
    folder = os.path.join(runs.SCRATCH, 'first-model')
    os.makedirs(folder)
    write_questions(os.path.join(folder, 'questions.jsonl'))
    job = os.path.join(folder, 'job.yaml')
    with open(job, 'w', encoding='utf-8') as file:
        file.write(JOB.format(shape=os.path.abspath(shape), folder=folder, sequence=SEQUENCE, batch=BATCH, steps=steps,
                              device=runs.DEVICE))
    env = dict(os.environ, XDG_STATE_HOME=folder, XDG_CACHE_HOME=folder)
    run = subprocess.run([cox(), 'train', job, '--progress', 'plain', '-o', 'json'], capture_output=True, text=True, env=env)
    if run.returncode != 0:
        raise runs.Failed((run.stderr + run.stdout)[-1500:])
    return json.loads(run.stdout)['artifact_dir']
