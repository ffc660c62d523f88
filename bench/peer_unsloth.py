#!/usr/bin/env python3
"""Rows 0.5b_full_512 and 0.5b_lora_512 of step_bench by Unsloth on the same GPU, with what shows that it trains.

  bench/peer_unsloth.py ROW [--tokenizer FOLDER] [--checkpoint] [--steps N] [--warmup N] [--seconds S] [--json FILE]

The model of bench/models with random weights, written as a checkpoint that FastLanguageModel loads in bfloat16;
--tokenizer: a folder with the files of a tokenizer, without which Unsloth loads none. Full: full_finetuning; LoRA: rank 32
on the seven linears, no dropout, as its documents ask for its fast kernels. --checkpoint: Unsloth's own, its default; without,
activations are kept, as ours keeps them. The loop is peer_step.py's: random tokens, every target valid, clip 1.0, fused
AdamW. Beside speed and memory: how many parameters were trained, how many of their gradients were not zero and the gradient
norm of each step, for a loop whose gradients are zero has no speed. Needs one GPU (rows of tiny: none), and unsloth and unsloth_zoo with what they
import: torch, transformers, trl, peft, accelerate, datasets, bitsandbytes, xformers, torchao, cut-cross-entropy, tyro,
msgspec, structlog, hf_transfer and pydantic.
"""
import json, math, os, shutil, statistics, tempfile, time

os.environ.update(HF_HUB_OFFLINE='1', UNSLOTH_DISABLE_STATISTICS='1')
import unsloth  # before what it changes
import torch
import transformers

import peer_step
import row_file

ROWS = {'0.5b_full_512': 0, '0.5b_lora_512': 32, 'tiny_full_512': 0, 'tiny_lora_512': 16}  # ranks
LINEARS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']
LENGTH = 512


def write_checkpoint(folder, model, tokenizer):
    config = transformers.AutoConfig.from_pretrained(os.path.join(peer_step.MODELS, model))
    with torch.device(peer_step.DEVICE):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    for name in os.listdir(tokenizer) if tokenizer else ():
        if name.startswith(('tokenizer', 'vocab', 'merges', 'special_tokens', 'generation')):
            shutil.copy(os.path.join(tokenizer, name), folder)


def load(folder, rank, checkpoint):
    again = 'unsloth' if checkpoint else False
    model, _ = unsloth.FastLanguageModel.from_pretrained(
        folder, max_seq_length=LENGTH, dtype=torch.bfloat16, load_in_4bit=False, full_finetuning=rank == 0,
        use_gradient_checkpointing=again)
    if rank:
        model = unsloth.FastLanguageModel.get_peft_model(
            model, r=rank, lora_alpha=2 * rank, target_modules=LINEARS, lora_dropout=0, bias='none',
            use_gradient_checkpointing=again, max_seq_length=LENGTH)
    return model.train()


class Trainer(peer_step.Trainer):
    """peer_step's, of a model that Unsloth loaded; the norm of each step is kept."""

    def __init__(self, row, args):
        self.batch, self.length, self.micro_steps, _ = peer_step.ROWS[row]
        self.split, self.norms = args.split, []
        with tempfile.TemporaryDirectory() as folder:
            write_checkpoint(folder, row.split('_')[0], args.tokenizer)
            self.model = load(folder, ROWS[row], args.checkpoint)
        self.vocab = self.model.config.vocab_size
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-4 if ROWS[row] else 2e-5, weight_decay=0.01, fused=True)
        self.random = torch.Generator(device=peer_step.DEVICE).manual_seed(1)
        self.loss_of = lambda ids: self.model(input_ids=ids, labels=ids).loss

    def step(self):
        loss, norm = super().step()
        self.norms.append(norm)
        return loss, norm

    def gradients(self):
        """Of one more batch: tensors and elements trained, and how many of the tensors have a gradient that is not zero."""
        ids = torch.randint(self.vocab, (self.batch, self.length), device=peer_step.DEVICE, generator=self.random)
        self.loss_of(ids).backward()
        reached = [p for p in self.parameters if p.grad is not None and p.grad.any().item()]
        return {'trainable': sum(p.numel() for p in self.parameters), 'tensors': len(self.parameters),
                'tensors_with_gradient': len(reached), 'elements_with_gradient': sum(p.numel() for p in reached),
                'dtypes': sorted({str(p.dtype).removeprefix('torch.') for p in self.parameters})}


def arguments():
    parser = peer_step.row_parser(__doc__, ROWS, steps=100, warmup=10)
    parser.add_argument('--tokenizer', help='a folder with the files of a tokenizer')
    return peer_step.parse_row(parser)


def row_of(args, trainer, measured, parameters, before):
    seconds, prepared, first, last, _ = measured
    norms = [norm.item() for norm in trainer.norms]
    rates = [trainer.tokens() / s for s in seconds]
    return {'row': f'{args.row}_peer_unsloth{"_checkpoint" if args.checkpoint else ""}',
            'tokens_per_second': statistics.median(rates), 'tokens_per_second_range': [min(rates), max(rates)],
            'ms_per_step': 1e3 * statistics.median(seconds), 'steps_timed': len(seconds), 'memory_gib':
            peer_step.memory_gib(trainer), 'loss': [first, last], 'grad_norm': [norms[0], norms[-1]],
            'grad_norm_range': [min(norms), max(norms)], 'parameters': parameters, 'unsloth': unsloth.__version__,
            'torch': torch.__version__, 'transformers': transformers.__version__, 'gpu_before': before,
            'gpu_after': peer_step.gpu_state()}


def main():
    began, args = time.monotonic(), arguments()
    torch.manual_seed(1)
    before = peer_step.gpu_state()
    trainer = Trainer(args.row, args)
    print(f'model made {time.monotonic() - began:.1f} s after the start', flush=True)
    measured = peer_step.measure(trainer, args)
    row = row_of(args, trainer, measured, trainer.gradients(), before)
    if not (math.isfinite(row['loss'][1]) and row['grad_norm_range'][0] > 0):
        row['error'] = f'loss {row["loss"][1]}, gradient norms from {row["grad_norm_range"][0]}: no speed'
    if args.json:
        row_file.keep(args.json, row)
    peak = f'{row["memory_gib"]["peak"]:.1f} GiB, ' if row['memory_gib'] else ''
    print(f"{row['row']}: {row['tokens_per_second']:,.0f} tokens/s, {peak}loss {row['loss'][0]:.4f} -> {row['loss'][1]:.4f}, "
          f"gradient norm {row['grad_norm'][0]:.4f} -> {row['grad_norm'][1]:.4f}, {row['parameters']['trainable']:,} trained, "
          f"{row['parameters']['tensors_with_gradient']} of {row['parameters']['tensors']} tensors with a gradient")
    print(json.dumps(row))
    return 1 if 'error' in row else 0


if __name__ == '__main__':
    raise SystemExit(main())
