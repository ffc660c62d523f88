#!/usr/bin/env python3
"""Rows of gpu_step_bench, or of gang_jobs.py over several GPUs, and the same by LLM.Q, in turns.

  bench/llmq_turns.py TRAIN [ROW...] [--bench FILE] [--turns N] [--seconds S] [--limit S] [--json FILE]
  bench/llmq_turns.py TRAIN [ROW...] --gpus N --tokenizer FOLDER [...]      jobs through cox, which is on PATH

TRAIN: `train` of https://github.com/IST-DASLab/llmq, built as its README says. Same config.json (bench/models), micro-
batches, micro-steps and random tokens; its numbers are bfloat16 throughout, moments too, where ours are what the row
says. In a row of FP8 both engines compute the products of blocks in E4M3, with gradients in E5M2 and a scale for each
tensor; our row in bfloat16 has its turn between them. With cuBLAS 13 its FP8 ends at its first product, whose scales
have to be aligned to 16 bytes: TRAIN is then a build that allocates four floats for a tensor where it takes two.
LLM.Q's steps are those of its log but the first three. tokens_per_second, bfloat16_tokens_per_second and
llmq_tokens_per_second are medians over the turns. `over_bfloat16`, and `ratio` over LLM.Q, are medians of the turns'
ratios; a turn goes through the programs in the other direction than the one before, for a card warms up. With --gpus,
`gang` is what gang_jobs.py says of the last turn; with --alone `single` is a job on each GPU alone, all at once, in
the first turn. Each row is kept in the file when it is done; none
begins after --limit seconds. A table of the rows ends the output.
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
    '0.5b_full_1024_fp8': ('0.5b', 32, 1024, 4, ''),
    '1.5b_full_1024_fp8': ('1.5b', 32, 1024, 4, ''),
    '3b_full_1024_fp8': ('3b', 16, 1024, 4, ''),
    '7b_full_1024_fp8': ('7b', 4, 1024, 16, '--lmhead-chunks=2 --attn-bwd-chunks=2'),
}
GANG_ROWS = {
    '0.5b_full': ('0.5b', 32, 1024, 4, ''),
    '0.5b_full_x1': ('0.5b', 32, 1024, 1, ''),
    '7b_full': ('7b', 4, 1024, 16, '--lmhead-chunks=2 --attn-bwd-chunks=2'),
    '7b_full_zero3': ('7b', 4, 1024, 16, '--lmhead-chunks=2 --attn-bwd-chunks=2 --zero-level=3'),
}
FP8 = '_fp8'  # how such a row ends; our row of bfloat16 has the name before it
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
    products = ['--matmul-dtype=e4m3', '--gradient-dtype=e5m2'] if row.endswith(FP8) else ['--matmul-dtype=bf16']
    return [args.train, '--model', os.path.join(args.models, model), '--from-scratch', '--model-dtype=bf16',
            *products, '--opt-m-dtype=bf16', '--opt-v-dtype=bf16', '--use-cuda-graphs',
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
    our_rows = {'ours': row, **({'bfloat16': row.removesuffix(FP8)} if row.endswith(FP8) else {})}
    speeds, kept = {side: [] for side in (*our_rows, 'llmq')}, {}
    for turn in range(args.turns):
        for side in list(speeds)[::-1 if turn % 2 else 1]:
            with tempfile.TemporaryDirectory() as folder:
                if side == 'llmq':
                    speed = llmq(args, row, folder)
                else:
                    measured = (our_gang if args.gpus > 1 else ours)(args, our_rows[side], folder)
                    speed = measured['tokens_per_second']
                    kept = measured if side == 'ours' else kept
            speeds[side].append(speed)
            print(f'  {row}: {side} {speed:,.0f}', flush=True)
    return {**kept, **summary(speeds), 'turns': args.turns, 'peer_command': shown_command(args, row)}


def summary(speeds):
    """What a row says of the speeds of each side, in the order of the turns."""
    def over(name, side):
        ratios = [a / b for a, b in zip(speeds['ours'], speeds[side])]
        return {f'{side}_tokens_per_second': statistics.median(speeds[side]), name: statistics.median(ratios),
                f'{name}_range': [min(ratios), max(ratios)]}

    return {'tokens_per_second': statistics.median(speeds['ours']), **over('ratio', 'llmq'),
            **(over('over_bfloat16', 'bfloat16') if 'bfloat16' in speeds else {})}


def shown_command(args, row):
    """LLM.Q's, without folders of this machine."""
    command = [os.path.basename(c) if c == args.train else c for c in llmq_command(args, row, 'FOLDER')]
    return shlex.join(c.replace(args.models, 'bench/models').replace(args.tokens, 'TOKENS') for c in command)


def table(results):
    """Markdown; tokens/s, and ratios with the lowest and the highest of the turns."""
    def ratio(result, name):
        if name not in result:
            return ''
        low, high = result[f'{name}_range']
        return f'{result[name]:.3f} ({low:.3f} to {high:.3f})'

    lines = ['| row | Coxswain | in bfloat16 | LLM.Q | over bfloat16 | over LLM.Q |', '|---|---|---|---|---|---|']
    for row, result in results.items():
        bfloat16 = result.get('bfloat16_tokens_per_second')
        cells = [row, f'{result["tokens_per_second"]:,.0f}', f'{bfloat16:,.0f}' if bfloat16 else '',
                 f'{result["llmq_tokens_per_second"]:,.0f}', ratio(result, 'over_bfloat16'), ratio(result, 'ratio')]
        lines.append(f'| {" | ".join(cells)} |')
    return '\n'.join(lines)


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
    began, failed, results = time.monotonic(), 0, {}
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
                results[row] = measure(args, row)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                print(f'{row}: {error}', flush=True)
                failed += 1
                continue
            if args.json:
                row_file.keep(args.json, results[row])
    if results:
        print(table(results))
    return failed


if __name__ == '__main__':
    sys.exit(main())
