#!/usr/bin/env python3
"""CoxswainKernels and AdamW in transformers' Trainer and TRL's SFTTrainer. COXSWAIN_TORCH_DEVICE: cpu (default) or
cuda."""
import tempfile, unittest

import peft
import torch
import transformers

try:
    import datasets, tokenizers, trl
except ImportError:
    trl = None

import coxswain_kernels as ck
from ops_test import Recorder
from patch_test import DEVICE, SMALL, batch, tiny

STEPS = 10


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 2 * STEPS

    def __getitem__(self, index):
        row = batch(2 * STEPS)[0][index].cpu()
        return {'input_ids': row, 'labels': row}


def arguments(kind, folder, **more):
    return kind(folder, max_steps=STEPS, per_device_train_batch_size=2, logging_steps=1, learning_rate=1e-3, seed=3,
                report_to=[], save_strategy='no', use_cpu=DEVICE == 'cpu', disable_tqdm=True, **more)


def trainer_of(folder, model=None, callbacks=(), **more):
    return transformers.Trainer(model=tiny('Qwen2') if model is None else model, callbacks=list(callbacks),
                                args=arguments(transformers.TrainingArguments, folder), train_dataset=Rows(), **more)


def sft_trainer_of(folder, model, callbacks=(), packing=False, **more):
    rows = datasets.Dataset.from_list([{'input_ids': row.tolist()} for row in batch(2 * STEPS)[0].cpu()])
    letters = {f'<{i}>': i for i in range(SMALL['vocab_size'])}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(letters, unk_token='<0>')), pad_token='<0>',
        bos_token='<1>', eos_token='<2>')
    return trl.SFTTrainer(model=model, train_dataset=rows, processing_class=tokenizer, callbacks=list(callbacks),
                          args=arguments(trl.SFTConfig, folder, bf16=False, gradient_checkpointing=False,
                                         packing=packing, max_length=60), **more)


def losses(make, *args, **more):
    """Of the steps, and the names of our ops that ran in the first forward and backward."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = make(folder, *args, **more)
        ran, original = set(), trainer.training_step

        def training_step(*inputs, **named):
            with Recorder() as recorder:
                loss = original(*inputs, **named)
            ran.update(f._schema.name.split('::')[1] for f, _ in recorder.calls)
            return loss
        trainer.training_step = training_step
        trainer.train()
        return [row['loss'] for row in trainer.state.log_history if 'loss' in row], ran


class TrainerTest(unittest.TestCase):
    def setUp(self):
        if 'sft' in self.id() and trl is None:
            self.skipTest('no trl here')

    def near(self, want, got, ran):
        """Adam's first updates are the signs of gradients: where one is zero but for rounding it moves 2 lr. ran: of
        ours."""
        self.assertEqual(len(want[0]), STEPS)
        self.assertEqual(want[1], set())
        for a, b in zip(want[0], got[0]):
            self.assertLess(abs(a - b) / a, 1e-3)
        self.assertLessEqual(ran, got[1])

    def test_trainer_trains_as_without_and_by_our_ops(self):
        got = losses(trainer_of, callbacks=[ck.CoxswainKernels(verify=True)])
        self.near(losses(trainer_of), got, {'rms_norm', 'add_rms_norm', 'qkv_projection', 'packed_attention',
                                            'gated_mlp_backward_', 'linear_cross_entropy'})

    def test_sft_trainer_trains_as_without_and_by_our_ops(self):
        for packing in (False, True):  # packed: two documents in a row of 60 tokens
            with self.subTest(packing=packing):
                want = losses(sft_trainer_of, tiny('Qwen2'), packing=packing)
                got = losses(sft_trainer_of, tiny('Qwen2'), callbacks=[ck.CoxswainKernels()], packing=packing)
                self.near(want, got, {'rms_norm', 'add_rms_norm', 'qkv_projection', 'packed_attention',
                                      'gated_mlp_backward_'})
                self.assertNotIn('linear_cross_entropy', got[1])  # SFTTrainer computes loss and entropy

    def test_sft_trainer_with_adapters(self):
        def adapted(callbacks):
            return losses(sft_trainer_of, tiny('Qwen2'), callbacks, peft_config=peft.LoraConfig(
                r=4, target_modules=['q_proj', 'v_proj'], task_type='CAUSAL_LM'))
        self.near(adapted([]), adapted([ck.CoxswainKernels()]), {'rms_norm', 'gated_mlp_backward_'})

    def test_our_adamw_is_torchs_there(self):
        def optimized(kind):
            model = tiny('Qwen2')
            return losses(trainer_of, model, optimizers=(kind(model.parameters(), lr=1e-3), None))
        self.near(optimized(torch.optim.AdamW), optimized(ck.AdamW), set())

    def test_a_patched_model_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            model = ck.patch(tiny('Qwen2'))
            forward = model.forward
            self.assertIs(trainer_of(folder, model, [ck.CoxswainKernels()]).model.forward, forward)

    def test_refuses(self):
        with tempfile.TemporaryDirectory() as folder:
            trainer = trainer_of(folder)
            trainer.add_callback(ck.CoxswainKernels())
            with self.assertRaisesRegex(ValueError, 'not patched: model_init made a new one, or'):
                trainer.train()
            fresh = transformers.Trainer(model_init=lambda: tiny('Qwen2'), train_dataset=Rows(),
                                         args=arguments(transformers.TrainingArguments, folder),
                                         callbacks=[ck.CoxswainKernels()])
            with self.assertRaisesRegex(ValueError, 'return patch'):
                fresh.train()
            with self.assertRaisesRegex(ValueError, 'GPT2LMHeadModel has no module of llama'):
                unknown = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=64, n_head=2))
                trainer_of(folder, unknown, [ck.CoxswainKernels()])
            several = arguments(transformers.TrainingArguments, folder)
            several._n_gpu = 2
            with self.assertRaisesRegex(ValueError, 'one model on 2 GPUs by DataParallel'):
                ck.CoxswainKernels().on_init_end(several, None, None, model=tiny('Qwen2'))


if __name__ == '__main__':
    unittest.main()
