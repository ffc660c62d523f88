#include <limits>

#include "kernels/products/bias.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/testing.h"
#include "tests/reference/linear.h"

namespace coxswain::kernels {

namespace gemm_test {
namespace {

struct Case {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  float alpha, beta;
  bool bias;
  bool addend = false;
};

// Leading dimensions leave gaps; the gaps of C must stay as they are.
void Check(const Case& c) {
  const int64_t lda = (c.transpose_a ? c.m : c.k) + 3, ldb = (c.transpose_b ? c.k : c.n) + 2;
  const int64_t ldc = c.n + 5;
  const Floats a = Normal(lda * (c.transpose_a ? c.k : c.m) + 1, 1);
  const Floats b = Normal(ldb * (c.transpose_b ? c.n : c.k) + 1, 2);
  const Floats bias = Normal(c.n + 1, 3), before = Normal(ldc * c.m + 1, 4);
  // C starts as the addend's opposite where it is beside C, so that reading it is an error.
  Floats out = before;
  if (c.addend) {
    for (float& value : out) value = -value;
  }
  const Floats start = out;
  Gemm({.spec = {.transpose_a = c.transpose_a, .transpose_b = c.transpose_b},
        .m = c.m,
        .n = c.n,
        .k = c.k,
        .alpha = c.alpha,
        .a = a.data(),
        .lda = lda,
        .b = b.data(),
        .ldb = ldb,
        .beta = c.beta,
        .c = out.data(),
        .ldc = ldc,
        .addend = c.addend ? before.data() : nullptr,
        .bias = c.bias ? bias.data() : nullptr,
        .workspace = {}},
       nullptr);

  const Doubles wide_a = Double(a), wide_b = Double(b);
  Doubles expected = Double(start);
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double& value = expected[Size(i * ldc + j)];
      value = c.beta * before[Size(i * ldc + j)] + (c.bias ? bias[Size(j)] : 0.0f);
    }
  }
  reference::AddProduct<double>({c.m, c.n, c.k}, c.alpha, {wide_a.data(), lda, c.transpose_a},
                                {wide_b.data(), ldb, c.transpose_b}, expected.data(), ldc);
  // k products of values below 5, alpha, beta and bias: (k + 3) roundings of at most 25 k + 10.
  const double terms = static_cast<double>(c.k);
  ExpectWithin(out, expected, (terms + 3) * kUnit * (25 * terms + 10), "c");
}

TEST(GemmTest, MatchesReferenceForEveryTransposeAndOddSize) {
  for (int transposes = 0; transposes < 4; ++transposes) {
    for (const int64_t k : {1, 7, 64, 131}) {
      const bool ta = transposes & 1, tb = transposes & 2;
      Check({1, 1, k, ta, tb, 1.0f, 0.0f, false});
      Check({17, 5, k, ta, tb, 0.5f, 1.0f, false});
      Check({3, 33, k, ta, tb, 1.0f, 0.0f, true});
      Check({8, 13, k, ta, tb, -2.0f, 0.25f, true});
      Check({17, 5, k, ta, tb, 1.0f, 1.0f, false, true});
      Check({8, 13, k, ta, tb, -2.0f, 0.25f, true, true});
    }
  }
}

// Invariant kernels-2.
TEST(GemmTest, EmptyExtents) {
  Check({0, 3, 4, false, false, 1.0f, 0.0f, true});
  Check({3, 0, 4, false, true, 1.0f, 1.0f, false});
  Check({3, 5, 0, false, false, 1.0f, 1.0f, false});
  Check({3, 5, 0, true, true, 1.0f, 0.0f, true});
  Check({3, 5, 0, true, true, 1.0f, 0.0f, false});
  Check({3, 5, 0, false, false, 1.0f, 0.5f, false, true});
  Check({0, 5, 4, false, false, 1.0f, 1.0f, false, true});
}

// Invariant kernels-4. The addend is NaN too.
TEST(GemmTest, BetaZeroDoesNotReadC) {
  const Floats a = {1, 2}, b = {3, 4}, bias = {1};
  const Floats addend = {std::numeric_limits<float>::quiet_NaN()};
  for (const bool with_bias : {false, true}) {
    Floats c = {std::numeric_limits<float>::quiet_NaN()};
    Gemm({.spec = {.transpose_b = true},
          .m = 1,
          .n = 1,
          .k = 2,
          .a = a.data(),
          .lda = 2,
          .b = b.data(),
          .ldb = 2,
          .c = c.data(),
          .ldc = 1,
          .addend = addend.data(),
          .bias = with_bias ? bias.data() : nullptr,
          .workspace = {}},
         nullptr);
    EXPECT_EQ(c[0], with_bias ? 12.0f : 11.0f);
  }
}

TEST(GemmTest, RefusesWhatTheCpuCannotDo) {
  EXPECT_FALSE(GemmSupports({.dtype = DType::kBFloat16}));
  EXPECT_FALSE(GemmSupports({.output_dtype = DType::kBFloat16}));
  EXPECT_THROW(Gemm({.spec = {.dtype = DType::kBFloat16}}, nullptr), std::invalid_argument);
  EXPECT_THROW(Gemm({.spec = {}, .m = int64_t{1} << 31, .n = 1, .k = 1}, nullptr),
               std::invalid_argument);
}

}  // namespace
}  // namespace gemm_test

namespace bias_test {
namespace {

TEST(BiasTest, SumsColumnsOntoTheGradient) {
  for (const int64_t rows : {0, 1, 63, 64, 65, 200}) {
    const int64_t columns = 13, stride = 17;
    const Floats dy = Normal(rows * stride + 1, 5);
    Floats dbias = Normal(columns, 6);
    Doubles expected = Double(dbias);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t j = 0; j < columns; ++j) expected[Size(j)] += dy[Size(t * stride + j)];
    }
    Scratch scratch(BiasBackwardWorkspaceBytes({}, rows, columns));
    BiasBackward({.spec = {},
                  .rows = rows,
                  .columns = columns,
                  .dy = dy.data(),
                  .ldy = stride,
                  .dbias = dbias.data(),
                  .workspace = scratch.view()},
                 nullptr);
    // 64 + rows/64 + 1 additions of partial sums that stay below 5 rows.
    const double n = static_cast<double>(rows);
    ExpectWithin(dbias, expected, (65 + n / 64) * kUnit * (5 * n + 5), "dbias");
  }
}

// Invariant kernels-1.
TEST(BiasTest, RefusesTooSmallAWorkspace) {
  Floats dy(10, 1.0f), dbias(10, 0.0f);
  EXPECT_THROW(BiasBackward({.spec = {},
                             .rows = 1,
                             .columns = 10,
                             .dy = dy.data(),
                             .ldy = 10,
                             .dbias = dbias.data(),
                             .workspace = {}},
                            nullptr),
               std::invalid_argument);
}

}  // namespace
}  // namespace bias_test

}  // namespace coxswain::kernels
