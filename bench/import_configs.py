#!/usr/bin/env python3
"""Counts what `cox import` makes of the example configurations of Axolotl and LLaMA-Factory.

  bench/import_configs.py --axolotl CHECKOUT --llama-factory CHECKOUT [--cox build/cpu/bin/cox] [--list]
  bench/import_configs.py --axolotl CHECKOUT --run [--cox build/cpu/bin/cox] [--list]

Counted are configurations that train a text model on supervised data, dense models and mixtures of experts apart; the
others are counted by what they are. Of dense ones `own_method` are those that show a method of their tool (METHODS):
another loss, update rule, start of an adapter, a choice of layers, quantised or sparse training. `plain` is the rest: full
fine-tuning, LoRA and QLoRA.
translated: a valid job. to_come: all that stands in the way is named as not supported yet. refused: something has no
counterpart. `few_bits` counts again, of those counted, what needs a base or an optimizer's states in 4 or 8 bits.
--run trains two steps of every configuration of Axolotl that translates, of whatever kind, as the file stands, and says
what each of the others needs (run_imports.py; beside cox lie the controller, a CPU worker and coxswain-test-hub).
Writes bench/results/import_configs.json, with --run its `run`; --list prints every file with its outcome.
"""
import argparse, collections, json, os, re, subprocess, sys
import yaml
import run_imports

VISION = re.compile(r'-vl|vision|llava|pixtral|voxtral|smolvlm|internvl|4\.6v|gemma-?3n|omni|audio|qwen2_5_vl|moss-vl|paddleocr', re.I)
EXPERTS = re.compile(r'a\d+b\b|mixtral|moe|llama-4|deepseek-v[234]|gpt-oss|glm-4\.[5-7]|kimi|trinity|qwen3-next|mistral-small-4|'
                     r'granite-4\.0-tiny|jamba|dbrx', re.I)
RECURRENT = re.compile(r'mamba|falcon-h1|nemotron-3|qwen3\.5', re.I)
QUANTISED = re.compile(r'gptq|awq|aqlm|hqq|bnb|prequantized', re.I)
METHODS = ('qat', 'llmcompressor', 'use_onebitllms', 'use_eaft', 'relora', 'lisa_n_layers', 'peft', 'unfrozen_parameters',
           'use_adam_mini', 'use_apollo', 'use_badam', 'use_galore', 'use_asft_loss', 'use_dft_loss', 'use_eaft_loss',
           'use_llama_pro', 'mixture_of_depths', 'pissa_init')


def has_own_method(c):
    adapter = c.get('finetuning_type') or (c.get('peft_config') or {}).get('name')
    return any(c.get(key) for key in METHODS) or adapter in ('oft', 'freeze')


def needs_few_bits(c):
    name = str(c.get('base_model') or c.get('model_name_or_path') or c.get('model'))
    quantised = c.get('quant_config') or {}
    bits = quantised.get('quantization_bit') or c.get('quantization_bit')
    if c.get('load_in_4bit') or c.get('adapter') == 'qlora' or bits == 4:
        yield 'base_in_4_bits'
    if c.get('load_in_8bit') or bits == 8:
        yield 'base_in_8_bits'
    if QUANTISED.search(name):
        yield 'quantised_checkpoint'
    if '8bit' in str(c.get('optimizer') or c.get('optim')):
        yield 'optimizer_in_8_bits'


def load(path):
    try:
        with open(path) as f:
            config = yaml.safe_load(f)
    except yaml.YAMLError:
        return None
    return config if isinstance(config, dict) else None


def kind_of_model(name):
    for kind, pattern in (('vision_or_sound', VISION), ('experts', EXPERTS), ('recurrent_layers', RECURRENT)):
        if pattern.search(name):
            return kind
    return 'supervised_text_dense'


def kind_of_axolotl(c):
    if 'base_model' not in c:
        return 'no_training'
    if any(c.get(k) for k in ('rl', 'reward_model', 'process_reward_model', 'num_labels', 'ebft')):
        return 'preference_or_reward'
    if c.get('processor_type') or c.get('is_multimodal'):
        return 'vision_or_sound'
    if c.get('pretraining_dataset') or c.get('diffusion'):
        return 'pretraining'
    if c.get('experts_implementation') or c.get('quantize_moe_experts') or c.get('lora_target_parameters'):
        return 'experts'
    return kind_of_model(c['base_model'])


def kind_of_llama_factory(c):
    if 'train_dataset' in c:  # of its second engine
        if 'multimodal' in c['train_dataset']:
            return 'vision_or_sound'
        return 'preference_or_reward' if 'dpo' in c['train_dataset'] else kind_of_model(c.get('model', ''))
    if not c.get('do_train') and c.get('stage') is None or c.get('do_predict'):
        return 'no_training'
    if c.get('stage') in ('dpo', 'kto', 'rm', 'ppo'):
        return 'preference_or_reward'
    if c.get('stage') == 'pt':
        return 'pretraining'
    if 'mllm' in str(c.get('dataset')) or 'llava' in str(c.get('dataset')):
        return 'vision_or_sound'
    return kind_of_model(str(c.get('model_name_or_path', '')))


def outcome(cox, path, extra):
    ran = subprocess.run([cox, 'import', path, *extra], capture_output=True, text=True)
    last = ran.stderr.strip().splitlines()[-1]
    if ran.returncode == 0:
        return 'translated', []
    found = re.search(r'not imported; in the way: (.*)', last)
    if found is None:
        return 'error', [last.split(': ', 2)[-1]]
    reasons = re.split(r'; (?=[^()]*(?:\(|$))', re.sub(r'(is not in )\S*/', r'\1', found[1]))
    return ('to_come' if all('not supported yet' in r for r in reasons) else 'refused'), reasons


def example_files(checkout):
    """(path below the checkout, configuration) of each example."""
    for folder, _, names in sorted(os.walk(os.path.join(checkout, 'examples'))):
        for name in sorted(names):
            path = os.path.join(folder, name)
            config = load(path) if name.endswith(('.yml', '.yaml')) else None
            if config is not None:
                yield os.path.relpath(path, checkout), config


def run(cox, checkout, show):
    """Trains what translates; by kind what the others need."""
    files, others = [], collections.defaultdict(dict)
    for path, config in example_files(checkout):
        result, why = outcome(cox, os.path.join(checkout, path), [])
        if result == 'translated':
            files.append((path, config))
        else:
            others[kind_of_axolotl(config)][path] = why
    result = run_imports.run_files(cox, checkout, files, show)
    kinds = collections.Counter(kind_of_axolotl(config) for _, config in files)
    return {**result, 'files_by_kind': dict(sorted(kinds.items())), 'others': sum(map(len, others.values())),
            'needs': {kind: dict(sorted(part.items())) for kind, part in sorted(others.items())}}


def commit(checkout):
    ran = subprocess.run(['git', '-C', checkout, 'rev-parse', 'HEAD'], capture_output=True, text=True)
    return ran.stdout.strip() or 'unknown'


def count(cox, checkout, kind_of, extra, show):
    kinds, reasons = collections.Counter(), collections.Counter()
    few_bits = collections.defaultdict(collections.Counter)
    outcomes = {'plain': collections.Counter(), 'own_method': collections.Counter()}
    experts, of_experts = collections.Counter(), {}
    for path, config in example_files(checkout):
        kind = kind_of(config)
        kinds[kind] += 1
        if kind not in ('supervised_text_dense', 'experts'):
            continue
        result, why = outcome(cox, os.path.join(checkout, path), extra)
        if show:
            print(f'{result:10} {path}  {"; ".join(why)}')
        if kind == 'experts':
            experts[result] += 1
            of_experts |= {path: why} if why else {}
            continue
        outcomes['own_method' if has_own_method(config) else 'plain'][result] += 1
        needs = list(needs_few_bits(config))
        for need in needs + ['any'] * bool(needs):
            few_bits[need][result] += 1
        reasons.update(f'{result}: {re.sub(r"adapter_name: ", "", w)}' for w in set(why))
    return {'configurations': dict(sorted(kinds.items())),
            'counted': {**summary(sum(outcomes.values(), collections.Counter())),
                        **{name: summary(part) for name, part in outcomes.items()}},
            'few_bits': {need: dict(sorted(part.items())) for need, part in sorted(few_bits.items())},
            'reasons': dict(reasons.most_common()),
            'experts': {**summary(experts), 'in_the_way': dict(sorted(of_experts.items()))}}


def summary(outcomes):
    total = sum(outcomes.values())
    found = outcomes['translated'] + outcomes['to_come']
    return {'configurations': total, 'outcomes': dict(sorted(outcomes.items())),
            'percent_translated_or_to_come': round(100 * found / max(1, total), 1)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--axolotl', required=True)
    parser.add_argument('--llama-factory', help='required without --run')
    parser.add_argument('--axolotl-commit', help='where the checkout has no .git')
    parser.add_argument('--llama-factory-commit', help='where the checkout has no .git')
    parser.add_argument('--cox', default='build/cpu/bin/cox')
    parser.add_argument('--out', default='bench/results/import_configs.json')
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--run', action='store_true')
    args = parser.parse_args()
    if not args.run and args.llama_factory is None:
        parser.error('--llama-factory is required without --run')
    return args


def count_both(args):
    data = os.path.join(args.llama_factory, 'data')
    result = {'bench': 'import_configs', 'commit': commit('.')[:12],
              'axolotl': {'commit': args.axolotl_commit or commit(args.axolotl),
                          **count(args.cox, args.axolotl, kind_of_axolotl, [], args.list)},
              'llama_factory': {'commit': args.llama_factory_commit or commit(args.llama_factory),
                                **count(args.cox, args.llama_factory, kind_of_llama_factory, ['--dataset-dir', data],
                                        args.list)}}
    for tool in ('axolotl', 'llama_factory'):
        for name in ('plain', 'own_method'):
            part = result[tool]['counted'][name]
            print(f"{tool}, {name}: {part['configurations']}, {part['outcomes']}, {part['percent_translated_or_to_come']} %")
        print(f"{tool}: {result[tool]['counted']['percent_translated_or_to_come']} % of all")
        experts = result[tool]['experts']
        print(f"{tool}, experts: {experts['configurations']}, {experts['outcomes']}")
        for need, part in result[tool]['few_bits'].items():
            print(f'{tool}, {need}: {part}')
    return result


def run_axolotl(args):
    ran = {'commit': commit('.')[:12], 'axolotl_commit': args.axolotl_commit or commit(args.axolotl),
           **run(args.cox, args.axolotl, args.list)}
    print(f"{ran['succeeded']} of {ran['files']} ended SUCCEEDED, in {ran['seconds']} s; {ran['others']} do not translate")
    return ran


def main():
    args = parse_arguments()
    before = {}
    if os.path.exists(args.out):
        with open(args.out) as f:
            before = json.load(f)
    if args.run:
        result = {**before, 'run': run_axolotl(args)}
    else:
        result = {**count_both(args), **({'run': before['run']} if 'run' in before else {})}
    with open(args.out, 'w') as f:
        f.write(json.dumps(result, indent=2) + '\n')
    return 0


if __name__ == '__main__':
    sys.exit(main())
