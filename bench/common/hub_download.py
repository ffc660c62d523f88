#!/usr/bin/env python3
"""Rate of `cox pull`, which verifies every byte, beside curl with eight connections and sha256sum of the same files.

  bench/common/hub_download.py [--bin build/cpu/bin] [--folder /dev/shm] [--files 8] [--mebibytes 256] [--runs 5]

The Hub is coxswain-test-hub on loopback, on the same cores. Of each run in turns: cox pull into an empty cache, curl
--parallel, and of the files one after the other sha256sum and openssl dgst -sha256, which uses the processor's instructions
for SHA where sha256sum does not; FOLDER holds what they read and write. MB/s are bytes over wall time, of curl with a
digest over the sum of both; cores are the CPU seconds of the process over its wall time. Prints medians and ranges and
writes bench/results/hub_download.json.
"""
import argparse, json, os, shutil, statistics, subprocess, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def measured(command, **more):
    """Wall and CPU seconds of a command."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    if status != 0:
        raise SystemExit(f'{command[0]} failed with status {status}')
    return wall, usage.ru_utime + usage.ru_stime


def write_files(folder, files, mebibytes):
    os.makedirs(folder)
    block = os.urandom(1 << 20)
    for i in range(files):
        with open(os.path.join(folder, f'model-{i + 1:05}-of-{files:05}.safetensors'), 'wb') as f:
            for j in range(mebibytes):
                f.write(f'{i} {j} '.encode() + block[16:])
    return sorted(os.listdir(folder))


class Bench:
    def __init__(self, args, folder):
        self.bin, self.folder = os.path.abspath(args.bin), folder
        self.names = write_files(os.path.join(folder, 'hub/models/org/big/@main'), args.files, args.mebibytes)
        self.bytes = sum(os.path.getsize(os.path.join(folder, 'hub/models/org/big/@main', name)) for name in self.names)
        self.hub = subprocess.Popen([os.path.join(self.bin, 'coxswain-test-hub'), os.path.join(folder, 'hub')],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self.hub.stdout.readline().strip()

    def cox(self):
        home = os.path.join(self.folder, 'hf')
        shutil.rmtree(home, ignore_errors=True)
        env = dict(os.environ, HF_ENDPOINT=self.endpoint, HF_HOME=home)
        return measured([os.path.join(self.bin, 'cox'), 'pull', 'org/big'], env=env)

    def curl(self):
        out = os.path.join(self.folder, 'curl')
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        command = ['curl', '--silent', '--fail', '--location', '--parallel', '--parallel-max', '8']
        for name in self.names:
            command += ['--output', os.path.join(out, name), f'{self.endpoint}/org/big/resolve/main/{name}']
        return measured(command)

    def digest(self, *command):
        return measured([*command, *(os.path.join(self.folder, 'curl', name) for name in self.names)])

    def end(self):
        self.hub.stdin.close()
        self.hub.wait()


def row(name, size, runs):
    rates = [size / wall / 1e6 for wall, _ in runs]
    return {'what': name, 'median_mb_per_s': round(statistics.median(rates), 1),
            'range_mb_per_s': [round(min(rates), 1), round(max(rates), 1)],
            'cores': round(statistics.median(cpu / wall for wall, cpu in runs), 2)}


def both(first, second):
    return [(a[0] + b[0], a[1] + b[1]) for a, b in zip(first, second)]


def machine():
    with open('/proc/cpuinfo') as f:
        models = [line.split(':')[1].strip() for line in f if line.startswith('model name')]
    return f'{models[0]} x {len(models)}'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bin', default=os.path.join(ROOT, 'build/cpu/bin'))
    parser.add_argument('--folder', default='/dev/shm')
    parser.add_argument('--files', type=int, default=8)
    parser.add_argument('--mebibytes', type=int, default=256)
    parser.add_argument('--runs', type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder, prefix='hub-download-') as folder:
        bench = Bench(args, folder)
        cox, curl, sums, dgst = [], [], [], []
        for _ in range(args.runs):
            cox.append(bench.cox())
            curl.append(bench.curl())
            sums.append(bench.digest('sha256sum'))
            dgst.append(bench.digest('openssl', 'dgst', '-sha256'))
        bench.end()
    with_sums, with_dgst = both(curl, sums), both(curl, dgst)
    rows = [row('cox pull', bench.bytes, cox), row('curl, then sha256sum', bench.bytes, with_sums),
            row('curl, then openssl dgst', bench.bytes, with_dgst), row('curl alone', bench.bytes, curl)]
    ratios = {name: round(statistics.median(b[0] / a[0] for a, b in zip(cox, other)), 3)
              for name, other in (('sha256sum', with_sums), ('openssl dgst', with_dgst))}
    for line in rows:
        print(f"{line['what']:24} {line['median_mb_per_s']:8.1f} MB/s {line['range_mb_per_s']}  {line['cores']} cores")
    for name, ratio in ratios.items():
        print(f'cox pull has {ratio:.2f} times the rate of curl with {name}')
    commit = subprocess.run(['git', 'rev-parse', '--short=12', 'HEAD'], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    with open(os.path.join(ROOT, 'bench/results/hub_download.json'), 'w') as f:
        json.dump({'bench': 'hub_download', 'command': 'bench/common/hub_download.py', 'commit': commit, 'machine': machine(),
                   'folder': args.folder, 'bytes': bench.bytes, 'files': args.files, 'runs': args.runs,
                   'load_average': f'{os.getloadavg()[0]:.2f}', 'rate_over_that_of_curl_with': ratios, 'rows': rows}, f, indent=1)


if __name__ == '__main__':
    main()
