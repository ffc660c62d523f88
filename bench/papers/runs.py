"""How the tables of bench/papers run our own benchmarks, and keep what came of them after every row.

On a machine with gpu_step_bench or gpu_bench on PATH (device.sh) the programs are those of the GPU, else those of the CPU
in the folder COXSWAIN_BENCH, build/cpu/bench by default.
"""
import atexit, json, os, shutil, subprocess, sys, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEVICE = 'cuda' if shutil.which('gpu_step_bench') or shutil.which('gpu_bench') else 'cpu'
SCRATCH = tempfile.mkdtemp(prefix='coxswain-papers-')
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)


class Failed(Exception):
    """A program that did not end well; its message is the end of what it said."""


def program(name):
    """Its path. Failed: it is not there."""
    folder = os.environ.get('COXSWAIN_BENCH', os.path.join(ROOT, 'build/cpu/bench'))
    path = shutil.which(f'gpu_{name}') if DEVICE == 'cuda' else os.path.join(folder, name)
    if path is None or not os.path.exists(path):
        raise Failed(f'{path or "gpu_" + name} is not built')
    return path


def results_of(name, *options):
    """What `name` with the options writes by --json. Failed: its exit code is not 0."""
    path = os.path.join(tempfile.mkdtemp(dir=SCRATCH), 'results.json')
    run = subprocess.run([program(name), *options, '--json', path], cwd=ROOT, capture_output=True, text=True)
    if run.returncode != 0:
        raise Failed((run.stderr.strip() or run.stdout.strip())[-500:] or f'{name}: exit code {run.returncode}')
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def step(row, *options):
    """(the row, all results) of step_bench for one of its rows. Products that runs before have tuned are not again."""
    table = () if 'tuning' in options else ('--gemm-table', os.path.join(SCRATCH, 'products.json'))
    results = results_of('step_bench', '--row', row, *table, *options)
    measured = results['rows'][0]
    return {'row': row, **{key: value for key, value in measured.items() if key != 'row'}}, results


class Table:
    """The file of a table: {command, commit, machine, device, fields, rows}, written anew with every row. Rows may come
    from several threads; `lock` is for what is made of them."""

    def __init__(self, path, budget, **fields):
        self.path, self.fields, self.rows = path, fields, []
        self.ends = time.monotonic() + budget
        words = [os.path.basename(word) if os.path.isabs(word) else word for word in sys.argv[1:]]
        self.command = ' '.join([os.path.relpath(sys.argv[0], ROOT)] + words)
        self.origin, self.lock = {}, threading.RLock()

    def spent(self, what, takes=0):
        """True, and said, when no row may begin any more, or none that takes so many seconds."""
        if time.monotonic() + takes < self.ends:
            return False
        print(f'{what}: not run, the budget is spent', flush=True)
        return True

    def add(self, row, results=None):
        """`results`: of the program that gave the row, for commit, machine and device."""
        with self.lock:
            self.rows.append(row)
            for key in ('commit', 'machine', 'device'):
                if results and key in results:
                    self.origin[key] = results[key]
            self.write()

    def write(self):
        if not self.path:
            return
        with open(self.path + '.new', 'w', encoding='utf-8') as file:
            json.dump({'command': self.command, **self.origin, **self.fields, 'rows': self.rows}, file, indent=1)
            file.write('\n')
        os.replace(self.path + '.new', self.path)


def add_options(parser, budget):
    parser.add_argument('--json', help='file of results, written anew with every row')
    parser.add_argument('--budget', type=float, default=budget, help='seconds after which no row begins')
