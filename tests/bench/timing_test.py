#!/usr/bin/env python3
"""bench/papers/timing.py beside a torch that plays a host and a device, each with a clock of its own."""
import os, sys, types, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'bench', 'papers'))
sys.dont_write_bytecode = True

CYCLES_PER_MS = 1.5e6


class Played:
    """Milliseconds of the host now, and until which the device is busy."""
    host = device = 0.0
    waits = []

    @classmethod
    def launch(cls, host, device):
        cls.host += host
        cls.device = max(cls.device, cls.host) + device

    @classmethod
    def sleep(cls, cycles):
        cls.waits.append(cycles)
        cls.launch(0, cycles / CYCLES_PER_MS)

    @classmethod
    def synchronize(cls):
        cls.host = max(cls.host, cls.device)


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = max(Played.host, Played.device)

    def query(self):
        return self.at <= Played.host

    def elapsed_time(self, end):
        return end.at - self.at


def played_torch():
    torch = types.ModuleType('torch')
    torch.bfloat16 = torch.float32 = torch.uint8 = None
    torch.empty = lambda *_, **__: types.SimpleNamespace(zero_=lambda: Played.launch(0, 0.2))
    torch.cuda = types.SimpleNamespace(is_available=lambda: True, Event=Event, _sleep=Played.sleep,
                                       synchronize=Played.synchronize)
    return torch


sys.modules['torch'] = played_torch()
import timing  # noqa: E402


class MillisecondsTest(unittest.TestCase):
    def setUp(self):
        Played.host = Played.device = 0.0
        Played.waits = []

    def test_a_host_of_a_millisecond_is_hidden(self):
        def two_kernels():
            Played.launch(0.5, 0.05)
            Played.launch(0.5, 0.05)
        for quantile in timing.milliseconds(two_kernels, 1, samples=10):
            self.assertAlmostEqual(quantile, 0.1)
        self.assertEqual(set(Played.waits), {timing.WAIT_CYCLES})

    def test_a_call_that_a_busy_host_launched_too_late_is_not_counted(self):
        late = iter([0] * 5 + [7, 7, 7] + [0] * 30)

        def two_kernels():
            Played.launch(0, 0.05)
            Played.launch(next(late), 0.05)
        for quantile in timing.milliseconds(two_kernels, 1, samples=10):
            self.assertAlmostEqual(quantile, 0.1)
        self.assertEqual(Played.waits[-1], 4 * timing.WAIT_CYCLES)

    def test_a_function_that_waits_for_the_device_is_timed_with_its_waits(self):
        def waits():
            Played.synchronize()
            Played.launch(0.3, 0.05)
        for quantile in timing.milliseconds(waits, 1, samples=10):
            self.assertAlmostEqual(quantile, 0.35)
        self.assertEqual(Played.waits[-1], timing.LONGEST_WAIT_CYCLES)


if __name__ == '__main__':
    unittest.main()
