#include "kernels/cut_cross_entropy.h"

#include "kernels/gemm.h"
#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/kernels/cut_cross_entropy_cases.h"

namespace coxswain::kernels {
namespace gpu_cut_cross_entropy_test {
namespace {

struct Run {
  int64_t more_bytes = 0;  // of workspace than the least
  bool frozen = false;     // no dW
  Floats found = {};       // dW before, to which it is added; empty: NaN, not read
  int64_t offset = 0;      // elements between the start of its memory and x
};

CutResult Compute(const CutProblem& p, const Run& run = {}) {
  const int64_t rows = p.rows(), matrix = p.spec.vocab * p.spec.hidden;
  Floats shifted(Size(run.offset), 0.0f);
  shifted.insert(shifted.end(), p.x.begin(), p.x.end());
  const DeviceTensor x_memory(p.spec.dtype, shifted), weight(p.spec.dtype, p.weight);
  const void* x = static_cast<char*>(x_memory.data()) + run.offset * DTypeBytes(p.spec.dtype);
  const DeviceTensor loss(DType::kFloat32, rows), nll(DType::kFloat32, rows);
  const DeviceTensor hits(DType::kFloat32, rows), statistics(DType::kFloat32, 2 * rows);
  const DeviceTensor dx(DType::kFloat32, rows * p.spec.hidden);
  const DeviceTensor dweight = run.found.empty()
                                   ? DeviceTensor(p.spec.weight_gradient_dtype, matrix)
                                   : DeviceTensor(p.spec.weight_gradient_dtype, run.found);
  const DeviceValues<int32_t> targets(p.targets);
  const DeviceValues<float> scale({p.scale});
  const DeviceTensor weights(DType::kFloat32, p.row_weights.empty() ? Floats{1.0f} : p.row_weights);
  const int64_t bytes = CutCrossEntropyWorkspaceBytes(p.spec, rows) + run.more_bytes;
  const Scratch forward(bytes), backward(bytes);
  CutCrossEntropyForward({.spec = p.spec,
                          .rows = rows,
                          .x = x,
                          .weight = weight.data(),
                          .targets = targets.data(),
                          .loss = loss.floats(),
                          .nll = nll.floats(),
                          .hits = hits.floats(),
                          .statistics = statistics.floats(),
                          .workspace = forward.workspace()},
                         TestStream());
  CutCrossEntropyBackward({.spec = p.spec,
                           .rows = rows,
                           .x = x,
                           .weight = weight.data(),
                           .targets = targets.data(),
                           .statistics = statistics.floats(),
                           .gradient_scale = scale.data(),
                           .row_weights = p.row_weights.empty() ? nullptr : weights.floats(),
                           .dx = dx.floats(),
                           .dweight = run.frozen ? nullptr : dweight.data(),
                           .accumulate = !run.found.empty(),
                           .workspace = backward.workspace()},
                          TestStream());
  return {loss.Read(), nll.Read(), hits.Read(), statistics.Read(), dx.Read(), dweight.Read()};
}

class CutCrossEntropyGpuTest : public testing::TestWithParam<DType> {
 protected:
  CutProblem Make(const CutCrossEntropySpec& options, int64_t rows) const {
    CutCrossEntropySpec spec = options;
    spec.dtype = GetParam();
    return {.spec = spec,
            .targets = CutTargets(rows, spec.vocab),
            .x = Normal(rows * spec.hidden, 1, GetParam()),
            .weight = Normal(spec.vocab * spec.hidden, 2, GetParam(),
                             3.0f / std::sqrt(static_cast<float>(spec.hidden)))};
  }
  CutProblem Usual() const {
    return Make({.hidden = 72, .vocab = 1000, .label_smoothing = 0.1f}, 300);
  }
  static double Rounding() { return GetParam() == DType::kFloat32 ? 0x1p-24 : 0x1p-8; }
  static int64_t TileBytes(const CutProblem& p) {
    return p.rows() * 256 * DTypeBytes(p.spec.dtype);
  }
};

// Hidden sizes that the copy engine takes, and one that it does not.
TEST_P(CutCrossEntropyGpuTest, MatchesReferenceForEveryTailAndOption) {
  for (const CutExtents& shape : CutShapes()) {
    for (const CutCrossEntropySpec& spec : CutOptions(shape.hidden, shape.vocab)) {
      const CutProblem p = Make(spec, shape.rows);
      ExpectCut(p, Compute(p), CutReference(p, Rounding()).expected());
    }
  }
}

TEST_P(CutCrossEntropyGpuTest, OnePanelOrSeveralAgree) {
  for (const CutCrossEntropySpec& spec : CutOptions(72, 1300)) {
    const CutProblem p = Make(spec, 140);
    const CutExpected want = CutReference(p, Rounding()).expected();
    for (const int64_t tiles : {0, 1, 2, 5}) {
      ExpectCut(p, Compute(p, {.more_bytes = tiles * TileBytes(p)}), want);
    }
  }
}

// Many tiles for each block, and forward in passes of rows where the workspace is the least.
TEST_P(CutCrossEntropyGpuTest, ManyTilesMatchReference) {
  CutProblem p = Make({.hidden = 64, .vocab = 20000, .z_loss = 1e-3f}, 600);
  const CutExpected want = CutReference(p, Rounding()).expected();
  ExpectCut(p, Compute(p), want);
  ExpectCut(p, Compute(p, {.more_bytes = 64 << 20}), want);
}

// Rows of x at odd addresses: the form for every GPU, on the same inputs.
TEST_P(CutCrossEntropyGpuTest, BothFormsMatchReference) {
  for (const CutCrossEntropySpec& spec : CutOptions(72, 1000)) {
    const CutProblem p = Make(spec, 130);
    const CutExpected want = CutReference(p, Rounding()).expected();
    ExpectCut(p, Compute(p), want);
    ExpectCut(p, Compute(p, {.offset = 1}), want);
  }
}

// The head whose logits are there, on the same inputs: both are within the bound of the truth.
TEST_P(CutCrossEntropyGpuTest, AgreesWithTheHeadThatKeepsItsLogits) {
  const CutProblem p = Usual();
  const CutCrossEntropySpec& s = p.spec;
  const CutResult got = Compute(p, {.more_bytes = 4 << 20});
  const CutExpected want = CutReference(p, Rounding()).expected();
  const DeviceTensor x(s.dtype, p.x), weight(s.dtype, p.weight);
  const DeviceTensor logits(s.dtype, p.rows() * s.vocab), loss(DType::kFloat32, p.rows());
  const DeviceTensor dx(DType::kFloat32, p.rows() * s.hidden);
  const DeviceTensor dweight(DType::kFloat32, s.vocab * s.hidden);
  const DeviceValues<int32_t> targets(p.targets);
  const DeviceValues<float> scale({p.scale});
  const DeviceBytes scratch(GemmWorkspaceBytes());
  const auto product = [&](GemmArgs args, bool transpose_a, bool transpose_b, DType output) {
    args.spec = {.dtype = s.dtype,
                 .output_dtype = output,
                 .transpose_a = transpose_a,
                 .transpose_b = transpose_b};
    args.workspace = scratch.workspace();
    Gemm(args, TestStream());
  };
  GemmArgs forward{.m = p.rows(), .n = s.vocab, .k = s.hidden};
  forward.a = x.data();
  forward.b = weight.data();
  forward.lda = forward.ldb = s.hidden;
  forward.c = logits.data();
  forward.ldc = s.vocab;
  product(forward, false, true, s.dtype);
  CrossEntropy({.spec = {.dtype = s.dtype, .vocab = s.vocab, .label_smoothing = s.label_smoothing},
                .rows = p.rows(),
                .logits = logits.data(),
                .targets = targets.data(),
                .gradient_scale = scale.data(),
                .loss = loss.floats()},
               TestStream());
  GemmArgs input{.m = p.rows(), .n = s.hidden, .k = s.vocab};
  input.a = logits.data();
  input.lda = s.vocab;
  input.b = weight.data();
  input.ldb = input.ldc = s.hidden;
  input.c = dx.data();
  product(input, false, false, DType::kFloat32);
  GemmArgs of_weight{.m = s.vocab, .n = s.hidden, .k = p.rows()};
  of_weight.a = logits.data();
  of_weight.lda = s.vocab;
  of_weight.b = x.data();
  of_weight.ldb = of_weight.ldc = s.hidden;
  of_weight.c = dweight.data();
  product(of_weight, true, false, DType::kFloat32);
  const auto twice = [](const Floats& kept, const Bounded& of) {
    Bounded both{Double(kept), of.bound};
    for (double& bound : both.bound) bound *= 2;
    return both;
  };
  ExpectBounded(got.loss, twice(loss.Read(), want.loss), "loss");
  ExpectBounded(got.dx, twice(dx.Read(), want.dx), "dx");
  ExpectBounded(got.dweight, twice(dweight.Read(), want.dweight), "dW");
}

TEST_P(CutCrossEntropyGpuTest, WeightsOfRowsScaleTheirGradients) {
  CutProblem p = Usual();
  const CutResult plain = Compute(p);
  for (int64_t i = 0; i < p.rows(); ++i) {
    p.row_weights.push_back(0.5f * static_cast<float>(i % 4) - 0.5f);
  }
  const CutResult got = Compute(p);
  EXPECT_TRUE(SameBits(got.loss, plain.loss));
  ExpectCut(p, got, CutReference(p, Rounding()).expected());
}

TEST_P(CutCrossEntropyGpuTest, AFrozenWeightLeavesTheGradientOfTheInput) {
  const CutProblem p = Usual();
  const CutResult got = Compute(p, {.frozen = true});
  EXPECT_TRUE(SameBits(got.dx, Compute(p).dx));
  EXPECT_TRUE(std::isnan(got.dweight[0]));
}

// Invariant kernels-4 for what is not added to.
TEST_P(CutCrossEntropyGpuTest, AddsToTheGradientOfTheWeight) {
  CutProblem p = Usual();
  const std::vector<DType> types = GetParam() == DType::kFloat32
                                       ? std::vector<DType>{DType::kFloat32}
                                       : std::vector<DType>{DType::kFloat32, DType::kBFloat16};
  for (const DType type : types) {
    p.spec.weight_gradient_dtype = type;
    const Floats before = Normal(p.spec.vocab * p.spec.hidden, 3, type, 0.1f);
    CutExpected want = CutReference(p, Rounding()).expected();
    for (size_t i = 0; i < before.size(); ++i) {
      want.dweight.value[i] += before[i];
      want.dweight.bound[i] +=
          2 * kUnit(type) * (std::abs(before[i]) + std::abs(want.dweight.value[i]));
    }
    ExpectCut(p, Compute(p, {.found = before}), want);
  }
}

// Invariant kernels-3.
TEST_P(CutCrossEntropyGpuTest, RepeatsItsBits) {
  const CutProblem p = Make({.hidden = 136, .vocab = 5001, .label_smoothing = 0.1f}, 700);
  const CutResult got = Compute(p);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(SameCutBits(Compute(p), got));
}

TEST_P(CutCrossEntropyGpuTest, IgnoredRowsAndNansStayAlone) {
  ExpectIgnoredRowsAndNansStayAlone(
      Usual(), [](const CutProblem& p) { return Compute(p, {.frozen = true}); });
}

// Of equal largest logits the first one counts, whichever tile it is in.
TEST_P(CutCrossEntropyGpuTest, HitsAreThoseOfTheFirstMaximum) {
  CutProblem p = Make({.hidden = 8, .vocab = 5000}, 5);
  p.x.assign(5 * 8, 1.0f);
  p.weight.assign(5000 * 8, 0.0f);
  for (const size_t column : {300, 303, 700, 4700}) p.weight[column * 8] = 2.0f;
  p.targets = {300, 303, 700, 0, 4700};
  EXPECT_EQ(Compute(p).hits, (Floats{1, 0, 0, 0, 0}));
}

TEST_P(CutCrossEntropyGpuTest, ATargetOutsideTheVocabularyGivesNan) {
  CutProblem p = Usual();
  p.targets[2] = 1000;
  p.targets[4] = -7;
  const CutResult got = Compute(p, {.frozen = true});
  EXPECT_TRUE(std::isnan(got.loss[2]) && std::isnan(got.loss[4]));
  EXPECT_FALSE(std::isnan(got.loss[0]));
}

TEST_P(CutCrossEntropyGpuTest, NoRowsDoNothingAndAShortWorkspaceIsRefused) {
  CutProblem p = Make({.hidden = 8, .vocab = 300}, 0);
  EXPECT_TRUE(std::isnan(Compute(p).dweight[0]));
  p = Usual();
  EXPECT_THROW(Compute(p, {.more_bytes = -64}), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Types, CutCrossEntropyGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& instance) { return Name(instance.param); });

}  // namespace
}  // namespace gpu_cut_cross_entropy_test
}  // namespace coxswain::kernels
