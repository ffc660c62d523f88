#!/usr/bin/env python3
"""The table of sizes of what deploy/release.sh made.

  deploy/sizes.py FOLDER                  prints the table
  deploy/sizes.py FOLDER --check PAGE     fails where a row of the table in PAGE is more than 1 MiB off what FOLDER has
"""
import glob, os, re, sys

# Pattern of the file: its row.
ROWS = {
    'coxswain_train-[0-9]*.whl': '`coxswain-train`',
    'coxswain_train_cuda-*.whl': '`coxswain-train-cuda`, without NVIDIA\'s libraries',
    'coxswain_kernels-*.whl': '`coxswain-kernels`',
    'coxswain-*-linux-x86_64.tar.gz': 'tarball',
    'coxswain-controller-*-image.tar': 'image `controller`',
    'coxswain-worker-cpu-*-image.tar': 'image `worker-cpu`',
    'coxswain-worker-cuda-*-image.tar': 'image `worker-cuda`',
}
TOLERANCE_MIB = 1   # a few lines of code move the rounded number


def sizes(folder):
    """{row: MiB}"""
    found = {row: glob.glob(os.path.join(folder, pattern)) for pattern, row in ROWS.items()}
    return {row: os.path.getsize(paths[0]) / 2 ** 20 for row, paths in found.items() if paths}


def wrong_rows(page, measured):
    with open(page, encoding='utf-8') as f:
        said = dict(re.findall(r'^\| (.+?) \| ([\d,]+) MiB \|$', f.read(), re.M))
    for row, mib in measured.items():
        if row not in said:
            yield f'{page} has no row | {row} | {mib:.0f} MiB |'
        elif abs(int(said[row].replace(',', '')) - mib) > TOLERANCE_MIB:
            yield f'{page} says {said[row]} MiB of {row}, it has {mib:.1f}'


def main(folder, *check):
    measured = sizes(folder)
    if check:
        wrong = list(wrong_rows(check[1], measured))
        sys.exit('\n'.join(wrong) or 0)
    print('| file | size |\n|---|---|')
    for row, mib in measured.items():
        print(f'| {row} | {mib:,.0f} MiB |')


if __name__ == '__main__':
    if len(sys.argv) not in (2, 4) or sys.argv[2:3] not in ([], ['--check']):
        sys.exit('usage: deploy/sizes.py FOLDER [--check PAGE]')
    main(*sys.argv[1:])
