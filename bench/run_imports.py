"""Two training steps of example configurations as they are, by `cox train FILE` against coxswain-test-hub.

The models and datasets that the files name are those of tiny_hub. Only what shortens a run is set: SETS.
"""
import json, os, shutil, subprocess, tempfile, time
import tiny_hub

SETS = ('train.num_epochs=null', 'train.max_steps=2', 'sequence_len=256')
LIMIT_S = 300  # of one file


def environment(folder, endpoint):
    """Hub, caches and state of this run alone."""
    own = {'HF_ENDPOINT': endpoint, 'HF_HOME': f'{folder}/hf', 'XDG_STATE_HOME': f'{folder}/state', 'NO_COLOR': '1',
           'XDG_CACHE_HOME': f'{folder}/cache', 'XDG_CONFIG_HOME': f'{folder}/config'}
    drop = ('HF_TOKEN', 'HF_HUB_CACHE', 'HF_HUB_OFFLINE', 'COXSWAIN_SERVER')
    return {**{k: v for k, v in os.environ.items() if k not in drop}, **own}


def fault_of(export, base_model):
    """What is wrong with an exported folder: None where it has weights, and an adapter names its base by the Hub id."""
    names = os.listdir(export)
    if not any(name.endswith('.safetensors') for name in names):
        return 'no weights in its export'
    if 'adapter_config.json' in names:
        with open(os.path.join(export, 'adapter_config.json')) as f:
            base = json.load(f)['base_model_name_or_path']
        return None if base == base_model else f'its adapter names the base {base}'
    return None


def train(cox, path, env, base_model):
    """None where the job ended SUCCEEDED with a whole export, else why not."""
    command = [cox, 'train', path, '--threads', '1', '-o', 'json', '--progress', 'none']
    for setting in SETS:
        command += ['--set', setting]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, env=env, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f'not within {LIMIT_S} s'
    try:
        job = json.loads(ran.stdout)
    except ValueError:
        job = {}
    if ran.returncode == 0 and job.get('state') == 'SUCCEEDED':
        return fault_of(job['artifact_dir'], base_model)
    return failure_of(ran, job)


def failure_of(ran, job):
    failure = job.get('failure') or {}
    said = [line for line in ran.stderr.splitlines() if line.startswith(('cox: ', '  '))]
    return failure.get('message') or ' '.join(said)[:600] or f'exit code {ran.returncode}'


def run_files(cox, checkout, files, show):
    """What came of each of `files`, paths below the checkout."""
    folder = tempfile.mkdtemp(prefix='coxswain-imports-')
    examples = f'{folder}/checkout'
    shutil.copytree(os.path.join(checkout, 'examples'), f'{examples}/examples')
    tiny_hub.write_hub(f'{folder}/hub', [config for _, config in files])
    server = os.path.join(os.path.dirname(os.path.abspath(cox)), 'coxswain-test-hub')
    hub = subprocess.Popen([server, f'{folder}/hub'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    failed, began = {}, time.monotonic()
    try:
        env = environment(folder, hub.stdout.readline().strip())
        for path, config in files:
            started = time.monotonic()
            why = train(cox, os.path.join(examples, path), env, config['base_model'])
            if why is not None:
                failed[path] = why.replace(folder, 'TMP')
            if show:
                print(f"{'SUCCEEDED' if why is None else 'failed':10} {time.monotonic() - started:5.1f} s  {path}  "
                      f"{failed.get(path, '')}", flush=True)
    finally:
        hub.stdin.close()
        hub.wait(10)
        shutil.rmtree(folder, ignore_errors=True)
    return {'device': 'cpu', 'sets': list(SETS), 'files': len(files), 'succeeded': len(files) - len(failed), 'failed': failed,
            'seconds': round(time.monotonic() - began)}
