"""How the tables of bench/papers time a function on the device: quantiles, peak memory, and the file of results."""
import json, os, subprocess, time

import torch

DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'
DTYPE = torch.bfloat16 if DEVICE == 'cuda' else torch.float32
FLUSH_BYTES = 2 ** 29  # far above any L2
WAIT_CYCLES = 3_000_000  # of the device, some 2 ms, in which the host launches what is timed
LONGEST_WAIT_CYCLES = 16 * WAIT_CYCLES


def quantiles(samples):
    """20, 50 and 80 %, of at least one sample."""
    ordered = sorted(samples)
    return [ordered[round(q * (len(ordered) - 1))] for q in (0.2, 0.5, 0.8)]


def milliseconds(function, seconds, samples=50, warmup=3, prepare=tuple):
    """Quantiles over at most `samples` calls and about `seconds` of function(*prepare()) on the device, of which prepare,
    a flush of the device's caches and a wait that hides the host's launches come before the clock starts. A call that
    the host launched too late is not counted, and the wait is twice as long from then on; at its longest, calls count:
    those of a function that waits for the device itself."""
    for _ in range(warmup):
        function(*prepare())
    if DEVICE == 'cpu':
        return quantiles([_host_milliseconds(function, prepare()) for _ in range(3)])
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=DEVICE)
    torch.cuda.synchronize()
    pairs, began, wait = [], time.monotonic(), WAIT_CYCLES
    while len(pairs) < samples and (len(pairs) < 5 or time.monotonic() - began < seconds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        arguments = prepare()
        flush.zero_()
        torch.cuda._sleep(wait)
        start.record()
        function(*arguments)
        end.record()
        if start.query() and wait < LONGEST_WAIT_CYCLES:
            wait *= 2
            continue
        pairs.append((start, end))
        if len(pairs) % 5 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return quantiles([a.elapsed_time(b) for a, b in pairs])


def _host_milliseconds(function, arguments):
    began = time.perf_counter()
    function(*arguments)
    return (time.perf_counter() - began) * 1e3


def extra_bytes(function):
    """Peak of torch's allocator above what is allocated before the call; None on the CPU."""
    if DEVICE == 'cpu':
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def copy_gb_per_s():
    """Read and written, of 1 GiB."""
    size = 2 ** 30 if DEVICE == 'cuda' else 2 ** 24
    a = torch.zeros(size, dtype=torch.uint8, device=DEVICE)
    b = torch.empty_like(a)
    return 2 * size / milliseconds(lambda: b.copy_(a), 0.5)[1] / 1e6


def gemm_tflop_per_s():
    """Of a square product of 8,192, at the clock of a short burst."""
    n = 8192 if DEVICE == 'cuda' else 256
    a, b = (torch.randn(n, n, device=DEVICE, dtype=DTYPE) for _ in range(2))
    return 2 * n ** 3 / milliseconds(lambda: a @ b, 0.5)[1] / 1e9


def state():
    """Clock, power, temperature of the GPU now; None on the CPU."""
    if DEVICE == 'cpu':
        return None
    keys = ('clocks.sm', 'power.draw', 'temperature.gpu', 'clocks_event_reasons.active')
    text = subprocess.run(['nvidia-smi', f'--query-gpu={",".join(keys)}', '--format=csv,noheader,nounits', '-i', '0'],
                          capture_output=True, text=True, check=True).stdout
    return dict(zip(('sm_mhz', 'watts', 'celsius', 'throttle'), (v.strip() for v in text.split(','))))


def machine():
    return torch.cuda.get_device_name() if DEVICE == 'cuda' else 'CPU'


def commit():
    """COXSWAIN_COMMIT where there is no history to ask."""
    return os.environ.get('COXSWAIN_COMMIT') or subprocess.run(
        ['git', 'rev-parse', '--short=12', 'HEAD'], capture_output=True, text=True, check=True,
        cwd=os.path.dirname(os.path.abspath(__file__))).stdout.strip()


def write(path, command, **results):
    with open(path, 'w') as f:
        json.dump({'commit': commit(), 'machine': machine(), 'torch': torch.__version__, 'command': command,
                   **results}, f, indent=1)
