#!/usr/bin/env python3
"""bench/papers/attention.py: FLOPs, what it makes of the rows of gpu_bench, and its section of the page."""
import importlib.util, json, os, shutil, subprocess, sys, tempfile, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, 'bench/papers/attention.py')
sys.path.insert(0, os.path.dirname(SCRIPT))
sys.dont_write_bytecode = True
import attention
import page
import rivals


def of_gpu_bench(*rows, lines=()):
    """What gpu_bench writes; each of `rows` is (op, microseconds)."""
    return {'lines': list(lines), 'rows': [
        {'op': f'attention {op}', 'extents': '8/4 x 256', 'p20_us': us - 1, 'median_us': us, 'p80_us': us + 2}
        for op, us in rows]}


class FlopsTest(unittest.TestCase):
    def test_are_those_of_gpu_bench(self):
        compared = 0
        for file in ('h100_attention.json', 'attention_256.json'):
            flops = {(row['op'], row['extents']): row['flops'] for row in rivals.load(file)['rows']}
            for documents in (d for group in attention.GROUPS.values() for d in group if d.lengths):
                for heads in documents.heads:
                    layout = documents.layout(heads, documents.lengths)
                    for direction, of in (('forward', 4), ('backward', 10)):
                        written = flops.get((f'attention {direction} {documents.op} deterministic', heads))
                        if written:
                            self.assertEqual(of * layout.pairs() * layout.heads * layout.head_dim, written)
                            compared += 1
        self.assertEqual(compared, 2 * (3 * 4 + 4))

    def test_window_hides_what_lies_before_it(self):
        self.assertEqual(attention.Layout(1, 1, 64, (5, 2, 1), 3).pairs(), 1 + 2 + 3 + 3 + 3 + 1 + 2 + 1)


class RowsTest(unittest.TestCase):
    documents = attention.GROUPS['wide'][3]
    layout = documents.layout('8/4 x 256', documents.lengths)

    def test_quantiles_and_rates(self):
        results = of_gpu_bench((f'forward {self.documents.op} deterministic', 100.0),
                               (f'backward {self.documents.op} deterministic', 300.0))
        rows = {row['engine']: row for row in attention.gpu_bench_rows(self.documents, results)}
        ours = rows['ours']
        self.assertEqual((ours['forward_us'], ours['backward_us']), ([99.0, 100.0, 102.0], [299.0, 300.0, 302.0]))
        flops = self.layout.pairs() * 8 * 256
        self.assertAlmostEqual(ours['backward_tflop_per_s'], 10 * flops / 300e-6 / 1e12)
        self.assertAlmostEqual(ours['both_tflop_per_s'], 14 * flops / 400e-6 / 1e12)
        self.assertEqual(rows['cudnn_atomics']['error'], 'no row')

    def test_what_gpu_bench_says_of_a_plan_is_kept(self):
        name = f'attention cuDNN {self.documents.op} fast'
        results = of_gpu_bench(lines=[{'line': name, 'extents': '8/4 x 256', 'error': 'no backward plan'},
                                      {'line': name, 'extents': '14/2 x 64', 'error': 'of others'}])
        rows = {row['engine']: row for row in attention.gpu_bench_rows(self.documents, results)}
        self.assertEqual(rows['cudnn_atomics']['error'], 'no backward plan')

    def test_mixed_documents_are_as_long_as_gpu_bench_says_and_have_no_plan_of_cudnn(self):
        mix, = attention.GROUPS['mix 131']
        results = of_gpu_bench(lines=[{'line': 'lengths of mix 131', 'lengths': [3, 4]}])
        self.assertEqual(attention.lengths_of(mix, results), [3, 4])
        self.assertEqual(attention.lengths_of(mix, of_gpu_bench()), ())
        self.assertEqual({row['engine'] for row in attention.gpu_bench_rows(mix, results)}, {'ours'})


class SectionTest(unittest.TestCase):
    def page_of(self, *rows):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        shutil.copytree(rivals.RESULTS, folder, dirs_exist_ok=True)
        with open(os.path.join(folder, 'papers_attention.json'), 'w', encoding='utf-8') as file:
            json.dump({'command': 'bench/papers/attention.py', 'commit': '0123456789abcdef', 'machine': 'x', 'device': 'name=H sm=90',
                       'flash': 'FlashAttention-9', 'rows': rows}, file)
        results, rivals.RESULTS = rivals.RESULTS, folder
        self.addCleanup(setattr, rivals, 'RESULTS', results)
        return page.page()[0]

    def test_shows_rates_the_fastest_and_who_is_behind(self):
        documents, layout = RowsTest.documents, RowsTest.layout
        text = self.page_of(*(attention.row_of(documents, layout, '8/4 x 256', engine, [us] * 3, [us] * 3)
                              for engine, us in (('ours', 200.0), ('flash', 100.0), ('flash_deterministic', 400.0))),
                            {'heads': '8/4 x 256', 'documents': documents.name, 'engine': 'cudnn_atomics', 'error': 'none'})
        rate = 14 * layout.pairs() * 8 * 256 / 200e-6 / 1e12
        line = next(row for row in text.splitlines() if row.startswith('| 8/4 x 256 | 8 x 2048, window 1024 |'))
        cells = line.split(' | ')
        self.assertEqual((cells[3], cells[4]), ('', 'no plan'))
        self.assertTrue(cells[5].startswith('**') and cells[5].endswith(f'/ {rate:.0f}**'), cells[5])
        self.assertIn('Beside FlashAttention: ahead in 0 of 1, level in 0, behind in 1: 8/4 x 256, 8 x 2048, window 1024 0.50.', text)
        self.assertIn('Beside FlashAttention deterministic: ahead in 1 of 1', text)
        self.assertIn('FlashAttention: FlashAttention-9.', text)
        self.assertNotIn('--papers attention` measures', text)


class ArgumentsTest(unittest.TestCase):
    def run_script(self, *options):
        return subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True)

    def test_unknown_documents_are_an_error(self):
        said = self.run_script('--documents', 'x')
        self.assertEqual(said.returncode, 2)
        self.assertIn("invalid choice: 'x'", said.stderr)

    @unittest.skipIf(shutil.which('gpu_bench'), 'a machine with gpu_bench')
    def test_says_that_it_needs_a_gpu(self):
        said = self.run_script()
        self.assertEqual(said.returncode, 2)
        self.assertIn('needs a GPU and gpu_bench', said.stderr)


@unittest.skipUnless(importlib.util.find_spec('torch'), 'no torch')
class FlashTest(unittest.TestCase):
    layout = attention.Layout(4, 2, 64, (40, 70, 3), 16)

    def test_formula_is_that_of_torch_and_another_window_is_found(self):
        import flash
        import torch

        def by_torch(layout, deterministic):
            positions = torch.arange(sum(layout.lengths))
            document = torch.repeat_interleave(torch.arange(len(layout.lengths)), torch.tensor(layout.lengths))
            behind = positions[:, None] - positions[None]
            seen = (document[:, None] == document[None]) & (behind >= 0) & (behind < layout.window)
            return lambda *qkv: torch.nn.functional.scaled_dot_product_attention(
                *(t.transpose(0, 1)[None] for t in qkv), attn_mask=seen, enable_gqa=True)[0].transpose(0, 1)
        flash.timing.DEVICE, flash.timing.DTYPE = 'cpu', torch.bfloat16
        flash.check(by_torch, self.layout)
        with self.assertRaises(ValueError):
            flash.check(lambda layout, _: by_torch(attention.Layout(4, 2, 64, layout.lengths, 15), False), layout=self.layout)

    def test_what_is_not_attention_is_not_timed(self):
        import flash
        import torch
        flash.timing.DEVICE, flash.timing.DTYPE = 'cpu', torch.bfloat16
        found, flash.found = flash.found, lambda: ('of zeros', lambda layout, _: lambda q, k, v: torch.zeros_like(q))
        self.addCleanup(setattr, flash, 'found', found)
        what, make = attention.checked(flash)
        self.assertEqual(what, 'of zeros')
        with self.assertRaisesRegex(ValueError, 'from its formula'):
            make(self.layout, False)

    def test_arguments_are_those_of_torchs_kernels(self):
        import flash
        import torch
        flash.timing.DEVICE, flash.timing.DTYPE = 'meta', torch.bfloat16
        for layout in (self.layout, attention.Layout(14, 2, 64, (128,) * 4)):
            qkv, dout = flash.tensors(layout)
            gradients = torch.autograd.grad(flash.by_torch(layout, False)(*qkv), qkv, dout)
            self.assertEqual([g.shape for g in gradients], [t.shape for t in qkv])


if __name__ == '__main__':
    unittest.main()
