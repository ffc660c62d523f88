"""Cross entropy as modules, of logits and of the hidden states before the head."""
import torch
from torch import nn

from . import ops


class _Loss(nn.Module):
    """ignore_index: of targets that do not count. reduction: 'mean' over the targets that count, or 'sum'. z_loss times
    the squared log-sum of a row's logits is added to its loss, Liger's lse_square_scale. softcap: logits are
    softcap tanh(logits / softcap); 0: as they are."""

    def __init__(self, ignore_index=-100, reduction='mean', label_smoothing=0.0, z_loss=0.0, softcap=0.0):
        super().__init__()
        if reduction not in ('mean', 'sum'):
            raise ValueError(f"coxswain_kernels.{type(self).__name__}: reduction is {reduction!r}, must be 'mean' or "
                             "'sum'; coxswain_kernels.cross_entropy(..., 'none') gives the losses of rows")
        self.ignore_index, self.reduction = ignore_index, reduction
        self.label_smoothing, self.z_loss, self.softcap = label_smoothing, z_loss, softcap

    def _targets(self, targets):
        targets = targets.reshape(-1)
        if self.ignore_index != -100:
            targets = targets.masked_fill(targets == self.ignore_index, -100)
        return targets.to(torch.int32)

    def _options(self):
        return dict(label_smoothing=self.label_smoothing, z_loss=self.z_loss, softcap=self.softcap)


class CrossEntropyLoss(_Loss):
    """Of logits [..., V] and targets [...], integers: one float32, as torch.nn.CrossEntropyLoss of [N, V] and [N]."""
    __doc__ += '\n\n' + _Loss.__doc__

    def forward(self, logits, targets):
        return ops.cross_entropy(logits.flatten(0, -2), self._targets(targets), self.reduction, **self._options())


class FusedLinearCrossEntropyLoss(_Loss):
    """CrossEntropyLoss of x weight^T without these logits: of weight [V, H], x [..., H] and targets [...], one
    float32. It has one backward: a second one of the same graph raises. cut: as coxswain_kernels.linear_cross_entropy
    has it."""
    __doc__ += '\n\n' + _Loss.__doc__

    def __init__(self, ignore_index=-100, reduction='mean', label_smoothing=0.0, z_loss=0.0, softcap=0.0, cut=False):
        super().__init__(ignore_index, reduction, label_smoothing, z_loss, softcap)
        self.cut = cut

    def forward(self, weight, x, targets):
        scale = None if self.reduction == 'mean' else torch.ones((), dtype=torch.float32, device=x.device)
        return ops.linear_cross_entropy(x.flatten(0, -2), weight, self._targets(targets), scale, cut=self.cut,
                                        overwrites=not torch.compiler.is_compiling(), **self._options())
