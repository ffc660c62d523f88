#include "kernels/products/gated_linear.h"

#include <string>

#include "kernels/activations/gates.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace gated_linear_test {
namespace {

constexpr int64_t kRows = 5;

class GatedLinearTest : public testing::TestWithParam<GateActivation> {
 protected:
  GatedLinearSpec spec_{.hidden = 13, .intermediate = 7, .activation = GetParam()};
  bool silu_ = GetParam() == GateActivation::kSilu;
  GegluSpec geglu_{.intermediate = 7, .tanh = GetParam() == GateActivation::kGeluTanh};

  Floats Activate(const Floats& gate_up) const {
    Floats y(Size(kRows * 7));
    if (silu_) {
      SwigluForward(
          {.spec = {.intermediate = 7}, .rows = kRows, .gate_up = gate_up.data(), .y = y.data()},
          nullptr);
    } else {
      GegluForward({.spec = geglu_, .rows = kRows, .gate_up = gate_up.data(), .y = y.data()},
                   nullptr);
    }
    return y;
  }
  Floats Gradient(const Floats& dy, Floats gate_up) const {
    if (silu_) {
      SwigluBackward(
          {.spec = {.intermediate = 7}, .rows = kRows, .dy = dy.data(), .gate_up = gate_up.data()},
          nullptr);
    } else {
      GegluBackward({.spec = geglu_, .rows = kRows, .dy = dy.data(), .gate_up = gate_up.data()},
                    nullptr);
    }
    return gate_up;
  }
};

Floats Product(bool transpose_b, int64_t n, int64_t k, const Floats& a, const Floats& b) {
  Floats c(Size(kRows * n));
  Gemm({.spec = {.transpose_b = transpose_b},
        .m = kRows,
        .n = n,
        .k = k,
        .a = a.data(),
        .lda = k,
        .b = b.data(),
        .ldb = transpose_b ? k : n,
        .c = c.data(),
        .ldc = n},
       nullptr);
  return c;
}

TEST_P(GatedLinearTest, ForwardEqualsTheProductAndItsGatedUnit) {
  const Floats x = Normal(kRows * 13, 1), weight = Normal(14 * 13, 2);
  const Floats product = Product(true, 14, 13, x, weight);
  const Floats activated = Activate(product);
  for (const bool wanted : {true, false}) {
    Floats gate_up(product.size()), y(activated.size());
    GatedLinearForward({.spec = spec_,
                        .rows = kRows,
                        .x = x.data(),
                        .weight = weight.data(),
                        .gate_up = gate_up.data(),
                        .y = wanted ? y.data() : nullptr},
                       nullptr);
    EXPECT_TRUE(SameBits(gate_up, product));
    EXPECT_TRUE(SameBits(y, wanted ? activated : Floats(y.size()))) << wanted;
  }
}

TEST_P(GatedLinearTest, BackwardEqualsTheProductAndTheGradientOfItsGatedUnit) {
  const Floats dout = Normal(kRows * 13, 1), weight = Normal(13 * 7, 2);
  const Floats gate_up = Normal(kRows * 14, 3);
  const Floats dy = Product(false, 7, 13, dout, weight);
  for (const bool wants_y : {true, false}) {
    Floats again = gate_up, y(dy.size());
    GatedLinearBackward({.spec = spec_,
                         .rows = kRows,
                         .dout = dout.data(),
                         .weight = weight.data(),
                         .gate_up = again.data(),
                         .y = y.data(),
                         .wants_y = wants_y},
                        nullptr);
    EXPECT_TRUE(SameBits(again, Gradient(dy, gate_up)));
    EXPECT_TRUE(!wants_y || SameBits(y, Activate(gate_up)));
  }
}

std::string NameOf(const testing::TestParamInfo<GateActivation>& info) {
  if (info.param == GateActivation::kSilu) return "silu";
  return info.param == GateActivation::kGelu ? "gelu" : "gelu_tanh";
}
INSTANTIATE_TEST_SUITE_P(Activations, GatedLinearTest,
                         testing::Values(GateActivation::kSilu, GateActivation::kGeluTanh,
                                         GateActivation::kGelu),
                         NameOf);

}  // namespace
}  // namespace gated_linear_test
}  // namespace coxswain::kernels
