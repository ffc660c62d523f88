#!/usr/bin/env python3
"""The blocks of documents that a reader types: fences of sh, bash and console. tests/first_hour.sh types them.

A comment on the line before a block says what else becomes of it:
  <!-- first_hour: needs docker -->         not typed: the block needs something of NEEDS
  <!-- first_hour: saved as job.yaml -->    the reader saves the block, of any language, under this name

  tests/command_blocks.py FOLDER PAGE...    writes each block into a file of FOLDER, in the order of the pages, and prints
                                            for each: PAGE:LINE, what becomes of it, its reason or name, the file; by tabs
"""
import os, re, sys

# What a clean chroot lacks, and why.
NEEDS = {
    'docker': 'a Docker daemon and a registry',
    'kubectl': 'a Kubernetes cluster',
    'systemctl': 'a machine that was booted with systemd',
    'a GPU': 'an NVIDIA GPU with CUDA 13',
    'a wheel': 'a virtual environment, and a wheel that was made before',
    'an hour': 'a whole build with every test: --long types it',
}
TYPED = ('sh', 'bash', 'console')

FENCE = re.compile(r'^( *)```(\w*)\s*$')
MARK = re.compile(r'^\s*<!-- first_hour: (.*?) *-->\s*$')
RULE = re.compile(r'^(needs|saved as) (.+)$')
FILE_NAME = re.compile(r'^\w[\w.-]*$')


class MarkError(ValueError):
    """A comment that tests/first_hour.sh cannot follow; says which line."""


class Block:
    """`rule` is typed, needs or saved as; `argument` the reason or the name; `line` that of the opening fence."""

    def __init__(self, line, rule, argument, text):
        self.line, self.rule, self.argument, self.text = line, rule, argument, text


def rule_of(number, mark):
    rule = RULE.match(mark)
    if not rule:
        raise MarkError(f"{number}: 'first_hour: {mark}' is neither 'needs REASON' nor 'saved as FILE'")
    if rule.group(1) == 'needs' and rule.group(2) not in NEEDS:
        raise MarkError(f"{number}: needs '{rule.group(2)}', which is no reason; there are {', '.join(NEEDS)}")
    if rule.group(1) == 'saved as' and not FILE_NAME.match(rule.group(2)):
        raise MarkError(f"{number}: saved as '{rule.group(2)}', which is no file name")
    return rule.groups()


def typed(language, lines):
    """What is typed of a block; a console block shows answers too, on lines without a prompt."""
    if language == 'console':
        lines = [line[2:] for line in lines if line.startswith('$ ')]
    return ''.join(line + '\n' for line in lines)


def blocks(text):
    """The blocks of a page in order. Raises MarkError."""
    lines, mark, i = text.split('\n'), None, 0
    while i < len(lines):
        fence, comment = FENCE.match(lines[i]), MARK.match(lines[i])
        if mark and not fence:
            raise MarkError(f"{i}: 'first_hour: {mark}' stands before no block")
        if fence:
            indent, language = fence.groups()
            closing = next((j for j in range(i + 1, len(lines)) if lines[j].strip() == '```'), len(lines))
            inside = [line.removeprefix(indent) for line in lines[i + 1:closing]]
            if mark:
                yield Block(i + 1, *rule_of(i, mark), typed(language, inside))
            elif language in TYPED:
                yield Block(i + 1, 'typed', '', typed(language, inside))
            i = closing
        mark = comment.group(1) if comment else None
        i += 1
    if mark:
        raise MarkError(f"{i}: 'first_hour: {mark}' stands before no block")


def main(folder, pages):
    count = 0
    for page in pages:
        with open(page, encoding='utf-8') as f:
            text = f.read()
        try:
            for block in blocks(text):
                count += 1
                path = os.path.join(folder, f'{count:02d}')
                with open(path, 'w', encoding='utf-8') as f:
                    f.write(block.text)
                print(f'{page}:{block.line}', block.rule, block.argument or '-', path, sep='\t')
        except MarkError as error:
            sys.exit(f'{page}:{error}')


if __name__ == '__main__':
    if len(sys.argv) < 3 or sys.argv[1].startswith('-'):
        sys.exit('usage: tests/command_blocks.py FOLDER PAGE...')
    main(sys.argv[1], sys.argv[2:])
