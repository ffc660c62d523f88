#!/usr/bin/env python3
"""cox pull, cox push and huggingface_hub, as processes, over one cache and one Hub on loopback.

Skips itself where no Python here has huggingface_hub; tests/run.sh makes one that has.
"""
import json, os, random, shutil, signal, subprocess, sys, tempfile, time, unittest, urllib.request

SKIPPED = 77  # SKIP_RETURN_CODE of this test
BIN = os.path.abspath(os.environ.get('COXSWAIN_BIN', 'build/cpu/bin'))
PYTHON = os.environ.get('COXSWAIN_PYTHON', sys.executable)
TOKEN = 'hf_TheSecretOfThisTest'
SHARD = 3 << 20
SMALL = 100_000
BIG = 32 << 20
WANTED = {'config.json': b'{"model_type": "tiny"}', 'tokenizer.json': random.Random(1).randbytes(200_000),
          'model.safetensors.index.json': json.dumps({'weight_map': {'a': 'model-00001-of-00002.safetensors',
                                                                     'b': 'model-00002-of-00002.safetensors'}}).encode(),
          'model-00001-of-00002.safetensors': random.Random(2).randbytes(SHARD),
          'model-00002-of-00002.safetensors': random.Random(3).randbytes(SHARD)}
OTHERS = {'README.md': b'# tiny\n', 'onnx/model.onnx': random.Random(4).randbytes(100_000)}
BYTES = sum(map(len, WANTED.values()))
SNAPSHOT = 'import sys, huggingface_hub as h; print(h.snapshot_download("org/tiny", **eval(sys.argv[1])))'


def wait_for(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f'{what}: not within {seconds} s')
        time.sleep(0.01)


class HubTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='coxswain-hub-')
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        for path, content in {**WANTED, **OTHERS}.items():
            whole = os.path.join(self.dir, 'hub/models/org/tiny/@main', path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, 'wb') as f:
                f.write(content)
        self.hub = subprocess.Popen([os.path.join(BIN, 'coxswain-test-hub'), os.path.join(self.dir, 'hub')],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop_hub)
        self.endpoint = self.hub.stdout.readline().strip()
        self.env = {**{k: v for k, v in os.environ.items() if not k.startswith(('HF_', 'HUGGING'))},
                    'HF_ENDPOINT': self.endpoint, 'HF_HOME': os.path.join(self.dir, 'hf'), 'HF_HUB_DISABLE_TELEMETRY': '1',
                    'HF_HUB_DISABLE_PROGRESS_BARS': '1', 'HF_HUB_DISABLE_UPDATE_CHECK': '1'}
        self.repository = os.path.join(self.dir, 'hf/hub/models--org--tiny')

    def stop_hub(self):
        self.hub.stdin.close()
        self.hub.wait(timeout=20)
        self.hub.stdout.close()

    def tell(self, what='counters'):
        """/-/WHAT of the test's Hub: its counters, after what WHAT changes."""
        with urllib.request.urlopen(f'{self.endpoint}/-/{what}', timeout=20) as answer:
            return json.load(answer)

    def start(self, *command):
        process = subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def ended(self, process):
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        return out.strip()

    def start_cox(self, *args):
        return self.start(os.path.join(BIN, 'cox'), 'pull', 'org/tiny', *args)

    def cox(self, *args):
        return self.ended(self.start_cox(*args))

    def python(self, code, *args):
        return self.ended(self.start(PYTHON, '-c', code, *args))

    def expect_whole(self, folder, files=WANTED):
        for path, content in files.items():
            with open(os.path.join(folder, path), 'rb') as f:
                self.assertEqual(f.read(), content, path)

    def held(self, sent):
        wait_for(f'{sent} bytes from the Hub', lambda: self.tell()['body_bytes'] >= sent)

    def partial_bytes(self):
        """Bytes on the disk of what cox downloads."""
        blobs = os.path.join(self.repository, 'blobs')
        names = [n for n in os.listdir(blobs) if n.endswith('.incomplete')] if os.path.isdir(blobs) else []
        self.assertEqual([n for n in names if not n.endswith('.coxswain.incomplete')], [])
        return sum(os.stat(os.path.join(blobs, n)).st_blocks * 512 for n in names)


class OneCacheTest(HubTest):
    def test_huggingface_hub_finds_what_cox_pulled(self):
        folder = self.cox()
        self.expect_whole(folder)
        self.assertEqual(sorted(os.listdir(folder)), sorted(WANTED))
        self.assertEqual(self.python(SNAPSHOT, 'dict(local_files_only=True)'), folder)
        code = ('import sys, huggingface_hub as h\n'
                'for name in sys.argv[1:]:\n'
                '    print(h.hf_hub_download("org/tiny", name, local_files_only=True))\n'
                'cache = h.scan_cache_dir()\n'
                'assert not cache.warnings, cache.warnings\n'
                'repository, = cache.repos\n'
                'revision, = repository.revisions\n'
                'assert revision.refs == {"main"} and len(revision.files) == len(sys.argv) - 1, revision\n')
        paths = self.python(code, *WANTED).splitlines()
        self.assertEqual(paths, [os.path.join(folder, name) for name in WANTED])
        # With the Hub at hand it fetches what cox left out, and nothing else.
        before = self.tell()['body_bytes']
        self.assertEqual(before, BYTES)
        self.assertEqual(self.python(SNAPSHOT, '{}'), folder)
        self.assertEqual(self.tell()['body_bytes'] - before, sum(map(len, OTHERS.values())))
        self.expect_whole(folder, OTHERS)

    def test_cox_takes_what_huggingface_hub_fetched(self):
        folder = self.python(SNAPSHOT, '{}')
        before = self.tell()
        self.assertEqual(self.cox(), folder)
        self.assertEqual(self.tell()['body_bytes'], before['body_bytes'])
        self.env['HF_HUB_OFFLINE'] = '1'
        self.assertEqual(self.cox(), folder)
        self.assertLessEqual(self.tell()['api'], before['api'] + 2)

    def test_cox_completes_what_huggingface_hub_began(self):
        self.python(SNAPSHOT, 'dict(allow_patterns=["*.json"])')
        before = self.tell()['body_bytes']
        self.expect_whole(self.cox())
        self.assertEqual(self.tell()['body_bytes'] - before, 2 * SHARD)

    def test_both_at_once_download_once(self):
        self.tell(f'set?hold_after={1 << 20}')
        python = self.start(PYTHON, '-c', SNAPSHOT, '{}')
        cox = self.start_cox()
        wait_for('both ask for the files', lambda: self.tell()['api'] >= 3)
        self.held(1 << 20)
        self.tell('set?hold_after=-1')
        folder = self.ended(cox)
        self.assertEqual(self.ended(python), folder)
        self.expect_whole(folder)
        self.assertEqual(self.tell()['body_bytes'], BYTES + sum(map(len, OTHERS.values())))


class KillTest(HubTest):
    def kill_half_way(self):
        """cox, killed with more than 2 MiB on the disk."""
        self.tell(f'set?hold_after={SHARD}')
        cox = self.start_cox()
        wait_for('2 MiB on the disk', lambda: self.partial_bytes() > 2 << 20)
        return cox

    def test_a_download_that_was_killed_goes_on(self):
        cox = self.kill_half_way()
        cox.send_signal(signal.SIGKILL)
        cox.communicate()
        self.tell('set?hold_after=-1')
        wait_for('no body goes to the dead', lambda: self.tell()['open_bodies'] == 0)
        before = self.tell()['body_bytes']
        folder = self.cox()
        self.expect_whole(folder)
        # What was read and not noted yet is a buffer of 512 KiB for each connection, at most.
        self.assertLess(self.tell()['body_bytes'] - before, BYTES - (1 << 20))
        self.assertEqual(self.partial_bytes(), 0)
        self.assertEqual(self.python(SNAPSHOT, 'dict(local_files_only=True)'), folder)

    def test_another_takes_over_from_one_that_was_killed(self):
        first = self.kill_half_way()
        second = self.start_cox('--progress', 'plain')
        wait_for('the second asks too', lambda: self.tell()['api'] >= 3)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        self.tell('set?hold_after=-1')
        self.expect_whole(self.ended(second))

    def test_an_interrupt_keeps_what_came(self):
        cox = self.kill_half_way()
        cox.send_signal(signal.SIGINT)
        _, err = cox.communicate(timeout=120)
        self.assertEqual(cox.returncode, 130, err)
        self.assertIn('was cancelled', err)
        self.assertGreater(self.partial_bytes(), 2 << 20)


class SecretTest(HubTest):
    """Invariant hub-1, and hub-2 with the real client."""

    def test_the_token_is_in_no_output_file_or_process_list(self):
        self.env['HF_TOKEN'] = TOKEN
        self.tell(f'set?token={TOKEN}&says_token=1&hold_after={1 << 20}')
        cox = self.start_cox('--progress', 'plain')
        self.held(1 << 20)
        for pid in [cox.pid, *self.children(cox.pid)]:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                self.assertNotIn(TOKEN.encode(), f.read())
        self.tell('set?hold_after=-1&status=500&fail_files=2')
        out, err = cox.communicate(timeout=60)
        self.assertEqual(cox.returncode, 0, err)
        self.tell('set?token=another')
        failed = subprocess.run(cox.args, env=self.env, capture_output=True, text=True)
        self.assertEqual(failed.returncode, 5, failed.stderr)
        self.assertNotIn(TOKEN, out + err + failed.stdout + failed.stderr)
        for folder, _, names in os.walk(os.path.join(self.dir, 'hf')):
            for name in names:
                with open(os.path.join(folder, name), 'rb') as f:
                    self.assertNotIn(TOKEN.encode(), f.read(), name)
        self.assertEqual(self.tell()['strayed_tokens'], 0)
        self.assertGreater(self.tell()['tokens'], 0)

    @staticmethod
    def children(pid):
        with open(f'/proc/{pid}/task/{pid}/children') as f:
            return f.read().split()

    def test_the_token_file_of_hf_auth_login_is_taken(self):
        self.tell(f'set?token={TOKEN}')
        os.makedirs(self.env['HF_HOME'])
        with open(os.path.join(self.env['HF_HOME'], 'token'), 'w') as f:
            f.write(TOKEN)
        folder = self.cox()
        self.assertEqual(self.python(SNAPSHOT, 'dict(allow_patterns=["*.json", "*.safetensors"])'), folder)
        self.assertEqual(self.tell()['body_bytes'], BYTES)


UPLOAD = ('import sys, huggingface_hub as h\n'
          'h.create_repo(sys.argv[2], private=True, exist_ok=True)\n'
          'print(h.upload_folder(repo_id=sys.argv[2], folder_path=sys.argv[1]).oid)\n')


class PushTest(HubTest):
    """The Hub of the test is the one that huggingface_hub knows, and takes from cox what it takes from huggingface_hub."""

    def setUp(self):
        super().setUp()
        self.env |= {'HF_TOKEN': TOKEN, 'HF_HUB_DISABLE_XET': '1'}
        self.tell(f'set?token={TOKEN}')
        self.folder = os.path.join(self.dir, 'export')
        os.makedirs(self.folder)
        self.files = {}
        self.write({**WANTED, **self.weights(5), 'README.md': b'---\nlibrary_name: transformers\n---\n'})

    def write(self, files):
        self.files |= files
        for path, content in files.items():
            with open(os.path.join(self.folder, path), 'wb') as f:
                f.write(content)

    @staticmethod
    def weights(seed, more=0):
        """Contents that no repository has."""
        sizes = {'small': SMALL, 'model-00001-of-00002': SHARD, 'model-00002-of-00002': SHARD}
        return {f'{name}.safetensors': random.Random(f'{seed} {name}').randbytes(size + more)
                for name, size in sizes.items()}

    def start_push(self, *args):
        return self.start(os.path.join(BIN, 'cox'), 'push', self.folder, 'org/tuned', *args)

    def push(self, *args):
        """The commit."""
        return self.ended(self.start_push(*args)).rsplit('/', 1)[1]

    def upload(self, repository='org/tuned'):
        return self.python(UPLOAD, self.folder, repository)

    def expect_on_hub(self, repository='org/tuned', revision='main'):
        code = 'import sys, huggingface_hub as h; print(h.snapshot_download(sys.argv[1], revision=sys.argv[2]))'
        self.expect_whole(self.python(code, repository, revision), self.files)

    def test_huggingface_hub_pushes_to_the_hub_of_the_test(self):
        for part_bytes, repository in ((0, 'org/whole'), (1 << 20, 'org/parts')):
            self.tell(f'set?part_bytes={part_bytes}')
            self.write(self.weights(repository, more=1))
            before = self.tell()
            self.upload(repository)
            self.expect_on_hub(repository)
            after = self.tell()
            self.assertEqual(after['commits'] - before['commits'], 1)
            self.assertEqual(after['uploads'] - before['uploads'], 4 + 4 + 1 if part_bytes else 3)
            self.upload(repository)
            self.assertEqual(self.tell()['commits'], after['commits'])
        code = ('import sys, huggingface_hub as h\n'
                'h.create_branch("org/whole", branch="v2")\n'
                'h.create_commit("org/whole", revision="v2", commit_message="one", operations=[\n'
                '    h.CommitOperationAdd("notes.txt", b"notes"), h.CommitOperationDelete("config.json")])\n'
                'print(sorted(h.list_repo_files("org/whole", revision="v2")))\n')
        self.assertEqual(eval(self.python(code)), sorted({*self.files, '.gitattributes', 'notes.txt'} - {'config.json'}))

    def test_huggingface_hub_finds_what_cox_pushed(self):
        self.tell(f'set?part_bytes={1 << 20}')
        self.push('--revision', 'v2')
        self.expect_on_hub(revision='v2')
        self.push()
        self.expect_on_hub()
        self.assertEqual(self.tell()['received_bytes'], 2 * SHARD + SMALL, 'the second branch brings no content')

    def test_each_finds_nothing_to_do_after_the_other(self):
        commit = self.push()
        self.assertEqual(self.upload(), commit)
        self.assertEqual(self.tell()['commits'], 1)
        other = self.upload('org/theirs')
        self.assertEqual(self.tell()['commits'], 2)
        self.assertEqual(self.ended(self.start(os.path.join(BIN, 'cox'), 'push', self.folder, 'org/theirs')),
                         f'{self.endpoint}/org/theirs/commit/{other}')
        self.assertEqual(self.tell()['commits'], 2)

    def test_both_at_once_leave_one_whole_branch(self):
        python = self.start(PYTHON, '-c', UPLOAD, self.folder, 'org/tuned')
        cox = self.start_push()
        self.ended(python)
        self.ended(cox)
        self.expect_on_hub()

    def kill_in_the_middle(self, sent):
        """cox, ended when the small weights are there, and the big ones, more than sockets hold, are not."""
        self.write({'big.safetensors': random.Random(6).randbytes(BIG)})
        self.tell(f'set?hold_received={1 << 20}')
        cox = self.start_push()
        wait_for('the small weights are there', lambda: self.tell()['uploads'] >= 1)
        cox.send_signal(sent)
        _, err = cox.communicate(timeout=120)
        self.tell('set?hold_received=-1')
        wait_for('nothing comes from the dead', lambda: self.tell()['open_uploads'] == 0)
        self.assertEqual(self.tell()['commits'], 0)
        return cox.returncode, err

    def expect_the_rest_alone(self):
        before = self.tell()
        self.push()
        self.expect_on_hub()
        after = self.tell()
        self.assertEqual(after['commits'], 1)
        # What was in the sockets may have made a shard whole.
        self.assertIn(after['received_bytes'] - before['received_bytes'], [BIG + i * SHARD for i in range(3)])

    def test_a_push_that_was_killed_goes_on(self):
        code, _ = self.kill_in_the_middle(signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.expect_the_rest_alone()

    def test_an_interrupt_ends_a_push(self):
        code, err = self.kill_in_the_middle(signal.SIGINT)
        self.assertEqual(code, 130, err)
        self.assertIn('was cancelled', err)
        self.expect_the_rest_alone()

    def test_the_token_is_in_no_output_or_process_list(self):
        self.tell(f'set?says_token=1&hold_received={1 << 20}')
        cox = self.start_push('--progress', 'plain')
        wait_for('1 MiB came', lambda: self.tell()['received_bytes'] >= 1 << 20)
        with open(f'/proc/{cox.pid}/cmdline', 'rb') as f:
            self.assertNotIn(TOKEN.encode(), f.read())
        self.tell('set?hold_received=-1')
        out, err = cox.communicate(timeout=60)
        self.assertEqual(cox.returncode, 0, err)
        self.tell('set?token=another')
        failed = subprocess.run(cox.args, env=self.env, capture_output=True, text=True)
        self.assertEqual(failed.returncode, 5, failed.stderr)
        self.assertNotIn(TOKEN, out + err + failed.stdout + failed.stderr)
        self.assertEqual(self.tell()['strayed_tokens'], 0)


if __name__ == '__main__':
    if subprocess.run([PYTHON, '-c', 'import huggingface_hub'], capture_output=True).returncode != 0:
        print(f'skipped: {PYTHON} has no huggingface_hub; run tests/run.sh, which makes build/venv')
        sys.exit(SKIPPED)
    unittest.main(verbosity=2, warnings='ignore')
