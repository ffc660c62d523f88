#!/usr/bin/env python3
"""What checkpoints cost a job over several GPUs, and how fast a killed one trains again.

  checkpoint_jobs.py cost FOLDER MODEL --gpus N [--row ROW] [--output DIRECTORY...] [--saves K]
      The job of ROW saves K checkpoints into each DIRECTORY. Steps are sorted by whether a checkpoint was copied or
      written meanwhile (from its step to its commit): speed of the ones over the speed of the others, and by how much
      the longest exceeds the median of the others. Beside it the rate at which this program alone writes there.
  checkpoint_jobs.py recovery FOLDER MODEL --gpus N [--row ROW...] [--output DIRECTORY]
      A worker is killed two steps after a checkpoint was committed. Seconds after the kill of: the failure told, each
      stage of the recovery, workers reserved, weights and state loaded, collectives connected, the first step again,
      and, where three steps reach it, the first that was not done before.
Both write FOLDER/checkpoint_MODE.json. Programs (cox, coxswain-controller, ...) come from PATH.
"""
import argparse, glob, json, os, shutil, signal, statistics, sys, time
from datetime import datetime

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gang_needs
from gang_jobs import Cluster, prepare, wait_for, write_job

GOALS = {'7b_full_x1': 25, '0.5b_lora': 8}  # seconds from the kill to the first step again
SAVES = {'7b_full_x1': 60, '0.5b_lora': 12}  # steps between two: more than pass while one is written


def ms_of(stamp):
    """Milliseconds since 1970 of a time in RFC 3339."""
    return 1e3 * datetime.fromisoformat(stamp.replace('Z', '+00:00')).timestamp()


def steps_of(cluster, job):
    return [dict(data, ms=ms_of(event['time'])) for event, data in cluster.events(job, 'StepDone')]


def ended(cluster, job):
    return cluster.json('get', job)['state'] in ('FAILED', 'SUCCEEDED', 'CANCELLED')


def submit(cluster, args, row, output, steps, save):
    shutil.rmtree(output, ignore_errors=True)
    path = write_job(args.folder, row, args.gpus, steps=steps, save=save)
    settings = [f'checkpoint.output_dir={output}', 'checkpoint.save_total_limit=2', *args.set]
    return cluster.cox('submit', path, '-o', 'name', *(part for text in settings for part in ('--set', text))).strip()


def write_rate(directory, gib=8):
    """Bytes per second of one program that writes and syncs a file."""
    os.makedirs(directory, exist_ok=True)
    piece, path = os.urandom(1 << 26), os.path.join(directory, 'write-rate')
    start = time.monotonic()
    with open(path, 'wb', buffering=0) as file:
        for _ in range(gib * 16):
            file.write(piece)
        os.fsync(file.fileno())
    took = time.monotonic() - start
    os.unlink(path)
    return (gib << 30) / took


def cost_in(cluster, args, row, output):
    rate = write_rate(output)
    save = 40
    job = submit(cluster, args, row, output, save * args.saves + 30, save)
    wait_for('the checkpoints', lambda: ended(cluster, job) or (
        len(steps_of(cluster, job)) > save * args.saves + 20 and
        len(cluster.events(job, 'CheckpointCommitted')) >= args.saves), args.seconds)
    saves = [(ms_of(e['time']), data) for e, data in cluster.events(job, 'CheckpointCommitted')]
    steps = steps_of(cluster, job)[3:]
    found = cluster.json('get', job)
    cluster.cox('cancel', job, check=False)
    if not saves:
        raise RuntimeError(f'{job} is {found["state"]}: {found.get("error", {}).get("message", "")}')
    spans = [(end - 1e3 * data['seconds'], end) for end, data in saves]
    within = lambda step: any(start < step['ms'] and step['ms'] - 1e3 * step['seconds'] < end for start, end in spans)
    during = [s['seconds'] for s in steps if within(s)]
    alone = [s['seconds'] for s in steps if not within(s)]
    usual = statistics.median(alone)
    return {'row': row, 'gpus': args.gpus, 'output': output, 'checkpoints': len(saves), 'bytes': saves[0][1]['bytes'],
            'save_seconds': [round(data['seconds'], 2) for _, data in saves], 'write_bytes_per_second_alone': rate,
            'step_seconds': usual, 'steps_during': len(during), 'steps_alone': len(alone),
            'speed_percent': 100 * statistics.mean(alone) / statistics.mean(during),
            'longest_step_more_seconds': max(during) - usual,
            'seconds_of_each_step': [round(s['seconds'], 4) for s in steps]}


def cost(args):
    rows = []
    for output in args.output:
        with Cluster(args.folder, args.gpus) as cluster:
            row = cost_in(cluster, args, args.row[0], output)
        shutil.rmtree(output, ignore_errors=True)
        rows.append(row)
        print(f'{row["row"]} on {args.gpus} GPUs to {output}: {row["bytes"] / 1e9:.1f} GB in '
              f'{statistics.median(row["save_seconds"]):.1f} s (one writer alone '
              f'{row["write_bytes_per_second_alone"] / 1e9:.2f} GB/s); {row["steps_during"]} steps meanwhile at '
              f'{row["speed_percent"]:.1f} % of the speed of {row["steps_alone"]} others, the longest '
              f'{row["longest_step_more_seconds"]:+.2f} s')
        save(args, 'cost', rows)
    return sum(row['speed_percent'] < 98 or row['longest_step_more_seconds'] > 1 for row in rows)


def logged(cluster, message, after_ms):
    """Milliseconds of the last line `message` of the workers' logs within the recovery, or None."""
    found = []
    for path in glob.glob(os.path.join(cluster.env['XDG_STATE_HOME'], 'coxswain', '**', '*.log'), recursive=True):
        with open(path, encoding='utf-8', errors='replace') as file:
            for line in file:
                if f'"msg":"{message}"' not in line:
                    continue
                ms = ms_of(json.loads(line)['ts'])
                if ms > after_ms:
                    found.append(ms)
    return max(found, default=None)


def timeline(cluster, job, kill_ms, before):
    after = lambda kind, keep=lambda data: True: [
        (ms_of(e['time']), data) for e, data in cluster.events(job, kind)
        if ms_of(e['time']) >= kill_ms and keep(data)]
    first = lambda found: found[0][0] if found else None
    marks = {'told': first(after('AttemptFailed'))}
    for ms, data in after('RecoveryStage'):
        marks.setdefault(data['stage'], ms)
    marks['workers'] = first(after('StateChanged', lambda data: data['to'] == 'ADMITTED'))
    marks['preparing'] = logged(cluster, 'preparing', kill_ms)
    marks['loaded'] = logged(cluster, 'prepared', kill_ms)
    marks['connected'] = first(after('GangFormed'))
    epoch = after('GangFormed')[0][1]['epoch'] if after('GangFormed') else None
    steps = [s for s in steps_of(cluster, job) if s['epoch'] == epoch]
    marks['first_step'] = steps[0]['ms'] if steps else None
    marks['replayed'] = next((s['ms'] for s in steps if int(s['step']) > before), None)  # may come later
    return {name: round((ms - kill_ms) / 1e3, 2) for name, ms in marks.items() if ms is not None}


def say(text):
    print(f'  {time.strftime("%H:%M:%S")} {text}', flush=True)


def recovery_of(cluster, args, row, output):
    say(f'{row}: submitting')
    job = submit(cluster, args, row, output, 300, SAVES.get(row, 40))
    wait_for('a checkpoint', lambda: ended(cluster, job) or cluster.events(job, 'CheckpointCommitted'), args.seconds)
    if not cluster.events(job, 'CheckpointCommitted'):
        raise RuntimeError(cluster.cox('events', job, check=False)[-3000:])
    saved = cluster.events(job, 'CheckpointCommitted')[0][1]
    say(f'checkpoint of step {saved["step"]} after {saved["seconds"]:.1f} s')
    wait_for('two steps', lambda: ended(cluster, job) or int(steps_of(cluster, job)[-1]['step']) >= int(saved['step']) + 2, 60)
    victim = next(w for w in cluster.json('workers')['workers'] if w.get('job') and w.get('rank', 0) == args.gpus - 1)
    kill_ms = 1e3 * time.time()
    os.kill(int(victim['pid']), signal.SIGKILL)
    before = int(steps_of(cluster, job)[-1]['step'])
    say(f'killed behind step {before}')
    old = steps_of(cluster, job)[-1]['epoch']
    again = lambda: sum(step['epoch'] != old for step in steps_of(cluster, job))
    done = lambda: ended(cluster, job) or again() >= 3
    try:
        wait_for('training again', done, args.seconds)
    except RuntimeError as error:
        say(f'{error}; {timeline(cluster, job, kill_ms, before)}; {cluster.cox("events", job, check=False)[-3000:]}')
        raise
    marks = timeline(cluster, job, kill_ms, before)
    found = cluster.json('get', job)
    say(f'trains again: {marks}')
    diverged = len(cluster.events(job, 'ReplayDivergence'))
    cluster.cox('cancel', job, check=False)
    return {'row': row, 'set': args.set, 'gpus': args.gpus, 'output': output, 'bytes': saved['bytes'], 'save_seconds': saved['seconds'],
            'seconds_of_each_step': [round(s['seconds'], 3) for s in steps_of(cluster, job)],
            'steps_done_again': before + 1 - int(saved['step']), 'other_bits': diverged, 'state': found['state'],
            'goal_seconds': GOALS.get(row), 'seconds_after_kill': marks}


def recovery(args):
    rows, bad = [], 0
    for name in args.row:
        output = os.path.join(args.output[0], f'out-{name}')
        with Cluster(args.folder, args.gpus) as cluster:
            row = recovery_of(cluster, args, name, output)
        shutil.rmtree(output, ignore_errors=True)
        rows.append(row)
        marks = row['seconds_after_kill']
        print(f'{name} on {args.gpus} GPUs, {row["bytes"] / 1e9:.1f} GB saved in {row["save_seconds"]:.1f} s; after the kill: '
              + ', '.join(f'{mark} {seconds:.1f}' for mark, seconds in marks.items())
              + f'; {row["steps_done_again"]} steps done again, {row["other_bits"]} with other bits')
        bad += row['other_bits'] > 0 or marks.get('first_step', 1e9) > (row['goal_seconds'] or 1e9)
        save(args, 'recovery', rows)
    return bad


def save(args, mode, rows):
    with open(os.path.join(args.folder, f'checkpoint_{mode}.json'), 'w', encoding='utf-8') as file:
        json.dump({'rows': rows}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('mode', choices=('cost', 'recovery'))
    parser.add_argument('folder', type=os.path.abspath)
    parser.add_argument('model', type=os.path.abspath)
    parser.add_argument('--gpus', type=int, default=2)
    parser.add_argument('--row', nargs='+')
    parser.add_argument('--output', nargs='+', type=os.path.abspath)
    parser.add_argument('--saves', type=int, default=2)
    parser.add_argument('--set', action='append', default=[], metavar='KEY=VALUE', help='of the jobs')
    parser.add_argument('--seconds', type=float, default=300)
    args = parser.parse_args()
    args.row = args.row or (['1.5b_full'] if args.mode == 'cost' else ['0.5b_lora', '7b_full_x1'])
    args.output = args.output or [os.path.join(args.folder, 'out')]
    gang_needs.check('checkpoint_jobs.py', args.model, args.gpus, [args.folder, *args.output])
    prepare(args.folder, args.model)
    sys.exit({'cost': cost, 'recovery': recovery}[args.mode](args))


if __name__ == '__main__':
    main()
