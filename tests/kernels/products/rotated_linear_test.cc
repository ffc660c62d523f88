#include "kernels/products/rotated_linear.h"

#include <limits>
#include <stdexcept>

#include "kernels/products/gemm.h"
#include "tests/kernels/products/rotated_linear_cases.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace rotated_linear_test {
namespace {

struct Problem {
  explicit Problem(const RotatedLinearCase& in) : c(in) {}

  RopeArgs Rope(Floats* qkv) const {
    return {.spec = c.spec.rope,
            .tokens = c.tokens,
            .qkv = qkv->data(),
            .cos = table.cos.data(),
            .sin = table.sin.data(),
            .positions = positions.data(),
            .query_scale = c.scaled ? scale.data() : nullptr};
  }
  const float* Bias() const { return c.biased ? bias.data() : nullptr; }
  Floats Nothing() const {
    return Floats(Size(c.tokens * c.columns()), std::numeric_limits<float>::quiet_NaN());
  }

  // By two launches.
  Floats Want() const {
    const int64_t k = c.spec.in_features;
    Floats qkv = Nothing();
    Scratch scratch(GemmWorkspaceBytes());
    Gemm({.spec = {.transpose_b = true},
          .m = c.tokens,
          .n = c.columns(),
          .k = k,
          .a = x.data(),
          .lda = k,
          .b = weight.data(),
          .ldb = k,
          .c = qkv.data(),
          .ldc = c.columns(),
          .bias = Bias(),
          .workspace = scratch.view()},
         nullptr);
    RopeForward(Rope(&qkv), nullptr);
    return qkv;
  }
  RotatedLinearArgs Args(Floats* qkv, Scratch* scratch) const {
    return {.in_features = c.spec.in_features,
            .x = x.data(),
            .weight = weight.data(),
            .bias = Bias(),
            .rope = Rope(qkv),
            .workspace = scratch->view()};
  }
  Floats Got() const {
    Floats qkv = Nothing();
    Scratch scratch(GemmWorkspaceBytes());
    const RotatedLinearArgs args = Args(&qkv, &scratch);
    const ExpectNoAllocation launch;
    RotatedLinearForward(args, nullptr);
    return qkv;
  }

  RotatedLinearCase c;
  Floats x = Normal(c.tokens * c.spec.in_features, 1);
  Floats weight = Normal(c.columns() * c.spec.in_features, 2);
  Floats bias = Normal(c.columns(), 3);
  RopeTable table = BuildRopeTable({.rotated = RotatedElements(c.spec.rope)}, kRotatedPositions);
  Floats scale = BuildQueryScale(0.5, 2, kRotatedPositions);
  std::vector<int32_t> positions = RotatedLinearPositions(c.tokens);
};

TEST(RotatedLinearTest, EqualsTheProductAndItsRotation) {
  for (const RotatedLinearCase& c : RotatedLinearCases()) {
    ASSERT_TRUE(RotatedLinearSupports(c.spec)) << c.Describe();
    const Problem p(c);
    ASSERT_TRUE(SameBits(p.Got(), p.Want())) << c.Describe();
  }
}

TEST(RotatedLinearTest, TurnsAndScalesAndAddsTheBias) {
  RotatedLinearCase c = RotatedLinearCases().front();
  ASSERT_FALSE(c.biased || c.scaled || c.spec.rope.interleaved);
  const Floats plain = Problem(c).Got();
  c.biased = true;
  EXPECT_FALSE(SameBits(Problem(c).Got(), plain));
  c.biased = false;
  c.scaled = true;
  EXPECT_FALSE(SameBits(Problem(c).Got(), plain));
  c.scaled = false;
  c.spec.rope.interleaved = true;
  EXPECT_FALSE(SameBits(Problem(c).Got(), plain));
}

TEST(RotatedLinearTest, RefusesWhatCannotBeTurned) {
  const RotatedLinearCase good = RotatedLinearCases().front();
  std::vector<RotatedLinearCase> refused(5, good);
  refused[0].spec.in_features = 0;
  refused[1].spec.rope.head_dim = 7;
  refused[2].spec.rope.rotated = 3;
  refused[3].spec.rope.rotated = 12;
  refused[4].spec.rope.num_heads = 0;
  const Problem p(good);
  Floats qkv = p.Nothing();
  Scratch scratch(GemmWorkspaceBytes());
  for (const RotatedLinearCase& c : refused) {
    EXPECT_FALSE(RotatedLinearSupports(c.spec)) << c.Describe();
    RotatedLinearArgs args = p.Args(&qkv, &scratch);
    args.in_features = c.spec.in_features;
    args.rope.spec = c.spec.rope;
    EXPECT_THROW(RotatedLinearForward(args, nullptr), std::invalid_argument) << c.Describe();
  }
  EXPECT_TRUE(SameBits(qkv, p.Nothing()));
}

}  // namespace
}  // namespace rotated_linear_test
}  // namespace coxswain::kernels
