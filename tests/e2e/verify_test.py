#!/usr/bin/env python3
"""An export is read back by the workers that trained it, before it gets its name. Real processes, one machine."""
import glob, json, math, os, signal, struct, sys, time, unittest
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fault_cluster import state_of
from processes import Cluster, wait_for

SHORT = {'global_batch_size: 4': 'global_batch_size: 2', 'max_steps: 40': 'max_steps: 3', 'eval_steps: 20': 'eval_steps: 100'}
RESOURCES = '  resources: {device: cpu, workers: 2}'
RECORDS = 8  # that a proof compares at most


def exporting(options):
    return {**SHORT, RESOURCES: f'  export: {options}\n{RESOURCES}'}


def tensor_bytes(path, name):
    """[begin, end) of a tensor in a safetensors file."""
    with open(path, 'rb') as file:
        length = struct.unpack('<Q', file.read(8))[0]
        begin, end = json.loads(file.read(length))[name]['data_offsets']
    return 8 + length + begin, 8 + length + end


class VerifyTest(Cluster):
    def begin(self, faults='', workers=2):
        self.process_env = {'COXSWAIN_FAULT': faults}
        self.controller = self.start_controller()
        self.start_workers(workers)

    def verified(self, job, folder):
        """What the manifest, the event and cox describe say of the only folder, or of the first."""
        manifest = json.load(open(os.path.join(folder, 'coxswain_manifest.json')))['verification']
        event = self.events(job, 'Exported')[0]['verifications']
        self.assertIn('Read back:', self.cox('describe', job).stdout)
        return manifest, event

    def assert_equal_bits(self, manifest):
        """Of as many records as there is time for: all of them, or fewer where a machine is slow."""
        self.assertEqual((manifest['outcome'], manifest['difference'], manifest['bound']), ('verified', 0, 0))
        self.assertIn(manifest['records'], range(1, RECORDS + 1))

    def test_an_adapter_has_the_trained_bits_and_a_merged_model_is_within_its_bound(self):
        self.begin()
        submitted = time.monotonic()
        job = self.submit(self.job_file(replace=exporting('{merge: true}')))
        self.wait_state(job, 'SUCCEEDED', 240)
        took = time.monotonic() - submitted
        info = self.cox_json('get', job)
        manifest, event = self.verified(job, info['artifact_dir'])
        self.assert_equal_bits(manifest)
        self.assertTrue(event[0]['verified'])
        merged, _ = self.verified(job, info['merged_dir'])
        print('merged:', merged)
        self.assertEqual(merged['outcome'], 'verified')
        self.assertLess(0, merged['difference'])
        self.assertLess(merged['difference'], merged['bound'])
        widened = math.sqrt(RECORDS / merged['records'])  # what fewer records add: controller/driver/output/proof_plan.h
        self.assertLess(merged['bound'], 0.1 * widened, 'it would let a wrong model pass')
        self.assertTrue(0 < merged['seconds'] < took, (merged['seconds'], took))

    def test_a_model_has_the_trained_bits_rounded_as_its_files_are(self):
        self.begin()
        jobs = {dtype: self.submit(self.job_file(f'{dtype}.yaml', 'job-full.yaml', replace=exporting(f'{{dtype: {dtype}}}')))
                for dtype in ('float32', 'bfloat16')}
        for dtype, job in jobs.items():
            self.wait_state(job, 'SUCCEEDED', 240)
            manifest, _ = self.verified(job, self.cox_json('get', job)['artifact_dir'])
            print(dtype, manifest)
            self.assertEqual(manifest['outcome'], 'verified')
            self.assertEqual(manifest['difference'] == 0, dtype == 'float32')
            self.assertEqual(manifest['bound'], manifest['difference'])  # all of it is the rounding

    def test_where_it_is_off_it_is_skipped(self):
        self.begin()
        job = self.submit(self.job_file(replace=exporting('{verify: false}')))
        self.wait_state(job, 'SUCCEEDED', 240)
        manifest, _ = self.verified(job, self.cox_json('get', job)['artifact_dir'])
        self.assertEqual(manifest, {'outcome': 'skipped', 'reason': 'export.verify is false'})

    def test_what_is_not_compared_is_skipped_by_name(self):
        self.begin()
        options = exporting('{merge: true, gguf: f16}')
        job = self.submit(self.job_file(replace={**options, 'adapter: lora': 'adapter: qlora'}))
        self.wait_state(job, 'SUCCEEDED', 240)
        info = self.cox_json('get', job)
        manifest, event = self.verified(job, info['artifact_dir'])
        self.assertEqual((manifest['outcome'], manifest['difference']), ('verified', 0))
        self.assertEqual([(told['artifact'], told['verified']) for told in event],
                         [('adapter', True), ('model', False), ('gguf', False)])
        merged, _ = self.verified(job, info['merged_dir'])
        print(merged)
        self.assertEqual(merged['outcome'], 'skipped')
        self.assertIn('the merged model is not to be quantised', merged['reason'])
        self.assertEqual(merged['gguf'], {'outcome': 'skipped', 'reason': 'the engine does not read GGUF files'})
        self.assertEqual(self.cox('describe', job).stdout.count('Read back:'), 3)

    def test_two_exports_at_once_and_one_again_under_its_name(self):
        self.begin()
        files = [self.job_file(f'{name}.yaml', replace={**SHORT, RESOURCES: '  resources: {device: cpu, workers: 1}'})
                 for name in ('one', 'other')]
        jobs = [self.submit(file) for file in files]
        for job in jobs:
            self.wait_state(job, 'SUCCEEDED', 240)
        again = self.submit(files[0])
        self.wait_state(again, 'SUCCEEDED', 240)
        for job in (jobs[1], again):
            folder = self.cox_json('get', job)['artifact_dir']
            manifest, event = self.verified(job, folder)
            self.assertEqual(json.load(open(os.path.join(folder, 'coxswain_manifest.json')))['job'], job)
            self.assert_equal_bits(manifest)
        self.assertEqual(self.staged('*'), [])

    def test_a_disk_that_is_full_meanwhile_is_waited_for_and_nothing_is_called_verified(self):
        self.begin('export.staged:count=1:enospc')
        job = self.submit(self.job_file(replace=SHORT))
        self.wait_state(job, 'SUCCEEDED', 240)
        manifest, event = self.verified(job, self.cox_json('get', job)['artifact_dir'])
        self.assertEqual(manifest['outcome'], 'skipped')
        self.assertIn('it could not be written while the gang was there: ', manifest['reason'])
        self.assertFalse(event[0]['verified'])

    def staged(self, pattern):
        return glob.glob(os.path.join(self.dir, 'out-*', '.staging', pattern))

    def damage(self, job, pattern, change):
        """Changes the file that was written aside while the controller stands."""
        wait_for('the export is written', lambda: state_of(self.controller.pid) == 'T', 240)
        path = self.staged(pattern)[0]
        with open(path, 'r+b') as file:
            change(path, file)
        os.kill(self.controller.pid, signal.SIGCONT)
        return self.failure(job)

    def failure(self, job):
        """Nothing was published and the checkpoint is there; the message."""
        self.wait_state(job, 'FAILED', 120)
        info = self.cox_json('get', job)
        print(info['error']['message'])
        self.assertEqual(info['artifact_dir'], '')
        self.assertTrue(os.path.exists(os.path.join(info['checkpoints'][-1]['directory'], 'manifest.json')))
        self.assertEqual(glob.glob(os.path.join(self.dir, 'out-*', 'adapter')) + glob.glob(os.path.join(self.dir, 'out-*', 'model')), [])
        return info['error']['message']

    def test_one_byte_of_an_adapter_fails_the_export(self):
        self.begin('export.staged:stop')
        job = self.submit(self.job_file(replace=SHORT))

        def flip(path, file):
            begin, _ = tensor_bytes(path, 'base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight')
            file.seek(begin + 2)  # of a float32 the lowest bit of the exponent, and the highest of the fraction
            byte = file.read(1)[0]
            file.seek(begin + 2)
            file.write(bytes([byte ^ 0xff]))

        message = self.damage(job, 'export-adapter*/adapter_model.safetensors', flip)
        self.assertIn('is not what was trained: record ', message)
        self.assertIn('beyond the bound 0', message)

    def test_a_tensor_in_another_order_fails_the_export_of_a_rounded_model(self):
        self.begin('export.staged:stop')
        job = self.submit(self.job_file(source='job-full.yaml', replace=exporting('{dtype: bfloat16}')))

        def turn(path, file):
            begin, end = tensor_bytes(path, 'model.layers.1.mlp.down_proj.weight')
            file.seek(begin)
            data = file.read(end - begin)
            file.seek(begin)
            file.write(data[(end - begin) // 2:] + data[:(end - begin) // 2])

        self.assertIn('is not what was trained: record ', self.damage(job, 'export-model*/model.safetensors', turn))

    def test_other_settings_of_an_adapter_fail_the_export(self):
        self.begin('export.staged:stop')
        job = self.submit(self.job_file(replace=SHORT))

        def other_alpha(path, file):
            text = file.read().replace(b'"lora_alpha": 64', b'"lora_alpha": 46')
            file.seek(0)
            file.write(text)

        message = self.damage(job, 'export-adapter*/adapter_config.json', other_alpha)
        self.assertIn('cannot be read back: ', message)
        self.assertIn('46', message)

    def test_a_file_that_cannot_be_read_fails_the_export(self):
        self.begin('export.staged:stop')
        job = self.submit(self.job_file(replace=SHORT))
        message = self.damage(job, 'export-adapter*/adapter_model.safetensors', lambda path, file: file.truncate(1000))
        self.assertIn('cannot be read back: rank 0: ', message)


if __name__ == '__main__':
    unittest.main(verbosity=2)
