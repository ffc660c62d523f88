// The algorithms against the fp64 formulas: plain (float32, and bfloat16 where it stands in),
// flash, cuDNN, what takes packed bfloat16 (flash, or the kernels of warpgroups) and what takes it
// dense (those, or cuDNN). Where a case is too large for fp64 on the CPU, plain is the reference of
// the others. Sinks and values of their own width: attention_sinks_test.cc.
#include "kernels/attention/attention.h"

#include <limits>

#include "tests/kernels/cuda/attention_problem.h"

namespace coxswain::kernels {
namespace gpu_attention_test {
namespace {

TEST(AttentionGpuTest, GroupedHeadsOverOddDocuments) {
  for (const Algorithm algorithm : kOfPacked) {
    for (const HeadShape& shape :
         {HeadShape{14, 2, 64}, HeadShape{7, 1, 128}, HeadShape{2, 2, 16}, HeadShape{4, 2, 32},
          HeadShape{2, 1, 96}, HeadShape{3, 3, 192, 128}, HeadShape{4, 2, 24, 16},
          HeadShape{2, 1, 16, 8}, HeadShape{4, 2, 64, 128}}) {
      CheckAgainstReference(Make(algorithm, shape, kOddLengths));
    }
  }
}

// Every number of heads that packs into a tile of rows, and more than fit beside each other.
TEST(AttentionGpuTest, GroupsOfEverySize) {
  for (const int64_t group : {1, 2, 3, 4, 5, 6, 7, 8, 14, 64}) {
    const int32_t length = group > 8 ? 40 : 135;
    CheckAgainstReference(Make(Algorithm::kPacked, {group, 1, 64}, {length, 7, 0, 65}));
  }
  for (const int64_t group : {1, 3, 4, 8}) {
    for (const int64_t dim : {96, 128, 256}) {
      CheckAgainstReference(Make(Algorithm::kPacked, {group, 1, dim}, {135, 7, 0, 65}));
    }
    CheckAgainstReference(Make(Algorithm::kPacked, {group, 1, 192, 128}, {135, 7, 0, 65}));
  }
}

// Tiles of 9, 18 and 27 tokens, and of 64 and 128 keys.
TEST(AttentionGpuTest, LengthsAroundTheTilesOfPackedRows) {
  for (const HeadShape& shape : {HeadShape{7, 1, 64}, HeadShape{7, 1, 128}, HeadShape{7, 1, 256},
                                 HeadShape{7, 1, 192, 128}, HeadShape{2, 2, 192, 128}}) {
    CheckAgainstReference(Make(Algorithm::kPacked, shape,
                               {8, 9, 10, 17, 18, 19, 26, 27, 28, 127, 128, 129, 191, 193}));
  }
}

TEST(AttentionGpuTest, WindowsAcrossTilesOfKeys) {
  for (const HeadShape& shape : {HeadShape{3, 1, 64}, HeadShape{3, 1, 96}, HeadShape{3, 1, 128},
                                 HeadShape{3, 1, 256}, HeadShape{3, 3, 192, 128}}) {
    for (const int64_t window : {1, 31, 64, 128, 129}) {
      Problem p = Make(Algorithm::kPacked, shape, {400, 1, 130});
      p.spec.window = window;
      CheckAgainstReference(p);
    }
  }
}

// The promise that lengths are equal changes the order of the work, not the work.
TEST(AttentionGpuTest, DenseHasTheBitsOfPackedOnTheSameKernels) {
  for (const HeadShape& shape :
       {HeadShape{14, 2, 64}, HeadShape{8, 2, 128}, HeadShape{8, 4, 256}}) {
    const Problem dense = Make(Algorithm::kDense, shape, {300, 300, 300, 300, 300});
    if (dense.cudnn()) continue;  // another GPU
    const Problem packed = Make(Algorithm::kPacked, shape, dense.lengths);
    const Floats qkv = RandomQkv(dense), dout = RandomDout(dense);
    EXPECT_TRUE(Compute(dense, qkv, dout) == Compute(packed, qkv, dout));
  }
}

TEST(AttentionGpuTest, HeadSizesBetweenTheTiles) {
  for (const Algorithm algorithm : {Algorithm::kFlash, Algorithm::kPacked}) {
    for (const int64_t dim : {8, 24, 40, 72, 80, 104, 120, 136, 160, 248}) {
      CheckAgainstReference(Make(algorithm, {4, 2, dim}, {65, 1, 70}));
    }
  }
}

TEST(AttentionGpuTest, PlainTakesEveryHeadSize) {
  for (const int64_t dim : {1, 5, 31, 33, 65, 129, 255, 256}) {
    CheckAgainstReference(Make(Algorithm::kPlainFloat32, {3, 1, dim}, {33, 0, 4, 1}));
    CheckAgainstReference(Make(Algorithm::kPlainBFloat16, {2, 2, dim}, {33, 0, 4, 1}));
  }
}

TEST(AttentionGpuTest, WindowsOfEverySizeAroundTheTile) {
  for (const Algorithm algorithm : kOfPacked) {
    for (const int64_t window : {1, 2, 33, 63, 64, 65, 128, 199, 200, 1000}) {
      Problem p = Make(algorithm, {4, 2, 64}, {200, 1, 66, 64});
      p.spec.window = window;
      CheckAgainstReference(p);
    }
  }
}

TEST(AttentionGpuTest, WideHeads) {
  for (const HeadShape& shape :
       {HeadShape{4, 2, 136}, HeadShape{2, 2, 192}, HeadShape{3, 1, 256}}) {
    const Problem p = Make(Algorithm::kPacked, shape, kOddLengths);
    const char* kernels = p.hopper() ? "warpgroup" : "flash";
    EXPECT_TRUE(PrepareAttention(p.spec, p.extents(), TestStream()).starts_with(kernels));
    CheckAgainstReference(p);
    CheckAgainstReference(Make(Algorithm::kFlash, shape, kOddLengths));
  }
}

// Their tiles are of 64 and of 32 rows. With a window of 1 dQ and dK are 0.
TEST(AttentionGpuTest, WideHeadsInWindowsAroundBothTiles) {
  for (const int64_t window : {1, 2, 31, 32, 33, 63, 64, 65, 96, 100, 128, 199, 200, 1000}) {
    Problem p = Make(Algorithm::kPacked, {2, 1, 256}, {200, 1, 66, 64, 0, 97});
    p.spec.window = window;
    CheckAgainstReference(p);
  }
}

TEST(AttentionGpuTest, WideHeadsWithWindowSoftcapAndScale) {
  for (const int64_t dim : {136, 192, 256}) {
    for (const float softcap : {0.5f, 50.0f}) {
      for (const float scale : {0.02f, 0.2f}) {
        Problem p = Make(Algorithm::kPacked, {4, 2, dim}, {100, 33, 0, 70});
        p.spec.window = softcap > 1 ? 40 : 0;
        p.spec.scale = scale;
        p.spec.softcap = softcap;
        CheckAgainstReference(p);
      }
    }
  }
}

TEST(AttentionGpuTest, Softcap) {
  for (const Algorithm algorithm : kOfPacked) {
    for (const float softcap : {0.5f, 3.0f, 50.0f}) {
      Problem p = Make(algorithm, {4, 2, 64}, {100, 33, 70});
      p.spec.softcap = softcap;
      p.spec.window = softcap > 1 ? 0 : 40;
      CheckAgainstReference(p);
    }
  }
}

TEST(AttentionGpuTest, WindowSoftcapAndScaleTogether) {
  for (const Algorithm algorithm : kOfPacked) {
    for (const int64_t dim : {64, 256}) {
      for (const float scale : {0.02f, 0.2f}) {
        Problem p = Make(algorithm, {4, 2, dim}, {70, 33, 1});
        p.spec.window = 20;
        p.spec.scale = scale;
        p.spec.softcap = 50.0f;
        CheckAgainstReference(p);
      }
    }
  }
}

constexpr Algorithm kOfDense[] = {Algorithm::kCudnn, Algorithm::kDense};

TEST(AttentionGpuTest, Dense) {
  for (const Algorithm algorithm : kOfDense) {
    for (const HeadShape& shape :
         {HeadShape{14, 2, 64}, HeadShape{7, 1, 128}, HeadShape{4, 4, 80}, HeadShape{4, 2, 96}}) {
      CheckAgainstReference(Make(algorithm, shape, {128, 128, 128}));
      CheckAgainstReference(Make(algorithm, shape, {200, 200}));
    }
  }
}

TEST(AttentionGpuTest, DenseWindow) {
  for (const Algorithm algorithm : kOfDense) {
    for (const int64_t window : {1, 64, 100, 256, 1000}) {
      for (const int64_t dim : {64, 80}) {
        Problem p = Make(algorithm, {4, 2, dim}, {256, 256});
        p.spec.window = window;
        CheckAgainstReference(p);
      }
    }
  }
}

TEST(AttentionGpuTest, DenseWithSoftcapRunsOnOurKernels) {
  Problem p = Make(Algorithm::kDense, {4, 2, 64}, {64, 64});
  p.spec.softcap = 20.0f;
  EXPECT_FALSE(PrepareAttention(p.spec, p.extents(), TestStream()).starts_with("cuDNN"));
  CheckAgainstReference(p);
}

TEST(AttentionGpuTest, EmptyDocumentsAndNoTokens) {
  for (const Algorithm algorithm : kOfPacked) {
    CheckAgainstReference(Make(algorithm, {4, 2, 64}, {0, 5, 0, 0, 9, 0}));
    CheckAgainstReference(Make(algorithm, {4, 2, 256}, {0, 5, 0, 0, 9, 0}));
  }
  for (const Algorithm algorithm : {Algorithm::kPlainFloat32, Algorithm::kPacked}) {
    EXPECT_TRUE(Compute(Make(algorithm, {4, 2, 64}, {}), {}, {}).out.empty());
    EXPECT_TRUE(Compute(Make(algorithm, {4, 2, 64}, {0, 0}), {}, {}).out.empty());
  }
}

// Against plain, which holds the reference above.
void CheckAgainstPlain(Problem p) {
  SCOPED_TRACE(Name(p.algorithm));
  const Floats qkv = RandomQkv(p), dout = RandomDout(p);
  const Result got = Compute(p, qkv, dout);
  p.algorithm = Algorithm::kPlainBFloat16;
  const Result want = Compute(p, qkv, dout, /*captured=*/false, &got.out);
  ExpectRelativeError(got.out, Double(want.out), 3 * kUnit(DType::kBFloat16), "out");
  EXPECT_LE(WorstHead(p.spec, got.dqkv, Double(want.dqkv), 4 * kUnit(DType::kBFloat16)), 1.0);
  // lse of both is within Float32Bound of the formulas.
  const auto lse = [&](int64_t t, int64_t h) { return want.lse[Size(h * p.tokens() + t)]; };
  ExpectSinkGradient(got.dsinks, Double(want.dsinks),
                     SinkTerms(p.spec, p.sinks, Double(got.out), dout, lse), 2 * SinkBound(p));
}

TEST(AttentionGpuTest, ModelShapes) {
  CheckAgainstPlain(Make(Algorithm::kPacked, {14, 2, 64}, MixedLengths(60)));
  CheckAgainstPlain(Make(Algorithm::kPacked, {28, 4, 128}, MixedLengths(20)));
  CheckAgainstPlain(Make(Algorithm::kPacked, {8, 4, 256}, MixedLengths(20)));
  CheckAgainstPlain(Make(Algorithm::kPacked, {16, 16, 192, 128}, MixedLengths(20)));
  Problem sinks = WithSinks(Make(Algorithm::kPacked, {64, 8, 64}, MixedLengths(20)), Floats(64));
  for (size_t h = 0; h < 64; ++h) sinks.sinks[h] = 0.125f * static_cast<float>(h) - 4.0f;
  CheckAgainstPlain(sinks);
  sinks.spec.window = 128;
  CheckAgainstPlain(sinks);
  CheckAgainstPlain(Make(Algorithm::kDense, {14, 2, 64}, std::vector<int32_t>(8, 1024)));
  CheckAgainstPlain(Make(Algorithm::kDense, {28, 4, 128}, std::vector<int32_t>(4, 1024)));
  CheckAgainstPlain(Make(Algorithm::kDense, {14, 2, 80}, std::vector<int32_t>(4, 1024)));
}

TEST(AttentionGpuTest, LongDocument) {
  CheckAgainstPlain(Make(Algorithm::kPacked, {2, 1, 64}, {3, 5000}));
  Problem p = Make(Algorithm::kPacked, {2, 1, 128}, {3000, 7});
  p.spec.window = 300;
  CheckAgainstPlain(p);
  p = Make(Algorithm::kPacked, {2, 1, 256}, {3000, 7});
  p.spec.window = 1024;
  CheckAgainstPlain(p);
}

// More documents than tiles of rows, most of them empty.
TEST(AttentionGpuTest, ThousandsOfDocuments) {
  std::vector<int32_t> lengths(3000, 1);
  lengths.resize(9000, 0);
  for (const Algorithm algorithm : {Algorithm::kPlainFloat32, Algorithm::kPacked}) {
    const Problem p = Make(algorithm, {2, 1, 16}, lengths);
    const Floats qkv = RandomQkv(p);
    const Result r = Compute(p, qkv, RandomDout(p));
    for (int64_t t = 0; t < 3000; ++t) {  // a lone token attends to itself: out = v
      for (int64_t c = 0; c < 32; ++c) {
        ASSERT_EQ(r.out[Size(t * 32 + c)], qkv[Size(t * p.row() + 48 + c % 16)]);
      }
    }
  }
}

Floats Rows(const Floats& values, int64_t row, int64_t first, int64_t last) {
  return Floats(values.begin() + first * row, values.begin() + last * row);
}

// Invariant kernels-5.
TEST(AttentionGpuTest, PackedIsBitEqualToOneByOne) {
  const std::vector<int32_t> lengths = {3, 70, 1, 129, 20, 64};
  std::vector<Problem> problems = {
      Make(Algorithm::kPacked, {4, 2, 256}, lengths),
      Make(Algorithm::kPacked, {4, 2, 192, 128}, lengths),
      WithSinks(Make(Algorithm::kPacked, {6, 2, 64}, lengths), MixedSinks())};
  for (const Algorithm algorithm : kOfPacked) {
    problems.push_back(Make(algorithm, {4, 2, 64}, lengths));
  }
  for (const Problem& packed : problems) {
    const Floats qkv = RandomQkv(packed), dout = RandomDout(packed);
    const Result all = Compute(packed, qkv, dout);
    int64_t start = 0;
    for (const int32_t length : packed.lengths) {
      Problem one = packed;
      one.lengths = {length};
      const int64_t end = start + length;
      const Result alone =
          Compute(one, Rows(qkv, one.row(), start, end), Rows(dout, one.out_row(), start, end));
      EXPECT_TRUE(SameBits(alone.out, Rows(all.out, one.out_row(), start, end)));
      EXPECT_TRUE(SameBits(alone.dqkv, Rows(all.dqkv, one.row(), start, end)));
      start = end;
    }
  }
}

// Invariant kernels-5.
TEST(AttentionGpuTest, NanInOneDocumentLeavesTheOthersBitEqual) {
  std::vector<Problem> problems = {Make(Algorithm::kPacked, {4, 2, 256}, {100, 100, 100}),
                                   Make(Algorithm::kPacked, {4, 2, 192, 128}, {100, 100, 100})};
  for (const Algorithm algorithm : {Algorithm::kPlainFloat32, Algorithm::kPlainBFloat16,
                                    Algorithm::kPacked, Algorithm::kDense}) {
    problems.push_back(Make(algorithm, {4, 2, 64}, {100, 100, 100}));
  }
  for (const Problem& p : problems) {
    SCOPED_TRACE(testing::Message() << Name(p.algorithm) << " x " << p.spec.head_dim);
    const Floats qkv = RandomQkv(p), dout = RandomDout(p);
    Floats broken = qkv;
    for (int64_t i = 100 * p.row(); i < 200 * p.row(); ++i) {
      broken[Size(i)] = i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN() : 7.0f;
    }
    const Result clean = Compute(p, qkv, dout), got = Compute(p, broken, dout);
    for (const auto& [first, last] : {std::pair{0, 100}, std::pair{200, 300}}) {
      EXPECT_TRUE(SameBits(Rows(got.out, p.out_row(), first, last),
                           Rows(clean.out, p.out_row(), first, last)));
      EXPECT_TRUE(
          SameBits(Rows(got.dqkv, p.row(), first, last), Rows(clean.dqkv, p.row(), first, last)));
    }
    EXPECT_TRUE(std::isnan(got.out[Size(199 * p.out_row())]));
  }
}

TEST(AttentionGpuTest, LaterTokensDoNotReachEarlierOnes) {
  for (const Algorithm algorithm : kOfPacked) {
    const Problem p = Make(algorithm, {2, 1, 64}, {150});
    Floats qkv = RandomQkv(p);
    const Floats dout = RandomDout(p);
    const Floats before = Compute(p, qkv, dout).out;
    for (int64_t i = 100 * p.row(); i < 150 * p.row(); ++i) qkv[Size(i)] = 1.5f;
    const Floats after = Compute(p, qkv, dout).out;
    EXPECT_TRUE(SameBits(Rows(after, p.out_row(), 0, 100), Rows(before, p.out_row(), 0, 100)));
    EXPECT_NE(after[Size(100 * p.out_row())], before[Size(100 * p.out_row())]);
  }
}

TEST(AttentionGpuTest, LargeScoresStayFinite) {
  for (const Algorithm algorithm : kOfPacked) {
    const Problem p = Make(algorithm, {2, 1, 64}, {40, 80});
    Floats qkv = RandomQkv(p);
    for (float& value : qkv) value *= 64.0f;  // scores up to 1e5
    const Result r = Compute(p, qkv, RandomDout(p));
    for (const Floats* v : {&r.out, &r.lse, &r.dqkv}) {
      EXPECT_TRUE(std::all_of(v->begin(), v->end(), [](float x) { return std::isfinite(x); }));
    }
  }
}

// Invariant kernels-3, and that launches can be captured.
TEST(AttentionGpuTest, SameBitsTwiceAndInAGraph) {
  std::vector<Problem> problems = {Make(Algorithm::kDense, {14, 2, 64}, {512, 512, 512, 512}),
                                   Make(Algorithm::kDense, {4, 2, 80}, {512, 512})};
  for (const Algorithm algorithm : kOfPacked) {
    problems.push_back(Make(algorithm, {6, 2, 64}, {1, 2, 7, 64, 65, 131, 1, 343}));
    problems.push_back(Make(algorithm, {4, 1, 128}, {200, 65, 300}));
    problems.push_back(Make(algorithm, {4, 2, 256}, {200, 0, 65, 300}));
    problems.push_back(Make(algorithm, {4, 2, 192, 128}, {200, 0, 65, 300}));
    problems.push_back(WithSinks(Make(algorithm, {6, 2, 64}, {200, 0, 65, 300}), MixedSinks()));
  }
  for (const Problem& p : problems) {
    SCOPED_TRACE(Name(p.algorithm));
    const Floats qkv = RandomQkv(p), dout = RandomDout(p);
    const Result once = Compute(p, qkv, dout);
    EXPECT_TRUE(once == Compute(p, qkv, dout));
    EXPECT_TRUE(once == Compute(p, qkv, dout, true));
  }
}

TEST(AttentionGpuTest, BackwardThatNeedNotRepeatIsAsExact) {
  for (const Algorithm algorithm : kOfDense) {
    Problem p = Make(algorithm, {14, 2, 80}, {256, 256});
    p.spec.deterministic = false;
    CheckAgainstReference(p);
  }
}

// Documents that cuDNN takes on every GPU, and what our own kernels are called and need for them.
struct LongDocuments {
  Problem problem = Make(Algorithm::kDense, {2, 1, 128}, {4096, 4096});
  std::string own;
  int64_t own_bytes;

  LongDocuments() {
    problem.spec.deterministic = false;
    own = problem.hopper() ? "warpgroup" : "flash";
    own_bytes = problem.hopper()
                    ? cuda::HopperAttentionBackwardWorkspaceBytes(problem.spec, problem.tokens())
                    : cuda::FlashAttentionBackwardWorkspaceBytes(problem.spec, problem.tokens());
  }
};

TEST(AttentionGpuTest, TakesOurKernelsWhenThePlanExceedsTheBudget) {
  const LongDocuments of;
  const AttentionSpec& spec = of.problem.spec;
  AttentionExtents extents = of.problem.extents();
  extents.workspace_budget = of.own_bytes;
  EXPECT_TRUE(PrepareAttention(spec, extents, TestStream()).starts_with(of.own));
  EXPECT_LE(AttentionBackwardWorkspaceBytes(spec, extents), extents.workspace_budget);
  extents.workspace_budget = 1;
  EXPECT_THROW(PrepareAttention(spec, extents, TestStream()), std::invalid_argument);
}

TEST(AttentionGpuTest, TheLastBudgetOfAShapeDecides) {
  const LongDocuments of;
  const AttentionSpec& spec = of.problem.spec;
  AttentionExtents extents = of.problem.extents();
  const auto choose = [&](int64_t budget) {
    extents.workspace_budget = budget;
    return PrepareAttention(spec, extents, TestStream());
  };
  EXPECT_TRUE(choose(0).starts_with("cuDNN"));
  EXPECT_GT(AttentionBackwardWorkspaceBytes(spec, extents), of.own_bytes);
  EXPECT_TRUE(choose(of.own_bytes).starts_with(of.own));
  EXPECT_LE(AttentionBackwardWorkspaceBytes(spec, extents), of.own_bytes);
  EXPECT_TRUE(choose(0).starts_with("cuDNN"));
  EXPECT_GT(AttentionBackwardWorkspaceBytes(spec, extents), of.own_bytes);
}

TEST(AttentionGpuTest, RefusesWhatItCannotRun) {
  EXPECT_FALSE(AttentionSupports({.num_heads = 3, .num_kv_heads = 2, .head_dim = 8}));
  EXPECT_FALSE(AttentionSupports({.num_heads = 2, .num_kv_heads = 2, .head_dim = 257}));
  EXPECT_FALSE(
      AttentionSupports({.num_heads = 2, .num_kv_heads = 2, .head_dim = 8, .value_dim = 257}));
  EXPECT_FALSE(AttentionSupports({.num_heads = 2, .num_kv_heads = 2, .head_dim = 8, .window = -1}));
  const Problem p = Make(Algorithm::kPlainFloat32, {2, 1, 8}, {4, 4});
  AttentionBackwardArgs args{
      .spec = p.spec, .tokens = 8, .documents = {.count = 2, .max_length = 4}};
  EXPECT_THROW(AttentionBackward(args, TestStream()), std::invalid_argument);  // no workspace
  args.spec.sinks = true;
  EXPECT_THROW(AttentionBackward(args, TestStream()), std::invalid_argument);  // no sinks
  args.spec.sinks = false;
  args.documents.count = 0;
  EXPECT_THROW(AttentionBackward(args, TestStream()), std::invalid_argument);
}

}  // namespace
}  // namespace gpu_attention_test
}  // namespace coxswain::kernels
