#!/usr/bin/env python3
"""Writes bench/papers/README.md and its plots from the files of bench/results; numbers come from nowhere else.

  bench/papers/page.py [--check]        --check: writes nothing, exit code 1 where the page is not what it would write
"""
import os, statistics, sys

import attention_section
import extra_memory
import fp8_section
import fp8_task_section
import rivals
import scaling_section
import sections

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = """# The field's tables, measured

Written by `bench/papers/page.py` from the files of `bench/results`: change those. Tables that published kernels and
trainers show of themselves, with ours beside them: one command each, on one machine, the peer's in the same call where no
other is named. A ratio is how many times as fast ours is; nearer to 1 than 2 % is level, for chips of one kind differ by
so much.
"""


def ranked(found):
    """(ahead, level, behind), the largest distance from 1 first."""
    kinds = {'win': [], 'other': [], 'loss': []}
    for c in found:
        kinds[sections.kind_of(c.ratio)].append(c)
    return (sorted(kinds['win'], key=lambda c: -c.ratio), kinds['other'], sorted(kinds['loss'], key=lambda c: c.ratio))


def named(found):
    return '; '.join(f'{c.label} / {c.peer} **{c.ratio:.2f}**' for c in found) or 'nothing'


def minute(found):
    lines = ['## In one minute']
    names = {'training': 'Training steps', 'attention': 'Attention, forward and backward', 'kernels': 'Other kernels, forward '
             'and backward', 'head': 'LM head with its loss', 'update': 'AdamW of all parameters'}
    for group, name in names.items():
        mine = [c for c in found if c.group == group]
        if not mine:
            lines.append(f'- **{name}**: not measured beside peers.')
            continue
        ahead, level, behind = ranked(mine)
        median = statistics.median(c.ratio for c in mine)
        memory = {'kernels': extra_memory.of_kernels, 'head': extra_memory.of_head}.get(group, str)()
        lines.append(f'- **{name}**: in time ahead in {len(ahead)} of {len(mine)}, level in {len(level)}, behind in '
                     f'{len(behind)}; median ratio {median:.2f}. Furthest ahead: {named(ahead[:2])}. Behind: {named(behind[:6])}'
                     + (f' and {len(behind) - 6} more.' if len(behind) > 6 else '.') + memory)
    if all(c.peer != 'LLM.Q' for c in found):
        lines.append('- **LLM.Q**: not measured in one call with ours; on another card of the kind, `bench/results/README.md`.')
    return lines + [sections.claims(), '', '![Ratios of training steps](plots/training.svg)', '']


def training(found):
    lines = ['## Training steps beside others']
    rows = {}
    for c in found:
        rows.setdefault(c.label, []).append(c)
    lines += sections.table(['row', 'ours, tokens/s', "peers' (ratio)"], [
        [label, f'{of[0].ours:,.0f}', '; '.join(f'{c.peer} {c.theirs:,.0f} ({c.ratio:.2f})' for c in of)]
        for label, of in rows.items()])
    return lines + sources(found) + ['']


def sources(found):
    """Commands of the rows: a line for all that were measured by one, and below it the peers' where there are several."""
    lines, runs = [], {}
    for c in found:
        runs.setdefault((c.source.file, c.source.command, c.source.commit, c.source.machine), []).append(c)
    for (file, command, commit, machine), of in runs.items():
        labels = {}
        for c in of:
            labels.setdefault(c.source.peer_command, []).append(c.label)
        line = f'- `{file}`, {", ".join(dict.fromkeys(c.label for c in of))}: `{command}`, commit {commit[:12]}, {machine}'
        if len(labels) == 1:
            lines.append(f'{line}; peer: `{of[0].source.peer_command}`.')
            continue
        lines.append(f'{line}. Peers:')
        lines += [f'  - {", ".join(dict.fromkeys(rows))}: `{peer}`' for peer, rows in labels.items()]
    return lines


def section(title, made, plots):
    lines, drawn = made
    plots.update(drawn)
    images = ' '.join(f'![{name}](plots/{name}.svg)' for name in drawn)
    return [f'## {title}'] + ([images, ''] if images else []) + lines


def page():
    """(the text of README.md, plots by name)"""
    found = list(rivals.comparisons())
    groups = {g: [c for c in found if c.group == g] for g in ('training', 'attention', 'kernels', 'head', 'update')}
    plots = {'training': sections.ratio_plot('How many times as fast: training', groups['training'])}

    lines = minute(found) + training(groups['training'])
    for title, made in (('Attention', attention_section.attention(groups['attention'])),
                        ('1. Kernels', sections.kernels(groups['kernels'])), ('2. LM head', sections.head()),
                        ('2a. Update', sections.update(groups['update'])),
                        ('3. Ablation', sections.ablation()), ('4. LoRA+', sections.lora_plus()),
                        ('5. Packing', sections.packing()), ('6. Memory', sections.memory()),
                        ('6a. Context', sections.context()),
                        ('7. Convergence', sections.convergence()),
                        ('7a. FP8', fp8_section.convergence()), ('7b. FP8, a task', fp8_task_section.answers()),
                        ('8. Efficiency over GPUs', scaling_section.scaling()),
                        ('9. Recovery', sections.recovery())):
        lines += section(title, made, plots)
    return HEAD + '\n' + '\n'.join(lines).rstrip() + '\n', plots


def main():
    text, plots = page()
    files = {'README.md': text, **{f'plots/{name}.svg': plot for name, plot in plots.items()}}
    bad = 0
    for name, content in files.items():
        path = os.path.join(HERE, name)
        old = open(path, encoding='utf-8').read() if os.path.exists(path) else None
        if sys.argv[1:] == ['--check']:
            if old != content:
                print(f'bench/papers/{name} is not what bench/papers/page.py writes')
                bad = 1
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(content)
    for name in sorted(os.listdir(os.path.join(HERE, 'plots'))):
        if f'plots/{name}' not in files:
            print(f'bench/papers/plots/{name} is drawn by nothing any more')
            bad = 1
    return bad


if __name__ == '__main__':
    sys.exit(main())
