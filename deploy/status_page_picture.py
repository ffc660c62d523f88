#!/usr/bin/env python3
"""Makes deploy/status_page.png: the status page while the quickstart job runs, another waits and one is done.

  deploy/status_page_picture.py [FILE]     needs the binaries of build/cpu and deploy/install-deps.sh --browser
"""
import json, os, re, shutil, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, 'tests/e2e'))
from browser import Browser

COX = os.path.join(ROOT, 'build/cpu/bin/cox')
QUICKSTART = os.path.join(ROOT, 'deploy/quickstart')


def job_file(folder, name, source, steps, workers=2):
    text = open(os.path.join(QUICKSTART, source)).read()
    for relative in ('./model', './train.jsonl', './held_out.jsonl'):
        text = text.replace(relative, os.path.join(QUICKSTART, relative[2:]))
    text = re.sub(r'output_dir: \S+?([,}])', rf'output_dir: {folder}/{name}\1', text)
    text = re.sub(r'name: quickstart[\w-]*', f'name: {name}', text)
    text = re.sub(r'max_steps: \d+', f'max_steps: {steps}', text)
    text = re.sub(r'workers: \d+', f'workers: {workers}', text)
    path = os.path.join(folder, f'{name}.yaml')
    with open(path, 'w') as out:
        out.write(text)
    return path


def main():
    picture = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(ROOT, 'deploy/status_page.png')
    folder = tempfile.mkdtemp(prefix='coxswain-picture-')
    env = dict(os.environ, XDG_STATE_HOME=folder, NO_COLOR='1')

    def cox(*args):
        return subprocess.run([COX, *args], env=env, check=True, capture_output=True, text=True).stdout

    def wait(job, reached):
        while not reached(json.loads(cox('get', job, '-o', 'json'))):
            time.sleep(0.2)

    try:
        address = json.loads(cox('up', '--workers', '3', '-o', 'json'))['metrics']
        first = cox('submit', job_file(folder, 'gsm8k-full', 'job-full.yaml', 5), '-o', 'name').strip()
        wait(first, lambda job: job['state'] == 'SUCCEEDED')
        running = cox('submit', job_file(folder, 'gsm8k-lora', 'job.yaml', 120), '-o', 'name').strip()
        wait(running, lambda job: job['state'] == 'RUNNING')
        cox('submit', job_file(folder, 'gsm8k-wide', 'job-lora.yaml', 40, workers=3), '-o', 'name')
        wait(running, lambda job: job['progress']['step'] >= 64)
        with Browser(1280, 1000) as page:
            page.open(f'http://{address}/')
            page.picture(picture, whole=False)
    finally:
        subprocess.run([COX, 'down'], env=env, check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    print(f'{picture}: {os.path.getsize(picture) / 1000:.0f} kB')


if __name__ == '__main__':
    main()
