#include "kernels/gated_linear.h"

#include "kernels/gemm.h"
#include "kernels/swiglu.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace {

constexpr GatedLinearSpec kSpec{.hidden = 13, .intermediate = 7};
constexpr int64_t kRows = 5;

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

TEST(GatedLinearTest, ForwardEqualsTheProductAndItsSwiglu) {
  const Floats x = Normal(kRows * 13, 1), weight = Normal(14 * 13, 2);
  const Floats product = Product(true, 14, 13, x, weight);
  Floats activated(Size(kRows * 7));
  SwigluForward({.spec = {.intermediate = 7},
                 .rows = kRows,
                 .gate_up = product.data(),
                 .y = activated.data()},
                nullptr);
  for (const bool wanted : {true, false}) {
    Floats gate_up(product.size()), y(activated.size());
    GatedLinearForward({.spec = kSpec,
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

TEST(GatedLinearTest, BackwardEqualsTheProductAndTheGradientOfItsSwiglu) {
  const Floats dout = Normal(kRows * 13, 1), weight = Normal(13 * 7, 2);
  const Floats gate_up = Normal(kRows * 14, 3);
  Floats dy = Product(false, 7, 13, dout, weight), gradient = gate_up, again = gate_up;
  Floats y(dy.size()), forward(dy.size());
  SwigluForward(
      {.spec = {.intermediate = 7}, .rows = kRows, .gate_up = gate_up.data(), .y = forward.data()},
      nullptr);
  SwigluBackward(
      {.spec = {.intermediate = 7}, .rows = kRows, .dy = dy.data(), .gate_up = gradient.data()},
      nullptr);
  GatedLinearBackward({.spec = kSpec,
                       .rows = kRows,
                       .dout = dout.data(),
                       .weight = weight.data(),
                       .gate_up = again.data(),
                       .y = y.data(),
                       .wants_y = true},
                      nullptr);
  EXPECT_TRUE(SameBits(again, gradient));
  EXPECT_TRUE(SameBits(y, forward));
}

}  // namespace
}  // namespace coxswain::kernels
