#!/usr/bin/env python3
"""What git tracks of this repository and is here: a file that is being moved is still listed by git.

  tests/tracked_files.py [PATTERN]...     paths from the root, one a line; patterns are git's, '*.h'
"""
import os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = ('*.h', '*.cc', '*.cu', '*.cuh')


def tracked(*patterns):
    out = subprocess.run(['git', 'ls-files', '--', *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for path in out.splitlines() if os.path.isfile(os.path.join(ROOT, path))]


if __name__ == '__main__':
    print('\n'.join(tracked(*sys.argv[1:])))
