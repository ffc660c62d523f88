#!/usr/bin/env python3
"""Trains a job with several learning rates, one after the other, and says which has the lowest loss on held-out records.

  learning_rates.py JOB.yaml FOLDER RATE...
"""
import os, sys

import coxswain_train as coxswain


def main():
    path, folder, rates = sys.argv[1], sys.argv[2], [float(rate) for rate in sys.argv[3:]]
    client = coxswain.Client()
    jobs = {rate: client.submit(path, **{'train.learning_rate': rate, 'metadata.name': f'rate-{i}',
                                         'checkpoint.output_dir': os.path.join(folder, f'rate-{i}')})
            for i, rate in enumerate(rates)}
    best = {}
    for rate, job in jobs.items():
        table = client.metrics(job.wait())
        best[rate] = min(loss for loss in table.column('eval_loss') if loss is not None)
        print(f'{rate:g}: loss {table[-1]["loss"]:.4f}, held-out {best[rate]:.4f}')
    print(f'best: {min(best, key=best.get):g}')


if __name__ == '__main__':
    main()
