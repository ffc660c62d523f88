// The table's default is the one launch where it runs (compute capability 9.0), so that these tests
// compare it; adapters that it does not take go the plain way.
#include "kernels/lora/lora_gated_linear.h"

#include <memory>

#include "kernels/products/plain_products.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_lora_gated_linear_test {
namespace {

constexpr DType kType = DType::kBFloat16;

struct Case {
  int64_t rows, hidden, intermediate, rank;
  int64_t step = 1;  // every step-th row is compared
  GateActivation activation = GateActivation::kSilu;
};

std::string Describe(const Case& c) {
  return "T " + std::to_string(c.rows) + " H " + std::to_string(c.hidden) + " I " +
         std::to_string(c.intermediate) + " r " + std::to_string(c.rank) + " activation " +
         std::to_string(static_cast<int>(c.activation));
}

float Scale(int64_t terms) { return 1.0f / std::sqrt(static_cast<float>(terms)); }

// gate_up = x W^T + h B^T.
void CheckForward(const Case& c) {
  const int64_t n = c.intermediate, r = c.rank;
  const Floats x = Normal(c.rows * c.hidden, 1, kType);
  const Floats w = Normal(2 * n * c.hidden, 2, kType, Scale(c.hidden));
  const Floats a = Normal(2 * r * c.hidden, 3, kType, Scale(c.hidden));
  const Floats b = Normal(2 * n * r, 4, kType, Scale(r));
  const DeviceTensor device_x(kType, x), device_w(kType, w), device_a(kType, a), device_b(kType, b);
  const DeviceTensor h(kType, c.rows * 2 * r), gate_up(kType, c.rows * 2 * n);
  const DeviceTensor product(kType, c.rows * n), plain(kType, c.rows * n);
  const LoraMember members[] = {{.out_features = n, .b = device_b.data()},
                                {.out_features = n,
                                 .column_offset = n,
                                 .b = static_cast<const uint16_t*>(device_b.data()) + n * r}};
  const LoraLinearSpec spec{.dtype = kType,
                            .in_features = c.hidden,
                            .rank = r,
                            .members = members,
                            .ldy = 2 * n,
                            .scale = 1.5f};
  const Scratch scratch(LoraLinearForwardWorkspaceBytes(spec, c.rows));
  LoraGatedLinearForwardArgs args{.linear = {.spec = spec,
                                             .rows = c.rows,
                                             .x = device_x.data(),
                                             .weight = device_w.data(),
                                             .a = device_a.data(),
                                             .h = h.data(),
                                             .y = gate_up.data(),
                                             .workspace = scratch.workspace()},
                                  .activation = c.activation,
                                  .product = product.data()};
  LoraGatedLinearForward(args, TestStream());
  const Floats values = gate_up.Read(), lows = h.Read();
  ExpectSums(
      values, {c.rows, 2 * n, 2 * n, c.step},
      [&](int64_t t, int64_t j, const auto& add) {
        for (int64_t k = 0; k < c.hidden; ++k)
          add(x[Size(t * c.hidden + k)], w[Size(j * c.hidden + k)]);
        const int64_t first = t * 2 * r + (j < n ? 0 : r);
        for (int64_t k = 0; k < r; ++k) add(lows[Size(first + k)], b[Size(j * r + k)]);
      },
      Describe(c));
  PlainGate(GateSpecOf(args), c.rows, gate_up.data(), plain.data(), TestStream());
  EXPECT_TRUE(SameBits(product.Read(), plain.Read())) << Describe(c) << ": the unit of gate_up";
  args.product = nullptr;
  LoraGatedLinearForward(args, TestStream());
  EXPECT_TRUE(SameBits(gate_up.Read(), values)) << Describe(c) << ": same bits, wanted or not";
}

// Of the down projection [H, I].
class DownProblem {
 public:
  explicit DownProblem(const Case& c)
      : c_(c),
        dy_(Normal(c.rows * c.hidden, 1, kType)),
        v_(Normal(c.hidden * c.intermediate, 2, kType, Scale(c.hidden))),
        a_(Normal(c.rank * c.intermediate, 3, kType, Scale(c.rank))),
        device_dy_(kType, dy_),
        device_v_(kType, v_),
        device_a_(kType, a_),
        device_b_(kType, Normal(c.hidden * c.rank, 4, kType, Scale(c.hidden))),
        h_(kType, Normal(c.rows * c.rank, 5, kType)),
        db_(DType::kFloat32, Floats(Size(c.hidden * c.rank))) {
    member_ = {.out_features = c.hidden, .b = device_b_.data(), .db = db_.data()};
    spec_ = {.dtype = kType,
             .in_features = c.intermediate,
             .rank = c.rank,
             .members = {&member_, 1},
             .ldy = c.hidden,
             .scale = 1.5f};
    scratch_ = std::make_unique<Scratch>(LoraLinearBackwardWorkspaceBytes(spec_, c.rows));
  }
  DownProblem(const DownProblem&) = delete;
  DownProblem& operator=(const DownProblem&) = delete;

  void Backward(const DeviceTensor& gate_up, const DeviceTensor* product, const DeviceTensor& dx,
                const DeviceTensor& da) const {
    LoraGatedLinearBackward({.linear = {.spec = spec_,
                                        .rows = c_.rows,
                                        .x = product == nullptr ? nullptr : product->data(),
                                        .weight = device_v_.data(),
                                        .a = device_a_.data(),
                                        .h = h_.data(),
                                        .dy = device_dy_.data(),
                                        .da = da.data(),
                                        .dx = dx.data(),
                                        .workspace = scratch_->workspace()},
                             .activation = c_.activation,
                             .gate_up = gate_up.data()},
                            TestStream());
  }
  // silu'(100) and gelu'(100) are 1 in float32, exactly: where up is 1, the gradient of gate is dp.
  Floats Dp() const {
    const int64_t n = c_.intermediate;
    Floats gate_up(Size(c_.rows * 2 * n), 1.0f), dp;
    for (int64_t t = 0; t < c_.rows; ++t) std::fill_n(gate_up.begin() + t * 2 * n, n, 100.0f);
    const DeviceTensor device(kType, gate_up), dx(kType, c_.rows * n);
    const DeviceTensor product(kType, Floats(Size(c_.rows * n)));
    const DeviceTensor da(DType::kFloat32, Floats(a_.size()));
    Backward(device, &product, dx, da);
    gate_up = device.Read();
    for (int64_t t = 0; t < c_.rows; ++t) {
      dp.insert(dp.end(), gate_up.begin() + t * 2 * n, gate_up.begin() + t * 2 * n + n);
    }
    return dp;
  }
  void Check() const {
    const int64_t n = c_.intermediate, r = c_.rank;
    const Floats dp = Dp(), g = ReadGradientOfH(*scratch_, c_.rows * c_.rank);
    ExpectSums(
        dp, {c_.rows, n, n, c_.step},
        [&](int64_t t, int64_t j, const auto& add) {
          for (int64_t k = 0; k < c_.hidden; ++k) {
            add(dy_[Size(t * c_.hidden + k)], v_[Size(k * n + j)]);
          }
          for (int64_t k = 0; k < r; ++k) add(g[Size(t * r + k)], a_[Size(k * n + j)]);
        },
        Describe(c_) + " dp");
    CheckUnit(dp);
  }

 private:
  // The gradient of the unit, the product where it was not kept, and dA of either.
  void CheckUnit(const Floats& dp) const {
    const int64_t n = c_.intermediate;
    const Floats gate_up = Normal(c_.rows * 2 * n, 6, kType, 2.0f);
    const DeviceTensor forward(kType, gate_up), product(kType, c_.rows * n);
    const GatedLinearSpec unit{kType, c_.hidden, n, c_.activation};
    PlainGate(unit, c_.rows, forward.data(), product.data(), TestStream());
    const DeviceTensor plain(kType, gate_up), plain_dp(kType, dp);
    PlainGateGradient(unit, c_.rows, plain_dp.data(), plain.data(), false, TestStream());
    Floats da[2];
    for (const bool kept : {true, false}) {
      const DeviceTensor fused(kType, gate_up), dx(kType, c_.rows * n);
      const DeviceTensor gradient(DType::kFloat32, Floats(a_.size()));
      Backward(fused, kept ? &product : nullptr, dx, gradient);
      EXPECT_TRUE(SameBits(fused.Read(), plain.Read())) << Describe(c_) << " kept " << kept;
      EXPECT_TRUE(kept || SameBits(dx.Read(), product.Read())) << Describe(c_);
      da[kept ? 0 : 1] = gradient.Read();
    }
    EXPECT_TRUE(SameBits(da[0], da[1])) << Describe(c_);
  }

  Case c_;
  Floats dy_, v_, a_;
  DeviceTensor device_dy_, device_v_, device_a_, device_b_, h_, db_;
  LoraMember member_;
  LoraLinearSpec spec_;
  std::unique_ptr<Scratch> scratch_;
};

void Check(const Case& c) {
  CheckForward(c);
  DownProblem(c).Check();
}

class LoraGatedLinearGpuTest : public FusedLoraTest {};

TEST_F(LoraGatedLinearGpuTest, MatchesReferenceForEveryTail) {
  for (const int64_t rows : {1, 63, 65, 131, 257}) Check({rows, 512, 136, 16, 7});
  for (const int64_t intermediate : {8, 40, 120, 128, 248, 264}) {
    Check({130, 520, intermediate, 16, 13});
  }
  for (const int64_t hidden : {8, 40, 64, 72, 520, 1032}) Check({66, hidden, 40, 16, 5});
}

TEST_F(LoraGatedLinearGpuTest, MatchesReferenceForEveryRank) {
  for (const int64_t rank : {8, 16, 24, 32, 40, 64, 72, 136}) Check({130, 264, 264, rank, 13});
}

TEST_F(LoraGatedLinearGpuTest, MatchesReferenceForModelsAndManyTiles) {
  Check({1031, 896, 4864, 16, 211});
  Check({9001, 512, 1032, 64, 997});
}

TEST_F(LoraGatedLinearGpuTest, GeluMatchesReference) {
  for (const GateActivation activation : {GateActivation::kGeluTanh, GateActivation::kGelu}) {
    Check({257, 520, 136, 16, 7, activation});
    Check({9001, 512, 1032, 24, 997, activation});
  }
}

TEST_F(LoraGatedLinearGpuTest, TheTableTellsRanksApart) {
  const Case c{320, 656, 256, 16, 29};
  CheckForward(c);
  CheckForward({c.rows, c.hidden, c.intermediate, 8, c.step});
  const std::string table = GemmTable();
  int rows = 0;
  for (size_t at = 0; (at = table.find(R"("hidden": 656)", at)) != std::string::npos; ++at) ++rows;
  EXPECT_EQ(rows, 2);
  EXPECT_NE(table.find(R"("rank": 16)"), std::string::npos);
  EXPECT_TRUE(LoadGemmTable(table));
  EXPECT_EQ(GemmTable(), table);
}

// Gate alone is adapted: the linear, then the unit.
TEST_F(LoraGatedLinearGpuTest, TakesThePlainWayOtherwise) {
  const int64_t rows = 33, in = 64, n = 40, r = 8;
  const DeviceTensor x(kType, Normal(rows * in, 1, kType));
  const DeviceTensor w(kType, Normal(2 * n * in, 2, kType, 0.1f));
  const DeviceTensor a(kType, Normal(r * in, 3, kType, 0.1f)), b(kType, Normal(n * r, 4, kType));
  const DeviceTensor h(kType, rows * r), want(kType, rows * 2 * n), got(kType, rows * 2 * n);
  const DeviceTensor product(kType, rows * n), plain(kType, rows * n);
  const LoraMember member{.out_features = n, .b = b.data()};
  const LoraLinearSpec spec{.dtype = kType,
                            .in_features = in,
                            .rank = r,
                            .members = {&member, 1},
                            .ldy = 2 * n,
                            .scale = 1.5f};
  const Scratch scratch(LoraLinearForwardWorkspaceBytes(spec, rows));
  LoraGatedLinearForwardArgs args{.linear = {.spec = spec,
                                             .rows = rows,
                                             .x = x.data(),
                                             .weight = w.data(),
                                             .a = a.data(),
                                             .h = h.data(),
                                             .y = got.data(),
                                             .workspace = scratch.workspace()},
                                  .product = product.data()};
  LoraGatedLinearForward(args, TestStream());
  args.linear.y = want.data();
  LoraLinearForward(args.linear, TestStream());
  PlainGate(GateSpecOf(args), rows, want.data(), plain.data(), TestStream());
  EXPECT_TRUE(SameBits(got.Read(), want.Read()));
  EXPECT_TRUE(SameBits(product.Read(), plain.Read()));
}

}  // namespace
}  // namespace gpu_lora_gated_linear_test
}  // namespace coxswain::kernels
