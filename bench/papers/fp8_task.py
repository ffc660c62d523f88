#!/usr/bin/env python3
"""Does an adapter that was trained in FP8 answer as one that was trained in bfloat16? Exact answers, by seed and recipe.

  bench/papers/fp8_task.py [--small] [--numbers MOST...] [--base-steps N] [--seeds N] [--control-seeds N]
                           [--budget SECONDS] [--json FILE]

Word problems (word_problems.py) stand for GSM8K, as no pretrained model is at hand. A base of Qwen2's architecture reads one
part of the family, from random weights in bfloat16, and is exported. Adapters of rank 16 are trained on the other part, 200
steps each, by jobs under one `cox up`, and answer held-back sheets greedily in bfloat16. The seed is that of the adapter's
weights and of the order of records. Variants: the recipes of precision.fp8.recipe; `stored`, blockwise over the base
exported in FP8; `broken`, blockwise too, where the scales of one linear of that export are {factor} times what they were
while the adapter trains, and right where it answers, as answers read no products in FP8. An adapter learns around a wrong
scale: where it is wrong in answers too, nothing is seen.

The mean of a recipe's seeds may not be below the least of bfloat16's seeds. That of `broken` must be, and below that of
`stored` by more than bfloat16's seeds are apart. Exit code 1 else, and where a run failed, or bfloat16 answers less than 30
or more than 95 %. Of recipes equal to bfloat16 one in 15 is below the least of six seeds by chance, one in 5 of three (three
seeds a recipe, normal law). --small: for a CPU, which computes in float32 and emulates FP8.
"""
import argparse, json, os, shutil, signal, sys, time
from typing import NamedTuple

import cox_jobs
import fp8_scores
import runs
import stored_scales
import word_problems

CONTROL = 'bfloat16' if runs.DEVICE == 'cuda' else 'float32'
MODEL = os.path.join(runs.ROOT, 'deploy/quickstart/model')
HELD_BACK = 64  # sheets; a job answers no more
STEPS = 200
TURN_END = 4095  # <|im_end|> of the tokenizer of MODEL
ANSWER_TOKENS, QUESTION_TOKENS = 24, 32  # most of a line; of a question with its line, nearly
MOST_SHEETS = 30000  # which take seconds to write; longer jobs read them again
BROKEN_LINEAR, BROKEN_FACTOR = 'model.layers.1.self_attn.v_proj', 4


class Size(NamedTuple):
    hidden: int  # a multiple of 128, as an export in FP8 has blocks of it
    intermediate: int  # another one
    blocks: int
    numbers: tuple  # largest numbers of problems, one of which is drawn for each: some easy, some hard
    questions: int  # of a sheet
    sequence: int  # tokens of a bin
    bins: int  # of a step
    base_steps: int
    base_rate: str
    rate: str
    seeds: int
    control_seeds: int


FULL = Size(512, 1408, 8, (9, 99, 999, 99999), 8, 1024, 8, 4000, '6.0e-4', '3.0e-4', 3, 6)
SMALL = Size(128, 384, 4, (9, 20), 4, 256, 4, 900, '2.0e-3', '5.0e-4', 1, 4)
JOB = """apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {{name: {part}}}
spec:
  base_model: {{path: {model}, init: {init}}}
  adapter: {adapter}
  lora: {{r: 16, alpha: 32}}
  datasets: [{{path: {folder}/{part}.jsonl, format: alpaca, prompt_style: chat}}]
  test_datasets: [{{path: {folder}/{part}_held_back.jsonl, format: alpaca, prompt_style: chat}}]
  sequence_len: {sequence}
  train: {{global_batch_size: {bins}, max_steps: {steps}, learning_rate: {rate}, warmup_ratio: 0.05, betas: [0.9, 0.98]}}
  eval: {{eval_steps: 0, sample_tokens: {tokens}, sample_prompts: {prompts}}}
  checkpoint: {{output_dir: {folder}/out-{part}, save_steps: 100000, resume: never}}
  export: {{verify: false}}
  resources: {{device: {device}, workers: 1}}
"""


def write_shape(size, folder):
    """config.json of the size beside the quickstart's tokenizer. A turn's end is the end of an answer."""
    os.makedirs(folder)
    for name in ('tokenizer.json', 'tokenizer_config.json'):
        shutil.copy(os.path.join(MODEL, name), folder)
    with open(os.path.join(MODEL, 'config.json'), encoding='utf-8') as file:
        config = json.load(file)
    config.update(hidden_size=size.hidden, intermediate_size=size.intermediate, num_hidden_layers=size.blocks,
                  num_attention_heads=size.hidden // 64, num_key_value_heads=2, head_dim=64, eos_token_id=TURN_END,
                  layer_types=['full_attention'] * size.blocks)
    with open(os.path.join(folder, 'config.json'), 'w', encoding='utf-8') as file:
        json.dump(config, file)
    return folder


def write_part(size, part, steps, model, folder):
    """(the job of the part of the family, its held-back records)"""
    held = word_problems.sheets(HELD_BACK, 1, part, size.numbers, size.questions)
    read = steps * size.bins * max(size.sequence // (QUESTION_TOKENS * size.questions), 1)
    records = word_problems.sheets(min(read, MOST_SHEETS), 2, part, size.numbers, size.questions, without=held)
    word_problems.write(os.path.join(folder, f'{part}.jsonl'), records)
    word_problems.write(os.path.join(folder, f'{part}_held_back.jsonl'), held)
    is_base = part == 'base'
    path = os.path.join(folder, f'{part}.yaml')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(JOB.format(
            part=part, model=model, init='random' if is_base else 'pretrained', adapter='none' if is_base else 'lora',
            folder=folder, sequence=size.sequence, bins=size.bins, steps=steps, device=runs.DEVICE,
            rate=size.base_rate if is_base else size.rate, tokens=ANSWER_TOKENS * size.questions,
            prompts=json.dumps([record['instruction'] for record in held])))
    return path, held


def score(job, held, when='answer'):
    return word_problems.exact(held, [sample.get(when, '') for sample in job['samples']])


class Bases(NamedTuple):
    plain: str  # folders: in bfloat16
    stored: str  # in FP8
    broken: str  # with one scale that is wrong


def make_bases(service, size, folder):
    """(Bases, what is told of them)"""
    shape = write_shape(size, os.path.join(folder, 'shape'))
    job, held = write_part(size, 'base', size.base_steps, shape, folder)
    began = time.monotonic()
    trained = service.train(job, {'precision.compute': CONTROL})
    stored = service.train(job, {'precision.compute': CONTROL, 'checkpoint.resume': trained['id'], 'export.dtype': 'fp8',
                                 'checkpoint.output_dir': os.path.join(folder, 'out-stored')})
    broken = os.path.join(folder, 'broken')
    stored_scales.copy_with(stored['artifact_dir'], broken, BROKEN_LINEAR, BROKEN_FACTOR)
    told = {'exact': score(trained, held), 'answers': HELD_BACK * size.questions, 'steps': size.base_steps,
            'wall_seconds': time.monotonic() - began}
    return Bases(trained['artifact_dir'], stored['artifact_dir'], broken), told


def settings(variant, seed, bases, folder):
    """Of the adapter's job, by key."""
    recipe = variant if variant in fp8_scores.HELD else 'blockwise'
    precision = {'precision.compute': CONTROL} if variant == CONTROL else \
        {'precision.compute': 'fp8', 'precision.fp8.recipe': recipe}
    base = {fp8_scores.STORED: bases.stored, fp8_scores.BROKEN: bases.broken}.get(variant, bases.plain)
    return {'train.seed': seed, **precision, 'base_model.path': base, 'checkpoint.output_dir': os.path.join(folder, f'out-{variant}-{seed}')}


def measure(service, job, held, variant, seed, bases, size, folder):
    began = time.monotonic()
    trained = service.train(job, settings(variant, seed, bases, folder))
    exact = score(trained, held)
    row = {'variant': variant, 'seed': seed, 'exact': exact, 'answers': HELD_BACK * size.questions,
           'exact_before': score(trained, held, 'first_answer'), 'held_back_loss': trained['progress']['eval_loss']}
    if variant == fp8_scores.BROKEN:
        prompts = [record['instruction'] for record in held]
        told = service.answers(bases.stored, trained['artifact_dir'], prompts, ANSWER_TOKENS * size.questions)
        row.update(exact=word_problems.exact(held, told), exact_as_trained=exact)
    return {**row, 'wall_seconds': time.monotonic() - began}


def order(size):
    """(variant, seed) of all runs: a seed of each first, then the control's spread."""
    variants = (*fp8_scores.HELD, fp8_scores.STORED, fp8_scores.BROKEN)
    return [(CONTROL, 1), *((variant, 1) for variant in variants),
            *((CONTROL, seed) for seed in range(2, size.control_seeds + 1)),
            *((variant, seed) for seed in range(2, size.seeds + 1) for variant in variants)]


def run_all(service, table, size, folder):
    bases, told = make_bases(service, size, folder)
    table.fields['base'] = told
    print(f'base: {told["exact"]} of {told["answers"]} exact, {told["wall_seconds"]:.0f} s', flush=True)
    job, held = write_part(size, 'adapter', STEPS, bases.plain, folder)
    for variant, seed in order(size):
        longest = max((row.get('wall_seconds', 0) for row in table.rows), default=0)
        if table.spent(f'{variant} seed {seed}', longest):
            continue
        try:
            row = measure(service, job, held, variant, seed, bases, size, folder)
            print(f'{variant} seed {seed}: {row["exact"]} of {row["answers"]} exact, before {row["exact_before"]}, '
                  f'{row["wall_seconds"]:.1f} s', flush=True)
        except runs.Failed as error:
            row = {'variant': variant, 'seed': seed, 'error': str(error)}
            print(f'{variant} seed {seed}: {error}', flush=True)
        table.add(row, service.origin())


def verdict(rows):
    """Prints the shares; whether nothing speaks against the goal."""
    for variant, of in fp8_scores.shares(rows).items():
        print(f'{variant}: {fp8_scores.mean(of):.1f} %, ' + ', '.join(f'seed {seed} {of[seed]:.1f} %' for seed in sorted(of)))
    said = fp8_scores.findings(rows, CONTROL)
    print('; '.join(said) or 'reached')
    return not said


def main():
    parser = argparse.ArgumentParser(description=__doc__.format(factor=BROKEN_FACTOR),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--small', action='store_true')
    parser.add_argument('--numbers', type=int, nargs='+', help='largest numbers of problems')
    parser.add_argument('--base-steps', type=int)
    parser.add_argument('--seeds', type=int, help='of a variant')
    parser.add_argument('--control-seeds', type=int)
    runs.add_options(parser, 400)
    args = parser.parse_args()
    given = {'numbers': args.numbers and tuple(args.numbers), 'base_steps': args.base_steps, 'seeds': args.seeds,
             'control_seeds': args.control_seeds}
    size = (SMALL if args.small else FULL)._replace(**{key: value for key, value in given.items() if value})
    table = runs.Table(args.json, args.budget, control=CONTROL, steps=STEPS, **size._asdict())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # of `timeout`: the service ends too
    with cox_jobs.Service(runs.SCRATCH) as service:
        run_all(service, table, size, runs.SCRATCH)
    return 0 if verdict(table.rows) else 1


if __name__ == '__main__':
    sys.exit(main())
