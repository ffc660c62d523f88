#!/usr/bin/env python3
"""Which blocks of a page tests/first_hour.sh types, and how it types them."""
import os, re, subprocess, sys, tempfile, unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTS)
from command_blocks import MarkError, blocks


def found(page):
    return [(block.line, block.rule, block.argument, block.text) for block in blocks(page)]


class CommandBlocksTest(unittest.TestCase):
    def test_blocks_of_shells_are_typed_and_others_are_not(self):
        page = 'Text\n```bash\na\n\nb\n```\n```python\nc\n```\n- item\n\n  ```sh\n  d\n  ```\n```\ne\n```\n'
        self.assertEqual(found(page), [(2, 'typed', '', 'a\n\nb\n'), (12, 'typed', '', 'd\n')])

    def test_of_a_console_what_follows_the_prompt_is_typed(self):
        self.assertEqual(found('```console\n$ cox get\nNAME\n$ cox down\n```\n'), [(1, 'typed', '', 'cox get\ncox down\n')])

    def test_a_comment_says_what_a_block_needs_or_is_saved_as(self):
        page = '<!-- first_hour: needs docker -->\n```sh\na\n```\n<!-- first_hour: saved as job.yaml -->\n```yaml\nb: 1\n```\n'
        self.assertEqual(found(page), [(2, 'needs', 'docker', 'a\n'), (6, 'saved as', 'job.yaml', 'b: 1\n')])

    def test_a_comment_that_cannot_be_followed_is_refused(self):
        for page, message in (('<!-- first_hour: needs luck -->\n```sh\n```\n', "1: needs 'luck', which is no reason; there are docker"),
                              ('<!-- first_hour: skip -->\n```sh\n```\n', "1: 'first_hour: skip' is neither"),
                              ('<!-- first_hour: saved as ../a -->\n```sh\n```\n', "1: saved as '../a', which is no file name"),
                              ('<!-- first_hour: needs docker -->\n\n```sh\n```\n', 'stands before no block'),
                              ('<!-- first_hour: needs docker -->', 'stands before no block')):
            with self.assertRaises(MarkError) as raised:
                found(page)
            self.assertIn(message, str(raised.exception))

    def type(self, text):
        """The function of tests/first_hour.sh that types a block."""
        with open(os.path.join(TESTS, 'first_hour.sh')) as f:
            function = re.search(r'^type_commands\(\) \{.*?^\}', f.read(), re.S | re.M).group(0)
        with tempfile.NamedTemporaryFile('w') as block:
            block.write(text)
            block.flush()
            done = subprocess.run(['bash', '-c', f'{function}\ntype_commands {block.name}'], capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_a_block_ends_with_the_first_command_that_fails(self):
        self.assertEqual(self.type('a=1\necho $a\n'), (0, '$ a=1\n$ echo $a\n1\n'))
        code, said = self.type('true\nfalse && echo no && echo no\necho after\n')
        self.assertEqual((code, said), (1, '$ true\n$ false && echo no && echo no\nended with 1\n'))

    def test_a_command_of_several_lines_is_typed_whole(self):
        self.assertEqual(self.type('for i in 1 2; do\n  echo $i\ndone\necho \\\n  3\n')[0], 0)
        self.assertIn('\n1\n2\n', self.type('for i in 1 2; do\n  echo $i\ndone\n')[1])
        self.assertTrue(self.type('echo \\\n  3\n')[1].endswith('\n3\n'))


if __name__ == '__main__':
    unittest.main(verbosity=2)
