#!/usr/bin/env python3
"""Invariant torch-5. The modules of coxswain_kernels beside those of torch, transformers and peft, whose state dicts
they load: values and gradients of inputs and parameters. COXSWAIN_TORCH_DEVICE: cpu (default) or cuda."""
import copy, os, sys, unittest

import peft
import torch
import torch.nn.functional as F
import transformers
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama import modeling_llama as llama
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

import coxswain_kernels as ck
from ops_test import BEYOND, Recorder, error
from samples import DEVICE, DTYPES, integers, normal

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, 'kernels/torch/examples'))
import compose

LENGTHS = (9, 24, 15)


def answers(module, call, inputs, dtype, weights):
    """Results, then gradients of the inputs and of the parameters that ask for one; the module stays as it is."""
    module = copy.deepcopy(module).to(dtype)
    leaves = [x.detach().to(dtype).requires_grad_() if x.is_floating_point() else x for x in inputs]
    results = call(module, *leaves)
    results = list(results) if isinstance(results, tuple) else [results]
    if not weights:
        weights += [torch.randn_like(r, dtype=torch.float64) for r in results]
    parameters = [p for _, p in sorted(module.named_parameters()) if p.requires_grad]
    asked = [x for x in leaves if x.requires_grad] + parameters
    return [r.detach() for r in results] + list(
        torch.autograd.grad(results, asked, [w.to(r.dtype) for w, r in zip(weights, results)]))


def call(module, *inputs):
    return module(*inputs)


def same(test, ours, theirs, inputs, our_call=call, their_call=call, dtypes=DTYPES, load=True):
    """ours, which loads the state dict of theirs, is theirs up to twice the error of theirs against float64."""
    theirs = theirs.to(DEVICE)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.2 if parameter.dim() > 1 else 1.0))
    ours = ours.to(DEVICE)
    if load:
        ours.load_state_dict(theirs.state_dict())
    for dtype in dtypes:
        weights, rounded = [], [x.to(dtype) if x.is_floating_point() else x for x in inputs]
        exact = answers(copy.deepcopy(theirs).to(dtype), their_call, rounded, torch.float64, weights)
        peer = answers(theirs, their_call, rounded, dtype, weights)
        got = answers(ours, our_call, rounded, dtype, weights)
        test.assertEqual([g.shape for g in got], [e.shape for e in exact])
        test.assertLessEqual(error(got, exact), 2 * error(peer, exact) + BEYOND[dtype], dtype)


def config(family, **more):
    return getattr(transformers, f'{family}Config')(**{**dict(
        hidden_size=64, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, vocab_size=97), **more})


class LayersTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def test_norms(self):
        x, residual = normal(torch.float32, 3, 5, 96), normal(torch.float32, 3, 5, 96)
        same(self, ck.RMSNorm(96, 1e-5), llama.LlamaRMSNorm(96, 1e-5), [x])
        same(self, ck.RMSNorm(96, offset=1.0), GemmaRMSNorm(96), [x])
        same(self, ck.RMSNorm(96), llama.LlamaRMSNorm(96), [x, residual],
             their_call=lambda m, x, r: (m(x + r), x + r))
        same(self, ck.LayerNorm(96), nn.LayerNorm(96), [x])
        same(self, ck.LayerNorm(96, bias=False), nn.LayerNorm(96, bias=False), [x])
        for offset in (0.0, 1.0):  # an untrained norm scales by one
            self.assertTrue(torch.equal(ck.RMSNorm(5, offset=offset).weight + offset, torch.ones(5)))
        for wrong in (dict(hidden_size=(3, 4)), dict(hidden_size=4, elementwise_affine=False)):
            with self.assertRaisesRegex(ValueError, 'one dimension with a weight'):
                ck.LayerNorm(**wrong)

    def test_gated_mlps(self):
        x = normal(torch.float32, 2, 7, 64)
        same(self, ck.SwiGLUMLP(64, 48), llama.LlamaMLP(config('Llama')), [x])
        for approximate, name in (('tanh', 'gelu_pytorch_tanh'), ('none', 'gelu')):
            theirs = llama.LlamaMLP(config('Llama', hidden_act=name))
            same(self, ck.GEGLUMLP(64, 48, approximate), theirs, [x])
            adapted = ck.GEGLUMLP(64, 48, approximate)
            adapted.up_proj = nn.Sequential(adapted.up_proj)  # what the op does not take
            same(self, adapted, theirs, [x], load=False, our_call=lambda m, x, t=theirs: self.of(m, t)(x))
        with self.assertRaisesRegex(ValueError, "'erf', must be 'tanh' or 'none'"):
            ck.GEGLUMLP(64, 48, 'erf')

    @staticmethod
    def of(module, theirs):
        """The weights of theirs in a module whose up_proj is in a Sequential."""
        with torch.no_grad():
            for name, value in theirs.state_dict().items():
                module.get_parameter(name.replace('up_proj.', 'up_proj.0.')).copy_(value)
        return module

    def test_the_gated_mlp_is_one_op_unless_a_linear_has_an_adapter(self):
        def ops_of(mlp):
            with Recorder() as recorder:
                mlp(normal(torch.float32, 5, 64))
            return [f._schema.name.split('::')[1] for f, _ in recorder.calls]
        mlp = ck.SwiGLUMLP(64, 48, device=DEVICE)
        self.assertEqual(ops_of(mlp), ['gated_mlp_activation', 'gated_mlp_product'])
        mlp.up_proj = ck.LoraLinear.of(mlp.up_proj)
        self.assertEqual(ops_of(mlp), ['lora_linear', 'swiglu'])

    def test_joined_weights_lie_behind_one_another(self):
        def distances(module, *names):
            places = [module.get_parameter(f'{name}_proj.weight').data_ptr() for name in names]
            return [b - a for a, b in zip(places, places[1:])]
        layer, x = compose.Layer(64, 48, 4, 2).to(DEVICE), normal(torch.float32, 5, 64)
        before = layer.mlp(x)
        self.assertIs(ck.join_weights(layer), layer)
        self.assertEqual(distances(layer.mlp, 'gate', 'up'), [48 * 64 * 4])
        self.assertEqual(distances(layer.self_attn, 'q', 'k', 'v'), [64 * 64 * 4, 32 * 64 * 4])
        self.assertLess(error([layer.mlp(x)], [before]), BEYOND[torch.float32])

    def test_lora_linear_is_pefts(self):
        x = normal(torch.float32, 2, 7, 64)
        linear = nn.Linear(64, 48).to(DEVICE)
        theirs = peft.get_peft_model(nn.Sequential(linear), peft.LoraConfig(r=4, lora_alpha=6, target_modules=['0']))
        theirs = theirs.base_model.model.to(DEVICE)
        ours = ck.LoraLinear.of(nn.Linear(64, 48), r=4, lora_alpha=6)
        names = {'weight': '0.base_layer.weight', 'bias': '0.base_layer.bias',
                 'lora_A.weight': '0.lora_A.default.weight', 'lora_B.weight': '0.lora_B.default.weight'}

        def ours_of_theirs(module, x):
            with torch.no_grad():
                for name, value in module.named_parameters():
                    value.copy_(theirs.get_parameter(names[name]))
            return module(x)
        same(self, ours, theirs, [x], our_call=ours_of_theirs, load=False)
        self.assertEqual({name for name, p in ours.named_parameters() if not p.requires_grad}, {'weight', 'bias'})

    def test_a_new_adapter_changes_nothing_and_shares_the_weight(self):
        linear, x = nn.Linear(64, 48).to(DEVICE), normal(torch.float32, 5, 64)
        adapted = ck.LoraLinear.of(linear)
        self.assertIs(adapted.weight, linear.weight)
        self.assertLessEqual((adapted(x) - linear(x)).abs().max().item(), 64 * 2 ** -23)  # sums of 64 products below 1
        self.assertGreater(adapted.lora_A.weight.abs().max().item(), 0)
        self.assertEqual(ck.LoraLinear(64, 48).state_dict().keys(), {'weight', 'lora_A.weight', 'lora_B.weight'})
        with self.assertRaisesRegex(TypeError, 'must be torch.nn.Linear'):
            ck.LoraLinear.of(adapted)
        with self.assertRaisesRegex(ValueError, 'r is 0'):
            ck.LoraLinear(4, 4, r=0)

    def test_rotary_positions(self):
        plain = llama.LlamaRotaryEmbedding(config('Llama')).to(DEVICE)
        positions = torch.tensor([0, 1, 7, 100, 3, 2], device=DEVICE)
        cos, sin = ck.RotaryEmbedding(16)(positions)
        want = plain(torch.zeros((), device=DEVICE), positions[None])
        for got, table in zip((cos, sin), want):  # of angles up to 100, each rounded twice
            self.assertLess((got - table[0, :, :8]).abs().max().item(), 100 * 2 ** -23)
        with self.assertRaisesRegex(ValueError, 'must be even'):
            ck.RotaryEmbedding(16, rotary_dim=5)
        for unsqueeze_dim in (1, 2):
            for rows in (1, 2):
                q, k = (normal(torch.float32, 2, *((n, 6) if unsqueeze_dim == 1 else (6, n)), 16) for n in (4, 2))
                tables = [t.expand(rows, -1, -1) * (1 + 0.1 * torch.arange(rows, device=DEVICE)[:, None, None])
                          for t in want]
                same(self, nn.Module(), nn.Module(), [q, k],
                     our_call=lambda m, q, k: ck.apply_rotary_pos_emb(q, k, *tables, unsqueeze_dim),
                     their_call=lambda m, q, k: llama.apply_rotary_pos_emb(
                         q, k, *(t.to(q.dtype) for t in tables), unsqueeze_dim), dtypes=(torch.float32,))

    def test_mixtures(self):
        x = normal(torch.float32, 2, 9, 64)
        more = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=48)
        for renormalise in (True, False):
            theirs = Qwen3MoeSparseMoeBlock(config('Qwen3Moe', norm_topk_prob=renormalise, **more))
            same(self, ck.SparseMoeBlock(64, 48, 5, 2, renormalise), theirs, [x], dtypes=(torch.float32,))
        theirs = MixtralSparseMoeBlock(config('Mixtral', num_local_experts=5, num_experts_per_tok=2))
        same(self, ck.SparseMoeBlock(64, 48, 5, 2), theirs, [x], dtypes=(torch.float32,))
        with self.assertRaisesRegex(ValueError, 'num_experts_per_tok is 3, must be from 1 to num_experts, 2'):
            ck.SparseMoeBlock(64, 48, 2, 3)

    def test_a_mixture_tells_what_its_router_did(self):
        block, x = ck.SparseMoeBlock(64, 48, 5, 2).to(DEVICE), normal(torch.float32, 2, 9, 64)
        y, logits, ids = block(x, output_router_logits=True)
        self.assertTrue(torch.equal(y, block(x)))
        self.assertTrue(torch.equal(ids.long(), logits.topk(2).indices))
        ck.router_loss(logits, ids)[0].backward()
        self.assertGreater(block.gate.weight.grad.norm().item(), 0)


class LossesTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.targets = torch.tensor([[3, 0, -100, 62], [7, 7, 9, -100]], device=DEVICE)

    def test_cross_entropy_is_torchs(self):
        logits = normal(torch.float32, 2, 4, 63, scale=2.0)
        for options in ({}, dict(reduction='sum'), dict(label_smoothing=0.1), dict(ignore_index=7)):
            targets = self.targets.clamp(min=0) if 'ignore_index' in options else self.targets
            theirs = nn.CrossEntropyLoss(**options)
            same(self, ck.CrossEntropyLoss(**options), theirs, [logits], our_call=lambda m, z: m(z, targets),
                 their_call=lambda m, z: m(z.flatten(0, 1).to(torch.promote_types(z.dtype, torch.float32)),
                                           targets.flatten()))

    def test_fused_loss_is_the_loss_of_the_head(self):
        x, weight = normal(torch.float32, 2, 4, 64), normal(torch.float32, 63, 64, scale=0.3)
        for options in ({}, dict(reduction='sum'), dict(ignore_index=7, cut=True)):
            targets = self.targets.clamp(min=0) if 'ignore_index' in options else self.targets
            theirs = nn.CrossEntropyLoss(**{name: v for name, v in options.items() if name != 'cut'})
            same(self, ck.FusedLinearCrossEntropyLoss(**options), theirs, [weight, x],
                 our_call=lambda m, w, x: m(w, x, targets),
                 their_call=lambda m, w, x: m(F.linear(x, w).flatten(0, 1).to(
                     torch.promote_types(x.dtype, torch.float32)), targets.flatten()))

    def test_losses_of_rows_are_refused(self):
        for loss in (ck.CrossEntropyLoss, ck.FusedLinearCrossEntropyLoss):
            with self.assertRaisesRegex(ValueError, f"{loss.__name__}: reduction is 'none', must be"):
                loss(reduction='none')

    def test_z_loss_and_softcap_reach_the_op(self):
        x, weight = normal(torch.float32, 2, 4, 64), normal(torch.float32, 63, 64, scale=0.3)
        options = dict(z_loss=0.01, softcap=5.0)
        z = 5 * torch.tanh(F.linear(x, weight) / 5).flatten(0, 1)
        counted = self.targets.flatten() != -100
        want = F.cross_entropy(z, self.targets.flatten()) + 0.01 * z.logsumexp(-1).square()[counted].mean()
        for got in (ck.FusedLinearCrossEntropyLoss(**options)(weight, x, self.targets),
                    ck.CrossEntropyLoss(**options)(F.linear(x, weight), self.targets)):
            self.assertLess(abs(got - want).item(), want.item() * BEYOND[torch.float32])


def attended(attention, x, cos, sin, window=0, scaling=32 ** -0.5, softcap=0.0, bias=False):
    """Of the rows of one document, with heads of 32."""
    q, k, v = (p(x).view(len(x), -1, 32).transpose(0, 1) for p in (attention.q_proj, attention.k_proj, attention.v_proj))
    cos, sin = (torch.cat((t, t), -1) for t in (cos, sin))
    q, k = (h * cos + llama.rotate_half(h) * sin for h in (q, k))
    k, v = (h.repeat_interleave(2, 0) for h in (k, v))
    scores = q @ k.transpose(1, 2) * scaling
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    at = torch.arange(len(x), device=x.device)
    seen = (at[:, None] >= at) & ((at[:, None] - at < window) if window else True)
    out = scores.masked_fill(~seen, float('-inf')).softmax(-1) @ v
    return attention.o_proj(out.transpose(0, 1).flatten(1))


class DecoderTest(unittest.TestCase):
    """The model of kernels/torch/examples/compose.py."""

    def setUp(self):
        torch.manual_seed(1)
        documents = [torch.randint(97, (length,)) for length in LENGTHS]
        self.inputs = [x.to(DEVICE) if isinstance(x, torch.Tensor) else x for x in compose.pack(documents)]

    def test_the_example_learns(self):
        losses = compose.train(DEVICE)
        self.assertEqual(len(losses), 3)
        self.assertTrue(losses[2] < losses[1] < losses[0])

    def test_is_transformers_llama_whose_state_it_loads(self):
        model = llama.LlamaForCausalLM(config('Llama', num_hidden_layers=2, intermediate_size=128)).to(DEVICE)
        ids, positions, targets, _, _ = self.inputs

        def theirs(model, *_):  # its documents by the positions, its targets already shifted
            return model(input_ids=ids, position_ids=positions[None], labels=ids, shift_labels=targets[None],
                         use_cache=False).loss
        same(self, compose.Decoder(), model, [], our_call=lambda m: m(*self.inputs), their_call=theirs,
             dtypes=(torch.float32,))

    def test_compiles_as_one_graph_and_checkpoints(self):
        from torch.utils.checkpoint import checkpoint
        decoder = compose.Decoder().to(DEVICE)

        def gradients(run):
            decoder.zero_grad()
            run(*self.inputs).backward()
            return [p.grad.clone() for p in decoder.parameters()]
        plain = gradients(decoder)
        again = gradients(lambda *inputs: checkpoint(decoder, *inputs, use_reentrant=False))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(plain, again)))
        torch._dynamo.reset()
        compiled = gradients(torch.compile(decoder, fullgraph=True,
                                           backend='inductor' if DEVICE == 'cuda' else 'aot_eager'))
        self.assertLess(error(compiled, plain), BEYOND[torch.float32])

    def test_attention_is_qwen3s(self):
        settings = config('Qwen3', head_dim=32, attention_bias=False)
        settings._attn_implementation = 'sdpa'
        cos, sin = ck.RotaryEmbedding(32)(torch.arange(14, device=DEVICE) % 7)

        def theirs(module, x):
            tables = (torch.cat((t[:7], t[:7]), -1)[None].to(x.dtype) for t in (cos, sin))
            return module(x, tuple(tables), None)[0]
        same(self, ck.Attention(64, 4, 2, head_dim=32, qk_norm=True), Qwen3Attention(settings, 0),
             [normal(torch.float32, 2, 7, 64)], our_call=lambda m, x: m(x, cos, sin), their_call=theirs)

    def test_attention_of_rows_and_of_packed_documents_is_the_formula(self):
        x, ends = normal(torch.float32, 1, sum(LENGTHS), 64), self.inputs[3]
        tables = ck.RotaryEmbedding(32)(self.inputs[1])
        for more in ({}, dict(bias=True), dict(window=5), dict(scaling=0.3), dict(softcap=0.1)):
            attention = ck.Attention(64, 4, 2, head_dim=32, **more).to(DEVICE)
            packed, parts = attention(x, *tables, ends, max(LENGTHS)), []
            for rows, cos, sin in zip(x.split(LENGTHS, 1), *(t.split(LENGTHS) for t in tables)):
                parts.append(attention(rows, cos, sin))  # each document as a row of its own
            want = torch.cat([attended(attention, rows[0], cos, sin, **more) for rows, cos, sin in
                              zip(x.split(LENGTHS, 1), *(t.split(LENGTHS) for t in tables))])[None]
            for got in (packed, torch.cat(parts, 1)):
                self.assertLess(error([got], [want]), BEYOND[torch.float32], more)

    def test_attention_with_a_new_adapter_is_the_attention_without(self):
        x, tables = normal(torch.float32, 1, 9, 64), ck.RotaryEmbedding(16)(torch.arange(9, device=DEVICE))
        attention = ck.Attention(64, 4, 2, qk_norm=True).to(DEVICE)
        want = attention(x, *tables)
        attention.k_proj = ck.LoraLinear.of(attention.k_proj)
        self.assertLess(error([attention(x, *tables)], [want]), BEYOND[torch.float32])

    def test_attention_refuses(self):
        attention, x = ck.Attention(64, 4).to(DEVICE), normal(torch.float32, 1, 4, 64)
        tables = ck.RotaryEmbedding(16)(torch.arange(4, device=DEVICE))
        with self.assertRaisesRegex(ValueError, 'come together'):
            attention(x, *tables, integers([0, 4]))
        with self.assertRaisesRegex(ValueError, 'num_heads 4 is no multiple of num_kv_heads 3'):
            ck.Attention(64, 4, 3)


if __name__ == '__main__':
    unittest.main()
