#!/usr/bin/env python3
"""bench/gang_needs.py: one message names everything that a gang lacks, and nothing else."""
import os, stat, subprocess, sys, tempfile, unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'bench'))
sys.dont_write_bytecode = True
import gang_needs


class GangNeedsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.model = folder.name, os.path.join(folder.name, 'model')
        os.makedirs(self.model)
        for name in gang_needs.OF_A_MODEL:
            open(os.path.join(self.model, name), 'w').close()
        self.bin = os.path.join(folder.name, 'bin')
        os.makedirs(self.bin)
        for name in gang_needs.PROGRAMS:
            self.program(name, '#!/bin/sh\n')
        self.program('nvidia-smi', '#!/bin/sh\necho "GPU 0: NVIDIA H200 (UUID: GPU-0)"\necho "GPU 1: NVIDIA H200 (UUID: GPU-1)"\n')

    def program(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        os.chmod(path, stat.S_IRWXU)

    def missing(self, gpus=2, shown=None, folders=()):
        environment = {'PATH': self.bin, **({'CUDA_VISIBLE_DEVICES': shown} if shown is not None else {})}
        with mock.patch.dict(os.environ, environment, clear=True):
            return gang_needs.missing(self.model, gpus, folders)

    def test_nothing_is_missing_where_all_is_there(self):
        new = os.path.join(self.folder, 'out', 'here')
        self.assertEqual(self.missing(folders=[self.folder, new]), [])

    def test_a_program_and_a_file_are_named(self):
        os.remove(os.path.join(self.bin, 'coxswain-worker-cuda'))
        os.remove(os.path.join(self.model, 'tokenizer.json'))
        with mock.patch.object(gang_needs, 'FILES', (os.path.join(self.folder, 'train.jsonl'),)):
            found = '\n'.join(self.missing())
        self.assertRegex(found, r'^no program coxswain-worker-cuda on PATH.*\nno file .*/train.jsonl.*\nno file .*/model/tokenizer.json')

    def test_both_numbers_of_gpus_are_named(self):
        self.assertRegex('\n'.join(self.missing(gpus=3)), '^3 GPUs are asked for and 2 are visible')
        self.assertRegex('\n'.join(self.missing(shown='1')), '^2 GPUs are asked for and 1 are visible')
        self.assertRegex('\n'.join(self.missing(shown='')), '^2 GPUs are asked for and 0 are visible')
        self.assertEqual(self.missing(shown='0,1'), [])
        os.remove(os.path.join(self.bin, 'nvidia-smi'))
        self.assertRegex('\n'.join(self.missing(gpus=1)), '^1 GPUs are asked for and 0 are visible')

    def test_a_folder_that_cannot_be_written_is_named_with_the_reason(self):
        file = os.path.join(self.model, 'config.json')
        self.assertEqual(self.missing(folders=[f'{file}/out']), [f'cannot write into {file}/out: Not a directory'])

    def test_scripts_say_all_at_once_and_start_nothing(self):
        for script, mode in (('gang_jobs.py', 'run'), ('gang_jobs.py', 'fault'), ('checkpoint_jobs.py', 'cost')):
            said = subprocess.run([sys.executable, '-B', os.path.join(ROOT, 'bench', script), mode, os.path.join(self.folder, 'work'),
                                   os.path.join(self.folder, 'none'), '--gpus', '8'], capture_output=True, text=True,
                                  env={'PATH': self.bin})
            self.assertEqual(said.returncode, 1, said.stderr)
            lines = said.stderr.splitlines()
            self.assertEqual(lines[0], f'{script}: nothing was started. Missing:')
            self.assertEqual([line.split()[:2] for line in lines[1:]], [['no', 'file'], ['no', 'file'], ['8', 'GPUs']])


if __name__ == '__main__':
    unittest.main()
