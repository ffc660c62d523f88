"""A mixture of experts as modules."""
import torch
from torch import nn

from . import modules, ops


class Experts(nn.Module):
    """SwiGLU experts. Parameters as transformers': gate_up_proj [E, 2 I, H], the rows of gate before those of up, and
    down_proj [E, H, I]."""

    def __init__(self, num_experts, hidden_size, intermediate_size, device=None, dtype=None):
        super().__init__()
        new = dict(device=device, dtype=dtype)
        self.gate_up_proj = nn.Parameter(torch.empty(num_experts, 2 * intermediate_size, hidden_size, **new))
        self.down_proj = nn.Parameter(torch.empty(num_experts, hidden_size, intermediate_size, **new))
        for weight in (self.gate_up_proj, self.down_proj):  # as nn.Linear: of the width of what it multiplies
            nn.init.uniform_(weight, -weight.shape[2] ** -0.5, weight.shape[2] ** -0.5)

    def forward(self, x, top_k_index, top_k_weights):
        """[T, H], the sum over k of top_k_weights [T, k] times expert top_k_index [T, k] (-1: none) of x [T, H]."""
        return modules.sum_of_experts(self, x, top_k_index, top_k_weights)


class SparseMoeBlock(nn.Module):
    """Router and experts: each token goes to the num_experts_per_tok experts of the largest softmax. norm_topk_prob:
    their weights are divided by their sum. Parameters as transformers': gate.weight [E, H], experts.gate_up_proj and
    experts.down_proj (Experts). The choice is made in float32."""

    def __init__(self, hidden_size, intermediate_size, num_experts, num_experts_per_tok, norm_topk_prob=True,
                 device=None, dtype=None):
        super().__init__()
        if not 0 < num_experts_per_tok <= num_experts:
            raise ValueError(f'coxswain_kernels.SparseMoeBlock: num_experts_per_tok is {num_experts_per_tok}, must be '
                             f'from 1 to num_experts, {num_experts}')
        self.num_experts_per_tok, self.norm_topk_prob = num_experts_per_tok, norm_topk_prob
        self.gate = nn.Linear(hidden_size, num_experts, bias=False, device=device, dtype=dtype)
        self.experts = Experts(num_experts, hidden_size, intermediate_size, device, dtype)

    def forward(self, x, output_router_logits=False):
        """[..., H] of x [..., H]. output_router_logits: also logits float32 [T, E] and ids int32 [T, k] of its T
        tokens, which coxswain_kernels.router_loss takes."""
        tokens = x.flatten(0, -2)
        logits = self.gate(tokens).float()
        weights, ids = ops.route(logits, self.num_experts_per_tok, renormalise=self.norm_topk_prob)
        y = self.experts(tokens, ids, weights).view(x.shape)
        return (y, logits, ids) if output_router_logits else y
