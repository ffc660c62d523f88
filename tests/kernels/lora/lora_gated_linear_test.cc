#include "kernels/lora/lora_gated_linear.h"

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace lora_gated_linear_test {
namespace {

constexpr int64_t kRows = 5, kHidden = 13, kInner = 7, kRank = 3;

class LoraGatedLinearTest : public testing::TestWithParam<GateActivation> {
 protected:
  // Of `members` with b and db as lent, from x [T, in] to columns of kInner or kHidden.
  LoraLinearSpec SpecOf(int64_t in, std::span<const LoraMember> members, int64_t out) const {
    return {.in_features = in, .rank = kRank, .members = members, .ldy = out, .scale = 1.5f};
  }
  // y of the gated unit.
  Floats Product(const Floats& gate_up) const {
    // By a linear whose weight is 1: gate_up itself.
    const int64_t n = 2 * kInner;
    Floats one(Size(n * n), 0.0f), same(gate_up.size()), y(gate_up.size() / 2);
    for (int64_t i = 0; i < n; ++i) one[Size(i * n + i)] = 1.0f;
    GatedLinearForward({.spec = {.hidden = n, .intermediate = kInner, .activation = GetParam()},
                        .rows = kRows,
                        .x = gate_up.data(),
                        .weight = one.data(),
                        .gate_up = same.data(),
                        .y = y.data()},
                       nullptr);
    return y;
  }
  // gate_up becomes its gradient.
  void Gradient(const Floats& dp, Floats* gate_up) const {
    Floats one(Size(kInner * kInner), 0.0f), y(dp.size());
    for (int64_t i = 0; i < kInner; ++i) one[Size(i * kInner + i)] = 1.0f;
    GatedLinearBackward(
        {.spec = {.hidden = kInner, .intermediate = kInner, .activation = GetParam()},
         .rows = kRows,
         .dout = dp.data(),
         .weight = one.data(),
         .gate_up = gate_up->data(),
         .y = y.data()},
        nullptr);
  }
};

TEST_P(LoraGatedLinearTest, ForwardIsTheLinearAndItsGatedUnit) {
  const Floats x = Normal(kRows * kHidden, 1), w = Normal(2 * kInner * kHidden, 2);
  const Floats a = Normal(2 * kRank * kHidden, 3), b = Normal(2 * kInner * kRank, 4);
  const LoraMember members[] = {
      {.out_features = kInner, .b = b.data()},
      {.out_features = kInner, .column_offset = kInner, .b = b.data() + kInner * kRank}};
  const LoraLinearSpec spec = SpecOf(kHidden, members, 2 * kInner);
  Scratch scratch(LoraLinearForwardWorkspaceBytes(spec, kRows));
  Floats h(Size(kRows * 2 * kRank)), want(Size(kRows * 2 * kInner));
  LoraLinearForwardArgs linear{.spec = spec,
                               .rows = kRows,
                               .x = x.data(),
                               .weight = w.data(),
                               .a = a.data(),
                               .h = h.data(),
                               .y = want.data(),
                               .workspace = scratch.view()};
  LoraLinearForward(linear, nullptr);
  for (const bool wanted : {true, false}) {
    Floats again(h.size()), gate_up(want.size()), product(Size(kRows * kInner));
    linear.h = again.data();
    linear.y = gate_up.data();
    LoraGatedLinearForward(
        {.linear = linear, .activation = GetParam(), .product = wanted ? product.data() : nullptr},
        nullptr);
    EXPECT_TRUE(SameBits(again, h));
    EXPECT_TRUE(SameBits(gate_up, want));
    EXPECT_TRUE(SameBits(product, wanted ? Product(want) : Floats(product.size()))) << wanted;
  }
}

TEST_P(LoraGatedLinearTest, BackwardIsTheLinearAndTheGradientOfItsGatedUnit) {
  const Floats dy = Normal(kRows * kHidden, 1), w = Normal(kHidden * kInner, 2);
  const Floats a = Normal(kRank * kInner, 3), b = Normal(kHidden * kRank, 4);
  const Floats h = Normal(kRows * kRank, 5), gate_up = Normal(kRows * 2 * kInner, 6);
  const Floats product = Product(gate_up);
  Floats db = Normal(kHidden * kRank, 7);
  LoraMember member{.out_features = kHidden, .b = b.data(), .db = db.data()};
  const LoraLinearSpec spec = SpecOf(kInner, {&member, 1}, kHidden);
  Scratch scratch(LoraLinearBackwardWorkspaceBytes(spec, kRows));
  Floats da = Normal(kRank * kInner, 8), dp(product.size()), gradient = gate_up;
  LoraLinearBackwardArgs linear{.spec = spec,
                                .rows = kRows,
                                .x = product.data(),
                                .weight = w.data(),
                                .a = a.data(),
                                .h = h.data(),
                                .dy = dy.data(),
                                .da = da.data(),
                                .dx = dp.data(),
                                .workspace = scratch.view()};
  LoraLinearBackward(linear, nullptr);
  Gradient(dp, &gradient);
  for (const bool kept : {true, false}) {
    Floats again = gate_up, again_da = Normal(kRank * kInner, 8),
           again_db = Normal(kHidden * kRank, 7), dx(dp.size());
    member.db = again_db.data();
    linear.x = kept ? product.data() : nullptr;
    linear.da = again_da.data();
    linear.dx = dx.data();
    LoraGatedLinearBackward({.linear = linear, .activation = GetParam(), .gate_up = again.data()},
                            nullptr);
    EXPECT_TRUE(SameBits(again, gradient)) << kept;
    EXPECT_TRUE(SameBits(again_da, da)) << kept;
    EXPECT_TRUE(SameBits(again_db, db)) << kept;
    EXPECT_TRUE(kept || SameBits(dx, product));
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, LoraGatedLinearTest,
                         testing::Values(GateActivation::kSilu, GateActivation::kGeluTanh,
                                         GateActivation::kGelu));

}  // namespace
}  // namespace lora_gated_linear_test
}  // namespace coxswain::kernels
