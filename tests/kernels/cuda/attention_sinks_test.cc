// Heads with sinks, and heads whose values have another width than their keys.
#include "tests/kernels/cuda/attention_problem.h"

namespace coxswain::kernels {
namespace gpu_attention_test {
namespace {

TEST(AttentionSinksGpuTest, ValuesOfAnotherWidth) {
  for (const Algorithm algorithm : kOfPacked) {
    for (const HeadShape& shape :
         {HeadShape{4, 2, 192, 128}, HeadShape{4, 2, 136, 128}, HeadShape{4, 2, 160, 96},
          HeadShape{4, 2, 128, 192}, HeadShape{4, 2, 128, 64}, HeadShape{4, 2, 40, 8},
          HeadShape{4, 2, 24, 16}, HeadShape{4, 2, 16, 8}, HeadShape{4, 2, 200, 256}}) {
      Problem p = Make(algorithm, shape, {131, 0, 33, 1, 65});
      CheckAgainstReference(p);
      p.spec.window = 40;
      p.spec.softcap = 2.0f;
      CheckAgainstReference(p);
    }
  }
  for (const Algorithm algorithm : {Algorithm::kPlainFloat32, Algorithm::kPlainBFloat16}) {
    CheckAgainstReference(Make(algorithm, {3, 1, 33, 65}, {33, 0, 4, 1}));
    CheckAgainstReference(Make(algorithm, {3, 1, 129, 5}, {33, 0, 4, 1}));
  }
}

TEST(AttentionSinksGpuTest, SinksTakePartInTheSoftmax) {
  for (const Algorithm algorithm : kOfPacked) {
    for (const HeadShape& shape : {HeadShape{6, 2, 16}, HeadShape{6, 1, 64}, HeadShape{6, 2, 64},
                                   HeadShape{6, 6, 64}, HeadShape{6, 2, 128}, HeadShape{6, 3, 256},
                                   HeadShape{6, 6, 192, 128}, HeadShape{6, 2, 24, 16}}) {
      for (const int64_t window : {0, 1, 40, 128}) {
        Problem p = WithSinks(Make(algorithm, shape, kOddLengths), MixedSinks());
        p.spec.window = window;
        CheckAgainstReference(p);
      }
    }
    for (const int64_t dim : {64, 128}) {
      Problem p = WithSinks(Make(algorithm, {6, 2, dim}, {100, 0, 33}), MixedSinks());
      p.spec.softcap = 2.0f;
      CheckAgainstReference(p);
    }
  }
}

TEST(AttentionSinksGpuTest, SinksFarAboveAndBelowAllScores) {
  for (const Algorithm algorithm : kOfPacked) {
    for (const int64_t dim : {16, 64, 128}) {
      const Problem none = Make(algorithm, {4, 2, dim}, {100, 33});
      for (const float logit : {0.0f, -200.0f, 200.0f}) {
        CheckAgainstReference(WithSinks(none, Floats(4, logit)));
      }
      const Floats qkv = RandomQkv(none), dout = RandomDout(none);
      EXPECT_TRUE(SameBits(Compute(none, qkv, dout).out,
                           Compute(WithSinks(none, Floats(4, -200.0f)), qkv, dout).out));
    }
  }
}

// Of both types that they may have.
TEST(AttentionSinksGpuTest, SinksOfTheTypeOfTheRest) {
  for (const int64_t dim : {16, 64, 136}) {
    for (const Algorithm algorithm : {Algorithm::kPlainBFloat16, Algorithm::kPacked}) {
      Problem p = WithSinks(Make(algorithm, {6, 2, dim}, {100, 0, 33}), MixedSinks());
      const Floats qkv = RandomQkv(p), dout = RandomDout(p);
      const Result floats = Compute(p, qkv, dout);
      p.spec.sink_dtype = DType::kBFloat16;
      EXPECT_TRUE(floats == Compute(p, qkv, dout)) << Name(algorithm) << " x " << dim;
    }
  }
}

TEST(AttentionSinksGpuTest, GradientsOfSinksAreAddedToWhatIsThere) {
  for (const Algorithm algorithm : kOfPacked) {
    Problem p = WithSinks(Make(algorithm, {6, 2, 64}, MixedLengths(20)), MixedSinks());
    const Floats qkv = RandomQkv(p), dout = RandomDout(p);
    const Result from_zero = Compute(p, qkv, dout);
    p.sink_start = 3.0f;
    const Result added = Compute(p, qkv, dout);
    for (size_t h = 0; h < 6; ++h) {  // rounded once
      EXPECT_EQ(added.dsinks[h], 3.0f + from_zero.dsinks[h]) << Name(algorithm) << " " << h;
    }
    EXPECT_TRUE(SameBits(added.dqkv, from_zero.dqkv));
  }
}

TEST(AttentionSinksGpuTest, DenseWithSinksOrOtherValuesRunsOnOurKernels) {
  Problem sinks = WithSinks(Make(Algorithm::kDense, {6, 2, 128}, {4096, 4096}), MixedSinks());
  Problem values = Make(Algorithm::kDense, {2, 2, 192, 128}, {4096, 4096});
  for (Problem* p : {&sinks, &values}) {
    p->spec.deterministic = false;
    const std::string line = PrepareAttention(p->spec, p->extents(), TestStream());
    EXPECT_FALSE(line.starts_with("cuDNN")) << line;
    p->lengths = {200, 200, 200};
    CheckAgainstReference(*p);
  }
}

}  // namespace
}  // namespace gpu_attention_test
}  // namespace coxswain::kernels
