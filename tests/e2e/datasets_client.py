#!/usr/bin/env python3
"""Datasets of a Hub on loopback as the datasets library loads them and as `cox data inspect` does: the same records.

  tests/e2e/datasets_client.py PYTHON      PYTHON has datasets and huggingface_hub

Nightly runs it. It covers configs of a card, splits by name and by folder, slices, Parquet and JSON, compressed files, data_dir
and the branch that the Hub converted, over the network both times.
"""
import gzip, json, os, shutil, subprocess, sys, tempfile

BIN = os.path.abspath(os.environ.get('COXSWAIN_BIN', 'build/cpu/bin'))
CARD = '''---
configs:
- config_name: first
  data_files: [{split: train, path: a.jsonl}, {split: test, path: b.jsonl}]
- config_name: second
  default: true
  data_files: "c/*.jsonl"
---
'''
LOAD = '''import json, sys, datasets
rows = datasets.load_dataset(**json.loads(sys.argv[1]))
print(json.dumps([len(rows), rows[0], rows[len(rows) - 1]]))
'''
PARQUET = 'import json, sys, pyarrow as a, pyarrow.parquet as p; p.write_table(a.Table.from_pylist(json.loads(sys.argv[1])), sys.argv[2])'
# (what load_dataset takes); every split has its own number of records.
ASKED = [{'path': 'org/card', 'split': 'train'}, {'path': 'org/card', 'name': 'first', 'split': 'test'},
         {'path': 'org/card', 'name': 'first', 'split': 'train[10%:50%]'}, {'path': 'org/names', 'split': 'train'},
         {'path': 'org/names', 'split': 'validation'}, {'path': 'org/names', 'split': 'train+test[:3]'},
         {'path': 'org/folders', 'split': 'test'}, {'path': 'org/parquet', 'split': 'train[-7:]'},
         {'path': 'org/plain', 'split': 'train'}]


def records(first, count):
    return [{'text': f'record {i}', 'number': i} for i in range(first, first + count)]


def write(path, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    text = ''.join(json.dumps(row) + '\n' for row in rows)
    with (gzip.open if path.endswith('.gz') else open)(path, 'wt') as f:
        f.write(text)


def write_parquet(python, path, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run([python, '-c', PARQUET, json.dumps(rows), path], check=True)


def write_repositories(python, root):
    at = lambda name, path: os.path.join(root, 'datasets/org', name, '@main', path)
    write(at('card', 'a.jsonl'), records(0, 23))
    write(at('card', 'b.jsonl'), records(100, 5))
    write(at('card', 'c/1.jsonl'), records(200, 11))
    write(at('card', 'c/2.jsonl'), records(300, 2))
    with open(at('card', 'README.md'), 'w') as f:
        f.write(CARD)
    write(at('names', 'train.jsonl'), records(0, 17))
    write(at('names', 'dev.jsonl'), records(50, 6))
    write(at('names', 'test.jsonl.gz'), records(90, 9))
    write(at('folders', 'train/x.jsonl'), records(0, 8))
    write(at('folders', 'test/y.jsonl'), records(30, 4))
    write_parquet(python, at('parquet', 'data/train-00000-of-00002.parquet'), records(0, 12))
    write_parquet(python, at('parquet', 'data/train-00001-of-00002.parquet'), records(12, 3))
    write(at('plain', 'anything.jsonl'), records(0, 19))


def ours(asked, env):
    command = [os.path.join(BIN, 'cox'), 'data', 'inspect', asked['path'], '-o', 'json', '--split', asked['split']]
    command += ['--name', asked['name']] if 'name' in asked else []
    report = json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)
    return [report['records'], text_of(json.loads(report['first_record']))]


def text_of(record):
    """Of columns cox reads those that the format has."""
    return record['text']


def main():
    python = sys.argv[1]
    folder = tempfile.mkdtemp(prefix='coxswain-datasets-')
    write_repositories(python, folder)
    hub = subprocess.Popen([os.path.join(BIN, 'coxswain-test-hub'), folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    env = {**os.environ, 'HF_ENDPOINT': hub.stdout.readline().strip(), 'HF_HUB_DISABLE_TELEMETRY': '1',
           'HF_DATASETS_DISABLE_PROGRESS_BARS': '1'}
    failed = 0
    for asked in ASKED:
        theirs = subprocess.run([python, '-c', LOAD, json.dumps(asked)], env={**env, 'HF_HOME': os.path.join(folder, 'theirs')},
                                check=True, capture_output=True, text=True).stdout
        count, first, _ = json.loads(theirs)
        theirs = [count, text_of(first)]
        mine = ours(asked, {**env, 'HF_HOME': os.path.join(folder, 'ours')})
        failed += mine != theirs
        print('same' if mine == theirs else 'DIFFERS', asked, mine, theirs if mine != theirs else '')
    hub.stdin.close()
    hub.wait(timeout=20)
    shutil.rmtree(folder)
    print(f'{len(ASKED) - failed} of {len(ASKED)} are the same')
    sys.exit(failed != 0)


if __name__ == '__main__':
    main()
