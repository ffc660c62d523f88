#!/usr/bin/env python3
"""No include cycle of any length: of files, where the .h and the .cc of one stem count as one, and of folders of the product.
Prints each cycle."""
import os, re, sys

from tracked_files import CODE, ROOT, tracked

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def includes():
    """stem -> stems that one of its files includes."""
    known = set(tracked(*CODE))
    graph = {}
    for path in sorted(known):
        with open(os.path.join(ROOT, path), encoding='utf-8') as f:
            targets = {os.path.splitext(name)[0] for name in INCLUDE.findall(f.read()) if name in known}
        stem = os.path.splitext(path)[0]
        graph.setdefault(stem, set()).update(targets - {stem})
    return graph


def shortest_cycle(graph, start):
    """A shortest way from `start` back to it; None where there is none."""
    came_from, front = {}, [start]
    while front:
        following = []
        for stem in front:
            for target in sorted(graph.get(stem, ())):
                if target == start:
                    way = [start, stem]
                    while way[-1] != start:
                        way.append(came_from[way[-1]])
                    return way[::-1] if len(way) > 2 else [start, start]
                if target not in came_from:
                    came_from[target] = stem
                    following.append(target)
        front = following
    return None


def folders(graph):
    """folder -> folders that one of its files includes. Tests and benchmarks are no part of the product."""
    of = {}
    for stem, targets in graph.items():
        if not stem.startswith(('tests/', 'bench/')):
            of.setdefault(os.path.dirname(stem), set()).update(map(os.path.dirname, targets))
    return {folder: targets - {folder} for folder, targets in of.items()}


def cycles(graph, what):
    """Prints those of one graph; their number."""
    told, bad = set(), 0
    for stem in sorted(graph):
        if stem in told:
            continue
        cycle = shortest_cycle(graph, stem)
        if cycle:
            print(f'include cycle of {what}: ' + ' -> '.join(cycle))
            told.update(cycle)
            bad += 1
    return bad


def main():
    stems = includes()
    rooms = folders(stems)
    if cycles(stems, 'files') + cycles(rooms, 'folders'):
        return 1
    print(f'{len(stems)} stems in {len(rooms)} folders include each other without a cycle')
    return 0


if __name__ == '__main__':
    sys.exit(main())
