#!/usr/bin/env python3
"""Lines of C++, CUDA and protocol buffers have at most 100 columns, but for text inside raw strings."""
import os, re, sys

from tracked_files import CODE, ROOT, tracked

LIMIT = 100
RAW = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)


def long_lines(text):
    inside = set()  # lines that a raw string covers, also in part
    for literal in RAW.finditer(text):
        first = text.count('\n', 0, literal.start()) + 1
        inside.update(range(first, first + literal.group(0).count('\n') + 1))
    for number, line in enumerate(text.split('\n'), 1):
        if len(line) > LIMIT and number not in inside:
            yield number, len(line)


def main():
    files = tracked(*CODE, '*.proto')
    bad = 0
    for path in files:
        with open(os.path.join(ROOT, path), encoding='utf-8') as f:
            for number, columns in long_lines(f.read()):
                print(f'{path}:{number}: {columns} columns, limit {LIMIT}')
                bad += 1
    if not bad:
        print(f'{len(files)} files keep to {LIMIT} columns')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
