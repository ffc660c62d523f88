"""The sections of the page, each from the files of bench/results that it names; without its file it says so."""
import re, statistics

import extra_memory
import intervals
import svg
from rivals import kernel_rows, load, machine_of

PEAK_FLOPS = 989.4e12  # dense bfloat16 of an H100 or H200. Source: NVIDIA H200 data sheet
LEVEL = 0.02  # nearer to 1 than this is level: chips of one kind differ by so much


def table(header, rows):
    """Lines of Markdown."""
    return ['| ' + ' | '.join(header) + ' |', '|' + '---|' * len(header)] + ['| ' + ' | '.join(r) + ' |' for r in rows] + ['']


def origin(results, command=None):
    """The line below a table: by which command, of which commits, on which machine."""
    commits = re.sub('[0-9a-f]{13,}', lambda found: found[0][:12], results['commit'])
    return [f'`{command or results["command"]}`, commit {commits}, {machine_of(results)}.', '']


def missing(part, files=''):
    return [f'Not measured. `bench/device.sh --papers {part}` measures it{files}.', '']


def claims():
    """What published claims come to, in a line."""
    of = {s['set']: s['strategies'] for s in load('packing.json')['sets']}
    filled = [100 * next(r for r in rows if r['strategy'] == 'best_fit')['efficiency'] for rows in of.values()]
    said = [f'packing fills {min(filled):.1f} to {max(filled):.1f} % of the slots (97 claimed)']
    times = lora_times()
    fused = [times['eager', r] / ours for (variant, r), ours in times.items() if variant == 'ours' and ('eager', r) in times]
    if fused:
        said.append(f'a fused LoRA linear is {min(fused):.2f} to {max(fused):.2f} times as fast as the unfused (1.27 to 1.45 claimed)')
    for file, what in (('papers_lora_plus.json', 'GPU'), ('cpu_lora_plus.json', 'CPU')):
        ratios = [r for r in (load(file) or {}).get('ratios', []) if r['ratio'] != 1]
        means = [r['mean'] for r in ratios if r['mean'] is not None]
        if ratios:
            best = f'at most {max(means):.2f} times as fast' if means else 'faster with every seed at no ratio'
            said.append(f'LoRA+ on the {what} is {best} (1.5 to 2 claimed)')
    return '- **Claims of others**: ' + '; '.join(said) + '.'


def kind_of(ratio):
    return 'other' if abs(ratio - 1) < LEVEL else 'win' if ratio > 1 else 'loss'


def ratio_plot(title, found):
    entries = [svg.Bar(f'{c.label} / {c.peer}', c.ratio, f'{c.ratio:.2f}', kind_of(c.ratio))
               for c in sorted(found, key=lambda c: -c.ratio)]
    return svg.bars(title, entries, 1.0, 'as fast')


def fastest_peers(found):
    """The comparison with the fastest peer, by label."""
    fastest = {}
    for c in found:
        if c.label not in fastest or c.ratio < fastest[c.label].ratio:
            fastest[c.label] = c
    return fastest


def head():
    results = load('papers_lm_head.json')
    if not results:
        return missing('lm_head'), {}
    rows, variants = {}, list(dict.fromkeys(r['variant'] for r in results['rows']))
    for r in results['rows']:
        rows.setdefault(f'{r["rows"]} x {r["width"]} x {r["vocabulary"]}', {})[r['variant']] = r

    def cell(row):
        if row is None or 'error' in row:
            return 'does not fit' if row else 'not run'
        memory = '' if row['extra_bytes'] is None else f', {row["extra_bytes"] / 2 ** 30:.2f} GiB'
        return f'{row["milliseconds"][1]:.2f} ms{memory}'
    lines = table(['rows x width x vocabulary'] + variants, [
        [shape] + [cell(of.get(v)) for v in variants] for shape, of in rows.items()])
    load_of = next((r['gpu_under_load'] for r in results['rows'] if r.get('gpu_under_load')), None)
    clock = f' {load_of["sm_mhz"]} MHz and {load_of["watts"]} W under load.' if load_of else ''
    lines += ['Loss and gradients, on a card kept warm, memory above the inputs; ours_frozen: no gradient of the weight.' + clock +
              ' cce: cut-cross-entropy as it comes, which leaves out small gradients, with random weights nearly all of them; '
              'cce_exact: all.' * any(v.startswith('cce') for v in variants) +
              ' Published for 4096 x 4096 x 128256 on an H200, not measured here: QuACK 17.33 ms, LigerCute 18.06, Liger Triton '
              'about 141.', ''] + origin(results)
    return lines, {}


def kernels(found):
    """Each kernel beside its fastest peer: a plot, and a line for each op."""
    if not found:
        return missing('kernels'), {}
    fastest = fastest_peers(found)
    rows, memory = [], extra_memory.kernels()
    for op in dict.fromkeys(label.split()[0] for label in fastest):
        mine = [c for c in found if c.label.split()[0] == op]
        worst = min((c for c in fastest.values() if c.label.split()[0] == op), key=lambda c: c.ratio)
        medians = {p: statistics.median([c.ratio for c in mine if c.peer == p] or [0]) for p in ('eager', 'compile', 'liger')}
        rows.append([op, *(f'{m:.2f}' if m else '' for m in medians.values()), f'{worst.label}, {worst.peer}: {worst.ratio:.2f}',
                     extra_memory.cell(memory.get(op, {0: {}}))])
    lines = table(['op, forward and backward', 'eager', 'torch.compile', 'Liger', 'least',
                   'extra MiB at the widest: ours / torch.compile / Liger'], rows)
    lines += ['Median over the widths of how many times as fast ours is, by the time of the device alone: what a host needs '
              'to launch is hidden. Extra memory is above the inputs: Liger writes gradients over what forward saved, ours and '
              'torch.compile do not.', '', over_unfused(), ''] + beside(found)
    return lines, {'kernels': ratio_plot('Kernels beside the fastest peer', fastest.values())}


def lora_times():
    """Milliseconds of forward and backward of a LoRA linear by (variant, rank)."""
    return {(r['variant'], r['width']): r['full_ms'][1] for r, _, _ in kernel_rows() if r['op'] == 'lora'}


def over_unfused():
    """A LoRA linear beside the unfused one, as the claims have it, and beside the product without an adapter."""
    times = lora_times()
    ranks = sorted(w for v, w in times if v == 'ours' and ('eager', w) in times)
    if not ranks:
        return ''
    faster = ', '.join(f'{times["eager", r] / times["ours", r]:.2f} (r = {r})' for r in ranks)
    slower = [times['ours', r] / times['plain', r] for r in ranks if ('plain', r) in times]
    longer = f' It takes {min(slower):.2f} to {max(slower):.2f} times as long as the product without an adapter.' if slower else ''
    return f"The fused LoRA linear is so many times as fast as torch's separate products: {faster}; claims: 1.27 to 1.45.{longer}"


def beside(found):
    lines = []
    for s in {c.source.file: c.source for c in found}.values():
        lines += [f'`{s.command}`, commit {s.commit[:12]}, {s.machine}; peers in the same call. Quantiles, forward, backward and '
                  f'memory: `bench/results/{s.file}`.', '']
    return lines


def update(found):
    """AdamW of a whole model beside torch's fused one."""
    results = load('papers_adamw.json')
    if not results:
        return missing('adamw'), {}
    rows = {}
    for r in results['rows']:
        rows.setdefault((r['model'], r['dtype'], r['clipped']), {})[r['variant']] = r

    def cell(r):
        return f'{r["milliseconds"][1]:.2f} ms, {r["state_bytes"] / r["parameters"]:.0f} B' if r else 'not run'
    lines = table(['model', 'values and gradients', 'clipped', 'ours', 'torch, fused', 'times as fast'], [
        [model, dtype, 'yes' if clipped else 'no', cell(of.get('ours')), cell(of.get('fused')),
         f'{of["fused"]["milliseconds"][1] / of["ours"]["milliseconds"][1]:.2f}' if len(of) == 2 else '']
        for (model, dtype, clipped), of in rows.items()])
    lines += ['Of all tensors, and the bytes of a parameter with gradient and moments: in bfloat16 ours keeps moments in float32 '
              'and rounds values stochastically, torch keeps moments in bfloat16. Clipped: with the global norm.', '']
    return lines + beside(found), {}


def ablation():
    results = load('papers_ablation.json')
    if not results:
        return missing('ablation'), {}
    parts, plots, notes = ['none of them'] + results['parts'], {}, []
    header, rows = ['with it and those above'], [[part] for part in parts]
    for name in dict.fromkeys(r['row'] for r in results['rows']):
        mine = {tuple(r['without']): r for r in results['rows'] if r['row'] == name}
        steps = [mine.get(tuple(parts[i + 1:])) for i in range(len(parts))]  # with the first i parts
        header += [f'{name}: tokens/s (MFU %)', 'GiB, J / 1,000 tokens', 'without it alone']
        for cells, part, step in zip(rows, parts, steps):
            cells += [*step_cells(step), change(mine.get((part,)), steps[-1])]
        norms = [r['grad_norm'][0] for r in mine.values() if 'grad_norm' in r]
        notes.append(f'{name}: {min(norms):.5f} to {max(norms):.5f}')
        plots[f'ablation_{name}'] = svg.bars(f'{name}: tokens/s as parts are added', [
            svg.Bar(part if i == 0 else f'+ {part}', speed_of(step), f'{speed_of(step):,.0f}')
            for i, (part, step) in enumerate(zip(parts, steps)) if speed_of(step)])
    lines = table(header, rows) + [f'Gradient norms of the first step over all ways: {"; ".join(notes)}.', '']
    return lines + origin(results) + padded(), plots


def padded():
    """From the batches that trainers have without packing."""
    results = load('papers_ablation_padded.json')
    rows = {}
    for r in (results or {}).get('rows', []):
        rows.setdefault(r['row'], {})[r['how']] = r
    if not rows:
        return ['From padded batches: not measured. `bench/device.sh --papers "ablation/padded --padded"` measures it.', '']
    ways = ('with all', 'padded', 'padded, without the rest')
    lines = table(['row', 'padded to', *ways, 'all over none'], [
        [name, '512' if name.endswith('_512') else 'the longest of 16', *(cells_of_padded(of.get(way)) for way in ways),
         ratio_of(of.get(ways[0]), of.get(ways[2]))] for name, of in rows.items()])
    return lines + ['Real tokens/s, the part of the slots that they fill, and the gradient norm of the first step; '
                    'without the rest: none of the parts above.', ''] + origin(results)


def cells_of_padded(row):
    if not speed_of(row):
        return 'not run'
    return f'{speed_of(row):,.0f}, {100 * row["tokens_per_step"] / row["slots_per_step"]:.0f} %, {row["grad_norm"][0]:.5f}'


def ratio_of(fast, slow):
    return f'{speed_of(fast) / speed_of(slow):.2f}' if speed_of(fast) and speed_of(slow) else ''


def speed_of(row):
    return (row or {}).get('tokens_per_second')


def change(row, whole):
    if not speed_of(row) or not speed_of(whole):
        return ''
    return f'{speed_of(row):,.0f} ({100 * (speed_of(row) / speed_of(whole) - 1):+.1f} %)'


def step_cells(row):
    if not speed_of(row):
        return ['not run', '']
    mfu = f' ({100 * speed_of(row) * row["flops_per_token"] / PEAK_FLOPS:.1f})' if row.get('on_device') else ''
    joules = f', {1000 / row["energy"]["tokens_per_joule"]:.1f}' if 'energy' in row else ''
    return [f'{speed_of(row):,.0f}{mfu}', f'{row["memory_gib"]["peak"]:.1f}{joules}']


def lora_plus():
    lines, plots = [], {}
    for file, what in (('papers_lora_plus.json', 'GPU'), ('cpu_lora_plus.json', 'CPU')):
        results = load(file)
        if not results or not results.get('ratios'):
            continue
        rows = results['ratios']
        lines += table(['ratio of B to A', 'best rate of A', 'speedup by seed', 'mean, 95 % interval',
                        "loss at the end less plain LoRA's, 95 % interval"], [
            [str(r['ratio']), f'{r["rate"]:.2e}', ', '.join('never' if v is None else f'{v:.2f}' for v in r['speedups']),
             '' if r['mean'] is None else '{:.2f}, {:.2f} to {:.2f}'.format(r['mean'], *r['interval']),
             '{:+.4f}, {:+.4f} to {:+.4f}'.format(r['above_plain'], *r['above_plain_interval'])] for r in rows])
        plots[f'lora_plus_{what.lower()}'] = svg.bars(f'LoRA+ on the {what}: held-back loss at the end', [
            signed(f'ratio {r["ratio"]}', (r['above_plain'], *r['above_plain_interval'])) for r in rows if r['ratio'] != 1], 0.0,
            'plain LoRA')
        base = f'a model of the shape {results["shape"]}' if results.get('shape') else "the quickstart's model"
        lines += [f'On the {what}, {base}: {results["steps"]} steps of {results["batch"]} bins of 512 tokens, seeds '
                  f'{results["seeds"]}, constant rate after the warm-up. Speedup: steps over the step at which the held-back '
                  'loss is that of plain LoRA at its end. Claims: 1.5 to 2.', '']
        lines += origin(results)
    return lines or missing('lora_plus'), plots


def signed(label, interval):
    """A bar of a loss beside another: less is better, an interval around 0 is level."""
    mean, low, high = interval
    return svg.Bar(label, mean, f'{mean:+.4f}', 'other' if low <= 0 <= high else 'win' if high < 0 else 'loss', low, high)


def packing():
    results, speed = load('packing.json'), load('papers_packing.json')
    rows_of = {'alpaca': '0.5b_packed_2048_x1', 'gsm8k': '0.5b_gsm8k_2048', 'long-tailed': '0.5b_chat_8192'}
    speeds = {(r['row'], r['strategy']): f'{r["tokens_per_second"]:,.0f}' for r in (speed or {}).get('rows', [])}
    header, rows, entries = ['strategy'], {}, []
    for of in results['sets']:
        header.append(f'{of["set"]}, {of["documents"]:,} documents into bins of {of["capacity"]:,}')
        free = {r['strategy']: r['efficiency'] for r in of['strategies'] if r['max_documents_per_bin'] == of['capacity']}
        for r in (r for r in of['strategies'] if r['max_documents_per_bin'] == 32):
            count, filled = r['documents_per_bin'], 100 * r['efficiency']
            unbound = f' ({100 * free[r["strategy"]]:.2f})' if r['strategy'] in free else ''
            rows.setdefault(r['strategy'], [r['strategy']]).append(
                f'{filled:.2f}{unbound}; {count["p10"]}, {count["median"]}, {count["p90"]}; {count["bins_at_the_bound"]}; '
                f'{r["ms_median"]:.1f} ms; ' + speeds.get((rows_of[of['set']], r['strategy']), 'not measured'))
            entries.append(svg.Bar(f'{of["set"]}, {r["strategy"]}', filled, f'{filled:.2f} %'))
    lines = table(header, rows.values())
    lines += ['% of slots filled with at most 32 documents a bin (without a bound); documents a bin at 10, 50 and 90 %; bins of '
              'exactly 32; time to pack; real tokens/s of a 0.5B model.', '']
    lines += ['Claim: 97 % filled. Best-fit decreasing under the bound filled 97.53 % of Alpaca (2,705 bins, 407 of exactly 32 '
              'short documents) while its order went to the end (before commit dc03672).', ''] + origin(results)
    lines += origin(speed) if speed else ['Real tokens/s: `bench/device.sh --papers packing` measures them.', '']
    return lines, {'packing': svg.bars('Slots filled, at most 32 documents a bin', entries)}


def memory():
    results, limits = load('papers_memory.json'), load('memory_limits.json')
    lines, plots = [], {}
    if results:
        first = {r['row']: r['tokens_per_second'] for r in reversed(results['rows']) if 'tokens_per_second' in r}
        rows = [r for r in results['rows'] if 'tokens_per_second' in r]
        classes = ('weights', 'gradients', 'optimizer', 'activations', 'workspace')
        lines += table(['row', 'recompute', 'plan', 'measured', *classes, 'tokens/s', 'slower', 'tokens/s a GiB'], [
            [r['row'], r['recompute'], f'{r["memory_gib"]["plan"]:.2f}', f'{r["memory_gib"]["peak"]:.2f}',
             *(f'{r["planned_gib"][c]:.2f} / {r["memory_gib"][c]:.2f}' for c in classes), f'{r["tokens_per_second"]:,.0f}',
             f'{100 * (1 - r["tokens_per_second"] / first[r["row"]]):.1f} %',
             f'{r["tokens_per_second"] / r["memory_gib"]["peak"]:,.0f}'] for r in rows])
        lines += ['GiB; classes planned / measured.', ''] + origin(results)
        plots['memory'] = svg.bars('Peak memory by recompute level, GiB', [
            svg.Bar(f'{r["row"]}, {r["recompute"]}', r['memory_gib']['peak'],
                    f'{r["memory_gib"]["peak"]:.1f} GiB, {r["tokens_per_second"]:,.0f} tokens/s') for r in rows])
    else:
        lines += missing('memory')
    lines += precisions()
    if limits:
        lines += ['The longest micro-step of one bin that fits into a card, by the plan (within 3 % of measured peaks), none '
                  'recomputed / blocks recomputed; *all*: as long as the model was made for; 0: not even 1,024 tokens:', '']
        lines += limit_table(limits) + origin(limits)
    return lines, plots


def precisions():
    """Memory of 8 bins of 2,048 tokens by format."""
    results = load('papers_memory_precisions.json')
    if not results:
        return ['By precision: not measured. `bench/device.sh --papers "memory/precisions --precisions"` measures it.', '']
    classes = ('weights', 'gradients', 'optimizer', 'activations', 'workspace')
    rows = [r for r in results['rows'] if 'tokens_per_second' in r]
    lines = table(['row', 'precision', 'plan', 'measured', *classes, 'tokens/s'], [
        [r['row'], r['precision'], f'{r["memory_gib"]["plan"]:.2f}', f'{r["memory_gib"]["peak"]:.2f}',
         *(f'{r["memory_gib"][c]:.2f}' for c in classes), f'{r["tokens_per_second"]:,.0f}'] for r in rows])
    return lines + ['GiB, measured, of one micro-step of 8 documents of 2,048 tokens.', ''] + origin(results)


def context():
    """One document of many tokens on one GPU."""
    results = load('h200_context.json')
    if not results:
        return ['Not measured. `bench/device.sh --steps qwen3_4b_lora_65536 llama31_8b_lora_32768` measures it.', ''], {}
    rows = [r for r in results['rows'] if 'tokens_per_second' in r]
    lines = table(['row', 'tokens/s', 's a step', 'recompute', 'GiB, plan / measured', 'MFU %'], [
        [r['row'], f'{r["tokens_per_second"]:,.0f}', f'{r["ms_per_step"] / 1e3:.1f}', r['layout']['recompute'],
         f'{r["memory_gib"]["plan"]:.1f} / {r["memory_gib"]["peak"]:.1f}',
         f'{100 * r["tokens_per_second"] * r["flops_per_token"] / PEAK_FLOPS:.1f}'] for r in rows])
    lines += ['LoRA of rank 16, one document a step, bfloat16, exact attention. Published for Qwen3-4B at 65,536 tokens on one '
              'H100, not measured here: prime-rl 4,160 tokens/s; twice that is the goal, and missed.', '']
    return lines + origin(results, 'bench/device.sh --steps ROW'), {}


def limit_table(limits):
    methods = list(dict.fromkeys(r['method'] for r in limits['rows']))
    cards = list(limits['gib'])
    by = {(r['model'], r['method'], r['recompute']): r for r in limits['rows']}

    def cell(model, method, card):
        pair = [by[model, method, level] for level in ('none', 'block')]
        return ' / '.join('*all*' if r[card] >= min(r['positions'], 131072) else f'{r[card]:,}' for r in pair)
    return table(['model'] + [f'{m}, {c} of {limits["gib"][c]:.0f} GiB' for m in methods for c in cards], [
        [model] + [cell(model, m, c) for m in methods for c in cards] for model in dict.fromkeys(r['model'] for r in limits['rows'])])


def convergence():
    results = load('papers_convergence.json')
    if not results or not results.get('differences'):
        return missing('convergence'), {}
    entries, rows = [], []
    for name, values in results['differences'].items():
        mean, low, high = intervals.interval(values)
        rows.append([name, f'{mean:+.5f}', f'{low:+.5f} to {high:+.5f}', 'yes' if low <= 0 <= high else 'no'])
        entries.append(signed(f'{name} - float32', (mean, low, high)))
    lines = table(['variant less the float32 control', 'mean', '95 % interval', 'contains 0'], rows)
    lines += [f'Held-back loss after {results["steps"]} steps of `{results["job"]}`, seeds {results["seeds"]}; broken: the '
              'backward of RoPE does nothing.', ''] + origin(results)
    return lines, {'convergence': svg.bars('Held-back loss less that of float32', entries, 0.0, 'float32')}


def recovery():
    """Faults by seed over processes that train."""
    results = load('chaos.json')
    if not results:
        return ['Not measured. `tests/chaos.sh --minutes 20 --json bench/results/chaos.json` measures it.', ''], {}
    faults = [f for f in results['faults'] if f['times']]
    lines = table(['fault', 'of', 'times'], [[f['action'], f['target'], str(f['times'])] for f in faults])
    lines += table(['phase of a recovery', 'median s', 'largest s', 'of'],
                   [[p['phase'], f'{p["median"]:.2f}', f'{p["largest"]:.2f}', str(p['of'])] for p in results['recovery_seconds']])
    unequal = results['jobs_not_bit_equal']
    lines += [f'{sum(f["times"] for f in faults)} faults in {results["minutes"]} minutes, {results["jobs"]} jobs of '
              f'{results["steps_of_a_job"]} steps of a tiny model on CPU workers; weights and losses bit-equal to a run without '
              f'faults: {"all" if not unequal else "not " + ", ".join(unequal)}.', '']
    return lines + origin(results), {}
