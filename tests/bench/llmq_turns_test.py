#!/usr/bin/env python3
"""bench/llmq_turns.py with fakes of both programs, whose speeds change from turn to turn."""
import contextlib, io, json, os, shutil, sys, tempfile, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'bench'))
sys.dont_write_bytecode = True
import llmq_turns

# Each side appends its name to `order` and takes its next speed from its file; a speed of 0 is a run that fails,
# `silent` one that writes nothing. Where a file NAME.end is, its program ends with code 3 behind all that it wrote.
# Where a file `bfloat16` is, our rows that are not of FP8 are that side.
OURS = """#!/bin/bash
[[ $1 == --row ]] || exit 2
row=$2 side=ours; [[ $row == *_fp8 || ! -e $FAKES/bfloat16 ]] || side=bfloat16
echo $side >>"$FAKES/order"
speed=$(head -n 1 "$FAKES/$side"); sed -i 1d "$FAKES/$side"
while [[ $1 != --json ]]; do shift; done
[[ $speed != silent ]] || { echo "no device" >&2; exit 1; }
[[ $speed != 0 ]] || { echo '{"rows": [{"row": "r", "error": "no step"}]}' >"$2"; exit 1; }
echo "{\\"rows\\": [{\\"row\\": \\"$row\\", \\"tokens_per_second\\": $speed}]}" >"$2"
[[ ! -e $FAKES/ours.end ]] || exit 3
"""
# Three steps of a tenth of the speed, then steps that count, of which one takes ten times as long.
TRAIN = """#!/bin/bash
echo llmq >>"$FAKES/order"
speed=$(head -n 1 "$FAKES/llmq"); sed -i 1d "$FAKES/llmq"
norm=1; [[ $speed != 0 ]] || { norm=0; speed=1; }
[[ $speed != infinite ]] || { norm=Infinity; speed=1; }
for flag; do [[ $flag != --log-file=* ]] || log=${flag#*=}; done
step() { echo "{\\"log\\": \\"step\\", \\"loss\\": 2, \\"norm\\": $norm, \\"step_tokens\\": $1, \\"duration_ms\\": 1000}"; }
slow=$((speed / 10))
{ echo '['; for s in $slow $slow $slow $speed $speed $slow $speed; do step $s; echo ,; done; step $speed; echo ']'; } >"$log.new"
mv "$log.new" "$log"
[[ ! -e $FAKES/llmq.end ]] || exit 3
exec sleep 60
"""


class TurnsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.environ['FAKES'] = self.folder
        for name, text in (('bench', OURS), ('train', TRAIN)):
            with open(self.path(name), 'w') as f:
                f.write(text)
            os.chmod(self.path(name), 0o755)
        kept = llmq_turns.write_tokens
        llmq_turns.write_tokens = lambda path, vocabulary: kept(path, vocabulary, 8)
        self.addCleanup(setattr, llmq_turns, 'write_tokens', kept)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_turns(self, ours, llmq, bfloat16=()):
        """(exit code, what was said) of turns with these speeds, of a row of FP8 where bfloat16 has any."""
        row = '0.5b_full_1024_fp8' if bfloat16 else '0.5b_full_1024'
        for name, speeds in (('ours', ours), ('llmq', llmq), *([('bfloat16', bfloat16)] if bfloat16 else [])):
            with open(self.path(name), 'w') as f:
                f.write('\n'.join(map(str, speeds)) + '\n')
        said, argv = io.StringIO(), sys.argv
        sys.argv = ['llmq_turns.py', self.path('train'), row, '--bench', self.path('bench'), '--turns', str(len(ours)),
                    '--seconds', '0.1', '--json', self.path('kept.json')]
        self.addCleanup(setattr, sys, 'argv', argv)
        with contextlib.redirect_stdout(said):
            return llmq_turns.main(), said.getvalue()

    def test_medians_of_turns_that_begin_with_each_in_turn(self):
        code, said = self.run_turns([1200, 1100, 3000], [1000, 1000, 2000])
        self.assertEqual(code, 0, said)
        with open(self.path('order')) as f:
            self.assertEqual(f.read().split(), ['ours', 'llmq', 'llmq', 'ours', 'ours', 'llmq'])
        with open(self.path('kept.json')) as f:
            row = json.load(f)['rows'][0]
        self.assertEqual((row['tokens_per_second'], row['llmq_tokens_per_second']), (1200, 1000))
        # Of 1.2, 1.1 and 1.5.
        self.assertAlmostEqual(row['ratio'], 1.2)
        self.assertEqual([round(r, 6) for r in row['ratio_range']], [1.1, 1.5])
        self.assertIn('--batch-size=32 --grad-accumulation=4', row['peer_command'])
        self.assertIn('--matmul-dtype=bf16', row['peer_command'])
        self.assertNotIn('--gradient-dtype', row['peer_command'])
        self.assertNotIn('over_bfloat16', row)
        self.assertIn('| 0.5b_full_1024 | 1,200 |  | 1,000 |  | 1.200 (1.100 to 1.500) |', said)
        self.assertNotIn(self.folder, row['peer_command'])
        self.assertNotIn(tempfile.gettempdir() + '/', row['peer_command'])

    def test_a_row_of_fp8_has_ours_in_bfloat16_between_it_and_the_peer(self):
        code, said = self.run_turns([1800, 1500, 3000], [1000, 1000, 2000], bfloat16=[1200, 1200, 1500])
        self.assertEqual(code, 0, said)
        with open(self.path('order')) as f:
            self.assertEqual(f.read().split(), [*('ours', 'bfloat16', 'llmq'), *('llmq', 'bfloat16', 'ours'),
                                                *('ours', 'bfloat16', 'llmq')])
        with open(self.path('kept.json')) as f:
            row = json.load(f)['rows'][0]
        self.assertEqual(row['row'], '0.5b_full_1024_fp8')
        self.assertEqual((row['tokens_per_second'], row['bfloat16_tokens_per_second']), (1800, 1200))
        self.assertAlmostEqual(row['over_bfloat16'], 1.5)  # of 1.5, 1.25 and 2
        self.assertAlmostEqual(row['ratio'], 1.5)  # of 1.8, 1.5 and 1.5
        self.assertIn('--matmul-dtype=e4m3 --gradient-dtype=e5m2', row['peer_command'])
        self.assertNotIn('--matmul-dtype=bf16', row['peer_command'])
        self.assertIn('| 1,800 | 1,200 | 1,000 | 1.500 (1.250 to 2.000) | 1.500 (1.500 to 1.800) |', said)

    def test_a_row_of_fp8_needs_ours_in_bfloat16(self):
        code, said = self.run_turns([1000], [1000], bfloat16=[0])
        self.assertEqual(code, 1)
        self.assertIn('no step', said)
        self.assertFalse(os.path.exists(self.path('kept.json')))

    def test_a_ratio_is_of_turns_and_not_of_medians(self):
        self.run_turns([1000, 1500, 3000], [500, 1500, 1000])
        with open(self.path('kept.json')) as f:
            row = json.load(f)['rows'][0]
        self.assertAlmostEqual(row['ratio'], 2.0)  # of 2, 1 and 3; medians are 1500 and 1000

    def test_a_side_that_did_not_train_is_no_row(self):
        for ours, llmq, why in (([0], [1000], 'no step'), (['silent'], [1000], 'no device'),
                                ([1000], [0], 'a loss or a norm of LLM.Q is 0'), ([1000], ['infinite'], 'not finite')):
            code, said = self.run_turns(ours, llmq)
            self.assertEqual(code, 1)
            self.assertIn(why, said)
            self.assertFalse(os.path.exists(self.path('kept.json')))

    def test_a_side_that_dies_behind_its_steps_is_no_row(self):
        for name in ('ours', 'llmq'):
            open(self.path(f'{name}.end'), 'w').close()
            code, said = self.run_turns([1000], [1000])
            self.assertEqual(code, 1, name)
            self.assertIn('exit code 3', said)
            self.assertFalse(os.path.exists(self.path('kept.json')))
            os.remove(self.path(f'{name}.end'))


if __name__ == '__main__':
    unittest.main()
