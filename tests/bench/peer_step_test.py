#!/usr/bin/env python3
"""bench/peer_step.py on the CPU: a small row by transformers, what it keeps, and its arguments."""
import importlib.util, json, math, os, subprocess, sys, tempfile, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, 'bench/peer_step.py')


def run(*options):
    environment = {**os.environ, 'CUDA_VISIBLE_DEVICES': '', 'PYTHONDONTWRITEBYTECODE': '1'}
    return subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, env=environment)


@unittest.skipUnless(all(map(importlib.util.find_spec, ('torch', 'transformers'))), 'no torch with transformers')
class PeerStepTest(unittest.TestCase):
    def test_a_row_is_measured_and_takes_the_place_of_its_name(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'steps.json')
            with open(path, 'w', encoding='utf-8') as file:
                json.dump({'rows': [{'row': 'other'}, {'row': 'tiny_full_512_peer_plain_mixed', 'old': True}]}, file)
            said = run('tiny_full_512', '--plain', '--warmup', '2', '--steps', '2', '--json', path)
            self.assertEqual(said.returncode, 0, said.stderr)
            with open(path, encoding='utf-8') as file:
                other, row = json.load(file)['rows']
        self.assertEqual((other, row['row']), ({'row': 'other'}, 'tiny_full_512_peer_plain_mixed'))
        self.assertNotIn('old', row)
        self.assertEqual(row['steps_timed'], 2)
        # The median of two times is their mean; a step is 2 micro-steps of 2 x 512 tokens.
        self.assertAlmostEqual(sum(2048e3 / rate for rate in row['tokens_per_second_range']) / 2, row['ms_per_step'], places=3)
        self.assertEqual(row['parameters']['trainable'], 4002048)
        for loss in row['loss']:  # of random tokens
            self.assertAlmostEqual(loss, math.log(4096), delta=0.2)
        self.assertIn('first step took', said.stdout)

    def test_what_cannot_run_is_an_error(self):
        for options, said in ((('gemma3_4b_full_2048',), 'gemma3_4b_full_2048 needs a GPU'),
                              (('tiny_full_512', '--layers', '--liger'), 'not allowed with argument --layers'),
                              (('x',), "invalid choice: 'x'")):
            with self.subTest(options):
                run_of = run(*options)
                self.assertEqual(run_of.returncode, 2)
                self.assertIn(said, run_of.stderr)


if __name__ == '__main__':
    unittest.main()
