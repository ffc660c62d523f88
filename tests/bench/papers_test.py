#!/usr/bin/env python3
"""Tables of bench/papers on the CPU: each script runs small, the page says what they wrote, and is the committed one.

COXSWAIN_BENCH: folder of step_bench and train_bench.
"""
import json, os, shutil, subprocess, sys, tempfile, unittest
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAPERS = os.path.join(ROOT, 'bench', 'papers')
sys.path.insert(0, PAPERS)
import ablation, convergence, extra_memory, fp8_losses, intervals, lora_plus, page, rivals, sections  # noqa: E402

SMALL = {'memory': ('--row', 'tiny_lora_512', '--seconds', '0.1'),
         'ablation': ('--seconds', '0.1'),
         'packing': ('--seconds', '0.1'),
         'convergence': ('--steps', '3', '--seeds', '1', '2', '--held-back', '5'),
         'fp8': ('--shape', 'deploy/quickstart/model', '--text', 'deploy/quickstart/held_out.jsonl', '--letters', '2000',
                 '--steps', '2', '--bins', '4', '--sequence', '128'),
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
        counts = {'memory': 5, 'ablation': 12, 'packing': 4, 'convergence': 4, 'fp8': 18}
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

    def test_fp8_trains_another_model_and_a_cut_step_the_same(self):
        rows = self.tables['fp8']['rows']
        found = fp8_losses.differences(rows, 'float32')
        # Float32, products and sums of 4 million elements in other orders: far below this.
        self.assertLess(abs(found['cut'][1]), 1e-3)
        for variant in ('tensorwise', 'blockwise', 'rowwise', 'tensorwise+attention'):
            self.assertNotEqual(found[variant][1], 0, variant)
        self.assertGreater(fp8_losses.spread(rows, 'float32'), 0)

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
        for part in ('attention', 'kernels', 'lm_head', 'ablation', 'lora_plus', 'packing', 'memory', 'convergence', 'fp8', 'fp8_task', 'adamw'):
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

    def folder_with(self, **files):
        """Results are those of the files alone."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        results, rivals.RESULTS = rivals.RESULTS, folder
        self.addCleanup(setattr, rivals, 'RESULTS', results)
        for name, content in files.items():
            with open(os.path.join(folder, f'{name}.json'), 'w', encoding='utf-8') as file:
                json.dump(content, file)

    def test_a_later_file_of_kernels_takes_the_place_of_its_shapes(self):
        def results(machine, ours, liger):
            rows = [{'op': 'lora', 'width': 8, 'variant': v, 'full_ms': [t] * 3} for v, t in (('ours', ours), ('liger', liger))]
            return {'command': f'on {machine}', 'commit': 'c', 'machine': machine, 'rows': rows}
        older, newer = results('H100', 1, 3), results('H200', 1, 2)
        older['rows'] += [{**row, 'width': 16} for row in older['rows']]
        self.folder_with(papers_kernels=older, papers_kernels_rotations=newer)
        found = {c.label: c for c in rivals.torch_tables()}
        self.assertEqual({label: (c.ratio, c.source.machine) for label, c in found.items()},
                         {'lora 8': (2, 'H200'), 'lora 16': (3, 'H100')})
        self.assertEqual(sum('peers in the same call' in line for line in sections.beside(list(found.values()))), 2)

    def test_update_is_beside_torchs_of_the_same_types(self):
        rows = [{'model': 'm', 'dtype': dtype, 'clipped': True, 'variant': v, 'milliseconds': [t] * 3, 'state_bytes': b,
                 'parameters': 2} for dtype, v, t, b in (('bfloat16', 'ours', 1, 24), ('bfloat16', 'fused', 3, 16),
                                                          ('float32', 'ours', 2, 32))]
        self.folder_with(papers_adamw={'command': 'x', 'commit': 'c', 'machine': 'm', 'rows': rows})
        found = list(rivals.torch_tables())
        self.assertEqual([(c.label, c.ratio) for c in found], [('adamw m, bfloat16, clipped', 3)])
        lines, _ = sections.update(found)
        self.assertIn('| m | bfloat16 | yes | 1.00 ms, 12 B | 3.00 ms, 8 B | 3.00 |', lines)
        self.assertIn('| m | float32 | yes | 2.00 ms, 16 B | not run |  |', lines)

    def test_padded_batches_say_what_part_is_real(self):
        def row(how, speed, slots):
            return {'row': 'r_2048', 'how': how, 'tokens_per_second': speed, 'tokens_per_step': 50, 'slots_per_step': slots,
                    'grad_norm': [1.5]}
        rows = [row('with all', 300.0, 50), row('padded', 120.0, 100), row('padded, without the rest', 60.0, 100)]
        self.folder_with(papers_ablation_padded={'command': 'x', 'commit': 'c', 'machine': 'm', 'rows': rows})
        self.assertIn('| r_2048 | the longest of 16 | 300, 100 %, 1.50000 | 120, 50 %, 1.50000 | 60, 50 %, 1.50000 | 5.00 |',
                      sections.padded())

    def test_unsloth_without_a_gradient_has_no_speed(self):
        def row(name, **more):
            return {'row': name, 'tokens_per_second': 10.0, **more}
        rows = [row('0.5b_full_512', commit='c'), row('0.5b_lora_512', commit='c'),
                row('0.5b_full_512_peer_unsloth', unsloth='1', error='gradient norms from 0'),
                row('0.5b_lora_512_peer_unsloth', unsloth='1')]
        self.folder_with(h200_unsloth={'commit': 'c', 'machine': 'm', 'device': 'd', 'rows': rows})
        self.assertEqual([c.label for c in rivals.unsloth()], ['0.5b_lora_512'])

    def test_a_ratio_is_how_many_times_as_fast(self):
        def comparison(unit):
            return rivals.Comparison('training', 'row', 'peer', 200.0, 100.0, unit, None)
        self.assertEqual(comparison('tokens/s').ratio, 2.0)
        self.assertEqual(comparison('ms').ratio, 0.5)
        self.assertEqual([sections.kind_of(r) for r in (1.03, 1.01, 0.99, 0.97)], ['win', 'other', 'other', 'loss'])


class PaddedTest(unittest.TestCase):
    def test_the_base_is_a_padded_batch_and_not_a_bin_of_one_document(self):
        for row, base in (('0.5b_packed_2048_x1', 'lengths'), (ablation.PADDED_TO_512, 'packing')):
            lists = [set(without) for _, without in ablation.padded_lists(row)]
            self.assertEqual(lists, [set(), {base}, {base} | set(ablation.PARTS) - {'packing'}])


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
