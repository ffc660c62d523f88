"""Every number of ours in bench/results that another's stands beside, measured on the same kind of card."""
import json, os, re
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULTS = os.path.join(ROOT, 'bench', 'results')


@dataclass
class Source:
    """Where numbers come from: commands as they are typed, `commit` and `machine` as the file says."""
    file: str
    command: str
    peer_command: str
    commit: str
    machine: str


@dataclass
class Comparison:
    group: str  # training | attention | kernels | head | update
    label: str
    peer: str
    ours: float
    theirs: float
    unit: str  # tokens/s, where more is better, or a time
    source: Source = field(repr=False)

    @property
    def ratio(self):
        """How many times as fast ours is."""
        return self.ours / self.theirs if self.unit == 'tokens/s' else self.theirs / self.ours


def load(name):
    path = os.path.join(RESULTS, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def machine_of(results):
    """The card where there is one, and the host."""
    device = results.get('device', '')
    card = device.split('name=')[1].split(' sm=')[0] if 'name=' in device else ''
    machine = results.get('machine', device)
    return f'one {card}, {machine}' if card and card not in machine else machine


def card_of(machine):
    """H200, or 2 x H100."""
    return re.search(r'(\d x )?NVIDIA (\w+)', machine).group(0).replace('NVIDIA ', '')


def families():
    """Models of the families beside transformers, by card."""
    for file in ('h200_families.json', 'h100_families.json'):
        yield from families_of(file, load(file))


def families_of(file, results):
    card = card_of(machine_of(results))
    rows = {row['row']: row for row in results['rows']}
    for name, row in rows.items():
        for kind, peer_name in (('compiled', 'torch.compile'), ('layers', 'torch.compile by layers'), ('liger', 'Liger')):
            peer = rows.get(f'{name}_peer_{kind}_bf16')
            if not peer:
                continue
            source = Source(file, 'bench/device.sh --step-peers ROW',
                            f'bench/peer_step.py ROW --precision bf16 --warmup 2 --steps 8, torch {peer["torch"]}, '
                            f'transformers {peer["transformers"]}', row.get('commit', results['commit']),
                            machine_of(results))
            yield Comparison('training', f'{name}, {card}', peer_name, row['tokens_per_second'], peer['tokens_per_second'],
                             'tokens/s', source)


def step_files():
    """Rows that carry what LLM.Q did in the same call."""
    for name in sorted(os.listdir(RESULTS)):
        results = load(name) if name.endswith('.json') else None
        for row in (results or {}).get('rows', []):
            if isinstance(row, dict) and 'llmq_tokens_per_second' in row and 'tokens_per_second' in row:
                command = row.get('command', results.get('command', 'gpu_step_bench --row ROW'))
                source = Source(name, command, row['peer_command'],
                                row.get('commit', results.get('commit', '')),
                                row.get('machine', machine_of(results)))
                yield Comparison('training', f'{row["row"]}, {card_of(source.machine)}', 'LLM.Q', row['tokens_per_second'],
                                 row['llmq_tokens_per_second'], 'tokens/s', source)


def torch_loops():
    results = load('h200_torch_train.json')
    rows = {row['row']: row['tokens_per_second'] for row in results['rows']}
    source = Source('h200_torch_train.json', results['command'], 'the same, variants compile and liger '
                    f'(Liger {results["liger_kernel"]})', results['commit'], results['machine'])
    for shape in ('qwen25_05b', 'llama3_8b'):
        for peer, name in (('compile', 'torch.compile'), ('liger', 'Liger')):
            yield Comparison('training', f'{shape}, our kernels in torch', name, rows[f'{shape}_ours'],
                             rows[f'{shape}_{peer}'], 'tokens/s', source)


def quantized():
    results = load('h200_qlora.json')
    rows = {row['row']: row for row in results['rows']}
    for name, peer, label in (('7b_qlora_1024', '7b_qlora_1024_peer_plain_bf16', 'bitsandbytes'),
                              ('7b_qlora_1024_block', '7b_qlora_1024_peer_documented_bf16', 'bitsandbytes, recomputing')):
        source = Source('h200_qlora.json', 'bench/device.sh --qlora', 'bench/peer_step.py 7b_qlora_1024 --' +
                        ('documented' if 'documented' in peer else 'plain'),
                        rows[name].get('commit', results['commit']), machine_of(results))
        yield Comparison('training', name, label, rows[name]['tokens_per_second'], rows[peer]['tokens_per_second'],
                         'tokens/s', source)


def gangs():
    ours, peers = load('h200x2_gang.json'), load('h200x2_peers.json')
    for label in ('llama8b_full_512', '7b_full_512'):
        best = max((row for row in ours['rows'] if row['row'] == label), key=lambda row: row['gang']['tokens_per_second'],
                   default=None)
        for name, liger in (('FSDP2', False), ('FSDP2 + Liger', True)) if best else ():
            theirs = max((row for row in peers['rows'] if row['row'].startswith(f'{label}_peer') and
                          ('_liger_' in row['row']) == liger and 'tokens_per_second' in row),
                         key=lambda row: row['tokens_per_second'], default=None)
            if theirs is None:
                continue
            source = Source('h200x2_gang.json', f'bench/device.sh --gpus 2 --gang {label}', peers['script'],
                            best['commit'], peers['device'])
            yield Comparison('training', f'{label}, two GPUs', name, best['gang']['tokens_per_second'],
                             theirs['tokens_per_second'], 'tokens/s', source)


ATTENTION_PEERS = {'cudnn_deterministic': 'cuDNN deterministic', 'cudnn_atomics': 'cuDNN atomics',
                   'flash': 'FlashAttention', 'flash_deterministic': 'FlashAttention deterministic'}


def attention():
    """Forward and backward together: ours, whose bits repeat, beside each peer."""
    results = load('papers_attention.json')
    if not results:
        return
    times = {(row['heads'], row['documents'], row['engine']): row['forward_us'][1] + row['backward_us'][1]
             for row in results['rows'] if 'error' not in row}
    source = Source('papers_attention.json', results['command'], f'the same; {results["flash"]}', results['commit'],
                    machine_of(results))
    for (heads, documents, engine), ours in times.items():
        for peer, name in ATTENTION_PEERS.items() if engine == 'ours' else ():
            if (heads, documents, peer) in times:
                yield Comparison('attention', f'{heads}, {documents}', name, ours, times[heads, documents, peer], 'us', source)


def unsloth():
    results = load('h200_unsloth.json')
    rows = {row['row']: row for row in (results or {}).get('rows', [])}
    for name in ('0.5b_full_512', '0.5b_lora_512'):
        for suffix, label in (('_peer_unsloth', 'Unsloth'), ('_peer_unsloth_checkpoint', 'Unsloth, recomputing')):
            peer = rows.get(name + suffix, {})
            if 'tokens_per_second' not in peer or 'error' in peer:
                continue
            command = f'bench/peer_unsloth.py {name}{" --checkpoint" if "checkpoint" in suffix else ""}'
            source = Source('h200_unsloth.json', 'bench/device.sh --unsloth', f'{command}, Unsloth {peer["unsloth"]}',
                            rows[name].get('commit', results['commit']), machine_of(results))
            yield Comparison('training', name, label, rows[name]['tokens_per_second'], peer['tokens_per_second'],
                             'tokens/s', source)


KERNEL_FILES = ('papers_kernels.json', 'papers_kernels_rotations.json')  # a shape of a later one takes the place


def kernel_rows():
    """(row, its file, the file's results) of each op, width and variant."""
    found = {}
    for file in KERNEL_FILES:
        results = load(file) or {'rows': []}
        for row in results['rows']:
            found[row['op'], row['width'], row['variant']] = (row, file, results)
    return list(found.values())


HEAD_PEERS = {'eager': 'eager', 'compile': 'compile', 'liger': 'liger', 'cce_exact': 'cut-cross-entropy, all gradients'}


def torch_tables():
    """Kernels, LM head and update of bench/papers: ours beside each other variant of the same shape."""
    kernels = [(f'{row["op"]} {row["width"]}', row['full_ms'][1], row, file, results)
               for row, file, results in kernel_rows() if 'error' not in row]
    head = [(f'{row["rows"]} x {row["width"]} x {row["vocabulary"]}', row['milliseconds'][1], row, 'papers_lm_head.json', results)
            for results in [load('papers_lm_head.json') or {'rows': []}] for row in results['rows'] if 'error' not in row]
    update = [(f'adamw {row["model"]}, {row["dtype"]}{", clipped" if row["clipped"] else ""}', row['milliseconds'][1], row,
               'papers_adamw.json', results)
              for results in [load('papers_adamw.json') or {'rows': []}] for row in results['rows']]
    peers = {'kernels': dict.fromkeys(('eager', 'compile', 'liger')), 'head': HEAD_PEERS, 'update': {'fused': 'fused'}}
    for group, rows in (('kernels', kernels), ('head', head), ('update', update)):
        for shape, time, row, file, results in rows:
            for other, theirs, peer, _, _ in rows if row['variant'] == 'ours' else ():
                if other == shape and peer['variant'] in peers[group]:
                    source = Source(file, results['command'], 'the same', results['commit'], results['machine'])
                    yield Comparison(group, shape, peers[group][peer['variant']] or peer['variant'], time, theirs, 'ms', source)


def comparisons():
    for collect in (families, step_files, torch_loops, quantized, gangs, unsloth, attention, torch_tables):
        yield from collect()
