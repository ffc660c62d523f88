// The formulas that every kernel is held against, held themselves against libtorch autograd in
// float64. Bound: 1e-12 of the tensor's largest magnitude; the sums here have fewer than 1,000
// terms, so rounding alone stays below 1,000 x 2^-53 = 1.1e-13 of it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/reference/adamw.h"
#include "tests/reference/attention.h"
#include "tests/reference/cross_entropy.h"
#include "tests/reference/dora.h"
#include "tests/reference/experts.h"
#include "tests/reference/gates.h"
#include "tests/reference/grouped_lora.h"
#include "tests/reference/heads.h"
#include "tests/reference/linear.h"
#include "tests/reference/norms.h"
#include "tests/reference/route.h"
#include "tests/reference/router_loss.h"

namespace coxswain::reference {
namespace {

using at::Tensor;

Tensor Leaf(at::IntArrayRef shape) { return at::randn(shape, at::kDouble).set_requires_grad(true); }

const double* Data(const Tensor& t) { return t.data_ptr<double>(); }

void ExpectEqual(const Tensor& expected, const std::vector<double>& actual, const char* what) {
  const Tensor flat = expected.detach().contiguous().reshape({-1});
  ASSERT_EQ(flat.numel(), static_cast<int64_t>(actual.size())) << what;
  const double bound = 1e-12 * std::max(1e-300, flat.abs().max().item<double>());
  for (int64_t i = 0; i < flat.numel(); ++i) {
    ASSERT_NEAR(flat.data_ptr<double>()[i], actual[static_cast<size_t>(i)], bound) << what << i;
  }
}

class AutogradTest : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(7); }
};

TEST_F(AutogradTest, RmsNorm) {
  const RmsNormShape<double> shape{5, 13, 1e-5};
  const Tensor x = Leaf({5, 13}), w = Leaf({13}), dy = at::randn({5, 13}, at::kDouble);
  const Tensor y = x * at::rsqrt(x.square().mean(1, true) + shape.eps) * w;
  (y * dy).sum().backward();
  std::vector<double> got(65), rstd(5), dx(65, 0.0), dw(13, 0.0);
  RmsNorm(shape, Data(x), Data(w), got.data(), rstd.data());
  RmsNormBackward(shape, Data(dy), Data(x), Data(w), dx.data(), dw.data());
  ExpectEqual(y, got, "y");
  ExpectEqual(x.grad(), dx, "dx");
  ExpectEqual(w.grad(), dw, "dw");
}

TEST_F(AutogradTest, LayerNorm) {
  const LayerNormShape<double> shape{5, 13, 1e-5};
  const Tensor x = Leaf({5, 13}), w = Leaf({13}), b = Leaf({13}),
               dy = at::randn({5, 13}, at::kDouble);
  const Tensor y = at::layer_norm(x, {13}, w, b, shape.eps);
  (y * dy).sum().backward();
  std::vector<double> got(65), mean(5), rstd(5), dx(65, 0.0), dw(13, 0.0), db(13, 0.0);
  LayerNorm(shape, Data(x), Data(w), Data(b), got.data(), mean.data(), rstd.data());
  LayerNormBackward(shape, Data(dy), Data(x), Data(w), dx.data(), dw.data(), db.data());
  ExpectEqual(y, got, "y");
  ExpectEqual(x.grad(), dx, "dx");
  ExpectEqual(w.grad(), dw, "dw");
  ExpectEqual(b.grad(), db, "db");
}

TEST_F(AutogradTest, RotateHead) {
  const Tensor x = Leaf({10}), angle = at::randn({5}, at::kDouble);
  const Tensor dy = at::randn({10}, at::kDouble), c = angle.cos(), s = angle.sin();
  const Tensor a = x.slice(0, 0, 5), b = x.slice(0, 5, 10);
  const Tensor y = at::cat({a * c - b * s, b * c + a * s});
  (y * dy).sum().backward();
  std::vector<double> got(Data(x), Data(x) + 10), dx(Data(dy), Data(dy) + 10);
  RotateHead(10, Data(c), Data(s), 1.0, got.data());
  RotateHead(10, Data(c), Data(s), -1.0, dx.data());
  ExpectEqual(y, got, "y");
  ExpectEqual(x.grad(), dx, "dx");
}

TEST_F(AutogradTest, RotateHeadInterleaved) {
  const Tensor x = Leaf({10}), angle = at::randn({5}, at::kDouble);
  const Tensor dy = at::randn({10}, at::kDouble), c = angle.cos(), s = angle.sin();
  const Tensor a = x.slice(0, 0, 10, 2), b = x.slice(0, 1, 10, 2);
  const Tensor y = at::stack({a * c - b * s, b * c + a * s}, 1).reshape({10});
  (y * dy).sum().backward();
  std::vector<double> got(Data(x), Data(x) + 10), dx(Data(dy), Data(dy) + 10);
  RotateHead(10, Data(c), Data(s), 1.0, got.data(), true);
  RotateHead(10, Data(c), Data(s), -1.0, dx.data(), true);
  ExpectEqual(y, got, "y");
  ExpectEqual(x.grad(), dx, "dx");
}

// Heads of packed rows [L, row], of `dim` columns each from column `first` on, repeated to one per
// query head: [nq, L, dim].
Tensor Heads(const Tensor& qkv, int64_t first, int64_t heads, int64_t dim, int64_t repeat) {
  const Tensor columns = qkv.slice(1, first, first + heads * dim);
  return columns.view({-1, heads, dim}).permute({1, 0, 2}).repeat_interleave(repeat, 0);
}

void CheckAttention(const AttentionShape<double>& s, const Tensor& sinks = {}) {
  const int64_t nq = s.num_heads, nkv = s.num_kv_heads, dim = s.head_dim;
  const Tensor qkv = Leaf({s.length, s.row()});
  const Tensor dout = at::randn({s.length, nq, s.values()}, at::kDouble);
  const Tensor q = Heads(qkv, 0, nq, dim, 1), k = Heads(qkv, nq * dim, nkv, dim, nq / nkv);
  const Tensor v = Heads(qkv, (nq + nkv) * dim, nkv, s.values(), nq / nkv);
  const Tensor i = at::arange(s.length).unsqueeze(1), j = at::arange(s.length).unsqueeze(0);
  Tensor hidden = j > i;
  if (s.window > 0) hidden = hidden.logical_or(j <= i - s.window);
  Tensor scores = at::matmul(q, k.transpose(1, 2)) * s.scale;
  if (s.softcap > 0) scores = s.softcap * at::tanh(scores / s.softcap);
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  if (sinks.defined()) {
    scores = at::cat({scores, sinks.view({nq, 1, 1}).expand({nq, s.length, 1})}, 2);
  }
  const Tensor p = scores.softmax(-1).narrow(2, 0, s.length);
  const Tensor out = at::matmul(p, v).permute({1, 0, 2});
  (out * dout).sum().backward();
  std::vector<double> got(static_cast<size_t>(out.numel())), dqkv(static_cast<size_t>(qkv.numel()));
  std::vector<double> lse(static_cast<size_t>(nq * s.length));
  std::vector<double> dsinks(static_cast<size_t>(nq));
  const double* logits = sinks.defined() ? Data(sinks) : nullptr;
  Attention(s, Data(qkv), got.data(), lse.data(), logits);
  AttentionBackward(s, Data(qkv), Data(dout), dqkv.data(), nullptr, logits, dsinks.data());
  ExpectEqual(out, got, "out");
  ExpectEqual(scores.logsumexp(-1), lse, "lse");
  ExpectEqual(qkv.grad(), dqkv, "dqkv");
  if (sinks.defined()) ExpectEqual(sinks.grad(), dsinks, "dsinks");
}

TEST_F(AutogradTest, AttentionGroupedCausal) { CheckAttention({9, 6, 2, 4, 0, 0.5}); }
TEST_F(AutogradTest, AttentionWindow) { CheckAttention({11, 2, 1, 3, 4, 0.7}); }
TEST_F(AutogradTest, AttentionWindowOfOne) { CheckAttention({5, 2, 2, 3, 1, 0.7}); }
TEST_F(AutogradTest, AttentionSoftcap) { CheckAttention({9, 4, 2, 4, 3, 0.7, 1.5}); }
TEST_F(AutogradTest, AttentionOneToken) { CheckAttention({1, 4, 2, 5, 0, 0.3}); }
TEST_F(AutogradTest, AttentionValuesOfAnotherWidth) {
  CheckAttention({9, 6, 2, 6, 4, 0.5, 0.0, 4});
  CheckAttention({9, 4, 4, 3, 0, 0.5, 1.5, 5});
}
TEST_F(AutogradTest, AttentionSinks) {
  CheckAttention({9, 6, 2, 4, 0, 0.5}, Leaf({6}));
  CheckAttention({11, 2, 1, 3, 4, 0.7, 1.5, 5}, Leaf({2}));
  for (const double logit : {0.0, -30.0, 30.0}) {
    CheckAttention({9, 4, 2, 4, 3, 0.7}, at::full({4}, logit, at::kDouble).set_requires_grad(true));
  }
}

TEST_F(AutogradTest, Swiglu) {
  const Tensor gate = Leaf({50}), up = Leaf({50}), dy = at::randn({50}, at::kDouble);
  const Tensor y = at::silu(gate) * up;
  (y * dy).sum().backward();
  std::vector<double> got, dgate, dup;
  for (int64_t i = 0; i < 50; ++i) {
    got.push_back(Swiglu(Data(gate)[i], Data(up)[i]));
    const auto g = SwigluBackward(Data(dy)[i], Data(gate)[i], Data(up)[i]);
    dgate.push_back(g.gate);
    dup.push_back(g.up);
  }
  ExpectEqual(y, got, "y");
  ExpectEqual(gate.grad(), dgate, "dgate");
  ExpectEqual(up.grad(), dup, "dup");
}

TEST_F(AutogradTest, ClampedSwiglu) {
  const Tensor gate = at::randn({50}, at::kDouble).mul(5).set_requires_grad(true);
  const Tensor up = at::randn({50}, at::kDouble).mul(5).set_requires_grad(true);
  const Tensor dy = at::randn({50}, at::kDouble);
  const Tensor g = gate.clamp_max(7.0);
  const Tensor y = (up.clamp(-7.0, 7.0) + 1) * g * at::sigmoid(1.702 * g);
  (y * dy).sum().backward();
  const ClampedGate<double> clamp{1.702, 7.0};
  std::vector<double> got, dgate, dup;
  for (int64_t i = 0; i < 50; ++i) {
    got.push_back(ClampedSwiglu(clamp, Data(gate)[i], Data(up)[i]));
    const auto d = ClampedSwigluBackward(clamp, Data(dy)[i], Data(gate)[i], Data(up)[i]);
    dgate.push_back(d.gate);
    dup.push_back(d.up);
  }
  ExpectEqual(y, got, "y");
  ExpectEqual(gate.grad(), dgate, "dgate");
  ExpectEqual(up.grad(), dup, "dup");
}

TEST_F(AutogradTest, SigmoidGate) {
  const Tensor x = Leaf({50}), logit = Leaf({1}), dy = at::randn({50}, at::kDouble);
  const Tensor y = at::sigmoid(logit) * x;
  (y * dy).sum().backward();
  const std::vector<double> row(Data(x), Data(x) + 50), drow(Data(dy), Data(dy) + 50);
  const auto got = SigmoidGateBackward(Data(logit)[0], row, drow);
  ExpectEqual(y, SigmoidGate(Data(logit)[0], row), "y");
  ExpectEqual(x.grad(), got.x, "dx");
  ExpectEqual(logit.grad(), {got.logit}, "dlogit");
}

// The turn of pairs (2i, 2i + 1), or of halves, as in DeepseekV3Attention.
Tensor TurnedHeads(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  const int64_t half = x.size(-1) / 2;
  const Tensor pairs = interleaved ? x.reshape({-1, half, 2}) : x.reshape({-1, 2, half}).mT();
  const Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  const Tensor turned = at::stack({a * cos - b * sin, b * cos + a * sin}, -1);
  return (interleaved ? turned : turned.mT()).reshape({-1, 2 * half});
}

void CheckLatentHeads(const LatentShape& s) {
  const int64_t width = s.nope + s.rope;
  const Tensor q = Leaf({s.heads, width}), kv = Leaf({s.heads, s.nope + s.value});
  const Tensor k_rope = Leaf({1, s.rope}), angle = at::randn({s.rope / 2}, at::kDouble);
  const Tensor cos = angle.cos(), sin = angle.sin();
  const Tensor turned_q = TurnedHeads(q.narrow(1, s.nope, s.rope), cos, sin, s.interleaved);
  const Tensor turned_k = TurnedHeads(k_rope, cos, sin, s.interleaved).expand({s.heads, s.rope});
  const Tensor y = at::cat({at::cat({q.narrow(1, 0, s.nope), turned_q}, 1).flatten(),
                            at::cat({kv.narrow(1, 0, s.nope), turned_k}, 1).flatten(),
                            kv.narrow(1, s.nope, s.value).flatten()});
  const Tensor dy = at::randn_like(y);
  (y * dy).sum().backward();
  const auto row = [](const Tensor& x) {
    return std::vector<double>(Data(x), Data(x) + x.numel());
  };
  ExpectEqual(y, LatentHeads<double>(s, {row(q), row(kv), row(k_rope)}, Data(cos), Data(sin)), "y");
  const auto got = LatentHeadsBackward<double>(s, row(dy), Data(cos), Data(sin));
  ExpectEqual(q.grad(), got.q, "dq");
  ExpectEqual(kv.grad(), got.kv, "dkv");
  ExpectEqual(k_rope.grad(), got.k_rope, "dk_rope");
}

TEST_F(AutogradTest, LatentHeads) {
  CheckLatentHeads({3, 4, 6, 5, true});
  CheckLatentHeads({2, 3, 4, 7, false});
}

void CheckGeglu(bool tanh) {
  const Tensor gate = Leaf({50}), up = Leaf({50}), dy = at::randn({50}, at::kDouble);
  const Tensor y = at::gelu(gate, tanh ? "tanh" : "none") * up;
  (y * dy).sum().backward();
  std::vector<double> got, dgate, dup;
  for (int64_t i = 0; i < 50; ++i) {
    got.push_back(Geglu(Data(gate)[i], Data(up)[i], tanh));
    const auto g = GegluBackward(Data(dy)[i], Data(gate)[i], Data(up)[i], tanh);
    dgate.push_back(g.gate);
    dup.push_back(g.up);
  }
  ExpectEqual(y, got, "y");
  ExpectEqual(gate.grad(), dgate, "dgate");
  ExpectEqual(up.grad(), dup, "dup");
}

void CheckGelu(bool tanh) {
  const Tensor x = Leaf({50}), dy = at::randn({50}, at::kDouble);
  const Tensor y = at::gelu(x, tanh ? "tanh" : "none");
  (y * dy).sum().backward();
  std::vector<double> got, dx;
  for (int64_t i = 0; i < 50; ++i) {
    const GeluPoint<double> gelu = Gelu(Data(x)[i], tanh);
    got.push_back(gelu.value);
    dx.push_back(Data(dy)[i] * gelu.slope);
  }
  ExpectEqual(y, got, "y");
  ExpectEqual(x.grad(), dx, "dx");
}

TEST_F(AutogradTest, GeluTanh) { CheckGelu(true); }
TEST_F(AutogradTest, GeluErf) { CheckGelu(false); }
TEST_F(AutogradTest, GegluTanh) { CheckGeglu(true); }
TEST_F(AutogradTest, GegluErf) { CheckGeglu(false); }

TEST_F(AutogradTest, Lora) {
  const Tensor x = Leaf({6, 7}), a = Leaf({3, 7}), b = Leaf({5, 3});
  const Tensor mask = (at::rand({6, 7}, at::kDouble) > 0.3).to(at::kDouble) / 0.7;
  const Tensor dy = at::randn({6, 5}, at::kDouble);
  const Tensor y = at::mm(at::mm(x * mask, a.t()), b.t()) * 1.7;
  (y * dy).sum().backward();
  const LoraProblem<double> p{6, 7, 3, 5, 1.7, Data(x), Data(mask), Data(a), Data(b)};
  std::vector<double> got(30, 0.0), da(21, 0.0), db(15, 0.0), dx(42, 0.0);
  LoraForward(p, got.data());
  LoraBackward(p, Data(dy), da.data(), db.data(), dx.data());
  ExpectEqual(y, got, "y");
  ExpectEqual(a.grad(), da, "da");
  ExpectEqual(b.grad(), db, "db");
  ExpectEqual(x.grad(), dx, "dx");
}

// As peft's DoraLinearLayer without dropout: the norm is detached.
TEST_F(AutogradTest, Dora) {
  const Tensor x = at::randn({6, 7}, at::kDouble), w = at::randn({5, 7}, at::kDouble);
  const Tensor a = at::randn({3, 7}, at::kDouble), b = at::randn({5, 3}, at::kDouble);
  const Tensor m = Leaf({5}), bias = at::randn({5}, at::kDouble);
  const Tensor dy = at::randn({6, 5}, at::kDouble);
  const Tensor norms = (w + at::mm(b, a) * 1.7).norm(2, 1);
  Tensor u = at::mm(x, w.t()) + at::mm(at::mm(x, a.t()), b.t()) * 1.7;
  u = u.detach().set_requires_grad(true);
  const Tensor y = u * (m / norms) + bias;
  (y * dy).sum().backward();
  const DoraProblem<double> p{6, 7, 3, 5, 1.7, Data(x), Data(w), Data(a), Data(b), Data(m)};
  const std::vector<double> got_norms = DoraNorms(p), got_u = DoraUnscaled(p);
  std::vector<double> got(30), du(30), dm(5, 0.0);
  DoraForward(p, got_u.data(), got_norms.data(), Data(bias), got.data());
  DoraBackward(p, got_u.data(), got_norms.data(), Data(dy), du.data(), dm.data());
  ExpectEqual(norms, got_norms, "norms");
  ExpectEqual(u, got_u, "u");
  ExpectEqual(y, got, "y");
  ExpectEqual(u.grad(), du, "du");
  ExpectEqual(m.grad(), dm, "dm");
}

void CheckCrossEntropy(const CrossEntropyOptions<double>& options) {
  const Tensor logits = Leaf({1, 11});
  const double k = options.softcap;
  const Tensor z = k > 0 ? at::tanh(logits / k) * k : logits;
  const Tensor target = at::full({1}, 4, at::kLong), lse = z.logsumexp(1);
  const Tensor loss =
      at::cross_entropy_loss(z, target, {}, at::Reduction::Sum, -100, options.label_smoothing) +
      options.z_loss * lse.square().sum();
  (loss * 0.25).backward();
  std::vector<double> dz(11);
  ExpectEqual(loss, {CrossEntropy(options, Data(logits), 11, 4).loss}, "loss");
  ExpectEqual(at::cross_entropy_loss(z, target), {CrossEntropy(options, Data(logits), 11, 4).nll},
              "nll");
  CrossEntropyBackward(options, Data(logits), 11, 4, 0.25, dz.data());
  ExpectEqual(logits.grad(), dz, "dz");
}

TEST_F(AutogradTest, CrossEntropy) { CheckCrossEntropy({}); }
TEST_F(AutogradTest, CrossEntropySmoothed) { CheckCrossEntropy({0.1, 0.0}); }
TEST_F(AutogradTest, CrossEntropySmoothedWithZLoss) { CheckCrossEntropy({0.2, 1e-2}); }
TEST_F(AutogradTest, CrossEntropyCapped) { CheckCrossEntropy({0.0, 0.0, 1.5}); }
TEST_F(AutogradTest, CrossEntropyCappedSmoothedWithZLoss) { CheckCrossEntropy({0.2, 1e-2, 2.0}); }

// Values and indices of rows as vectors.
std::vector<double> Row(const Tensor& t, int64_t row) {
  const Tensor values = t.detach().select(0, row).contiguous();
  return {Data(values), Data(values) + values.numel()};
}
std::vector<int64_t> Indices(const Tensor& t) {
  const Tensor values = t.contiguous();
  return {values.data_ptr<int64_t>(), values.data_ptr<int64_t>() + values.numel()};
}

// As the routers of transformers have it: DeepseekV3TopkRouter's groups where `options` has some.
Tensor ChosenExperts(const RouteOptions& options, const Tensor& scores, const Tensor& bias) {
  Tensor values = scores.detach() + bias;
  if (options.top_groups < options.groups) {
    const Tensor groups = values.view({values.size(0), options.groups, -1});
    const Tensor sums = std::get<0>(groups.topk(2, -1)).sum(-1);
    const Tensor kept = std::get<1>(sums.topk(options.top_groups, -1));
    const Tensor mask = at::zeros_like(sums).scatter(1, kept, 1.0).unsqueeze(-1) == 0;
    values = groups.masked_fill(mask, -std::numeric_limits<double>::infinity()).flatten(1);
  }
  return std::get<1>(values.topk(options.chosen, -1));
}

void CheckRoute(const RouteOptions& options) {
  const Tensor logits = Leaf({7, options.experts});
  const Tensor bias = options.sigmoid ? at::randn({options.experts}, at::kDouble)
                                      : at::zeros({options.experts}, at::kDouble);
  const Tensor scores = options.sigmoid ? logits.sigmoid() : logits.softmax(-1);
  const Tensor ids = ChosenExperts(options, options.sigmoid ? scores : logits, bias);
  Tensor weights = scores.gather(1, ids);
  if (options.renormalise) weights = weights / (weights.sum(-1, true) + 1e-20);
  weights = weights * options.scale;
  const Tensor dweights = at::randn({7, options.chosen}, at::kDouble);
  (weights * dweights).sum().backward();
  for (int64_t t = 0; t < 7; ++t) {
    const auto got = Route(options, Row(logits, t), Row(bias.unsqueeze(0), 0));
    EXPECT_EQ(got.ids, Indices(ids.select(0, t)));
    ExpectEqual(weights.select(0, t), got.weights, "weights");
    ExpectEqual(logits.grad().select(0, t),
                RouteBackward(options, Row(logits, t), got.ids, Row(dweights, t)), "dlogits");
  }
}

TEST_F(AutogradTest, RouteSoftmax) { CheckRoute({9, 3, false, false, 1, 1, 1.5}); }
TEST_F(AutogradTest, RouteSoftmaxRenormalised) { CheckRoute({9, 3, false, true, 1, 1, 1.5}); }
TEST_F(AutogradTest, RouteSigmoid) { CheckRoute({9, 3, true, false, 1, 1, 2.5}); }
TEST_F(AutogradTest, RouteSigmoidOfGroups) { CheckRoute({12, 3, true, true, 4, 2, 2.5}); }
TEST_F(AutogradTest, RouteOfAllExperts) { CheckRoute({4, 4, true, true, 1, 1, 1.0}); }

// gpt-oss: the softmax over the chosen logits is what renormalised probabilities are.
TEST_F(AutogradTest, RouteSoftmaxOverTheChosen) {
  const Tensor logits = Leaf({1, 8}), dweights = at::randn({1, 3}, at::kDouble);
  const auto [largest, ids] = logits.topk(3, -1);
  const Tensor weights = largest.softmax(-1);
  (weights * dweights).sum().backward();
  const RouteOptions options{8, 3, false, true};
  const auto got = Route(options, Row(logits, 0));
  EXPECT_EQ(got.ids, Indices(ids));
  ExpectEqual(weights, got.weights, "weights");
  ExpectEqual(logits.grad(), RouteBackward(options, Row(logits, 0), got.ids, Row(dweights, 0)),
              "dlogits");
}

// Expert by expert, as transformers' modules loop.
TEST_F(AutogradTest, Experts) {
  const Tensor x = Leaf({6, 5}), w = Leaf({4, 3, 5}), bias = Leaf({4, 3}), weights = Leaf({6, 2});
  const Tensor ids = at::tensor({0, 1, 2, 0, -1, -1, 1, 2, 2, 1, 0, 2}, at::kLong).view({6, 2});
  const Tensor dy = at::randn({6, 3}, at::kDouble);
  Tensor y = at::zeros({6, 3}, at::kDouble);
  for (int64_t e = 0; e < 4; ++e) {
    const Tensor weight = (weights * (ids == e)).sum(-1, true);
    y = y + weight * at::linear(x, w.select(0, e), bias.select(0, e));
  }
  (y * dy).sum().backward();
  const std::vector<int64_t> list = Indices(ids);
  const ExpertsProblem<double> p{6,       2,       4,         5, 3, list.data(), Data(weights),
                                 Data(x), Data(w), Data(bias)};
  const auto got = ExpertsBackward(p, Data(dy));
  ExpectEqual(y, Experts(p), "y");
  ExpectEqual(weights.grad(), got.weights, "dweights");
  ExpectEqual(x.grad(), got.x, "dx");
  ExpectEqual(w.grad(), got.w, "dw");
  ExpectEqual(bias.grad(), got.bias, "dbias");
}

TEST_F(AutogradTest, GroupedLora) {
  const std::vector<int32_t> offsets = {0, 2, 2, 6};
  const Tensor x = Leaf({6, 5}), a = Leaf({3, 2, 5}), b = Leaf({3, 4, 2});
  const Tensor dy = at::randn({6, 4}, at::kDouble);
  std::vector<Tensor> h, y;
  for (int64_t e = 0; e < 3; ++e) {
    const int64_t first = offsets[static_cast<size_t>(e)];
    const int64_t end = offsets[static_cast<size_t>(e) + 1];
    h.push_back(at::linear(x.slice(0, first, end), a.select(0, e)));
    y.push_back(0.75 * at::linear(h.back(), b.select(0, e)));
  }
  (at::cat(y) * dy).sum().backward();
  const GroupedLoraProblem<double> p{6,       3,       5,      4, 2, 0.75, offsets.data(),
                                     Data(x), Data(a), Data(b)};
  const std::vector<double> hidden = GroupedLoraHidden(p);
  const auto got = GroupedLoraBackward(p, hidden.data(), Data(dy));
  ExpectEqual(at::cat(h), hidden, "h");
  ExpectEqual(at::cat(y), GroupedLoraOutput(p, hidden.data()), "y");
  ExpectEqual(x.grad(), got.x, "dx");
  ExpectEqual(a.grad(), got.a, "da");
  ExpectEqual(b.grad(), got.b, "db");
}

// transformers' load_balancing_loss_func, and the mean of the squared log-sum.
TEST_F(AutogradTest, RouterLoss) {
  const Tensor logits = Leaf({11, 6});
  const Tensor p = logits.softmax(-1), ids = std::get<1>(p.topk(2, -1));
  const Tensor use = at::one_hot(ids, 6).to(at::kDouble).mean(0);
  const Tensor balance = (use * p.mean(0).unsqueeze(0)).sum() * 6;
  const Tensor z = logits.logsumexp(-1).square().mean();
  (balance * 0.3 + z * 0.7).backward();
  const std::vector<int64_t> list = Indices(ids);
  const RouterPool<double> pool{11, 6, 2, Data(logits), list.data()};
  ExpectEqual(balance, {RouterLoss(pool).balance}, "balance");
  ExpectEqual(z, {RouterLoss(pool).z}, "z");
  ExpectEqual(logits.grad(), RouterLossBackward<double>(pool, 0.3, 0.7), "dlogits");
}

TEST_F(AutogradTest, AdamWOver20Updates) {
  Tensor p = at::randn({4}, at::kDouble).set_requires_grad(true);
  const AdamWOptions<double> o{1e-2, 0.9, 0.98, 1e-8, 0.1};
  torch::optim::AdamW optimizer({p}, torch::optim::AdamWOptions(o.lr)
                                         .betas({o.beta1, o.beta2})
                                         .eps(o.eps)
                                         .weight_decay(o.weight_decay));
  std::vector<AdamWElement<double>> elements;
  for (int64_t i = 0; i < 4; ++i) elements.push_back({Data(p)[i]});
  for (int64_t update = 1; update <= 20; ++update) {
    p.mutable_grad() = at::randn({4}, at::kDouble);
    for (size_t i = 0; i < 4; ++i) AdamWUpdate(o, Data(p.grad())[i], update, &elements[i]);
    optimizer.step();
  }
  std::vector<double> got;
  for (const auto& element : elements) got.push_back(element.p);
  ExpectEqual(p, got, "p");
}

}  // namespace
}  // namespace coxswain::reference
