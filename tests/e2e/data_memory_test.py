#!/usr/bin/env python3
"""The controller's memory stays flat while it prepares a data set far larger than it may hold (invariant data-12).

  data_memory_test.py [MEGABYTES]      default 2000; the file is generated and removed again
"""
import json, os, re, sys, time, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import QUICKSTART, Cluster, wait_for

MEGABYTES = int(sys.argv.pop()) if len(sys.argv) > 1 and sys.argv[-1].isdigit() else 2000
LIMIT_MB = 700


class DataMemoryTest(Cluster):
    def generate(self, path):
        records = open(os.path.join(QUICKSTART, 'train.jsonl'), 'rb').read()
        with open(path, 'wb') as f:
            copy = 0
            while f.tell() < MEGABYTES * 1_000_000:   # every copy differs, so that no cache makes it easy
                f.write(records.replace(b'"instruction": "', b'"instruction": "%d. ' % copy))
                copy += 1

    def test_controller_memory_is_flat(self):
        controller = self.start_controller()
        data = os.path.join(self.dir, 'large.jsonl')
        self.generate(data)
        started = time.monotonic()
        job = self.submit(self.job_file(replace={os.path.join(QUICKSTART, 'train.jsonl'): data}))
        self.wait_state(job, 'READY', 1500)
        seconds = time.monotonic() - started
        peak = int(re.search(r'VmHWM:\s+(\d+) kB', open(f'/proc/{controller.pid}/status').read())[1]) / 1000
        summary = self.cox_json('get', job)['data']
        print(f'{os.path.getsize(data) / 1e6:.0f} MB, {summary["documents"]} documents, {summary["tokens"]} tokens: '
              f'{seconds:.0f} s, controller peak {peak:.0f} MB')
        self.assertLess(peak, LIMIT_MB)
        self.assertIn('2 workers', self.cox('explain', job).stdout)


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')
