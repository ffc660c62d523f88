"""The section of attention: rates by shape and engine, beside whom ours is ahead, level or behind."""
from rivals import ATTENTION_PEERS, load
from sections import beside, fastest_peers, kind_of, missing, ratio_plot, table

ENGINES = {'ours': 'ours', **ATTENTION_PEERS}


def cells(of):
    """One for each engine; that of the fastest in bold."""
    fastest = max(row.get('both_tflop_per_s', 0) for row in of.values())
    for engine in ENGINES:
        row = of.get(engine, {})
        if 'both_tflop_per_s' not in row:
            yield {'cudnn': 'no plan'}.get(engine.split('_')[0], 'not run') if 'error' in row else ''
            continue
        rates = ' / '.join(f'{row[f"{what}_tflop_per_s"]:.0f}' for what in ('forward', 'backward', 'both'))
        yield f'**{rates}**' if row['both_tflop_per_s'] == fastest else rates


def verdicts(found):
    """A line for each peer."""
    lines = []
    for peer in dict.fromkeys(c.peer for c in found):
        mine = [c for c in found if c.peer == peer]
        kinds = [kind_of(c.ratio) for c in mine]
        behind = sorted((c for c in mine if kind_of(c.ratio) == 'loss'), key=lambda c: c.ratio)
        lines.append(f'- Beside {peer}: ahead in {kinds.count("win")} of {len(mine)}, level in {kinds.count("other")}, behind in '
                     f'{len(behind)}' + (': ' + '; '.join(f'{c.label} {c.ratio:.2f}' for c in behind) if behind else '') + '.')
    return lines + ['']


def attention(found):
    """(lines, plots); `found`: comparisons of forward and backward together."""
    results = load('papers_attention.json')
    if not results:
        return missing('attention'), {}
    plots = {'attention': ratio_plot('Attention, forward and backward, beside the fastest peer', fastest_peers(found).values())}
    shapes = {}
    for row in results['rows']:
        shapes.setdefault((row['heads'], row['documents']), {})[row['engine']] = row
    lines = table(['heads x head_dim', 'documents', *ENGINES.values()], [
        [*shape, *cells(of)] for shape, of in shapes.items()])
    lines += ['TFLOP/s: forward / backward / both, the fastest in bold; causal, bfloat16. Ours repeats its bits; cuDNN has plans for documents of one '
              f'length only, none where it says so. FlashAttention: {results["flash"]}.', '']
    return lines + verdicts(found) + beside(found), plots
