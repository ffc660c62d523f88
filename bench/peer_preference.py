#!/usr/bin/env python3
"""A DPO row of gpu_step_bench by TRL's DPOTrainer on the same GPU: the peer to alternate with.

  bench/peer_preference.py ROW [--liger] [--checkpoint] [--split K] [--steps N] [--warmup N] [--seconds S] [--json FILE]

ROW as in bench/worker/engine/step_rows.cc, of which it has those below. Same config.json (bench/models), random weights, random
tokens, both documents of a pair 512 tokens long, every token but the first of a document a target, so that TRL pads nothing. The
reference is the base without the adapter (LoRA) or kept before the training (full), as in our rows. bfloat16 weights under an
adapter, float32 ones under bfloat16 autocast in full; fused AdamW; attention by torch's SDPA. --checkpoint: TRL's default, layers are
computed again in backward. --liger: Liger's layers, as TRL takes them. --split cuts each micro-step into K. Times of steps by the
host's clock around a synchronised device, median; prints tokens/s (both sides counted), peak GiB, loss, and one JSON line. Needs
one GPU (row tiny: none), torch, transformers, trl and its needs, peft for LoRA, liger_kernel for --liger.
"""
import json, math, os, statistics, tempfile, time

import datasets, tokenizers, torch, transformers, trl

import row_file
from peer_step import DEVICE, MODELS, gpu_state, parse_row, row_parser

ROWS = {  # pairs of a micro-step, length of a document, micro-steps, LoRA rank
    '7b_lora_dpo_512': (8, 512, 1, 16),
    '0.5b_full_dpo_512': (32, 512, 4, 0),
    'tiny_lora_dpo_32': (2, 32, 2, 4),
    'tiny_full_dpo_32': (2, 32, 2, 0),
}


class PreparedTrainer(trl.DPOTrainer):
    """Trains token ids as they are."""

    def _prepare_dataset(self, dataset, *unused):
        return dataset


class Clock(transformers.TrainerCallback):
    """Seconds of each step; ends the training when the time is over."""

    def __init__(self, warmup, seconds):
        self.warmup, self.limit, self.seconds, self.began = warmup, seconds, [], None

    def now(self):
        if DEVICE == 'cuda':
            torch.cuda.synchronize()
        return time.perf_counter()

    def on_step_end(self, args, state, control, **unused):
        now = self.now()
        if state.global_step > self.warmup:
            self.seconds.append(now - self.last)
        else:
            self.began = now
            if state.global_step == 1:
                print(f'first step done {now - START:.1f} s after the start', flush=True)
        self.last = now
        if self.limit and len(self.seconds) >= 3 and now - self.began > self.limit:
            control.should_training_stop = True


START = time.perf_counter()


def pairs(count, length, vocab):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(vocab, (count, 2, length), generator=generator).tolist()
    return datasets.Dataset.from_list(
        [{'prompt_ids': chosen[:1], 'chosen_ids': chosen[1:], 'rejected_ids': [chosen[0]] + rejected[2:]}
         for chosen, rejected in ids])


def tokenizer():
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({'<pad>': 0}, unk_token='<pad>'))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token='<pad>', eos_token='<pad>')


def make_trainer(args, clock, folder):
    batch, length, micro_steps, rank = ROWS[args.row]
    config = transformers.AutoConfig.from_pretrained(os.path.join(MODELS, args.row.split('_')[0]))
    config.use_cache = False
    with torch.device(DEVICE):
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation='sdpa', dtype=torch.bfloat16 if rank else torch.float32)
    steps = args.warmup + args.steps
    settings = trl.DPOConfig(
        output_dir=folder, per_device_train_batch_size=batch // args.split, gradient_accumulation_steps=micro_steps * args.split,
        max_steps=steps, max_length=None, learning_rate=1e-4 if rank else 2e-5, weight_decay=0.01, max_grad_norm=1.0, beta=0.1,
        bf16=DEVICE == 'cuda', gradient_checkpointing=args.checkpoint, use_liger_kernel=args.liger, optim='adamw_torch_fused',
        precompute_ref_log_probs=rank == 0, logging_steps=1, logging_nan_inf_filter=False, report_to=[], save_strategy='no',
        disable_tqdm=True, dataloader_num_workers=0, use_cpu=DEVICE == 'cpu')
    adapter = None
    if rank:
        import peft
        adapter = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules='all-linear', lora_dropout=0.0, task_type='CAUSAL_LM')
    data = pairs(batch * micro_steps * (2 if rank == 0 else min(steps, 16)), length, config.vocab_size)
    return PreparedTrainer(model=model, args=settings, train_dataset=data, processing_class=tokenizer(), peft_config=adapter,
                           callbacks=[clock])


def arguments():
    parser = row_parser(__doc__, ROWS, steps=40, warmup=3)
    parser.add_argument('--liger', action='store_true', help="Liger's layers")
    return parse_row(parser)


def main():
    args = arguments()
    torch.set_float32_matmul_precision('high')
    transformers.set_seed(1)
    before = gpu_state()
    clock = Clock(args.warmup, args.seconds)
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(args, clock, folder)
        trainer.train()
    logs = [entry for entry in trainer.state.log_history if 'grad_norm' in entry]
    losses, norm = [float(entry['loss']) for entry in logs], float(logs[-1]['grad_norm'])
    if not (math.isfinite(losses[-1]) and math.isfinite(norm) and norm > 0):
        raise SystemExit(f'peer_preference.py: loss {losses[-1]}, gradient norm {norm}: no speed')
    batch, length, micro_steps, _ = ROWS[args.row]
    tokens = batch * micro_steps * 2 * length
    rates = [tokens / seconds for seconds in clock.seconds]
    name = f"{args.row}_peer_trl{'_liger' if args.liger else ''}{'_checkpoint' if args.checkpoint else ''}"
    peak = torch.cuda.max_memory_allocated() / 2**30 if DEVICE == 'cuda' else 0
    row = {'row': name, 'tokens_per_second': statistics.median(rates), 'tokens_per_second_range': [min(rates), max(rates)],
           'ms_per_step': 1e3 * statistics.median(clock.seconds), 'steps_timed': len(rates), 'split': args.split,
           'memory_gib': {'peak': peak}, 'loss': [losses[0], losses[-1]], 'grad_norm': [None, norm],
           'parameters': {'trainable': sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)},
           'torch': torch.__version__, 'transformers': transformers.__version__, 'trl': trl.__version__, 'gpu_before': before,
           'gpu_after': gpu_state()}
    if args.json:
        row_file.keep(args.json, row)
    print(f"{name}: {row['tokens_per_second']:,.0f} tokens/s ({min(rates):,.0f} .. {max(rates):,.0f}), peak {peak:.1f} GiB, "
          f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, {len(rates)} steps")
    print(json.dumps(row))


if __name__ == '__main__':
    main()
