#!/usr/bin/env python3
"""Two runs of train_bench on one job of a mixture of experts, step by step: which tokens went to other experts, and how far
the losses are apart up to the first that did.

  bench/route_flips.py A_JSON A_IDS B_JSON B_IDS --layers L --chosen K --hidden H [--json FILE]

The bound of a relative difference of losses at step s (from 1): s times 4 sqrt(2 x 20 L (1 + H)) u, u = 2^-24. Float32
rounds about 20 tensors of a layer, forward and backward, and each of the H sums of a product; both runs do, like a random
walk, and each step moves the weights by a gradient that is as wrong. Exit code 1 beyond the bound.
"""
import argparse, array, json, math


def read(path, ids_path):
    with open(path, encoding='utf-8') as file:
        losses = json.load(file)['losses']
    with open(ids_path, 'rb') as file:
        ids = array.array('i', file.read())
    steps, at = [], 0
    while at < len(ids):
        steps.append(ids[at + 1:at + 1 + ids[at]])
        at += 1 + ids[at]
    return losses, steps


def moved(a, b, chosen):
    """Pairs of token and layer whose set of experts differs."""
    return sum(set(a[i:i + chosen]) != set(b[i:i + chosen]) for i in range(0, len(a), chosen))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('files', nargs=4)
    for name in ('layers', 'chosen', 'hidden'):
        parser.add_argument(f'--{name}', type=int, required=True)
    parser.add_argument('--json')
    args = parser.parse_args()
    (a, a_ids), (b, b_ids) = read(*args.files[:2]), read(*args.files[2:])
    unit = 4 * math.sqrt(2 * 20 * args.layers * (1 + args.hidden)) * 2 ** -24
    steps, first = [], None
    for step, (x, y) in enumerate(zip(a, b), 1):
        flips = moved(a_ids[step - 1], b_ids[step - 1], args.chosen)
        first = step if flips and first is None else first
        steps.append({'step': step, 'flips': flips, 'of': len(a_ids[step - 1]) // args.chosen,
                      'loss': [x, y], 'relative': abs(x - y) / abs(x), 'bound': step * unit})
        print('step {step:3}: {flips} of {of} went elsewhere, losses apart {relative:.1e} (bound {bound:.1e})'.format(**steps[-1]))
    # The loss of the step of the first flip has that flip in it.
    judged = steps[:first - 1] if first else steps
    worst = max((s['relative'] / s['bound'] for s in judged), default=0)
    print(f'first flip: {first or "none"}; {len(judged)} steps before it, at most {worst:.2f} of the bound')
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as file:
            json.dump({'first_flip': first, 'worst_of_bound': worst, 'steps': steps}, file, indent=1)
    raise SystemExit(worst > 1)


if __name__ == '__main__':
    main()
