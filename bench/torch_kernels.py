"""The kernels of one step of a torch program, summed by what they do, as torch's profiler times them."""
import re

import torch

FAMILIES = (('attention', r'attention|fmha|flash|sdpa|cudnn|Hopper(Forward|KeyGradient|QueryGradient)Kernel'),
            ('products', r'nvjet|gemm|cutlass|xmma|splitK|fused_gated|lora_product'),
            ('norms', r'norm'),
            ('cross-entropy', r'cross_?entropy|softmax|nll'),
            ('activations', r'glu|gelu|silu'),
            ('optimizer', r'multi_tensor|adam|sgd'))
LARGEST = 16


def family(kernel):
    return next((name for name, pattern in FAMILIES if re.search(pattern, kernel, re.IGNORECASE)), 'other')


def kernel_times(step):
    """Milliseconds of the device over one call of step: in all, by family, and of the largest kernels, each with its
    number of launches."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    families, kernels = {}, []
    for event in profile.key_averages():
        if event.device_type != torch.autograd.DeviceType.CUDA:
            continue
        ms = event.self_device_time_total / 1e3
        families[family(event.key)] = families.get(family(event.key), 0.0) + ms
        kernels.append({'kernel': event.key[:120], 'ms': ms, 'launches': event.count})
    kernels.sort(key=lambda k: -k['ms'])
    return {'ms': sum(families.values()), 'families': families, 'largest': kernels[:LARGEST]}
