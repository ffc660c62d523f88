"""Whether a patched model computes what the unpatched one does, up to rounding."""
import math

import torch

ROWS, LENGTH = 2, 33
TENSORS_A_LAYER = 20  # that a layer rounds, forward and backward


def tolerance(config, dtype):
    """Of ||difference|| / ||value||. Rounding errors of relative size u of the tensors of all layers add up like a
    random walk, for both models; a product of float32 also rounds each of its K sums. Four standard deviations."""
    unit = torch.finfo(dtype).eps / 2
    sums = config.intermediate_size * (2 ** -24 / unit) ** 2
    return 4 * math.sqrt(2 * TENSORS_A_LAYER * config.num_hidden_layers * (1 + sums)) * unit


def require_equal(model, put, take):
    """put() patches the model, take(model) unpatches it. Raises where they differ, with the model unpatched."""
    if model.get_output_embeddings() is None:
        raise ValueError(f'coxswain_kernels: verify compares the logits of tokens, and {type(model).__name__} has none')
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(model.config.vocab_size, (ROWS, LENGTH), generator=generator).to(device)
    labels = ids.clone()
    labels[0, :5] = -100
    want = _answers(model, ids, labels)
    put()
    try:
        got = _answers(model, ids, labels)
        bad = list(_differences(model, want, got))
    except Exception:
        take(model)
        raise
    if bad:
        take(model)
        raise ValueError('coxswain_kernels: patched and unpatched model differ: ' + '; '.join(bad[:5]) +
                         (f'; and {len(bad) - 5} more' if len(bad) > 5 else ''))


def _answers(model, ids, labels):
    """Logits, loss and gradients, without dropout; the gradients and the mode of the model stay as they were."""
    modes = [(m, m.training) for m in model.modules()]
    kept = [(p, p.grad) for p in model.parameters()]
    try:
        model.eval()
        with torch.no_grad():
            answers = {'logits': model(input_ids=ids).logits.float()}
        for parameter, _ in kept:
            parameter.grad = None
        model.training = True  # of the model alone: its loss as in training, no dropout below it
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        answers['loss'] = loss.detach().float()
        answers.update({f'gradient of {name}': p.grad.detach().float().clone() for name, p in model.named_parameters()
                        if p.grad is not None})
        return answers
    finally:
        for module, mode in modes:
            module.training = mode
        for parameter, gradient in kept:
            parameter.grad = gradient


def _differences(model, want, got):
    if want.keys() != got.keys():
        yield 'gradients of ' + ', '.join(sorted(want.keys() ^ got.keys())[:3]) + ' on one side alone'
        return
    allowed = tolerance(model.config, next(model.parameters()).dtype)
    gradients = [v for name, v in want.items() if name.startswith('gradient')]
    typical = math.sqrt(sum(v.square().sum().item() for v in gradients) / max(1, sum(v.numel() for v in gradients)))
    for name, value in want.items():
        # A gradient that is zero but for rounding is held against a tenth of the model's typical one.
        least = 0.1 * typical * math.sqrt(value.numel()) if name.startswith('gradient') else 0.0
        error = (got[name] - value).norm().item() / max(value.norm().item(), least, 1e-30)
        if not error <= allowed:
            yield f'{name} by {error:.2g} of its norm, {allowed:.2g} allowed'
