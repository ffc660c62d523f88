#!/usr/bin/env python3
"""Tables of bench/papers on the CPU: each script runs small, the page says what they wrote, and is the committed one.

COXSWAIN_BENCH: folder of step_bench and train_bench.
"""
import json, os, shutil, subprocess, sys, tempfile, unittest
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAPERS = os.path.join(ROOT, 'bench', 'papers')
sys.path.insert(0, PAPERS)
import convergence, extra_memory, intervals, lora_plus, page, rivals, sections  # noqa: E402

SMALL = {'memory': ('--row', 'tiny_lora_512', '--seconds', '0.1'),
         'ablation': ('--seconds', '0.1'),
         'packing': ('--seconds', '0.1'),
         'convergence': ('--steps', '3', '--seeds', '1', '2', '--held-back', '5'),
         'lora_plus': ('--steps', '2', '--seeds', '1', '2', '--ratios', '1', '4', '--batch', '1', '--held-back', '5',
                       '--at-once', '2')}


def run(script, *options):
    return subprocess.run([sys.executable, os.path.join(PAPERS, f'{script}.py'), *options], capture_output=True, text=True,
                          cwd=ROOT)


class ScriptsTest(unittest.TestCase):
    """What the scripts wrote, run once, beside the committed results."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        shutil.copytree(rivals.RESULTS, cls.folder, dirs_exist_ok=True)
        cls.said, cls.tables = {}, {}
        for script, options in SMALL.items():
            path = os.path.join(cls.folder, f'papers_{script}.json')
            cls.said[script] = run(script, *options, '--json', path)
            with open(path, encoding='utf-8') as file:
                cls.tables[script] = json.load(file)

    def test_every_row_is_measured_and_named(self):
        counts = {'memory': 5, 'ablation': 12, 'packing': 4, 'convergence': 4}
        for script, count in counts.items():
            with self.subTest(script):
                table = self.tables[script]
                self.assertEqual(len(table['rows']), count, self.said[script].stderr)
                self.assertFalse([row for row in table['rows'] if 'error' in row])
                for key in ('commit', 'machine', 'command', 'device'):
                    self.assertTrue(table[key], key)
                self.assertIn(f'bench/papers/{script}.py', table['command'])

    def test_ablation_has_one_gradient_norm(self):
        rows = self.tables['ablation']['rows']
        norms = [row['grad_norm'][0] for row in rows]
        # Float32, 4 million elements in orders that differ: far below this.
        self.assertLess(max(norms) / min(norms) - 1, 1e-4)
        self.assertEqual(len({tuple(row['without']) for row in rows}), 12)

    def test_memory_is_less_the_more_is_computed_again(self):
        activations = {row['recompute']: row['memory_gib']['activations'] for row in self.tables['memory']['rows']}
        self.assertGreater(activations['none'], activations['ffn'])
        self.assertGreater(activations['ffn'], activations['block'])

    def test_broken_kernel_starts_with_the_same_model_and_trains_another(self):
        rows = {(row['variant'], row['seed']): row for row in self.tables['convergence']['rows']}
        control, broken = rows['float32', 1], rows['broken', 1]
        self.assertEqual(control['evaluations'][0], broken['evaluations'][0])
        self.assertNotEqual(control['held_back_loss'], broken['held_back_loss'])
        self.assertEqual(len(self.tables['convergence']['differences']['broken']), 2)

    def test_lora_plus_reaches_itself_at_its_end(self):
        ratios = {row['ratio']: row for row in self.tables['lora_plus']['ratios']}
        self.assertEqual(set(ratios), {1, 4})
        self.assertEqual(ratios[1]['speedups'], [1.0, 1.0])

    def test_page_shows_what_was_measured(self):
        results, rivals.RESULTS = rivals.RESULTS, self.folder
        self.addCleanup(setattr, rivals, 'RESULTS', results)
        text, plots = page.page()
        for script in SMALL:
            self.assertNotIn(f'--papers {script}` measures', text)
        self.assertIn('over all ways: tiny_packed_512: 1.2', text)
        for name, plot in plots.items():
            ElementTree.fromstring(plot)
            self.assertIn(f'(plots/{name}.svg)', text)

    def test_a_spent_budget_leaves_rows_out_and_says_so(self):
        said = run('memory', '--budget', '0')
        self.assertIn('tiny_full_512 block: not run, the budget is spent', said.stdout)

    def test_a_row_that_is_not_there_is_an_error_of_its_own(self):
        path = os.path.join(self.folder, 'none.json')
        said = run('memory', '--row', 'nothing', '--json', path)
        self.assertEqual(said.returncode, 1)
        with open(path, encoding='utf-8') as file:
            self.assertIn('no row of this device', json.load(file)['rows'][0]['error'])
        self.assertEqual(run('ablation', '--rows', 'x').returncode, 2)


class PageTest(unittest.TestCase):
    def test_committed_page_is_what_the_script_makes(self):
        said = run('page', '--check')
        self.assertEqual(said.returncode, 0, said.stdout)

    def test_names_each_peers_command_beside_its_rows(self):
        text, _ = page.page()
        for c in rivals.comparisons():
            if c.group == 'training':
                line = next(line for line in text.splitlines() if f'`{c.source.peer_command}`' in line and c.label in line)
                self.assertTrue(line.startswith(('- `', '  - ')), line)

    def test_says_what_is_not_measured(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for name in os.listdir(rivals.RESULTS):
            if not name.startswith('papers_') and name != 'cpu_lora_plus.json':
                shutil.copy(os.path.join(rivals.RESULTS, name), folder)
        results, rivals.RESULTS = rivals.RESULTS, folder
        self.addCleanup(setattr, rivals, 'RESULTS', results)
        text, _ = page.page()
        for part in ('attention', 'kernels', 'lm_head', 'ablation', 'lora_plus', 'packing', 'memory', 'convergence'):
            self.assertIn(f'`bench/device.sh --papers {part}`', text)

    def test_says_what_memory_the_kernels_take_beside_ligers(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        results, rivals.RESULTS = rivals.RESULTS, folder
        self.addCleanup(setattr, rivals, 'RESULTS', results)

        def row(op, width, variant, mib):
            return {'op': op, 'width': width, 'variant': variant, 'extra_bytes': mib * 2 ** 20}
        with open(os.path.join(folder, 'papers_kernels.json'), 'w', encoding='utf-8') as file:
            json.dump({'rows': [row('swiglu', 8, 'ours', 6), row('swiglu', 8, 'liger', 2), row('swiglu', 16, 'ours', 12),
                                row('swiglu', 16, 'compile', 9), row('swiglu', 16, 'liger', 12),
                                row('cross_entropy', 8, 'ours', 5), row('cross_entropy', 8, 'liger', 0.01)]}, file)
        said = extra_memory.of_kernels()
        self.assertIn("above Liger's in 2 of 3", said)
        self.assertIn('swiglu 2.0 times; cross_entropy 5 to 5 MiB against none', said)
        self.assertEqual(extra_memory.cell(extra_memory.kernels()['swiglu']), '16: 12 / 9 / 12')

    def test_a_ratio_is_how_many_times_as_fast(self):
        def comparison(unit):
            return rivals.Comparison('training', 'row', 'peer', 200.0, 100.0, unit, None)
        self.assertEqual(comparison('tokens/s').ratio, 2.0)
        self.assertEqual(comparison('ms').ratio, 0.5)
        self.assertEqual([sections.kind_of(r) for r in (1.03, 1.01, 0.99, 0.97)], ['win', 'other', 'other', 'loss'])


class StatisticsTest(unittest.TestCase):
    def test_interval_of_three_is_students(self):
        mean, low, high = intervals.interval([1.0, 2.0, 3.0])
        self.assertAlmostEqual(mean, 2.0)
        # 4.303 deviations of the mean, 1 / sqrt(3).
        self.assertAlmostEqual(high - mean, 4.303 / 3 ** 0.5, places=3)
        self.assertAlmostEqual(mean - low, high - mean)

    def test_speedup_lies_between_evaluations(self):
        curve = [(0, 4.0), (50, 3.0), (100, 2.0)]
        self.assertAlmostEqual(lora_plus.speedup(curve, 2.5), 100 / 75)
        self.assertAlmostEqual(lora_plus.speedup(curve, 2.0), 1.0)
        self.assertIsNone(lora_plus.speedup(curve, 1.9))

    def test_losses_are_means_of_three_evaluations(self):
        self.assertEqual(lora_plus.smooth([(0, 4.0), (1, 2.0), (2, 3.0), (3, 1.0)]), [(0, 4.0), (1, 3.0), (2, 3.0), (3, 2.0)])

    def test_a_ratio_of_which_a_seed_never_gets_there_has_no_mean(self):
        rows = [{'kind': 'seed', 'ratio': ratio, 'rate': 1e-3, 'seed': seed, 'curve': [(0, 4.0), (10, end)]}
                for ratio, seed, end in ((1, 1, 2.0), (1, 2, 2.0), (4, 1, 1.0), (4, 2, 3.0))]
        plain, plus = lora_plus.summary(rows, [1, 4, 8])
        self.assertEqual(plain['mean'], 1.0)
        self.assertEqual((plus['speedups'], plus['mean']), ([1.5, None], None))
        self.assertEqual(plus['above_plain'], 0.0)  # means of two evaluations: 2.5 and 3.5 beside 3
        self.assertEqual(plus['above_plain_interval'][0], -plus['above_plain_interval'][1])

    def test_tuning_goes_on_until_the_best_is_inside(self):
        for best in (-3, -1, 0, 2, 4):
            tried = []
            self.assertEqual(lora_plus.tuned(lambda e: tried.append(e) or abs(e - best)), best)
            self.assertEqual(len(tried), len(set(tried)))

    def test_differences_are_of_one_seed(self):
        rows = [{'variant': v, 'seed': s, 'held_back_loss': loss} for v, s, loss in
                (('float32', 1, 2.0), ('float32', 2, 3.0), ('broken', 1, 2.5), ('broken', 2, 3.25))]
        self.assertEqual(convergence.differences(rows), {'broken': [0.5, 0.25]})


if __name__ == '__main__':
    unittest.main()
