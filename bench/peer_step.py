#!/usr/bin/env python3
"""A row of step_bench by transformers and torch on the same GPU: the peer to alternate with.

  bench/peer_step.py ROW [--layers | --plain | --documented | --liger] [--precision mixed|bf16] [--split K] [--checkpoint]
                     [--steps N] [--warmup N] [--seconds S] [--json FILE]

ROW as in bench/worker/engine/step_rows.cc, of which it has those below. Same config.json (bench/models), random weights,
random tokens, every target valid, clip 1.0, fused AdamW, no dropout, no recomputation; attention by torch's SDPA.
torch.compile of model and loss as one graph; --layers: of each layer, the final norm and the loss, which takes a fraction
of the time to compile; neither with --plain, --documented or --liger. Rows of qlora: linears of the blocks in NF4 by bitsandbytes;
--documented prepares them by peft.prepare_model_for_kbit_training, with checkpointing of activations, as its documents tell.
mixed: float32 weights, gradients and moments under bfloat16 autocast. bf16: all of them bfloat16. Adapters are
float32 on a bfloat16 base either way. --split cuts each micro-step into K. --checkpoint recomputes the layers. Rows of
experts run transformers' grouped_mm on bfloat16 weights, and peft's target_parameters where LoRA adapts the experts; their documents are
as long as Alpaca's are on average, none has padding, and attention stays within each. Times by CUDA events, median over the
steps; prints tokens/s, peak GiB (JSON: optimizer states in it, seconds to the end of the first step), loss, and one JSON
line. Needs one GPU (rows of tiny: none), torch and transformers; peft for LoRA; bitsandbytes for qlora; liger_kernel for
--liger.
"""
import argparse, json, math, os, statistics, subprocess, time

import torch
import transformers

import row_file

ROWS = {  # rows of a micro-step, length, micro-steps, LoRA rank
    '0.5b_full_1024': (32, 1024, 4, 0),
    '0.5b_full_2048': (16, 2048, 4, 0),
    '1.5b_full_1024': (32, 1024, 4, 0),
    '7b_full_1024': (4, 1024, 16, 0),
    '0.5b_full_512': (16, 512, 1, 0),
    '0.5b_lora_512': (16, 512, 1, 32),
    '0.5b_lora_1024': (32, 1024, 1, 16),
    '7b_lora_1024': (8, 1024, 1, 16),
    'gemma3_4b_full_2048': (4, 2048, 4, 0),
    'phi4_mini_full_2048': (4, 2048, 4, 0),
    'smollm3_3b_full_2048': (4, 2048, 4, 0),
    'llama31_8b_full_1024': (4, 1024, 16, 0),
    'qwen3_8b_full_1024': (4, 1024, 16, 0),
    'gemma3_12b_lora_1024': (4, 1024, 1, 16),
    'qwen3_14b_lora_1024': (4, 1024, 1, 16),
    '7b_qlora_1024': (8, 1024, 1, 16),
    '30b_a3b_attn_lora_4096': (128, 128, 1, 16),
    '30b_a3b_lora_4096': (128, 128, 1, 16),
    'gpt_oss_20b_mxfp4_lora_4096': (128, 128, 1, 16),
    'tiny_full_512': (2, 512, 2, 0),
    'tiny_lora_512': (2, 512, 2, 16),
}
DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'models')
FOLDERS = {'30b_a3b': 'qwen3_30b_a3b', '30b_a3b_attn': 'qwen3_30b_a3b', 'gpt_oss_20b_mxfp4': 'gpt_oss_20b'}  # of MODELS, where not the row's word
ATTENTION = ['q_proj', 'k_proj', 'v_proj', 'o_proj']
EXPERTS = ['mlp.experts.gate_up_proj', 'mlp.experts.down_proj']


def quantized_model(config, lora_rank, documented):
    """Linears of the blocks in NF4 by bitsandbytes, doubly quantised. Not documented: without what peft's preparation of
    such a base costs here, float32 copies of embedding, head and norms, and checkpointing of activations."""
    import bitsandbytes
    with torch.device('meta'):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation='sdpa', dtype=torch.bfloat16)
    for name, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or name == 'lm_head':
            continue
        linear = bitsandbytes.nn.Linear4bit(module.in_features, module.out_features, bias=module.bias is not None,
                                            compute_dtype=torch.bfloat16, compress_statistics=True, quant_type='nf4',
                                            device='meta')
        parent, _, child = name.rpartition('.')
        setattr(model.get_submodule(parent), child, linear)
        weight = torch.randn(module.out_features, module.in_features, dtype=torch.bfloat16, device='cuda') * 0.02
        linear.weight = bitsandbytes.nn.Params4bit(weight, requires_grad=False, compress_statistics=True,
                                                   quant_type='nf4').to('cuda')
        if module.bias is not None:
            linear.bias = torch.nn.Parameter(torch.zeros(module.out_features, dtype=torch.bfloat16, device='cuda'))
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.is_meta:
                value = torch.ones if parameter.dim() == 1 else lambda shape, **options: torch.randn(shape, **options) * 0.02
                filled = value(parameter.shape, dtype=torch.bfloat16, device='cuda')
                setattr(module, name, torch.nn.Parameter(filled, requires_grad=False))
    with torch.device('cuda'):
        model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    model.is_loaded_in_4bit = True
    if documented:
        import peft
        model = peft.prepare_model_for_kbit_training(model)
    return adapted(model, lora_rank)


def adapted(model, lora_rank, modules='all-linear', parameters=None):
    import peft
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=lora_rank, lora_alpha=2 * lora_rank, target_modules=modules, target_parameters=parameters, lora_dropout=0.0,
        task_type='CAUSAL_LM'))
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model.train()


def make_model(size, lora_rank, dtype, args, quantized):
    config = transformers.AutoConfig.from_pretrained(os.path.join(MODELS, FOLDERS.get(size, size)))
    config.use_cache = False
    if args.liger:
        from liger_kernel.transformers import _apply_liger_kernel
        _apply_liger_kernel(config.model_type)
    if quantized:
        return quantized_model(config, lora_rank, args.documented)
    with torch.device(DEVICE):
        attention = 'eager' if config.model_type == 'gpt_oss' else 'sdpa'  # which knows no sinks
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=dtype)
    if args.checkpoint:
        model.gradient_checkpointing_enable({'use_reentrant': False})
    if args.layers:
        compile_layers(model)
    if hasattr(config, 'num_experts_per_tok'):
        model.set_experts_implementation('grouped_mm')
        return adapted(model, lora_rank, ATTENTION, None if '_attn_' in args.row else EXPERTS)
    return adapted(model, lora_rank) if lora_rank else model.train()


def compile_layers(model):
    """Layers of one kind share their graphs."""
    for layer in model.model.layers:
        layer.compile()
    model.model.norm.compile()
    model.loss_function = torch.compile(model.loss_function)


def gpu_state():
    query = 'clocks.sm,power.draw,temperature.gpu'
    try:
        out = subprocess.run(['nvidia-smi', '--id=0', f'--query-gpu={query}', '--format=csv,noheader'],
                             capture_output=True, text=True, timeout=10, check=True)
        return out.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return 'no nvidia-smi'


class Trainer:
    """One optimizer step of the row per call."""

    def __init__(self, row, args):
        self.batch, self.length, self.micro_steps, lora_rank = ROWS[row]
        self.split = args.split
        self.mixed = args.precision == 'mixed'
        frozen = lora_rank > 0
        dtype = torch.float32 if self.mixed and not frozen else torch.bfloat16
        model = make_model(row.rsplit('_', 2)[0], lora_rank, dtype, args, '_qlora_' in row)
        self.vocab = model.config.vocab_size
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-4 if frozen else 2e-5, weight_decay=0.01, fused=True)
        autocast = self.mixed or frozen

        def loss_of(ids):
            with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=autocast):
                return model(input_ids=ids, labels=ids).loss

        self.loss_of = torch.compile(loss_of) if kind_of(args) == 'compiled' else loss_of
        self.random = torch.Generator(device=DEVICE).manual_seed(1)

    def optimizer_gib(self):
        states = [t for state in self.optimizer.state.values() for t in state.values() if torch.is_tensor(t)]
        return sum(t.numel() * t.element_size() for t in states) / 2**30

    def tokens(self):
        return self.batch * self.length * self.micro_steps

    def step(self):
        micro_steps = self.micro_steps * self.split
        loss_sum = torch.zeros((), device=DEVICE)
        for _ in range(micro_steps):
            ids = torch.randint(self.vocab, (self.batch // self.split, self.length), device=DEVICE,
                                generator=self.random)
            loss = self.loss_of(ids) / micro_steps
            loss.backward()
            loss_sum += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        return loss_sum, norm


def mark():
    """A moment after everything before it; its host time where there is no GPU."""
    if DEVICE == 'cpu':
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    event.synchronize()
    return event


def seconds_between(a, b):
    return b - a if DEVICE == 'cpu' else a.elapsed_time(b) * 1e-3


def kind_of(args):
    return next((kind for kind in ('layers', 'plain', 'documented', 'liger') if getattr(args, kind)), 'compiled')


def measure(trainer, args):
    """Seconds of each timed step, when the first of all was done, first and last loss, last norm."""
    began = time.monotonic()
    first = None
    for count in range(max(args.warmup, 2)):
        loss, norm = trainer.step()
        first = loss.item() if first is None else first
        if count == 0:
            prepared = time.monotonic()
            print(f'first step took {prepared - began:.1f} s', flush=True)
        if args.seconds and count >= 2 and time.monotonic() - began > args.seconds:
            break
    marks = [mark()]
    began = time.monotonic()
    while len(marks) <= args.steps and not (args.seconds and len(marks) > 3 and time.monotonic() - began > args.seconds):
        loss, norm = trainer.step()
        marks.append(mark())
    seconds = [seconds_between(a, b) for a, b in zip(marks, marks[1:])]
    return seconds, prepared, first, loss.item(), norm.item()


def memory_gib(trainer):
    """Of torch's allocator; nothing on the CPU."""
    if DEVICE == 'cpu':
        return {}
    return {'peak': torch.cuda.max_memory_allocated() / 2**30, 'optimizer': trainer.optimizer_gib(),
            'reserved': torch.cuda.max_memory_reserved() / 2**30}


def row_parser(page, rows, steps, warmup):
    """Of a program that measures one of `rows`; its numbers of steps where none are given."""
    parser = argparse.ArgumentParser(description=page, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('row', choices=rows)
    parser.add_argument('--split', type=int, default=1)
    parser.add_argument('--checkpoint', action='store_true', help='activations of a layer are computed again in backward')
    parser.add_argument('--steps', type=int, default=steps)
    parser.add_argument('--warmup', type=int, default=warmup)
    parser.add_argument('--seconds', type=float, default=0)
    parser.add_argument('--json', help='file whose "rows" gain this one')
    return parser


def parse_row(parser):
    args = parser.parse_args()
    if DEVICE == 'cpu' and not args.row.startswith('tiny_'):
        parser.error(f'{args.row} needs a GPU')
    return args


def arguments():
    parser = row_parser(__doc__, ROWS, steps=100, warmup=20)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument('--layers', action='store_true', help='torch.compile of each layer, the final norm and the loss')
    kind.add_argument('--plain', action='store_true', help='no torch.compile')
    kind.add_argument('--documented', action='store_true',
                      help="no torch.compile; a quantised base as peft's documents prepare it")
    kind.add_argument('--liger', action='store_true', help="Liger's kernels, no torch.compile")
    parser.add_argument('--precision', choices=['mixed', 'bf16'], default='mixed')
    return parse_row(parser)


def main():
    began, args = time.monotonic(), arguments()
    torch.set_float32_matmul_precision('high')
    torch.manual_seed(1)
    before = gpu_state()
    trainer = Trainer(args.row, args)
    print(f'model made {time.monotonic() - began:.1f} s after the start', flush=True)
    seconds, prepared, first, last, norm = measure(trainer, args)
    after = gpu_state()
    if not (math.isfinite(last) and math.isfinite(norm) and norm > 0):
        raise SystemExit(f'peer_step.py: loss {last}, gradient norm {norm}: no speed')
    rates = [trainer.tokens() / s for s in seconds]
    name = f"{args.row}_peer_{kind_of(args)}_{args.precision}{'_checkpoint' if args.checkpoint else ''}"
    row = {'row': name, 'tokens_per_second': statistics.median(rates),
           'tokens_per_second_range': [min(rates), max(rates)], 'ms_per_step': 1e3 * statistics.median(seconds),
           'steps_timed': len(seconds), 'split': args.split, 'prepare_seconds': prepared - began,
           'memory_gib': memory_gib(trainer), 'loss': [first, last], 'grad_norm': [None, norm],
           'parameters': {'trainable': sum(p.numel() for p in trainer.parameters)},
           'torch': torch.__version__, 'transformers': transformers.__version__, 'gpu_before': before,
           'gpu_after': after}
    if args.json:
        row_file.keep(args.json, row)
    peak = f'{row["memory_gib"]["peak"]:.1f} GiB, ' if row['memory_gib'] else ''
    print(f"{name}: {row['tokens_per_second']:,.0f} tokens/s ({min(rates):,.0f} .. {max(rates):,.0f}), "
          f"{peak}loss {first:.4f} -> {last:.4f}, {len(seconds)} steps; {before}; {after}")
    print(json.dumps(row))


if __name__ == '__main__':
    main()
