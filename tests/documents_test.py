#!/usr/bin/env python3
"""Documents: prose wraps at 100 columns, a C++ name or a file in `backticks` is in the tree, and the comments that
tests/first_hour.sh follows are understood. Tables, code, headings and a word that is longer by itself, such as a link or
a command, may be wider.

  tests/documents_test.py          prints every violation; exit 1 when there is one
  tests/documents_test.py --wrap   wraps the prose that is too long, in place
"""
import os, re, sys

from command_blocks import MarkError, blocks
from tracked_files import ROOT, tracked

COLUMNS = 100
# Pages that programs write.
GENERATED = {'bench/papers/README.md', 'common/faults/FAULTS.md', 'common/config/REFERENCE.md', 'common/foreign_keys/REFERENCE.md'}
SOURCES = ('*.h', '*.cc', '*.cu', '*.cuh', '*.inc', '*.proto', '*.py', '*.sh', '*.js', '*.html', '*.cmake', '*.yaml', '*.yml',
           '*CMakeLists.txt', '*.json', 'deploy/slurm/*', 'deploy/systemd/*')
# Examples of how names are written.
EXAMPLES = {'TypeName', 'FunctionName'}

# A word of prose: code spans and links are not broken.
WORD = re.compile(r'(?:`[^`]*`|!?\[[^\]]*\]\([^)]*\)|[^\s`])+|`\S*')
MARKER = re.compile(r'^( *)((?:[-*]|\d+\.) +)?')
NAME = re.compile(r'^(?:[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+|(?:\w+::)+~?\w+)$')
FILE = re.compile(r'^[\w.-]+(?:/[\w.-]+)+\.(?:cc|cuh|cu|h|inc|py|sh|md|proto|json|yaml|cmake|sbatch|service)$')
PLACEHOLDER = re.compile(r'(?:^|/)[A-Z_]+(?:/|$)')


def read(path):
    with open(os.path.join(ROOT, path), encoding='utf-8', errors='replace') as f:
        return f.read()


def prose(text):
    """(number, line) of what is neither code, table, heading nor HTML."""
    fenced = False
    for number, line in enumerate(text.split('\n'), 1):
        if line.lstrip().startswith('```'):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith(('|', '#', '<', '    ')):
            yield number, line


def words(line):
    return WORD.findall(line)


def too_long(text):
    for number, line in prose(text):
        marker = MARKER.match(line).group(0)
        if len(line) > COLUMNS and len(words(line[len(marker):])) > 1:
            yield number, len(line)


def wrapped(text):
    """`text` with every paragraph and list item that has a long line filled again."""
    lines, open_prose, long_lines = text.split('\n'), dict(prose(text)), dict(too_long(text))
    out, i = [], 0
    while i < len(lines):
        end = i + 1    # of the paragraph or item that begins at line i
        while lines[i].strip() and i + 1 in open_prose and open_prose.get(end + 1, '').strip() and not MARKER.match(lines[end]).group(2):
            end += 1
        if any(number in long_lines for number in range(i + 1, end + 1)):
            marker = MARKER.match(lines[i]).group(0)
            out += filled(words(' '.join([lines[i][len(marker):], *lines[i + 1:end]])), marker)
        else:
            out += lines[i:end]
        i = end
    return '\n'.join(out)


def filled(parts, marker):
    line, rest = marker + parts[0], ' ' * len(marker)
    for part in parts[1:]:
        # A line that begins like a list item would be one.
        if len(line) + 1 + len(part) > COLUMNS and not MARKER.match(part + ' ').group(2):
            yield line
            line = rest + part
        else:
            line += ' ' + part
    yield line


def names_in_sources():
    """{word: files that have it outside of a comment}."""
    where = {}
    for path in tracked(*SOURCES):
        text = read(path)
        if path.endswith(('.h', '.cc', '.cu', '.cuh', '.proto')):
            text = re.sub(r'//.*', '', text)
        for word in set(re.findall(r'[A-Za-z_]\w+', text)):
            where.setdefault(word, set()).add(path)
    return where


def missing_names(text, where, files, folder):
    for span in re.findall(r'`([^`\n]+)`', text):
        name = re.sub(r'\(.*\)$|<.*>', '', span)
        if NAME.match(name) and name not in EXAMPLES:
            parts = [part.lstrip('~') for part in name.split('::') if part not in ('std', 'absl', 'torch', 'kernels')]
            if not set.intersection(*(where.get(part, set()) for part in parts)):
                yield f'names `{span}`, which no source has'
        elif FILE.match(span) and not PLACEHOLDER.search(span) and not has_file(span, files, folder):
            yield f'names `{span}`, which is not here'


def has_file(span, files, folder):
    return os.path.normpath(os.path.join(folder, span)) in files or any(path.endswith('/' + span) or path == span for path in files)


def unknown_marks(text):
    try:
        list(blocks(text))
    except MarkError as error:
        yield str(error)


def main():
    pages = [path for path in tracked('*.md') if path not in GENERATED]
    if sys.argv[1:] == ['--wrap']:
        for path in pages:
            text = read(path)
            if list(too_long(text)):
                with open(os.path.join(ROOT, path), 'w', encoding='utf-8') as f:
                    f.write(wrapped(text))
        return 0
    where, files, bad = names_in_sources(), set(tracked()), []
    for path in pages:
        text = read(path)
        bad += [f'{path}:{number}: {columns} columns, prose wraps at {COLUMNS}' for number, columns in too_long(text)]
        bad += [f'{path}:{message}' for message in unknown_marks(text)]
        bad += [f'{path}: {message}' for message in sorted(set(missing_names(text, where, files, os.path.dirname(path))))]
    print('\n'.join(bad) or f'{len(pages)} documents wrap at {COLUMNS} columns and name what is here')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
