#!/usr/bin/env python3
"""Rows llama8b_full_512 and 7b_full_512 of gang_jobs.py by transformers and torch's FSDP2 on the same GPUs: the peer of a
gang.

  bench/peer_fsdp.py --gpus N [--row ROW] [--batch SEQUENCES...] [--accumulate MICRO_STEPS] [--liger] [--recompute] [--compile]
                     [--reduce-each] [--attention sdpa|flash_attention_2] [--steps N] [--warmup N] [--seconds S]
                     [--deadline S] [--json FILE]
  bench/peer_fsdp.py --tiny     two processes on the CPU, two layers: that the script works

A process for each GPU. Same shape, random weights, random tokens, every target valid, clip 1.0, fused AdamW. Weights,
gradients and moments are bfloat16: fused AdamW keeps moments in the type of the weights (a job's are float32). Each
layer and the rest are sharded by fully_shard; layers are gathered again in backward, the rest stays (torch's default).
A step reduces gradients in its last micro-step only, so each GPU holds whole gradients before; --reduce-each: in each
micro-step, with gradients always sharded. --batch: sequences of a micro-step of a GPU, each size in turn until one
runs out of memory. --compile: each layer's forward, and the loss without --liger. --seconds: of a size, warm-up
included; --deadline: of all. Wall clock, the GPUs waited for after each step; median over the steps. The table has
the largest rank's memory: peak of tensors, reserved, and used on the GPU by all. PYTORCH_ALLOC_CONF and NCCL_* come
from the environment.
"""
import argparse, json, math, os, socket, statistics, subprocess, sys, tempfile, time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import gang_jobs

ROWS = ('llama8b_full_512', '7b_full_512')
TINY = dict(gang_jobs.LLAMA, vocab_size=256, hidden_size=64, intermediate_size=160, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2)
OUT_OF_MEMORY = 3  # exit code of a rank
GIB = 2**30
COLUMNS = ('GPUs', 'batch', 'tokens/step', 'tokens/s', 'ms/step', 'peak GiB', 'reserved', 'used', 'loss', 'grad norm')


def parameter_count(shape):
    hidden, heads = shape['hidden_size'], shape['num_attention_heads']
    attention = 2 * hidden * hidden + 2 * hidden * (hidden // heads * shape['num_key_value_heads'])
    if 'model_type' not in shape:  # Qwen2, with biases of q, k and v
        attention += hidden + 2 * (hidden // heads * shape['num_key_value_heads'])
    layer = attention + 3 * hidden * shape['intermediate_size'] + 2 * hidden
    return 2 * shape['vocab_size'] * hidden + shape['num_hidden_layers'] * layer + hidden


def config_of(shape):
    """Of Llama where the shape says so, else of Qwen2.5."""
    keys = {key: value for key, value in shape.items() if key not in ('architectures', 'model_type', 'rope_theta')}
    kind = transformers.LlamaConfig if 'model_type' in shape else transformers.Qwen2Config
    rope = {'rope_type': 'default', 'rope_theta': shape.get('rope_theta', 1e6)}
    return kind(**keys, rope_parameters=rope, use_cache=False)


def make_model(shape, args, device):
    """Sharded before any weight exists; each rank then draws its own shards."""
    config = config_of(shape)
    with torch.device('meta'):
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=args.attention, dtype=torch.bfloat16)
    mesh = init_device_mesh(device.type, (args.gpus,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    model.to_empty(device=device)
    model.model.rotary_emb = type(model.model.rotary_emb)(config).to(device)
    random = torch.Generator(device=device).manual_seed(1 + dist.get_rank())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shard = parameter.to_local()
            shard.fill_(not name.endswith('bias')) if parameter.dim() == 1 else shard.normal_(0, 0.02, generator=random)
    if args.recompute:
        model.gradient_checkpointing_enable({'use_reentrant': False})
    if args.compile:
        for layer in model.model.layers:
            layer.forward = torch.compile(layer.forward, dynamic=False)
        if not args.liger:
            model.loss_function = torch.compile(model.loss_function, dynamic=False)
    return model.train()


def largest(values, device):
    """Of all ranks, one by one."""
    values = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(values, dist.ReduceOp.MAX)
    return values.tolist()


class Trainer:
    """One optimizer step per call."""

    def __init__(self, shape, sequence, args, device):
        self.sequence, self.args, self.device, self.vocab = sequence, args, device, shape['vocab_size']
        self.model = make_model(shape, args, device)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, lr=2e-5, weight_decay=0.01, fused=True)
        self.random = torch.Generator(device=device).manual_seed(1001 + dist.get_rank())

    def step(self, batch):
        loss_sum = torch.zeros((), device=self.device)
        for micro_step in range(self.args.accumulate):
            ids = torch.randint(self.vocab, (batch, self.sequence + 1), device=self.device, generator=self.random)
            targets = ids[:, 1:].contiguous()
            last = micro_step == self.args.accumulate - 1
            self.model.set_requires_gradient_sync(last or self.args.reduce_each)
            loss = self.model(input_ids=ids[:, :-1], labels=targets, shift_labels=targets).loss / self.args.accumulate
            loss.backward()
            loss_sum += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss_sum, norm

    def timed(self, batch):
        """Seconds, loss over all ranks, norm of the gradient."""
        began = time.perf_counter()
        loss, norm = self.step(batch)
        if self.device.type == 'cuda':
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        dist.all_reduce(loss)
        return seconds, loss.item() / self.args.gpus, norm.full_tensor().item()

    def dtypes(self):
        name = lambda tensor: str(tensor.dtype).removeprefix('torch.')
        return {'weights': name(self.parameters[0]), 'reduced gradients': 'bfloat16',
                'moments': name(self.optimizer.state[self.parameters[0]]['exp_avg'])}


def measure(trainer, batch, args):
    """Fields of a row. Ranks stop together: the slowest clock decides."""
    cuda, began = trainer.device.type == 'cuda', time.monotonic()
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        retries = torch.cuda.memory_stats()['num_alloc_retries']
    steps = []
    while len(steps) < args.warmup + args.steps:
        steps.append(trainer.timed(batch))
        if not all(math.isfinite(value) and value > 0 for value in steps[-1][1:]):
            return {'error': f'loss {steps[-1][1]}, gradient norm {steps[-1][2]}: no speed'}
        spent = largest([time.monotonic() - began], trainer.device)[0]
        if len(steps) >= args.warmup + 3 and spent > args.seconds:
            break
    seconds = [step[0] for step in steps[args.warmup:]]
    tokens = batch * trainer.sequence * args.accumulate * args.gpus
    fields = {'tokens_per_second': tokens / statistics.median(seconds),
              'tokens_per_second_range': [tokens / max(seconds), tokens / min(seconds)],
              'ms_per_step': 1e3 * statistics.median(seconds), 'steps_timed': len(seconds),
              'steps_warm_up': args.warmup, 'tokens_per_step': tokens,
              'loss': [steps[0][1], steps[-1][1]], 'grad_norm': [steps[0][2], steps[-1][2]],
              'dtypes': trainer.dtypes()}
    if cuda:
        free, total = torch.cuda.mem_get_info()
        memory = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), total - free]
        memory = largest([*memory, torch.cuda.memory_stats()['num_alloc_retries'] - retries], trainer.device)
        fields['memory_gib'] = dict(zip(('peak', 'reserved', 'used'), (value / GIB for value in memory)))
        fields['alloc_retries'] = int(memory[3])
    return fields


def line(cells):
    return ''.join(f'{cell:>{max(len(title) + 2, 10)}}' for title, cell in zip(COLUMNS, cells))


def show(row):
    memory = [f'{row["memory_gib"][name]:.2f}' if 'memory_gib' in row else '' for name in ('peak', 'reserved', 'used')]
    cells = [row['gpus'], row['batch']]
    if 'tokens_per_second' in row:
        cells += [f'{row["tokens_per_step"]:,}', f'{row["tokens_per_second"]:,.0f}', f'{row["ms_per_step"]:,.1f}',
                  *memory, f'{row["loss"][1]:.4f}', f'{row["grad_norm"][1]:.3f}']
    notes = [f'{row["alloc_retries"]} retries of the allocator'] if row.get('alloc_retries') else []
    notes += [row['error']] if 'error' in row else []
    print(line(cells) + ''.join(f'  {note}' for note in notes), flush=True)


def work(rank, args, shape, sequence, port, file):
    """A rank: all sizes in turn; rank 0 appends each as a line to the file."""
    os.environ.setdefault('NCCL_SOCKET_IFNAME', 'lo')
    os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')
    device = torch.device('cpu') if args.tiny else torch.device('cuda', rank)
    if args.tiny:
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(device)
    if args.compile:
        torch._dynamo.config.recompile_limit = 64  # a size is a compilation
    if args.liger:
        from liger_kernel.transformers import _apply_liger_kernel
        _apply_liger_kernel(config_of(shape).model_type)  # its linear layer and cross entropy fused: its default
    dist.init_process_group('gloo' if args.tiny else 'nccl', init_method=f'tcp://127.0.0.1:{port}', rank=rank,
                            world_size=args.gpus, device_id=None if args.tiny else device)
    try:
        trainer = Trainer(shape, sequence, args, device)
        count = sum(parameter.numel() for parameter in trainer.parameters)
        if count != parameter_count(shape):
            raise RuntimeError(f'{count:,} parameters instead of {parameter_count(shape):,}')
        for batch in args.batch:
            if largest([time.monotonic()], device)[0] + args.seconds > args.end:
                break
            row = {'batch': batch, **measure(trainer, batch, args)}
            if rank == 0:
                with open(file, 'a', encoding='utf-8') as f:
                    f.write(json.dumps(row) + '\n')
                show({'gpus': args.gpus, **row})
            if 'error' in row:
                break
    except RuntimeError as error:  # torch's, NCCL's, cuBLAS's or Triton's: all are of this class
        if 'out of memory' in str(error).lower() or 'ALLOC_FAILED' in str(error):
            print(f'rank {rank}: {str(error).strip().splitlines()[0]}', file=sys.stderr, flush=True)
            os._exit(OUT_OF_MEMORY)  # the other ranks wait inside collectives: nothing can be torn down
        raise
    dist.destroy_process_group()
    os._exit(0)  # torch's threads, ended by Python at exit, abort at times


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def gpu_state():
    query = 'name,clocks.sm,power.draw,temperature.gpu'
    try:
        out = subprocess.run(['nvidia-smi', f'--query-gpu={query}', '--format=csv,noheader'], capture_output=True,
                             text=True, timeout=10, check=True)
        return out.stdout.strip().splitlines()
    except (OSError, subprocess.SubprocessError):
        return ['no nvidia-smi']


def run_ranks(args, shape, sequence):
    """Rows measured, and why the list ended before its end."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, 'rows')
        ranks = mp.spawn(work, (args, shape, sequence, free_port(), file), nprocs=args.gpus, join=False)
        error, late = None, False
        try:
            while not ranks.join(timeout=1, grace_period=5):
                if time.monotonic() > args.end and not late:
                    late = True
                    for process in ranks.processes:
                        process.kill()
        except (mp.ProcessRaisedException, mp.ProcessExitedException) as failure:
            error = str(failure).strip().splitlines()[-1]
            if late:
                error = 'not finished by the deadline'
            elif any(process.exitcode == OUT_OF_MEMORY for process in ranks.processes):
                error = 'out of memory'
            else:
                print(failure, file=sys.stderr)
        rows = []
        if os.path.exists(file):
            with open(file, encoding='utf-8') as f:
                rows = [json.loads(text) for text in f]
    return rows, error


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gpus', type=int, default=2)
    parser.add_argument('--row', choices=ROWS, default=ROWS[0])
    parser.add_argument('--batch', type=int, nargs='+', default=[4, 8, 16, 24, 32, 48, 64])
    parser.add_argument('--accumulate', type=int, help="default: the row's")
    parser.add_argument('--liger', action='store_true')
    parser.add_argument('--recompute', action='store_true', help='of each layer')
    parser.add_argument('--compile', action='store_true')
    parser.add_argument('--reduce-each', action='store_true')
    parser.add_argument('--attention', choices=('sdpa', 'flash_attention_2'), default='sdpa')
    parser.add_argument('--steps', type=int, default=10)
    parser.add_argument('--warmup', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=30)
    parser.add_argument('--deadline', type=float, default=480)
    parser.add_argument('--json', help='file whose "rows" gain these')
    parser.add_argument('--tiny', action='store_true')
    args = parser.parse_args()
    args.end = time.monotonic() + args.deadline
    row = gang_jobs.ROWS[args.row]
    args.accumulate = args.accumulate or row.micro_steps
    if args.tiny:
        args.gpus, args.batch, args.steps, args.warmup = 2, [2, 4], 3, 2
    elif torch.cuda.device_count() < args.gpus:
        raise SystemExit(f'peer_fsdp.py: {torch.cuda.device_count()} GPUs here, {args.gpus} asked for')
    if args.liger:
        try:
            import liger_kernel.transformers
        except ImportError as error:
            raise SystemExit(f'peer_fsdp.py: --liger needs the package liger-kernel: {error}')
    return args, TINY if args.tiny else gang_jobs.MODELS[row.model], 32 if args.tiny else row.sequence


def main():
    args, shape, sequence = parse()
    options = [name for name in ('liger', 'recompute', 'reduce_each') if getattr(args, name)]
    kind = 'compiled' if args.compile else 'plain'
    name = '_'.join([f"{'tiny' if args.tiny else args.row}_peer_fsdp_{kind}_bf16", *options])
    print(f'{name}, {args.accumulate} micro-steps, gradients reduced in '
          f"{'each' if args.reduce_each else 'the last'}; weights and moments bfloat16, rounded to nearest")
    print(line(COLUMNS), flush=True)
    versions = {'torch': torch.__version__, 'transformers': transformers.__version__}
    if args.liger:
        import importlib.metadata
        versions['liger'] = importlib.metadata.version('liger-kernel')
    before = gpu_state()
    measured, error = run_ranks(args, shape, sequence)
    common = {'sequence': sequence, 'micro_steps': args.accumulate, 'attention': args.attention, 'options': options,
              'parameters': {'trainable': parameter_count(shape)}, **versions,
              'environment': {k: v for k, v in sorted(os.environ.items()) if k.startswith(('NCCL_', 'PYTORCH_'))},
              'gpu_before': before, 'gpu_after': gpu_state()}
    rows = []
    for batch, row in zip(args.batch, [*measured, *([{'error': error}] if error else [])]):
        rows.append({'row': f'{name}_x{args.gpus}_b{batch}', 'gpus': args.gpus, 'batch': batch, **row, **common})
    if error and len(rows) > len(measured):
        show(rows[-1])
    left = args.batch[len(rows):]
    if left:
        print(f'not run: batch {", ".join(map(str, left))}')
    if args.json:
        results = {'rows': []}
        if os.path.exists(args.json):
            with open(args.json, encoding='utf-8') as f:
                results = json.load(f)
        names = {row['row'] for row in rows}
        results['rows'] = [row for row in results['rows'] if row['row'] not in names] + rows
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump(results, f, indent=1)
            f.write('\n')
    good = any('tokens_per_second' in row for row in rows)
    sys.exit(0 if good and all(row.get('error', 'out of memory') == 'out of memory' for row in rows) else 1)


if __name__ == '__main__':
    main()
