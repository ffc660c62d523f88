"""Copies the job of the quickstart, with its model of 4 million parameters and its data, to where it can be trained.

  python -m coxswain_train.quickstart [FOLDER]      default: ./coxswain-quickstart
"""
import os, shlex, shutil, sys

from . import programs

_PACKAGED = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'quickstart_job')


def copy_quickstart(folder) -> str:
    """The path of the job file in `folder`, which must not be there."""
    shutil.copytree(_PACKAGED, folder)
    return os.path.join(folder, 'job.yaml')


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else 'coxswain-quickstart'
    if os.path.exists(folder):
        sys.exit(f'quickstart: {folder} is there already; give another folder')
    job = copy_quickstart(folder)
    print(f'cox train {shlex.quote(job)}')
    foreign = programs.foreign_cox()
    if foreign:
        print(f'quickstart: {foreign} is the cox of another product; call ours as: python -m coxswain_train train '
              f'{shlex.quote(job)}', file=sys.stderr)


if __name__ == '__main__':
    main()
