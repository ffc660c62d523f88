#!/usr/bin/env python3
"""FP8's table of bench/papers without a trainer: its text, its differences, its section of the page."""
import argparse, gzip, json, os, shutil, sys, tempfile, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'bench', 'papers'))
import documents, fp8, fp8_losses, fp8_section, rivals, runs  # noqa: E402


def row(variant, seed, loss):
    return {'variant': variant, 'seed': seed, 'held_back_loss': loss, 'tokens': 8, 'seconds': 0.5, 'wall_seconds': 1.0}


ROWS = [row('bfloat16', 1, 4.0), row('bfloat16', 2, 4.1), row('bfloat16', 3, 4.2), row('cut', 1, 4.002),
        row('tensorwise', 1, 4.008), row('tensorwise', 2, 4.1), row('tensorwise', 3, 4.2), row('blockwise', 1, 4.0),
        {'variant': 'rowwise', 'seed': 1, 'error': 'out of memory'}]
SETTING = {'steps': 1000, 'bins': 8, 'sequence': 1024, 'control': 'bfloat16', 'shape': 'qwen2.5-0.5b',
           'text': {'file': 'gcide.dict.dz', 'sha256': '3e6b', 'letters': {'train': 1, 'held_back': 1}}}


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, rows=ROWS, **other):
        with open(self.path(name), 'w', encoding='utf-8') as file:
            json.dump({'command': 'x', 'commit': 'c', 'machine': 'm', **SETTING, 'rows': rows, **other}, file)
        return self.path(name)


class TextTest(Folder):
    def test_paragraphs_are_lines_without_their_edition(self):
        with gzip.open(self.path('text.dz'), 'wt', encoding='utf-8') as file:
            file.write('Coagulum \\Co*ag"u*lum\\, n.\n   A clot. [Obs.]\n   [1913 Webster]\n\n\n[PJC]\n\n'
                       '  Syn: [a]  curd.\n')
        self.assertEqual(documents.paragraphs(self.path('text.dz')),
                         ['Coagulum \\Co*ag"u*lum\\, n. A clot. [Obs.]', 'Syn: [a] curd.'])

    def test_documents_have_the_letters_and_lose_none(self):
        self.assertEqual(documents.documents(['ab', 'c', 'def', 'g'], 3), ['ab\nc', 'def', 'g'])
        self.assertEqual(documents.documents(['abc'], 3), ['abc'])

    def test_no_document_is_in_both_files(self):
        made = documents.write(documents.QUICKSTART, self.folder, 2000)
        of = {}
        for name in ('train', 'held_back'):
            with open(self.path(f'{name}.jsonl'), encoding='utf-8') as file:
                of[name] = {json.loads(line)['text'] for line in file}
            self.assertEqual(made['letters'][name], sum(map(len, of[name])))
        self.assertFalse(of['train'] & of['held_back'])
        self.assertEqual(len(of['held_back']), (len(of['train']) + len(of['held_back']) + 20) // documents.HELD_BACK)


class LossesTest(Folder):
    def test_differences_are_percents_of_the_control_with_the_same_seed(self):
        found = fp8_losses.differences(ROWS, 'bfloat16')
        self.assertEqual(set(found), {'cut', 'tensorwise', 'blockwise'})
        self.assertAlmostEqual(found['tensorwise'][1], 0.2)
        self.assertEqual(found['tensorwise'][2], 0)
        unpaired = [row('bfloat16', 1, 4.0), row('tensorwise', 2, 4.0)]
        self.assertEqual(fp8_losses.differences(unpaired, 'bfloat16'), {'tensorwise': {}})

    def test_spread_is_of_the_control_alone(self):
        self.assertAlmostEqual(fp8_losses.spread(ROWS, 'bfloat16'), 100 * 0.2 / 4.1)
        self.assertIsNone(fp8_losses.spread(ROWS[:1], 'bfloat16'))

    def test_limit_holds_for_each_seed_below_and_above(self):
        for loss, above in ((4.0119, []), (4.0121, ['blockwise']), (3.9879, ['blockwise'])):
            rows = [row('bfloat16', 1, 4.0), row('blockwise', 1, loss), row('rowwise', 1, 5.0)]
            found = fp8_losses.differences(rows, 'bfloat16')
            self.assertEqual(fp8_losses.above_limit(found), above, loss)


class RunsTest(Folder):
    def test_the_first_runs_are_a_seed_of_each_goal(self):
        self.assertEqual(fp8.RUNS[:6], [(fp8.CONTROL, 1), ('tensorwise', 1), ('blockwise', 1),
                                        ('tensorwise+attention', 1), ('blockwise+attention', 1), (fp8.CONTROL, 2)])
        self.assertEqual(fp8.RUNS[-3:], [('cut', 1), ('rowwise', 1), ('delayed', 1)])
        self.assertEqual(len(set(fp8.RUNS)), 18)

    def test_variants_differ_in_what_they_are_named_after(self):
        control, cut = fp8.settings(fp8.CONTROL, 2, 8), fp8.settings('cut', 2, 8)
        self.assertEqual({**cut, 'train.micro_batch_size': 8}, control)
        self.assertEqual(cut['train.micro_batch_size'], 2)
        self.assertEqual(fp8.settings('rowwise', 2, 8),
                         {**control, 'precision.compute': 'fp8', 'precision.fp8.recipe': 'rowwise'})
        self.assertEqual(fp8.settings('rowwise+attention', 2, 8),
                         {**fp8.settings('rowwise', 2, 8), 'precision.fp8.attention': 'fp8'})
        self.assertEqual((control['train.seed'], control['base_model.seed']), (2, 2))

    def test_an_earlier_call_is_gone_on_with_where_it_measured_the_same(self):
        path = self.write('earlier.json')
        self.assertEqual(fp8.earlier(path, SETTING), ROWS[:-1])  # what failed is run again
        self.assertEqual(fp8.earlier(None, SETTING), [])
        with self.assertRaisesRegex(SystemExit, 'steps is 1000, of this call 500'):
            fp8.earlier(path, {**SETTING, 'steps': 500})

    def test_no_run_begins_that_would_not_end(self):
        table = runs.Table(None, 100)
        table.rows = [row(variant, seed, 4.0) for variant, seed in fp8.RUNS[:-1]]
        table.rows[3]['wall_seconds'] = 101
        self.addCleanup(setattr, fp8, 'measure', fp8.measure)
        fp8.measure = lambda job, variant, seed, args: (row(variant, seed, 5.0), None)
        fp8.run_all('job', table, argparse.Namespace(runs=None))
        self.assertEqual(len(table.rows), 17)
        table.rows[3]['wall_seconds'] = 50
        fp8.run_all('job', table, argparse.Namespace(runs=None))
        self.assertEqual(table.rows[17:], [row('delayed', 1, 5.0)])

    def test_runs_that_are_named_alone(self):
        self.addCleanup(setattr, fp8, 'measure', fp8.measure)
        fp8.measure = lambda job, variant, seed, args: (row(variant, seed, 5.0), None)
        table = runs.Table(None, 100)
        fp8.run_all('job', table, argparse.Namespace(runs=[fp8.run_of('cut:1'), fp8.run_of('blockwise:3')]))
        self.assertEqual([(of['variant'], of['seed']) for of in table.rows], [('cut', 1), ('blockwise', 3)])
        with self.assertRaisesRegex(argparse.ArgumentTypeError, 'cut:2 is none of'):
            fp8.run_of('cut:2')

    def test_a_run_that_fails_leaves_the_others(self):
        def measure(job, variant, seed, args):
            if (variant, seed) == ('tensorwise', 1):
                raise runs.Failed('no memory')
            return row(variant, seed, 4.0), None
        self.addCleanup(setattr, fp8, 'measure', fp8.measure)
        fp8.measure = measure
        table = runs.Table(None, 100)
        fp8.run_all('job', table, argparse.Namespace(runs=None))
        self.assertEqual([(of['variant'], of['seed']) for of in table.rows], fp8.RUNS)
        self.assertEqual([of['error'] for of in table.rows if 'error' in of], ['no memory'])
        self.assertFalse(fp8.verdict(table.rows))
        self.assertTrue(fp8.verdict([of for of in table.rows if 'error' not in of]))


class SectionTest(Folder):
    def section(self, **other):
        self.write('papers_fp8.json', **other)
        results, rivals.RESULTS = rivals.RESULTS, self.folder
        self.addCleanup(setattr, rivals, 'RESULTS', results)
        lines, plots = fp8_section.convergence()
        return '\n'.join(lines), plots

    def test_shows_losses_with_their_differences(self):
        text, plots = self.section()
        self.assertIn('| bfloat16 | 4.0000 | 4.1000 | 4.2000 |  |', text)
        self.assertIn('| tensorwise | 4.0080 (+0.200 %) | 4.1000 (+0.000 %) | 4.2000 (+0.000 %) | +0.067 % |', text)
        self.assertIn('| blockwise | 4.0000 (+0.000 %) |  |  | +0.000 % |', text)
        self.assertIn('Failed: rowwise, seed 1.', text)
        self.assertIn("bfloat16's seeds lie 4.878 % apart. Its own sums in another order make +0.050 %", text)
        self.assertIn('open, seeds of blockwise, tensorwise+attention, blockwise+attention are missing', text)
        self.assertEqual(list(plots), ['fp8'])

    def test_says_whether_the_goal_is_reached(self):
        every = ROWS[:7] + [row(variant, seed, 4.0 + (seed - 1) / 10) for seed in (1, 2, 3)
                            for variant in ('blockwise+attention', 'tensorwise+attention', 'blockwise')]
        self.assertIn('away: reached.', self.section(rows=every)[0])
        every[-1]['held_back_loss'] = 4.3
        self.assertIn('away: missed by blockwise.', self.section(rows=every)[0])

    def test_a_control_alone_has_no_plot(self):
        text, plots = self.section(rows=ROWS[:1])
        self.assertIn('| bfloat16 | 4.0000 |  |', text)
        self.assertEqual(plots, {})


if __name__ == '__main__':
    unittest.main()
