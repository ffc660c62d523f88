#!/usr/bin/env python3
"""Writes tests/fuzz/corpus, but for what a crash added to it: files named found-*. Needs protoc.

  tests/fuzz/make_corpus.py
"""
import glob, gzip, json, os, re, shutil, struct, subprocess, sys, zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CORPUS = os.path.join(ROOT, 'tests/fuzz/corpus')
FIXTURES = os.path.join(ROOT, 'tests/fixtures')
# In the order of the RPCs in tests/fuzz/rpc/rpc.cc: messages of their requests.
JOBS = ['Submit', 'Validate', 'Plan', 'Get', 'List', 'Cancel', 'Pause', 'Resume', 'ListWorkers', 'Cordon',
        'Uncordon', 'Explain', 'ListArtifacts', 'Dump', 'Delete', 'Version', 'CreateToken', 'ListTokens',
        'RevokeToken', 'Watch', 'Logs', 'Inspect', 'Fetch', 'BeginUpload']
WORKER = ['Prepare', 'Connect', 'Run', 'SaveShard', 'WorkerLogs', 'WorkerInspect', 'WorkerDump', 'Abort', 'Release']
MESSAGES = ([(f'jobs_service.proto', f'{name}Request') for name in JOBS] +
            [('registry_service.proto', 'RegisterRequest'), ('registry_service.proto', 'HeartbeatRequest')] +
            [('worker_service.proto', 'Command' if name == 'Run' else f'{name}Request') for name in WORKER] +
            [('relay_service.proto', 'HostCommands'), ('relay_service.proto', 'EndWorkerRequest'),
             ('relay_service.proto', 'StacksRequest')])
JOB = '''apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {name: %s, labels: {team: a}}
spec:
  base_model: /model
  adapter: lora
  lora: {r: 8, alpha: 16, target_modules: [q_proj, v_proj]}
  datasets: [{path: /data.jsonl, format: chat, prompt_style: chat}]
  val_set_size: 3
  train: {max_steps: 12, global_batch_size: 4, learning_rate: 1.0e-3}
  eval: {eval_steps: 4}
  checkpoint: {output_dir: /out/%s, save_steps: 3}
  resources: {device: cpu, workers: 2}
'''
PLAN = '''job: "j" recipe_hash: "%s" model_path: "/models/none" init: "pretrained" seed: 42
model { architecture: "Qwen2ForCausalLM" vocab_size: 1000 hidden_size: 8 intermediate_size: 16 num_layers: 1
  num_heads: 2 num_kv_heads: 1 head_dim: 4 rms_norm_eps: 1e-6 layer_windows: 0
  rope { type: "default" theta: 10000 factor: 1 low_freq_factor: 1 high_freq_factor: 4 original_max_position: 8192 } }
parameters { name: "model.embed_tokens.weight" role: 1 layer: -1 rows: 1000 cols: 8 }
groups { name: "weights" lr_scale: 1 expected_elements: 8000 } lora {} replicate: 1 shard: 1 sequence_len: 64
micro_batch_bins: 1 max_documents_per_bin: 32 recompute: "none" lm_head_chunk_tokens: 16 beta1: 0.9 beta2: 0.999 eps: 1e-8
max_grad_norm: 1 compute_dtype: "float32" buffers { name: "weights" memory_class: 1 bytes: 1000 } recompute_every: 1
device: "cpu" master_dtype: "float32" gradient_dtype: "float32" attention_deterministic: true
attention_workspace_bytes: 4294967296 predicted {} overlap: true weight_slots: 2
''' % ('r' * 32)


def encode(file, message, text):
    return subprocess.run(['protoc', f'--proto_path={ROOT}/proto', f'--encode=coxswain.v1.{message}',
                           f'coxswain/v1/{file}'], input=text.encode(), capture_output=True, check=True).stdout


def call(name, text):
    index = next(i for i, (_, message) in enumerate(MESSAGES) if message == name)
    bytes_ = encode(*MESSAGES[index], text)
    return struct.pack('<BH', index, len(bytes_)) + bytes_


def quoted(bytes_):
    return '"' + ''.join(f'\\{b:03o}' for b in bytes_) + '"'


def rpc():
    """One file for each RPC, and calls that follow each other."""
    job = quoted(JOB.replace('%s', 'new').encode())
    for name in JOBS:
        no_job = ('Submit', 'Validate', 'Plan', 'List', 'ListWorkers', 'Cordon', 'Uncordon', 'Version', 'CreateToken', 'ListTokens', 'RevokeToken',
                  'BeginUpload')
        text = 'job: "runs"' if name not in no_job else ''
        text += {'Submit': f'yaml: {job} yaml_path: "/jobs/job.yaml" idempotency_key: "k"', 'List': 'labels: "team=a"',
                 'Validate': f'yaml: {job}', 'Plan': f'yaml: {job}', 'Resume': ' steps: 3', 'Watch': ' follow: true',
                 'Cordon': 'target: "sim/0" reason: "fan"', 'Uncordon': 'target: "sim"', 'Cancel': ' checkpoint: true',
                 'Logs': ' rank: -1 tail: 10 follow: true', 'Inspect': ' interval_ms: 100',
                 'CreateToken': 'user: "ann" role: "user"', 'RevokeToken': 'id: "0123456789ab"',
                 'BeginUpload': f'name: "a.jsonl" sha256: {quoted(bytes(32))} bytes: 100',
                 'Fetch': ' name: "adapter/model"'}.get(name, '')
        yield f'jobs-{name.lower()}', call(f'{name}Request', text)
    # A job is cancelled, deleted, submitted again, paused and resumed.
    yield 'jobs-life', b''.join(call(name, text) for name, text in [
        ('SubmitRequest', f'yaml: {job} start_paused: true'), ('ResumeRequest', 'job: "new" steps: 1'),
        ('PauseRequest', 'job: "runs"'), ('CancelRequest', 'job: "runs"'), ('DeleteRequest', 'job: "runs"'),
        ('ExplainRequest', 'job: "new"')])
    fence = 'term: 1 job: "runs" epoch: 1 worker_incarnation: "incarnation-1"'
    register = ('incarnation: "%s" address: "127.0.0.1:1" host: "h" slot: %d supervisor_address: "127.0.0.1:2" '
                'build { version: "1" device: "cpu" } memory_bytes: 1000')
    yield 'registry-register', call('RegisterRequest', register % ('new', 3))
    yield 'registry-takes-a-slot', call('RegisterRequest', register % ('other', 0) + f' current {{ {fence} }}')
    yield 'registry-heartbeat', call('HeartbeatRequest', f'incarnation: "incarnation-1" current {{ {fence} }} '
                                     'last_queued_seq: 9 last_done_seq: 8 draining: true')
    plan = encode('plan.proto', 'Plan', PLAN)
    fence = 'fence { term: 1 job: "j" epoch: 1 worker_incarnation: "fuzz" plan_hash: "=" }'
    prepare = call('PrepareRequest', f'{fence} world_size: 1 plan: {quoted(plan)}')
    bins = 'bins { bin_ids: 7 documents_per_bin: 1 document_lengths: 2 token_ids: "\\004\\0\\0\\0\\005\\0\\0\\0" targets: "\\001" }'
    steps = [call('ConnectRequest', f'{fence} gemm_table: "t"'),
             call('Command', f'{fence} seq: 1 train {{ {bins} loss_denominator: 1 learning_rate: 0.1 }}'),
             call('Command', f'{fence} seq: 2 eval {{ step: 1 {bins} }}'),
             call('Command', f'{fence} seq: 3 snapshot {{ step: 1 }}'),
             call('SaveShardRequest', f'{fence} step: 1 directory: "/d"')]
    yield 'worker-prepare', prepare
    yield 'worker-life', prepare + b''.join(steps) + call('ReleaseRequest', fence)
    yield 'worker-generate', prepare + steps[0] + call(
        'Command', f'{fence} seq: 1 generate {{ prompts {{ ids: 5 ids: 6 }} tokens: 3 ends: 7 sampling {{ top_p: 1 }} }}')
    yield 'worker-stop', prepare + call('Command', f'{fence} seq: 1 stop {{}}') + call('AbortRequest', f'{fence} reason: "r"')
    for name in ('WorkerLogs', 'WorkerInspect', 'WorkerDump'):
        yield f'worker-{name[6:].lower()}', prepare + call(f'{name}Request', 'tail: 3' if name == 'WorkerLogs' else '')
    command = quoted(encode('worker_service.proto', 'Command', 'seq: 3'))
    yield 'relay-run', call('HostCommands', f'shared: {command} entries {{ stream: 1 open {{ slot: 0 }} }} '
                            f'entries {{ stream: 1 command: {command} }} entries {{ stream: 1 half_close {{}} }}')
    yield 'relay-cancel', call('HostCommands', 'entries { stream: 1 open { slot: 0 } } entries { stream: 1 cancel {} } '
                               'entries { stream: 2 open { slot: 9 } }')
    yield 'relay-end', call('EndWorkerRequest', 'slot: 0 incarnation: "i" reason: "r"')
    yield 'relay-stacks', call('StacksRequest', 'slot: 0 incarnation: "echo-0" limit_ms: 100 most_bytes: 4096')


def job_yaml():
    yield 'small', JOB.replace('%s', 'tiny').encode()
    for path in sorted(glob.glob(os.path.join(ROOT, 'deploy/quickstart/job*.yaml'))):
        yield os.path.basename(path)[:-5], open(path, 'rb').read()
    yield 'anchors', b'apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: &m {name: a}\nspec: {<<: *m, base_model: [1, {a: ~}]}\n'
    yield 'full', JOB.replace('%s', 'full').replace('adapter: lora\n  lora: {r: 8, alpha: 16, target_modules: [q_proj, v_proj]}',
        'precision: {gradients: bfloat16}\n  optimizer: {name: adamw_8bit, weight_decay: 0.1}\n  sequence_len: 512').encode()


def safetensors_header():
    def file(words, header):
        return bytes([words]) + json.dumps(header, separators=(',', ':')).encode()
    entry = {'dtype': 'F32', 'shape': [2, 3], 'data_offsets': [0, 24]}
    yield 'one', file(6, {'a': entry})
    yield 'two', file(7, {'__metadata__': {'format': 'pt', 'k': 'v'}, 'a': entry,
                          'b\u00e9': {'dtype': 'BF16', 'shape': [2], 'data_offsets': [24, 28]}})
    yield 'empty', file(0, {})
    yield 'scalar', file(1, {'s': {'dtype': 'I32', 'shape': [], 'data_offsets': [0, 4]}})
    yield 'none', file(0, {'n': {'dtype': 'F8_E4M3', 'shape': [0, 9223372036854775807], 'data_offsets': [0, 0]}})


def chat_template():
    lines = [json.loads(line) for line in gzip.open(f'{FIXTURES}/templates/templates.jsonl.gz')]
    for name in ('trl--llama3.jinja', 'trl--gemma.jinja', 'ct--zephyr.jinja', 'axolotl--cohere.jinja', 'trl--qwen2_5.jinja',
                 'axolotl--mistral_v1.jinja', 'trl--deepseekv3.jinja', 'axolotl--phi_35.jinja'):
        yield name[:-6], next(line['source'] for line in lines if line['name'] == name).encode()
    yield 'words', ("{%- macro m(x, y=1) -%}{{ x|tojson(indent=2) ~ y }}{%- endmacro -%}{% set ns = namespace(n=0) %}"
                    "{% for m in messages if m.role != 'tool' %}{% set ns.n = ns.n + loop.index0 %}{{ m(m) }}"
                    "{% generation %}{{ m.content[::-1]|list|join('-')|upper|indent(2) }}{% endgeneration %}{% else %}{% break %}"
                    "{% endfor %}{% call m(1) %}{% endcall %}{% filter trim %} a {% endfilter %}{{ '%s{}' % 'é'|length }}"
                    "{{ '{:>7.2f}'.format(2.5) }}{{ range(9)|batch(2)|list }}{{ strftime_now('%Y') }}{{ raise_exception('no') }}"
                    ).encode()


def records():
    for index, name in enumerate(['records.csv', 'records.tsv', 'records.json', 'records.jsonl', 'records.jsonl.gz', 'records.jsonl.zst']):
        yield name.replace('.', '-'), bytes([index]) + open(f'{FIXTURES}/formats/{name}', 'rb').read()
    for index, record in enumerate([
            {'instruction': 'i', 'input': '', 'output': 'o', 'system': 's'},
            {'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': [{'type': 'text', 'text': 'a'}],
             'tool_calls': [{'function': {'name': 'f', 'arguments': '{}'}}], 'train': True}], 'tools': [{'name': 'f'}]},
            {'text': 'a\u00e9\U0001f642'},
            {'conversations': [{'from': 'human', 'value': 'q'}, {'from': 'gpt', 'value': 'a', 'weight': 0}]},
            {'prompt': [{'role': 'user', 'content': 'q'}], 'completion': [{'role': 'assistant', 'content': 'a'}]},
            {'segments': [{'text': 't', 'label': True}, {'text': 'u', 'label': False}]},
            {'input_ids': [1, 2, 3], 'labels': [-100, 2, 3], 'attention_mask': [1, 1, 1]}]):
        yield f'format-{index}', bytes([index]) + (json.dumps(record) + '\n').encode() * 2


def tokenizer_json():
    letters = [chr(c) for c in range(33, 127)] + [chr(c) for c in range(161, 173)] + [chr(c) for c in range(174, 256)]
    alphabet = letters + [chr(256 + i) for i in range(256 - len(letters))]
    vocab = {c: i for i, c in enumerate(alphabet)}
    vocab.update({'\u0120H': 256, 'el': 257, 'lo': 258})
    byte_level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True}
    base = {'version': '1.0', 'added_tokens': [{'id': 259, 'content': '<|im_end|>', 'single_word': False, 'lstrip': False,
            'rstrip': True, 'normalized': False, 'special': True}], 'normalizer': None, 'pre_tokenizer': byte_level,
            'post_processor': None, 'decoder': byte_level,
            'model': {'type': 'BPE', 'vocab': vocab, 'merges': ['\u0120 H', 'e l', ['l', 'o']]}}
    yield 'bytes', json.dumps(base, ensure_ascii=False).encode()
    split = dict(base, normalizer={'type': 'NFC'}, pre_tokenizer={'type': 'Sequence', 'pretokenizers': [
        {'type': 'Split', 'pattern': {'Regex': "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"},
         'behavior': 'Isolated', 'invert': False}, dict(byte_level, use_regex=False)]})
    yield 'split', json.dumps(split, ensure_ascii=False).encode()
    pieces = {'<unk>': 0, '<s>': 1, '</s>': 2, '\u2581': 3, 'H': 4, 'e': 5, 'l': 6, 'o': 7, '\u2581H': 8, 'el': 9, '<0xC3>': 10}
    yield 'characters', json.dumps({'added_tokens': [], 'normalizer': {'type': 'Sequence', 'normalizers': [
        {'type': 'Prepend', 'prepend': '\u2581'}, {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '\u2581'}]},
        'pre_tokenizer': None, 'post_processor': None, 'decoder': {'type': 'Sequence', 'decoders': [
            {'type': 'Replace', 'pattern': {'String': '\u2581'}, 'content': ' '}, {'type': 'ByteFallback'}, {'type': 'Fuse'},
            {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}]},
        'model': {'type': 'BPE', 'unk_token': '<unk>', 'fuse_unk': True, 'byte_fallback': True, 'vocab': pieces,
                  'merges': ['\u2581 H', 'e l']}}, ensure_ascii=False).encode()
    for name in ('llama', 'unigram_mapped'):
        yield f'sentencepiece-{name}', open(f'{FIXTURES}/tokenizer/sentencepiece_{name}.model', 'rb').read()


def torch_file():
    for version in ('1_13', '2_15'):
        path = f'{FIXTURES}/torch_files/by_torch_{version}.bin'
        pickled = zipfile.ZipFile(path).read(f'by_torch_{version}/data.pkl')
        yield f'file-{version}', bytes([0]) + open(path, 'rb').read()
        yield f'pickle-{version}', bytes([1]) + pickled


def manifest():
    point = {'step': 3, 'loss': 1.5, 'seconds': 0.5, 'token_accuracy': 0.25}
    run = {'step': 3, 'applied_updates': 3, 'tokens': 100, 'loss': 1.25, 'grad_norm': None, 'seconds': 60.5,
           'evals': [point], 'early_stop': {'without_improvement': 1}, 'best': point,
           'skipped': {'total': 2, 'in_a_row': 1, 'recent': [1, 2]}}
    whole = {'format': 'coxswain-checkpoint/1', 'job': 'j', 'term': 1, 'epoch': 2, 'recipe_hash': 'aa', 'plan_hash': 'bb',
             'fingerprint': 'f', 'world_size': 2, 'pass': 1.5, 'run': run,
             'files': [{'name': 'rank-0.safetensors', 'bytes': 10, 'sha256': '0' * 64}]}
    yield 'whole', json.dumps(whole).encode()
    yield 'largest', json.dumps(dict(whole, files=whole['files'] * 2)).replace('10,', f'{2**63 - 1},').encode()


def status_page():
    for name, path in [('root', '/'), ('ended', '/jobs/ended'), ('runs', '/jobs/runs'), ('points', '/jobs/runs.json'),
                       ('no-job', '/jobs/nobody'), ('json', '/jobs/.json'), ('odd', '/jobs/%2e%2e/\xff\x00<script>')]:
        yield name, path.encode('latin-1')


def main():
    for target in (chat_template, job_yaml, manifest, records, rpc, safetensors_header, status_page, tokenizer_json, torch_file):
        folder = os.path.join(CORPUS, target.__name__)
        os.makedirs(folder, exist_ok=True)
        for path in glob.glob(os.path.join(folder, '*')):
            if not os.path.basename(path).startswith('found-'):
                os.remove(path)
        for name, bytes_ in target():
            with open(os.path.join(folder, name), 'wb') as f:
                f.write(bytes_)


if __name__ == '__main__':
    sys.exit(main())
