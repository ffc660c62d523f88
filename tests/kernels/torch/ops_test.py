#!/usr/bin/env python3
"""Invariants torch-1, torch-4. Every op of coxswain_kernels: torch.library.opcheck of forward and backward, and values and gradients against torch in
float64. COXSWAIN_TORCH_DEVICE: cpu (default) or cuda.

The kernels of the CPU take float32 alone, so that gradients are held against float64 instead of by gradcheck in it.
"""
import unittest

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import coxswain_kernels as ck
from samples import DEVICE, DTYPES, integers, normal, samples

# Beyond twice the error of torch's own op in the same type: a few roundings of the result's type.
BEYOND = {torch.float32: 800 * 2 ** -24, torch.bfloat16: 2 ** -8}
NO_GRADIENT = {'cos', 'sin', 'scale', 'weight of lora_linear', 'weight of dora_linear', 'bias of lora_linear',
               'bias of dora_linear', 'weight of grouped_lora_linear', 'bias of grouped_lora_linear'}
WITHOUT_GRADIENT = {'gated_mlp_activation', 'gated_mlp_product'}  # parts of gated_mlp, which has one


class Recorder(TorchDispatchMode):
    """The calls of our ops, forward and backward."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == 'coxswain':
            self.calls.append((function, args))
        return function(*args, **(kwargs or {}))


def run(function, inputs, dtype, weights):
    """Results and gradients; weights of the results are made when there are none."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    results = function(*leaves)
    results = list(results) if isinstance(results, tuple) else [results]
    if not weights:
        weights += [torch.randn(r.shape, device=DEVICE, dtype=torch.float64) for r in results]
    return [r.detach() for r in results] + list(
        torch.autograd.grad(results, leaves, [w.to(r.dtype) for w, r in zip(weights, results)]))


def error(got, exact):
    return max(((g.double() - e).abs().max() / e.abs().max()).item() for g, e in zip(got, exact))


def fresh(function, args):
    """Arguments for opcheck: copies, which ask for gradients where a forward op has them."""
    name, names = function._schema.name.split('::')[1], [a.name for a in function._schema.arguments]
    backward = 'backward' in name or name in WITHOUT_GRADIENT or not any(r.type.isSubtypeOf(torch._C.TensorType.get()) for r in function._schema.returns)

    def copy(key, value):
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach().clone()
        asks = value.is_floating_point() and not backward and not NO_GRADIENT & {key, f'{key} of {name}'}
        return value.requires_grad_(asks)
    return tuple(copy(key, value) for key, value in zip(names, args))


class OpsTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def test_values_and_gradients(self):
        for dtype in DTYPES:
            for name, inputs, ours, theirs in samples(dtype):
                with self.subTest(name, dtype=dtype):
                    weights = []
                    exact = run(theirs, inputs, torch.float64, weights)
                    peer = error(run(theirs, inputs, dtype, weights), exact)
                    self.assertLessEqual(error(run(ours, inputs, dtype, weights), exact), 2 * peer + BEYOND[dtype])

    def test_opcheck(self):
        checked = set()
        for name, inputs, ours, _ in samples(DTYPES[-1]):
            with Recorder() as recorder:
                run(ours, inputs, DTYPES[-1], [])
            for function, args in recorder.calls:
                with self.subTest(name, op=str(function)):
                    torch.library.opcheck(function, fresh(function, args))
                checked.add(function._schema.name)
        for function, args in self.others():
            with self.subTest(op=str(function)):
                torch.library.opcheck(function, args)
            checked.add(function._schema.name)
        ops = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith('coxswain::')}
        self.assertEqual(ops - checked, {'coxswain::load_cuda', 'coxswain::tune_products'})

    @staticmethod
    def others():
        """Ops that no sample calls, with arguments."""
        ops = torch.ops.coxswain
        x = normal(torch.float32, 6, 64)
        codes, absmax = ck.nf4_quantize(x)
        yield ops.nf4_quantize.default, (x,)
        yield ops.nf4_dequantize.default, (codes, absmax, None, None, [6, 64], False)
        codes, absmax = ck.int8_quantize(x)
        yield ops.int8_quantize.default, (x,)
        yield ops.int8_dequantize.default, (codes, absmax, False)
        codes, scales = ck.mxfp4_quantize(x)
        yield ops.mxfp4_quantize.default, (x,)
        yield ops.mxfp4_dequantize.default, (codes, scales, False)
        yield ops.fp8_blocks_dequantize.default, (codes & 126, normal(torch.float32, 1, 1), True)  # 127 is NaN
        gate_up = normal(torch.float32, 6, 256)
        weights = [normal(torch.float32, *shape) for shape in ((128, 64), (128, 64), (64, 128))]
        yield ops.scale_.default, (x.clone(), torch.tensor(0.3, device=DEVICE))
        asking = [w.clone().requires_grad_() for w in weights]
        yield ops.gated_mlp.default, (x, *asking, 0, False)  # above autograd, where the recorder does not see it
        yield ops.gated_mlp_backward_.default, (x, x.clone(), gate_up, *weights, 0, True, True, True)
        p, g, m, v = (normal(torch.float32, 300) for _ in range(4))
        scalars = torch.zeros(56, dtype=torch.uint8, device=DEVICE)
        yield ops.adamw.default, ([p], [g], [m], [v.abs()], scalars, integers([0]), 0.1, 0.9, 0.99, 1e-8, [0.1], 1.0, 0)

    def test_compiles_as_one_graph(self):
        backend = 'inductor' if DEVICE == 'cuda' else 'aot_eager'
        for name, inputs, ours, _ in samples(DTYPES[-1]):
            with self.subTest(name):
                torch._dynamo.reset()
                weights = []
                eager = run(ours, inputs, DTYPES[-1], weights)
                compiled = run(torch.compile(ours, fullgraph=True, backend=backend), inputs, DTYPES[-1], weights)
                # Both round: each is off by what the type allows.
                self.assertLessEqual(error(compiled, [x.double() for x in eager]), 2 * BEYOND[DTYPES[-1]])

    def test_quantized_weights_come_back(self):
        x = normal(torch.float32, 5, 128)
        codes, absmax = ck.nf4_quantize(x)
        back = ck.nf4_dequantize(codes, x.shape, absmax, dtype=torch.float32)
        # Half the widest gap of the sixteen values, of a block's largest.
        self.assertLessEqual(((back - x).view(-1, 64).abs().amax(1) / absmax).max().item(), 0.1519)
        codes, absmax = ck.int8_quantize(x)
        back = ck.int8_dequantize(codes, absmax, torch.float32)
        self.assertLessEqual(((back - x).abs().amax(1) / absmax).max().item(), 0.5 / 127 * (1 + 2 ** -10))
        codes, scales = ck.mxfp4_quantize(x)
        back = ck.mxfp4_dequantize(codes, scales, torch.float32)
        # Up to 8 becomes 6, where a scale is 1; else half a gap of 2.
        scale = torch.exp2(scales.float() - 127).repeat_interleave(32, -1)
        self.assertLess(((back - x).abs() / scale).max().item(), 2)

    def test_fp8_blocks_are_torchs_floats_times_scales(self):
        weight = normal(torch.float32, 130, 140).to(torch.float8_e4m3fn)
        scale = normal(torch.float32, 2, 2)
        wide = scale.repeat_interleave(128, 0)[:130].repeat_interleave(128, 1)[:, :140]
        for dtype in (torch.float32, torch.bfloat16):
            self.assertTrue(torch.equal(ck.fp8_blocks_dequantize(weight, scale, dtype), (weight.float() * wide).to(dtype)))

    def test_optimizer_is_torchs(self):
        parameters = [torch.randn(n, device=DEVICE) for n in (1, 1000, 40000)]

        def train(make, clip):
            leaves = [p.clone().requires_grad_() for p in parameters]
            optimizer = make(leaves)
            for step in range(5):
                for i, leaf in enumerate(leaves):
                    leaf.grad = torch.cos(leaf.detach() * (i + 1) + step)
                if clip:
                    torch.nn.utils.clip_grad_norm_(leaves, 1.0)
                optimizer.step()
                if step == 2:  # through its state, as a checkpoint would
                    state, optimizer = optimizer.state_dict(), make(leaves)
                    optimizer.load_state_dict(state)
            return leaves
        ours = train(lambda p: ck.AdamW(p, lr=0.01, weight_decay=0.1, max_norm=1.0), False)
        theirs = train(lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1), True)
        for a, b in zip(ours, theirs):
            # Five updates of at most 1.1 lr, each of fewer than 20 roundings; clipping sums 41,001 squares in float32.
            self.assertLess((a - b).abs().max().item(), 5 * 0.011 * 400 * 2 ** -24 + 2 ** -22)

    def test_backward_under_activation_checkpointing(self):
        from torch.utils.checkpoint import checkpoint
        for name, inputs, ours, _ in samples(DTYPES[-1]):
            with self.subTest(name):
                weights = []
                plain = run(ours, inputs, DTYPES[-1], weights)
                again = run(lambda *x: checkpoint(ours, *x, use_reentrant=False), inputs, DTYPES[-1], weights)
                for a, b in zip(plain, again):
                    self.assertTrue(torch.equal(a, b))

    def test_checkpointing_ends_before_the_last_product(self):
        from torch.utils.checkpoint import checkpoint
        x = normal(torch.float32, 6, 64).requires_grad_()
        weights = [normal(torch.float32, *shape).requires_grad_() for shape in ((128, 64), (128, 64), (64, 128))]
        with Recorder() as recorder:
            checkpoint(ck.gated_mlp, x, *weights, use_reentrant=False).sum().backward()
        calls = [function._schema.name.split('::')[1] for function, _ in recorder.calls]
        self.assertEqual(calls, ['gated_mlp_activation', 'gated_mlp_product', 'gated_mlp_activation',
                                 'gated_mlp_backward'])

    def test_loss_that_overwrites_gives_the_same_gradients_once(self):
        targets = integers([3, -100, 60, 0, 7, 7, 1])
        for factor in (1.0, 0.3):
            leaves = [normal(torch.float32, *shape).requires_grad_() for shape in ((7, 64), (63, 64))]
            plain = ck.linear_cross_entropy(*leaves, targets) * factor
            over = ck.linear_cross_entropy(*leaves, targets, overwrites=True) * factor
            for a, b in zip(torch.autograd.grad(plain, leaves), torch.autograd.grad(over, leaves, retain_graph=True)):
                self.assertTrue(torch.equal(a, b))
            with self.assertRaisesRegex(RuntimeError, 'modified by an inplace operation'):
                torch.autograd.grad(over, leaves)

    def test_backward_makes_no_zeros_for_results_without_a_gradient(self):
        x = normal(torch.float32, 6, 64).requires_grad_()
        weights = [normal(torch.float32, *shape) for shape in ((128, 64), (128, 64), (64, 128))]

        class Names(TorchDispatchMode):
            names = []

            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                self.names.append(function._schema.name)
                return function(*args, **(kwargs or {}))
        out = ck.gated_mlp(x, *weights, overwrites=True)
        with Names() as mode:
            torch.autograd.grad(out, x, torch.ones_like(out))
        self.assertFalse([n for n in mode.names if 'zero' in n or 'full' in n], mode.names)

    @unittest.skipIf(DEVICE == 'cpu', 'autocast rules are for GPUs')
    def test_autocast(self):
        x, weight = torch.randn(8, 64, device=DEVICE), torch.randn(64, device=DEVICE)
        w = [torch.randn(*s, device=DEVICE) for s in ((128, 64), (128, 64), (64, 128))]
        with torch.autocast('cuda', torch.bfloat16):
            self.assertEqual(ck.rms_norm(x.bfloat16(), weight).dtype, torch.float32)
            self.assertEqual(ck.gated_mlp(x, *w).dtype, torch.bfloat16)
            ends = torch.tensor([0, 3, 8], dtype=torch.int32, device=DEVICE)
            self.assertEqual(ck.grouped_linear(x, torch.stack(w[:2]), ends).dtype, torch.bfloat16)
            self.assertEqual(ck.grouped_gated_linear(x, torch.stack(w[:2]), ends).dtype, torch.bfloat16)


if __name__ == '__main__':
    unittest.main()
