#!/usr/bin/env python3
"""Rows of gpu_step_bench, or of gang_jobs.py over several GPUs, and the same by LLM.Q, in turns.

  bench/llmq_turns.py TRAIN [ROW...] [--bench FILE] [--turns N] [--seconds S] [--limit S] [--json FILE]
  bench/llmq_turns.py TRAIN [ROW...] --gpus N --tokenizer FOLDER [...]      jobs through cox, which is on PATH

TRAIN: `train` of https://github.com/IST-DASLab/llmq, built as its README says. Same config.json (bench/models), micro-
batches, micro-steps and random tokens; its numbers are bfloat16 throughout, moments too, where ours are what the row
says. Its steps are those of its log but the first three. tokens_per_second and llmq_tokens_per_second are medians over
the turns, `ratio` is the median of the turns' ratios; each begins with the other than the one before, for a card warms
up. With --gpus, `gang` is what gang_jobs.py says of the last turn; with --alone `single` is a job on each GPU alone,
all at once, in the first turn. Each row is kept in the file when it is done; none begins after --limit seconds.
"""
import argparse, array, json, math, os, random, shlex, statistics, subprocess, sys, tempfile, time

import gang_jobs, row_file

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = {  # model, rows of a micro-step, length, micro-steps, flags
    '0.5b_full_1024': ('0.5b', 32, 1024, 4, ''),
    '0.5b_full_4096': ('0.5b', 8, 4096, 4, ''),
    '0.5b_full_8192': ('0.5b', 4, 8192, 4, ''),
    '0.5b_full_32768': ('0.5b', 1, 32768, 4, ''),
    '1.5b_full_1024': ('1.5b', 32, 1024, 4, '--lmhead-chunks=4'),
    '7b_full_1024': ('7b', 4, 1024, 16, '--lmhead-chunks=2 --attn-bwd-chunks=2'),
}
GANG_ROWS = {
    '0.5b_full': ('0.5b', 32, 1024, 4, ''),
    '0.5b_full_x1': ('0.5b', 32, 1024, 1, ''),
    '7b_full': ('7b', 4, 1024, 16, '--lmhead-chunks=2 --attn-bwd-chunks=2'),
    '7b_full_zero3': ('7b', 4, 1024, 16, '--lmhead-chunks=2 --attn-bwd-chunks=2 --zero-level=3'),
}
FIRST = 3  # of LLM.Q's steps, not counted


def write_tokens(path, vocabulary, tokens=8 << 20):
    """LLM.Q's format, version 2: 256 int32 of header, then the ids."""
    header = array.array('i', [0] * 256)
    header[0:2] = array.array('i', b'BIN.TOK\n')
    header[2:6] = array.array('i', [2, 4, tokens, vocabulary])
    ids = array.array('i', random.Random(1).choices(range(vocabulary), k=tokens))
    with open(path, 'wb') as f:
        header.tofile(f)
        ids.tofile(f)


def write_models(folder):
    """Ours with the two ids that LLM.Q asks for and does not use."""
    for model in {row[0] for row in (*ROWS.values(), *GANG_ROWS.values())}:
        with open(os.path.join(HERE, 'models', model, 'config.json')) as f:
            config = {**json.load(f), 'bos_token_id': 151643, 'eos_token_id': 151643}
        os.makedirs(os.path.join(folder, model))
        with open(os.path.join(folder, model, 'config.json'), 'w') as f:
            json.dump(config, f)


def row_of(command, row, path, seconds):
    """The row that a benchmark of ours writes into `path`; an error unless the program says that all went well."""
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    try:
        with open(path) as f:
            measured = json.load(f)['rows'][0]
    except (OSError, ValueError, LookupError):
        measured = {}
    if run.returncode != 0 or not measured:
        raise RuntimeError(f'{row}: exit code {run.returncode}, {measured.get("error", "no row")}; {run.stderr[-400:]}')
    return measured


def ours(args, row, folder):
    result, table = os.path.join(folder, 'ours.json'), os.path.join(args.tables, row)
    command = [args.bench, '--row', row, '--seconds', str(args.seconds), '--json', result, '--gemm-table', table]
    return row_of(command, row, result, 120)


def our_gang(args, row, folder):
    """A job over the GPUs, as gang_jobs.py keeps it; beside one on each alone in the first turn, with --alone."""
    known = os.path.join(args.tables, f'{row}.json')  # what is there is not measured again
    if not os.path.exists(known) and not args.alone:
        with open(known, 'w') as f:
            json.dump({'rows': [{'row': gang_jobs.ROWS[row].single, 'tokens_per_second': 1.0}]}, f)
    command = [sys.executable, os.path.join(HERE, 'gang_jobs.py'), 'run', folder, args.tokenizer, '--gpus',
               str(args.gpus), '--rows', row, '--single', known]
    entry = row_of(command, row, os.path.join(folder, 'gang.json'), 400)
    if 'each_gpu' in entry.get('single', {}):
        args.single[row] = entry['single']
        with open(known, 'w') as f:
            json.dump({'rows': [{'row': gang_jobs.ROWS[row].single, **entry['single']}]}, f)
    single = args.single.get(row)
    return {'row': row, 'gpus': args.gpus, 'tokens_per_second': entry['gang']['tokens_per_second'],
            'gang': entry['gang'], **({'single': single} if single else {})}


def llmq_command(args, row, folder):
    model, batch, length, micro_steps, flags = args.rows_known[row]
    return [args.train, '--model', os.path.join(args.models, model), '--from-scratch', '--model-dtype=bf16',
            '--matmul-dtype=bf16', '--opt-m-dtype=bf16', '--opt-v-dtype=bf16', '--use-cuda-graphs',
            f'--gpus={args.gpus}', f'--seq-length={length}', f'--batch-size={batch}',
            f'--grad-accumulation={micro_steps}', *flags.split(),
            '--steps=10000', '--eval-every-n-steps=100000', '--ckpt-interval=100000', f'--train-file={args.tokens}',
            f'--eval-file={args.tokens}', f'--log-file={folder}/log.json', f'--out-dir={folder}/out',
            f'--checkpoint-dir={folder}/checkpoints']


def steps_of(log):
    try:
        with open(log) as f:
            return [line for line in json.load(f) if line.get('log') == 'step']
    except (OSError, ValueError):  # not there yet, or being written
        return []


def llmq(args, row, folder):
    """Tokens/s, from as many steps as fit into the seconds."""
    command = llmq_command(args, row, folder)
    with open(os.path.join(folder, 'llmq.txt'), 'w+') as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
        began, deadline, steps = None, time.monotonic() + 150, []
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
            steps = steps_of(os.path.join(folder, 'log.json')) or steps
            if began is None and len(steps) >= FIRST:
                began = time.monotonic()
            if began is not None and time.monotonic() > began + args.seconds and len(steps) > FIRST + 2:
                break
        ended = process.poll()
        process.kill()
        process.wait()
        output.seek(0)
        said = output.read()[-600:]
    if ended is not None:  # it has far more steps than time
        raise RuntimeError(f'{row}: LLM.Q ended by itself, exit code {ended}, after {len(steps)} steps: {said}')
    if len(steps) <= FIRST:
        raise RuntimeError(f'{row}: {len(steps)} steps of LLM.Q: {said}')
    counted = steps[FIRST:]
    if not all(s[what] > 0 and math.isfinite(s[what]) for s in counted for what in ('loss', 'norm')):
        raise RuntimeError(f'{row}: a loss or a norm of LLM.Q is 0 or not finite')
    return statistics.median(1e3 * s['step_tokens'] / s['duration_ms'] for s in counted)


def measure(args, row):
    pairs, last = [], {}
    for turn in range(args.turns):
        speeds = {}
        for side in (('ours', 'llmq'), ('llmq', 'ours'))[turn % 2]:
            with tempfile.TemporaryDirectory() as folder:
                if side == 'ours':
                    last = (our_gang if args.gpus > 1 else ours)(args, row, folder)
                    speeds[side] = last['tokens_per_second']
                else:
                    speeds[side] = llmq(args, row, folder)
        pairs.append((speeds['ours'], speeds['llmq']))
        print(f'  {row}: {pairs[-1][0]:,.0f} and LLM.Q {pairs[-1][1]:,.0f}', flush=True)
    ratios = [a / b for a, b in pairs]
    command = [os.path.basename(c) if c == args.train else c for c in llmq_command(args, row, 'FOLDER')]
    command = [c.replace(args.models, 'bench/models').replace(args.tokens, 'TOKENS') for c in command]
    return {**last, 'tokens_per_second': statistics.median(a for a, _ in pairs),
            'llmq_tokens_per_second': statistics.median(b for _, b in pairs), 'ratio': statistics.median(ratios),
            'ratio_range': [min(ratios), max(ratios)], 'turns': args.turns, 'peer_command': shlex.join(command)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('train')
    parser.add_argument('rows', nargs='*', help=f'of {", ".join(ROWS)}; with --gpus of {", ".join(GANG_ROWS)}')
    parser.add_argument('--bench', default='gpu_step_bench')
    parser.add_argument('--turns', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=8, help='of timed steps')
    parser.add_argument('--limit', type=float, default=500)
    parser.add_argument('--json')
    parser.add_argument('--gpus', type=int, default=1)
    parser.add_argument('--tokenizer', help='folder of a tokenizer of the Qwen2.5 family, for --gpus')
    parser.add_argument('--alone', action='store_true', help='with --gpus')
    args = parser.parse_args()
    if args.gpus > 1 and not args.tokenizer:
        parser.error('--gpus needs --tokenizer')
    args.rows_known, args.single = GANG_ROWS if args.gpus > 1 else ROWS, {}
    if unknown := set(args.rows) - set(args.rows_known):
        parser.error(f'no row {", ".join(sorted(unknown))}; there are {", ".join(args.rows_known)}')
    began, failed = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as scratch:
        args.tables, args.models, args.tokens = (os.path.join(scratch, n) for n in ('tables', 'models', 'tokens.bin'))
        os.makedirs(args.tables)
        write_models(args.models)
        write_tokens(args.tokens, 151936)
        for row in args.rows or args.rows_known:
            if time.monotonic() - began > args.limit:
                print(f'{row}: not begun after {args.limit:.0f} s')
                failed += 1
                continue
            try:
                result = measure(args, row)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                print(f'{row}: {error}', flush=True)
                failed += 1
                continue
            low, high = result['ratio_range']
            print(f'{row}: {result["tokens_per_second"]:,.0f} tokens/s, LLM.Q {result["llmq_tokens_per_second"]:,.0f}: '
                  f'{result["ratio"]:.3f} ({low:.3f} to {high:.3f})', flush=True)
            if args.json:
                row_file.keep(args.json, result)
    return failed


if __name__ == '__main__':
    sys.exit(main())
