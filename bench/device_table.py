#!/usr/bin/env python3
"""Prints what bench/device.sh left in a folder as tables of goals and results.

  device_table.py FOLDER
  device_table.py --job JOB_JSON REFERENCE_JSON    the quickstart's job; exit 1 when its loss falls too little
"""
import json, os, sys
import xml.etree.ElementTree as ElementTree

COPY_GOAL = 85  # percent of the device copy, of memory-bound ops


def load(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


def print_table(header, rows):
    cells = [header] + [['' if c is None else f'{c:,.4g}' if isinstance(c, float) else str(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        print('  '.join(c.ljust(w) for c, w in zip(row, widths)).rstrip())


def print_tests(folder):
    path = os.path.join(folder, 'tests.xml')
    if not os.path.exists(path):
        return
    root = ElementTree.parse(path).getroot()
    cases = list(root.iter('testcase'))
    failed = [case for case in cases if case.find('failure') is not None]
    skipped = sum(case.get('result') == 'skipped' for case in cases)
    print(f'\ntests: {len(cases) - skipped} run, {len(failed)} failed, {skipped} skipped, '
          f"{float(root.get('time')):.0f} s in {root.get('processes')} processes")
    for case in failed:
        print(f"  failed: {case.get('classname')}.{case.get('name')}: {case.find('failure').get('message').splitlines()[0]}")


def print_kernels(kernels):
    rows = kernels.get('rows', [])
    if not rows:
        return
    print(f"\nkernels: copy {kernels['copy_gb_per_s']:,.0f} GB/s, GEMM {kernels['gemm_tflop_per_s']:,.0f} TFLOP/s; "
          f'goal of memory-bound ops {COPY_GOAL} % of the copy')
    out = []
    for row in rows:
        met = ''
        if row.get('percent_of') == 'copy':
            met = 'met' if row['percent'] >= COPY_GOAL else 'BELOW'
        out.append([row['op'], row['extents'], row.get('median_us'), row.get('p90_us'), row.get('percent'),
                    row.get('percent_of', ''), met, row.get('error', row.get('note', ''))])
    print_table(['op', 'extents', 'median us', 'p90 us', '%', 'of', 'goal', 'note'], out)
    for line in kernels.get('lines', []):
        print('  ' + json.dumps(line))


def print_steps(steps):
    rows = steps.get('rows', [])
    if not rows:
        return
    print('\nsteps')
    out = []
    for row in rows:
        speed, goal, memory = row.get('tokens_per_second'), row.get('goal') or None, row.get('memory_gib', {})
        met = '' if goal is None else 'met' if speed is not None and speed >= goal else 'BELOW'
        out.append([row['row'], speed and f'{speed:,.0f}', goal and f'{goal:,.0f}', met, row.get('ms_per_step'), row.get('steps_timed'),
                    memory.get('peak'), memory.get('plan'), row.get('host_waits', {}).get('count'), (row.get('loss') or [None, None])[1],
                    (row.get('grad_norm') or [None, None])[1], row.get('error', '')])
    print_table(['row', 'tokens/s', 'goal', '', 'ms/step', 'steps', 'peak GiB', 'plan GiB', 'waits', 'loss', 'grad norm', 'error'], out)


def print_peers(steps):
    """Rows with a peer of the same call: tokens/s against the faster, memory without optimizer states."""
    rows = {row['row']: row for row in steps.get('rows', []) if row.get('tokens_per_second')}
    out = []
    for name, ours in rows.items():
        peers = {peer: row for peer, row in rows.items() if peer.startswith(name + '_peer_')}
        if not peers:
            continue
        fastest = max(peers, key=lambda peer: peers[peer]['tokens_per_second'])
        memory = [row['memory_gib']['peak'] - row['memory_gib'].get('optimizer', 0) for row in (ours, peers[fastest])]
        speeds = [row['tokens_per_second'] for row in (ours, peers[fastest])]
        out.append([name, f'{speeds[0]:,.0f}', f'{speeds[1]:,.0f}', fastest.removeprefix(name + '_peer_'), len(peers),
                    round(speeds[0] / speeds[1], 3), *memory])
    if out:
        print('\npeers')
        print_table(['row', 'tokens/s', 'peer', 'which', 'of', 'ratio', 'GiB without moments', 'peer'], out)


def print_job(job, reference):
    """Invariant deploy-1, on this device."""
    progress = job['progress']
    fall = progress['first_eval_loss'] - progress['eval_loss']
    wanted = 0.98 * reference['methods']['lora_plus']['mean_fall']
    met = fall >= wanted
    print(f"job {job['id']}: step {progress['step']}, held-back loss {progress['first_eval_loss']:.4f} -> "
          f"{progress['eval_loss']:.4f}, fall {fall:.4f}, goal {wanted:.4f}: {'met' if met else 'BELOW'}")
    return met


def main():
    if sys.argv[1] == '--job':
        job, reference = (json.load(open(path)) for path in sys.argv[2:])
        sys.exit(0 if print_job(job, reference) else 1)
    folder = sys.argv[1]
    print_tests(folder)
    print_kernels(load(folder, 'kernels.json'))
    print_steps(load(folder, 'steps.json'))
    print_peers(load(folder, 'steps.json'))


if __name__ == '__main__':
    main()
