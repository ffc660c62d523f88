"""transformers' Auto classes whose models come patched."""
import torch
import transformers

from .patch import FAMILIES, patch


class _FamiliesWithKernels:
    """The mapping of an Auto class, from the class of a configuration to that of a model, without other families."""

    def __init__(self, auto_class):
        self._all = auto_class._model_mapping

    def __contains__(self, configuration):
        return configuration.model_type in FAMILIES and configuration in self._all

    def __getitem__(self, configuration):
        return self._all[configuration]

    def __iter__(self):
        return (transformers.CONFIG_MAPPING[family] for family in FAMILIES)


def _patched(model, verify, join):
    """A model that was loaded to memory will run on a GPU where there is one."""
    return patch(model, verify, join, device='cuda' if torch.cuda.is_available() else None)


class _Patched:
    @classmethod
    def from_pretrained(cls, *args, verify=False, join=True, **kwargs):
        """As the class of transformers, and of `patch`: verify and join. Raises ValueError, before weights are read,
        for a family without kernels; after, for a device_map over several devices, and for types that the kernels do
        not take (without a GPU they take float32: pass dtype). device_map='cuda' loads weights where they stay joined
        (join_weights)."""
        return _patched(super().from_pretrained(*args, **kwargs), verify, join)

    @classmethod
    def from_config(cls, config, verify=False, join=True, **kwargs):
        """As from_pretrained, with new weights."""
        return _patched(super().from_config(config, **kwargs), verify, join)


class AutoCoxswainForCausalLM(_Patched, transformers.AutoModelForCausalLM):
    """transformers.AutoModelForCausalLM, patched."""
    _model_mapping = _FamiliesWithKernels(transformers.AutoModelForCausalLM)


class AutoCoxswainForSequenceClassification(_Patched, transformers.AutoModelForSequenceClassification):
    """transformers.AutoModelForSequenceClassification, patched; `verify` needs logits of tokens, which it has not."""
    _model_mapping = _FamiliesWithKernels(transformers.AutoModelForSequenceClassification)
