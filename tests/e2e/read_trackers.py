#!/usr/bin/env python3
"""The files of logging.report_to as the packages of their tools read them, held against the JSON lines.

  tests/e2e/read_trackers.py DIR JOB      DIR is logging.dir; says of each tool whether its package is there

The reader of Weights & Biases' files is in the Python package up to 0.19; later ones read them in a program of their own.
"""
import glob, json, sys

STEP = 'train/global_step'


def lines(directory, job):
    """{name: [(step, value)]} as the JSON lines have it."""
    series = {}
    for line in open(f'{directory}/jsonl/{job}.jsonl'):
        point = json.loads(line)
        for name, value in point.items():
            if '/' in name:
                series.setdefault(name, []).append((point['step'], float(value)))
    return series


def tensorboard(directory, job):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(f'{directory}/tensorboard/{job}', size_guidance={'scalars': 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()['scalars']}


def wandb(directory, job):
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore
    (path,) = glob.glob(f'{directory}/wandb/offline-run-*-{job}/run-{job}.wandb')
    store, kinds, series = DataStore(), [], {}
    store.open_for_scan(path)
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kinds.append(record.WhichOneof('record_type'))
        if kinds[-1] == 'run':
            assert record.run.run_id == job, record.run.run_id
            assert {'spec', 'metadata'} <= {item.key for item in record.run.config.update}
        if kinds[-1] != 'history':
            continue
        point = {item.key: json.loads(item.value_json) for item in record.history.item}
        for name, value in point.items():
            if '/' in name and name != STEP:
                series.setdefault(name, []).append((point[STEP], float(value)))
    assert kinds[:2] == ['header', 'run'] and kinds[-1] == 'exit', kinds
    return series


def main():
    directory, job = sys.argv[1:]
    expected = lines(directory, job)
    for read in (tensorboard, wandb):
        try:
            series = read(directory, job)
        except ImportError as error:
            print(f'{read.__name__}: skipped, {error}')
            continue
        assert series.keys() == expected.keys(), (read.__name__, series.keys() ^ expected.keys())
        for name, points in expected.items():
            assert [step for step, _ in series[name]] == [step for step, _ in points], (read.__name__, name)
            for (_, got), (step, value) in zip(series[name], points):
                # TensorBoard's values have 24 bits.
                assert abs(got - value) <= abs(value) * 2**-24 or got == value, (read.__name__, name, step, got, value)
        print(f'{read.__name__}: {len(series)} curves are read')


if __name__ == '__main__':
    main()
