#!/usr/bin/env python3
"""The task score of FP8 in bench/papers without a trainer: its records, its runs, its verdict, its section of the page."""
import json, os, random, shutil, struct, sys, tempfile, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'bench', 'papers'))
import fp8_scores, fp8_task, fp8_task_section, rivals, runs, stored_scales, word_problems  # noqa: E402

CONTROL = fp8_task.CONTROL


def row(variant, seed, exact):
    return {'variant': variant, 'seed': seed, 'exact': exact, 'answers': 200, 'exact_before': 2, 'wall_seconds': 1.0}


def rows(**changed):
    """Those of a goal that is reached: control 50, 52 and 54 %."""
    counts = {CONTROL: (100, 104, 108), 'tensorwise': (100, 102, 104), 'blockwise': (120, 120, 120), 'rowwise': (100,),
              'delayed': (104,), 'stored': (98,), 'broken': (20,), **changed}
    return [row(variant, seed, exact) for variant, of in counts.items() for seed, exact in enumerate(of, 1)]


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)


class WordProblemsTest(unittest.TestCase):
    def test_answers_are_what_the_questions_ask(self):
        draw = random.Random(1)
        for part in word_problems.PARTS:
            for _ in range(200):
                question, answer = word_problems.problem(draw, part, (9, 99))
                working, _, result = answer.partition(' = ')
                first, sign, second = working.split()
                self.assertEqual(int(result), int(first) + int(second) if sign == '+' else int(first) - int(second))
                self.assertGreaterEqual(int(result), 0)
                self.assertEqual(sign == '-', 'sells' in question or question.startswith('From'), question)
                asked = [word for word in question.replace('.', '').split() if word.isdigit()]
                self.assertEqual(asked, [first, second])

    def test_held_back_sheets_are_not_read(self):
        held = word_problems.sheets(5, 1, 'base', (2,), 1)
        read = word_problems.sheets(50, 2, 'base', (2,), 1, without=held)
        asked = {record['instruction'] for record in read}
        self.assertEqual(len(asked), 50)
        self.assertFalse(asked & {record['instruction'] for record in held})

    def test_counts_lines_that_are_equal(self):
        records = [{'output': 'A: 1 + 1 = 2\nB: 2 - 1 = 1'}, {'output': 'A: 1 + 2 = 3\nB: 3 - 3 = 0'}]
        self.assertEqual(word_problems.exact(records, ['A: 1 + 1 = 2\nB: 2 - 1 = 2', 'A: 1 + 2 = 3\nB: 3 - 3 = 0\nC']), 3)
        self.assertEqual(word_problems.exact(records, ['', 'B: 3 - 3 = 0']), 0)
        with self.assertRaises(ValueError):
            word_problems.exact(records, [''])


class StoredScalesTest(Folder):
    def test_multiplies_the_scales_of_one_linear_alone(self):
        named = {'a.weight_scale_inv': {'dtype': 'F32', 'shape': [1, 1], 'data_offsets': [0, 4]},
                 'b.weight_scale_inv': {'dtype': 'F32', 'shape': [1, 2], 'data_offsets': [4, 12]}}
        head = json.dumps(named).encode()
        os.mkdir(self.path('model'))
        with open(self.path('model/model.safetensors'), 'wb') as file:
            file.write(struct.pack('<Q', len(head)) + head + struct.pack('<3f', 1, 2, 3))
        stored_scales.copy_with(self.path('model'), self.path('broken'), 'b', 4)
        with open(self.path('broken/model.safetensors'), 'rb') as file:
            data = file.read()
        self.assertEqual(stored_scales.tensors(data)[0], named)
        self.assertEqual(struct.unpack('<3f', data[-12:]), (1, 8, 12))
        with self.assertRaisesRegex(KeyError, 'has no c.weight_scale_inv'):
            stored_scales.copy_with(self.path('model'), self.path('other'), 'c', 4)


class RunsTest(Folder):
    BASES = fp8_task.Bases('plain', 'stored', 'broken')

    def test_a_seed_of_each_comes_first(self):
        order = fp8_task.order(fp8_task.FULL)
        self.assertEqual([variant for variant, _ in order[:7]], [CONTROL, *fp8_scores.HELD, 'stored', 'broken'])
        self.assertEqual({seed for _, seed in order[:7]}, {1})
        self.assertEqual(order[7:12], [(CONTROL, seed) for seed in (2, 3, 4, 5, 6)])
        self.assertEqual(len(set(order)), len(order))
        self.assertEqual(len(order), 6 + 6 * 3)

    def test_variants_differ_in_what_they_are_named_after(self):
        def of(variant):
            return {key: value for key, value in fp8_task.settings(variant, 2, self.BASES, 'f').items()
                    if key != 'checkpoint.output_dir'}
        self.assertEqual(of(CONTROL), {'train.seed': 2, 'precision.compute': CONTROL, 'base_model.path': 'plain'})
        fp8 = {'train.seed': 2, 'precision.compute': 'fp8', 'precision.fp8.recipe': 'blockwise', 'base_model.path': 'plain'}
        self.assertEqual(of('blockwise'), fp8)
        self.assertEqual(of('delayed'), {**fp8, 'precision.fp8.recipe': 'delayed'})
        self.assertEqual(of('stored'), {**fp8, 'base_model.path': 'stored'})
        self.assertEqual(of('broken'), {**fp8, 'base_model.path': 'broken'})

    def test_a_broken_run_answers_with_the_right_scale(self):
        held = word_problems.sheets(fp8_task.HELD_BACK, 1, 'adapter', (9,), 2)
        right = [record['output'] for record in held]

        class Service:
            def train(self, job, settings):
                return {'artifact_dir': 'adapter', 'progress': {'eval_loss': 0.5},
                        'samples': [{'first_answer': '', 'answer': answer} for answer in right]}

            def answers(self, model, adapter, prompts, tokens):
                self.asked = (model, adapter, prompts)
                return right[:1] + [''] * (len(prompts) - 1)
        service, size = Service(), fp8_task.SMALL._replace(questions=2)
        found = fp8_task.measure(service, 'job', held, 'broken', 1, self.BASES, size, self.folder)
        self.assertEqual(service.asked, ('stored', 'adapter', [record['instruction'] for record in held]))
        self.assertEqual((found['exact'], found['exact_as_trained'], found['exact_before'], found['answers']), (2, 128, 0, 128))
        found = fp8_task.measure(service, 'job', held, 'blockwise', 1, self.BASES, size, self.folder)
        self.assertEqual(found['exact'], 128)
        self.assertNotIn('exact_as_trained', found)

    def test_a_run_that_fails_leaves_the_others(self):
        def measure(service, job, held, variant, seed, *_):
            if variant == 'tensorwise':
                raise runs.Failed('no memory')
            return row(variant, seed, 100)

        class Service:
            def origin(self):
                return {'commit': 'c', 'machine': 'm'}
        for name, value in (('measure', measure), ('make_bases', lambda *_: (self.BASES, {'exact': 1, 'answers': 2, 'wall_seconds': 3}))):
            self.addCleanup(setattr, fp8_task, name, getattr(fp8_task, name))
            setattr(fp8_task, name, value)
        table, size = runs.Table(None, 100), fp8_task.SMALL
        fp8_task.run_all(Service(), table, size, self.folder)
        self.assertEqual([(of['variant'], of['seed']) for of in table.rows], fp8_task.order(size))
        self.assertEqual([of['error'] for of in table.rows if 'error' in of], ['no memory'])
        self.assertFalse(fp8_task.verdict(table.rows))


class ScoresTest(unittest.TestCase):
    def findings(self, **changed):
        return fp8_scores.findings(rows(**changed), CONTROL)

    def test_reached_where_nothing_speaks_against_it(self):
        self.assertEqual(self.findings(), [])

    def test_a_mean_below_the_least_seed_is_named(self):
        self.assertEqual(self.findings(tensorwise=(98, 100, 102)), [])  # a mean of the least itself
        self.assertEqual(self.findings(tensorwise=(98, 100, 101)), [f"tensorwise is below {CONTROL}'s least seed: 49.8 %, 50.0 %"])

    def test_a_broken_scale_must_be_seen_beside_the_right_one(self):
        self.assertEqual(self.findings(stored=(100,), broken=(91,)), [])  # 54 - 50 % below the right scale
        self.assertEqual(self.findings(stored=(100,), broken=(92,)), ['the broken scale is not seen: 46.0 %, to be below 46.0 %'])
        self.assertEqual(self.findings(stored=(150,), broken=(100,)), ['the broken scale is not seen: 50.0 %, to be below 50.0 %'])

    def test_a_task_that_tells_nothing_apart_is_named(self):
        self.assertIn('outside 30 to 95 %', self.findings(**{CONTROL: (58, 60, 61)})[0])
        self.assertEqual(self.findings(**{CONTROL: (58, 60, 62)}), [])

    def test_what_is_not_measured_is_named(self):
        self.assertEqual(self.findings(delayed=()), ['delayed is not measured'])
        self.assertEqual(fp8_scores.findings([row('blockwise', 1, 9)], CONTROL)[0], f'{CONTROL} is not measured')


class SectionTest(Folder):
    def section(self, measured):
        with open(self.path('papers_fp8_task.json'), 'w', encoding='utf-8') as file:
            json.dump({'command': 'x', 'commit': 'c', 'machine': 'm', 'control': CONTROL, 'steps': 200, **fp8_task.FULL._asdict(),
                       'base': {'exact': 150, 'answers': 200, 'steps': 2500}, 'rows': measured}, file)
        results, rivals.RESULTS = rivals.RESULTS, self.folder
        self.addCleanup(setattr, rivals, 'RESULTS', results)
        lines, plots = fp8_task_section.answers()
        return '\n'.join(lines), plots

    def test_shows_shares_and_the_goal(self):
        text, plots = self.section(rows()[:-1] + [{**row('broken', 1, 20), 'exact_as_trained': 90}])
        self.assertIn('| tensorwise | 50.0 | 51.0 | 52.0 | 51.0 |', text)
        self.assertIn('| rowwise | 50.0 |  |  | 50.0 |', text)
        self.assertIn('after 2,500 steps answers 75.0 % of problems in the first wording', text)
        self.assertIn('where it was wrong there too, 45.0 %.', text)
        self.assertIn('the broken scale seen: reached.', text)
        self.assertEqual(list(plots), ['fp8_task'])

    def test_says_what_is_missed(self):
        text, _ = self.section(rows(rowwise=(90,)))
        self.assertIn(f"missed or open: rowwise is below {CONTROL}'s least seed: 45.0 %, 50.0 %.", text)

    def test_without_its_control_there_is_no_plot(self):
        text, plots = self.section([row('blockwise', 1, 9)])
        self.assertIn(f'missed or open: {CONTROL} is not measured', text)
        self.assertEqual(plots, {})


if __name__ == '__main__':
    unittest.main()
