#!/usr/bin/env python3
"""A file or section of this repository that a comment or a document names is there. Papers and other projects may
be cited as they like. Looks at paths that begin with one of our top folders, at names of .md files, and at
`names` and links in documents; a path may be given from the root or from the folder of who cites it."""
import os, re, sys

from tracked_files import ROOT, tracked

TEXT = ('.cc', '.h', '.cu', '.cuh', '.proto', '.py', '.sh', '.md', '.cmake', '.txt', '.yaml', '.yml')
EXTENSION = r'(?:cc|cuh|cu|h|py|sh|md|proto|json|yaml|cmake|\*)'
OURS = re.compile(r'(?<![\w/.$}>-])((?:bench|cmake|common|controller|deploy|kernels|proto|tests|worker)/[\w./-]*\w\.' +
                  EXTENSION + r')(?!\.?[\w/*-])')
DOCUMENT = re.compile(r'(?<![\w/.$}>-])([\w./-]*\w\.md)\b')
LINK = re.compile(r'\]\(([^)#\s]+)(?:#[^)]*)?\)')
QUOTED = re.compile(r'`([\w./-]*\w\.(?:cc|cuh|cu|h|\*))`')
SECTION = re.compile(r'(?<![\w/.])([\w./-]*\w\.md), (?:section )?"([^"\n]+)"')
# Documents of other projects, and files that programs write.
FOREIGN = {'README.md', 'MODEL_CARD.md', 'instruction.md', 'docs/operations/Attention.md'}
WRITTEN = re.compile(r'/|bench/results/.*\.json$')


def read(path):
    with open(os.path.join(ROOT, path), encoding='utf-8', errors='replace') as f:
        return f.read()


class Repository:
    def __init__(self, files):
        self.files = set(files)
        self.tails = set()  # every path, and what is left of it without its first folders
        for path in files:
            parts = path.split('/')
            for i in range(len(parts)):
                tail = '/'.join(parts[i:])
                self.tails.add(tail)
                self.tails.add(os.path.splitext(tail)[0] + '.*')

    def has(self, name, citing):
        near = os.path.normpath(os.path.join(os.path.dirname(citing), name))
        if name in self.files or near in self.files or os.path.isdir(os.path.join(ROOT, near)):
            return True
        return name in self.tails

    def document(self, name, citing):
        for path in (os.path.normpath(os.path.join(os.path.dirname(citing), name)), name):
            if path in self.files:
                return path
        return None


def citations(path, text):
    yield from (m.group(1) for m in OURS.finditer(text))
    yield from (m.group(1) for m in DOCUMENT.finditer(text))
    if path.endswith('.md'):
        yield from (m.group(1) for m in QUOTED.finditer(text))


def dead_links(path, text):
    """A reader follows a link from the folder of the document."""
    for m in LINK.finditer(text) if path.endswith('.md') else ():
        if '://' not in m.group(1) and not os.path.exists(os.path.join(ROOT, os.path.dirname(path), m.group(1))):
            yield m.group(1)


def main():
    files = tracked()
    repository = Repository(files)
    bad = set()
    for path in files:
        if not path.endswith(TEXT) or path == 'tests/citations_test.py':
            continue
        text = read(path)
        for name in citations(path, text):
            if name not in FOREIGN and not WRITTEN.match(name) and not repository.has(name, path):
                bad.add(f'{path}: cites {name}, which is not here')
        bad.update(f'{path}: links to {name}, which is not there' for name in dead_links(path, text))
        for name, section in SECTION.findall(text):
            document = repository.document(name, path)
            if document and not re.search(r'^#+ .*' + re.escape(section), read(document), re.M):
                bad.add(f'{path}: cites {name}, "{section}", which it does not have')
    print('\n'.join(sorted(bad)) or f'{len(files)} files: what they cite is here')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
