#!/usr/bin/env python3
"""Trains a job file on this machine, shows how it goes, and writes the export into a folder.

  train.py JOB.yaml FOLDER [WORKERS]     WORKERS: on the CPU; without it one on each GPU, or a single one on the CPU
"""
import sys

import coxswain_train as coxswain


def main():
    path, folder = sys.argv[1:3]
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else None
    with coxswain.up(workers=workers) as client:
        try:
            job = client.submit(path)
        except coxswain.InvalidJob as error:
            sys.exit('\n'.join(str(problem) for problem in error.problems) or str(error))
        job = job.wait(display=coxswain.Progress())
        for name in job.download(folder):
            print(name)


if __name__ == '__main__':
    main()
