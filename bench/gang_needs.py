"""What gang_jobs.py and checkpoint_jobs.py need, all asked for before a GPU is taken."""
import os, shutil, subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = ('cox', 'coxswain-controller', 'coxswain-supervisor', 'coxswain-worker-cuda')
EXPERTS = os.path.join(ROOT, 'bench/models/qwen3_30b_a3b/config.json')
FILES = (os.path.join(ROOT, 'deploy/quickstart/train.jsonl'),  # of which documents are made
         EXPERTS)
OF_A_MODEL = ('config.json', 'tokenizer.json')


def visible_gpus():
    """How many GPUs a worker started here could take; 0 where there is no driver."""
    try:
        listed = subprocess.run(['nvidia-smi', '-L'], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    here = sum(line.startswith('GPU ') for line in listed.splitlines())
    chosen = os.environ.get('CUDA_VISIBLE_DEVICES')
    return here if chosen is None else min(here, len([name for name in chosen.split(',') if name.strip()]))


def why_not_written(folder):
    """The reason why no file can be written into `folder`, which is made where it is not there; else None."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        return error.strerror
    return None if os.access(folder, os.W_OK | os.X_OK) else 'it may not be written'


def missing(model, gpus, folders):
    """A sentence for each thing that is missing. `model`: a folder; `folders`: those that are written."""
    found = [f'no program {program} on PATH: deploy/bundle.sh puts it into bin' for program in PROGRAMS
             if not shutil.which(program)]
    found += [f'no file {path}: it is part of the repository' for path in FILES if not os.path.isfile(path)]
    found += [f'no file {os.path.join(model, name)}: deploy/bundle.sh takes it from COXSWAIN_SHARED' for name in OF_A_MODEL
              if not os.path.isfile(os.path.join(model, name))]
    if (visible := visible_gpus()) < gpus:
        found.append(f'{gpus} GPUs are asked for and {visible} are visible: nvidia-smi -L and CUDA_VISIBLE_DEVICES say which')
    found += [f'cannot write into {folder}: {why}' for folder in folders if (why := why_not_written(folder))]
    return found


def check(program, model, gpus, folders):
    """Ends the process with one message that names everything that is missing."""
    if found := missing(model, gpus, folders):
        raise SystemExit(f'{program}: nothing was started. Missing:\n' + '\n'.join(f'  {one}' for one in found))
