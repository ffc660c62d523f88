"""AdamW of all parameters in three launches, clipping by the global norm decided on the device."""
import torch

from . import ops  # noqa: F401  defines torch.ops.coxswain
from .modules import is_shard

_SCALARS_BYTES = 56  # coxswain_optimizer_scalars


class AdamW(torch.optim.Optimizer):
    """torch.optim.AdamW with moments in float32 and clip_grad_norm_(max_norm) inside; 0: none. bfloat16 parameters are
    rounded stochastically. A step whose gradients are not finite changes nothing. One learning rate for all groups;
    each has its weight decay."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, max_norm=0.0, seed=0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.max_norm, self.seed = max_norm, seed
        self.norm = None  # of the last step's gradients, before clipping; one float64 on the device

    def _moments(self, parameter):
        state = self.state[parameter]
        if not state:
            for name in ('exp_avg', 'exp_avg_sq'):
                state[name] = torch.zeros_like(parameter, dtype=torch.float32,
                                               memory_format=torch.contiguous_format)
        return state['exp_avg'], state['exp_avg_sq']

    def _counters(self, first):
        """What stays on the device: scalars and the number of the step, in the state of the first parameter."""
        state = self.state[first]
        if 'scalars' not in state:
            state['scalars'] = torch.zeros(_SCALARS_BYTES, dtype=torch.uint8, device=first.device)
            state['step'] = torch.zeros(1, dtype=torch.int32, device=first.device)
        return state['scalars'], state['step']

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        group = self.param_groups[0]
        if any((g['lr'], g['betas'], g['eps']) != (group['lr'], group['betas'], group['eps'])
               for g in self.param_groups):
            raise ValueError('coxswain_kernels.AdamW: groups differ in lr, betas or eps')
        pairs = [(p, g['weight_decay']) for g in self.param_groups for p in g['params'] if p.grad is not None]
        if not pairs:
            return loss
        parameters = [p for p, _ in pairs]
        if any(is_shard(p) for p in parameters):
            raise TypeError('coxswain_kernels.AdamW: the parameters are shards (DTensor, as of FSDP2), and the norm '
                            'and whether all gradients are finite are of whole ones; torch.optim.AdamW takes shards')
        moments = [self._moments(p) for p in parameters]
        scalars, step = self._counters(parameters[0])
        self.norm = torch.ops.coxswain.adamw(
            parameters, [p.grad.contiguous() for p in parameters], [m for m, _ in moments], [v for _, v in moments],
            scalars, step, float(group['lr']), *group['betas'], group['eps'], [d for _, d in pairs], self.max_norm,
            self.seed)
        step += 1
        return loss

    def load_state_dict(self, state_dict):
        """Of the same types: torch's casts every state to its parameter's type."""
        super().load_state_dict(state_dict)
        parameters = [p for g in self.param_groups for p in g['params']]
        indices = [i for g in state_dict['param_groups'] for i in g['params']]
        for parameter, index in zip(parameters, indices):
            for name, value in state_dict['state'].get(index, {}).items():
                self.state[parameter][name] = value.detach().to(parameter.device, copy=True)
