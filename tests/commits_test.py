#!/usr/bin/env python3
"""Subjects of commits have fewer than 72 characters: of those that main does not have, else of the newest 50."""
import subprocess, sys

from tracked_files import ROOT

LIMIT = 72
NEWEST = 50


def git(*arguments):
    done = subprocess.run(['git', *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def commits():
    """Lines of "hash subject"; of what is older than this gate none."""
    older = [f'^{commit}' for commit in git('log', '-1', '--diff-filter=A', '--format=%H', '--', 'tests/commits_test.py')]
    for main in ('main', 'origin/main'):
        new = git('log', '--format=%h %s', 'HEAD', f'^{main}', *older)
        if new:
            return new
    return git('log', f'-{NEWEST}', '--format=%h %s', 'HEAD', *older)


def main():
    lines = commits()
    bad = [line for line in lines if len(line.split(' ', 1)[1]) >= LIMIT]
    for line in bad:
        print(f'{line}: {len(line.split(" ", 1)[1])} characters, a subject has fewer than {LIMIT}')
    if not bad:
        print(f'{len(lines)} commits have subjects below {LIMIT} characters')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
