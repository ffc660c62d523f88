"""The kernels in transformers' Trainer and what is derived from it, such as TRL's SFTTrainer."""
import transformers

from .patch import is_patched, patch


class CoxswainKernels(transformers.TrainerCallback):
    """Trainer(..., callbacks=[CoxswainKernels()]) patches the model that the trainer trains, when it has made or
    wrapped it with adapters, before DDP or FSDP wrap it. verify and join as `patch` has them. A model that is patched
    stays as it is. SFTTrainer computes its loss itself, so that there norms, attention, MLPs and experts are ours, the
    loss not."""

    def __init__(self, verify=False, join=True):
        self.verify, self.join = verify, join

    def on_init_end(self, args, state, control, model=None, **kwargs):
        if args.n_gpu > 1:
            raise ValueError(f'coxswain_kernels: Trainer would put one model on {args.n_gpu} GPUs by DataParallel; one '
                             'process drives one GPU: start it by torchrun, or set CUDA_VISIBLE_DEVICES=0')
        if not is_patched(model):
            patch(model, self.verify, self.join, device=args.device)

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        if not is_patched(model):
            raise ValueError('coxswain_kernels: Trainer trains a model that is not patched: model_init made a new one, '
                             'or the callback came by add_callback; return patch(model) from model_init, or pass '
                             'callbacks=')
