#include "kernels/products/gemm.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_gemm_test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Case {
  GemmSpec spec;
  int64_t m, n, k;
  float alpha = 1.0f, beta = 0.0f;
  bool bias = false;
  int64_t gap = 0;      // elements between rows that belong to others
  int64_t round = 1;    // and more of them: rows start at multiples of it
  int64_t offset = 0;   // elements before the first
  int64_t step = 1;     // every step-th row is compared
  bool addend = false;  // what beta multiplies is beside C, which is NaN before
};

// A matrix of `rows` x `columns` as a view of a larger buffer whose other elements are NaN.
struct View {
  int64_t offset, stride;
  Floats values;

  View(const Case& c, int64_t rows, int64_t columns, unsigned seed, DType dtype)
      : offset(c.offset),
        stride((columns + c.gap + c.round - 1) / c.round * c.round),
        values(Size(offset + rows * stride), kNaN) {
    const Floats inner = Normal(rows * columns, seed, dtype);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) at(i, j) = inner[Size(i * columns + j)];
    }
  }
  float& at(int64_t i, int64_t j) { return values[Size(offset + i * stride + j)]; }
  double at(int64_t i, int64_t j, bool transposed) const {
    return values[Size(offset + (transposed ? j * stride + i : i * stride + j))];
  }
};

struct Problem {
  Case c;
  View a, b, before;
  Floats bias;
  DeviceTensor device_a, device_b, device_bias;
  Scratch scratch{GemmWorkspaceBytes()};

  explicit Problem(const Case& in)
      : c(in),
        a(c, c.spec.transpose_a ? c.k : c.m, c.spec.transpose_a ? c.m : c.k, 1, c.spec.dtype),
        b(c, c.spec.transpose_b ? c.n : c.k, c.spec.transpose_b ? c.k : c.n, 2, c.spec.dtype),
        before(c, c.m, c.n, 3, c.spec.output_dtype),
        bias(Normal(c.n, 4, c.spec.dtype)),
        device_a(c.spec.dtype, a.values),
        device_b(c.spec.dtype, b.values),
        device_bias(c.spec.dtype, bias) {
    if (c.beta == 0.0f) std::fill(before.values.begin(), before.values.end(), kNaN);
  }
  static void* At(const DeviceTensor& tensor, int64_t offset) {
    return static_cast<char*>(tensor.data()) + offset * DTypeBytes(tensor.dtype());
  }
  Floats Compute() const {
    const Floats nothing(before.values.size(), kNaN);
    const DeviceTensor out(c.spec.output_dtype, c.addend ? nothing : before.values);
    const DeviceTensor addend(c.spec.output_dtype, before.values);
    const GemmArgs args{.spec = c.spec,
                        .m = c.m,
                        .n = c.n,
                        .k = c.k,
                        .alpha = c.alpha,
                        .a = At(device_a, a.offset),
                        .lda = a.stride,
                        .b = At(device_b, b.offset),
                        .ldb = b.stride,
                        .beta = c.beta,
                        .c = At(out, before.offset),
                        .ldc = before.stride,
                        .addend = c.addend ? At(addend, before.offset) : nullptr,
                        .bias = c.bias ? device_bias.data() : nullptr,
                        .workspace = scratch.workspace()};
    Gemm(args, TestStream());
    Synchronize(TestStream());
    EXPECT_TRUE(SameBits(addend.Read(), before.values)) << "the addend stays";
    return out.Read();
  }
};

std::string Describe(const Case& c) {
  return std::string(Name(c.spec.dtype)) + " to " + Name(c.spec.output_dtype) + " m " +
         std::to_string(c.m) + " n " + std::to_string(c.n) + " k " + std::to_string(c.k) +
         (c.spec.transpose_a ? " ta" : "") + (c.spec.transpose_b ? " tb" : "") +
         (c.bias ? " bias" : "") + (c.addend ? " addend" : "") + " beta " + std::to_string(c.beta) +
         " gap " + std::to_string(c.gap) + " round " + std::to_string(c.round) + " offset " +
         std::to_string(c.offset);
}

// Products of bfloat16 are exact in float32. A sum of k terms in any order is within k u of the sum
// of their sizes; tensor cores cut where float32 rounds, which doubles u. Then alpha, beta and bias
// in float32 and one rounding to the output; a bias that is added first is rounded once more.
void Expect(const Problem& p, const Floats& out) {
  const Case& c = p.c;
  ASSERT_EQ(out.size(), p.before.values.size());
  const double unit = kUnit(DType::kFloat32), k = static_cast<double>(c.k);
  for (int64_t i = 0; i < c.m; i += c.step) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t l = 0; l < c.k; ++l) {
        const double term = p.a.at(i, l, c.spec.transpose_a) * p.b.at(l, j, c.spec.transpose_b);
        sum += term;
        size += std::abs(term);
      }
      const double old = c.beta == 0.0f ? 0.0 : c.beta * p.before.at(i, j, false);
      const double bias = c.bias ? p.bias[Size(j)] : 0.0;
      const double want = c.alpha * sum + old + bias;
      const double rest = std::abs(old) + std::abs(bias);
      // The library may round the product to the output's type before it adds C or the bias.
      const double bound =
          2 * (k + 4) * unit * (std::abs(c.alpha) * size + rest) +
          kUnit(c.spec.output_dtype) * (std::abs(want) + std::abs(c.alpha * sum) + rest);
      const double got = out[Size(p.before.offset + i * p.before.stride + j)];
      ASSERT_LE(std::abs(got - want), bound)
          << Describe(c) << " at " << i << ", " << j << ": " << got << ", expected " << want;
    }
  }
}

// Elements that belong to others keep their NaN.
void ExpectGapsUntouched(const Problem& p, const Floats& out) {
  const Case& c = p.c;
  for (int64_t at = 0; at < static_cast<int64_t>(out.size()); ++at) {
    const int64_t column = at < c.offset ? c.n : (at - c.offset) % p.before.stride;
    ASSERT_TRUE(column < c.n || std::isnan(out[Size(at)])) << Describe(c) << " gap at " << at;
  }
}

void Check(const Case& c) {
  const Problem p(c);
  const Floats out = p.Compute();
  Expect(p, out);
  ExpectGapsUntouched(p, out);
  EXPECT_TRUE(SameBits(out, p.Compute())) << Describe(c) << ": same bits twice";
}

GemmSpec Spec(DType in, DType out, int transposes = 0) {
  return {.dtype = in,
          .output_dtype = out,
          .transpose_a = (transposes & 1) != 0,
          .transpose_b = (transposes & 2) != 0};
}

class GemmGpuTest : public testing::TestWithParam<std::pair<DType, DType>> {
 protected:
  GemmSpec spec(int transposes = 0) const {
    return Spec(GetParam().first, GetParam().second, transposes);
  }
};

TEST_P(GemmGpuTest, MatchesReferenceForEveryTransposeAndOddSize) {
  for (int transposes = 0; transposes < 4; ++transposes) {
    for (const int64_t k : {1, 7, 63, 129}) {
      Check({.spec = spec(transposes), .m = 1, .n = 1, .k = k});
      Check({.spec = spec(transposes), .m = 7, .n = 63, .k = k, .beta = 1.0f});
      Check({.spec = spec(transposes), .m = 129, .n = 7, .k = k, .bias = true});
      Check({.spec = spec(transposes), .m = 63, .n = 129, .k = k, .alpha = -2.0f, .beta = 0.25f});
    }
  }
}

TEST_P(GemmGpuTest, ReadsAndWritesViewsOfPackedBuffers) {
  for (int transposes = 0; transposes < 4; ++transposes) {
    for (const int64_t gap : {1, 8, 40}) {
      Check({.spec = spec(transposes), .m = 64, .n = 48, .k = 96, .gap = gap, .offset = gap});
      Check({.spec = spec(transposes),
             .m = 65,
             .n = 24,
             .k = 40,
             .beta = 1.0f,
             .gap = gap,
             .offset = 8});
    }
  }
}

// The three products of an LM head: forward, the gradients of its input and its weight. What lies
// behind a row is NaN, which no product may read.
TEST_P(GemmGpuTest, OddVocabularyInRowsOfWholeVectors) {
  const int64_t vocab = 1025, round = 16 / DTypeBytes(GetParam().first);
  Check({.spec = spec(2), .m = 264, .n = vocab, .k = 512, .round = round, .step = 7});
  Check({.spec = spec(0), .m = 264, .n = 512, .k = vocab, .round = round, .step = 7});
  Check(
      {.spec = spec(1), .m = vocab, .n = 512, .k = 264, .beta = 1.0f, .round = round, .step = 31});
}

TEST_P(GemmGpuTest, AddsTheBiasToEveryRow) {
  for (const int64_t n : {1, 2, 8, 127, 1152}) {
    for (const int64_t m : {1, 5, 64}) {
      Check({.spec = spec(2), .m = m, .n = n, .k = 64, .bias = true});
      Check({.spec = spec(2), .m = m, .n = n, .k = 64, .beta = 1.0f, .bias = true});
    }
  }
}

// The output of o and of down onto the residual, views, odd sizes, and a bias that no algorithm may
// add to them.
TEST_P(GemmGpuTest, AddsAMatrixBesideC) {
  for (int transposes = 0; transposes < 4; ++transposes) {
    for (const int64_t n : {1, 7, 64, 129}) {
      Check({.spec = spec(transposes), .m = 63, .n = n, .k = 40, .beta = 1.0f, .addend = true});
      Check({.spec = spec(transposes),
             .m = 5,
             .n = n,
             .k = 129,
             .alpha = -2.0f,
             .beta = 0.25f,
             .bias = true,
             .gap = 8,
             .offset = 8,
             .addend = true});
    }
  }
  Check({.spec = spec(2), .m = 512, .n = 896, .k = 4864, .beta = 1.0f, .step = 61, .addend = true});
}

TEST_P(GemmGpuTest, AnAddendThatIsCIsC) {
  const Problem p({.spec = spec(2), .m = 64, .n = 72, .k = 80, .beta = 1.0f});
  const Floats want = p.Compute();
  const DeviceTensor out(p.c.spec.output_dtype, p.before.values);
  Gemm({.spec = p.c.spec,
        .m = 64,
        .n = 72,
        .k = 80,
        .a = p.device_a.data(),
        .lda = 80,
        .b = p.device_b.data(),
        .ldb = 80,
        .beta = 1.0f,
        .c = out.data(),
        .ldc = 72,
        .addend = out.data(),
        .workspace = p.scratch.workspace()},
       TestStream());
  EXPECT_TRUE(SameBits(out.Read(), want));
}

// Invariant kernels-2.
TEST_P(GemmGpuTest, EmptyExtents) {
  Check({.spec = spec(), .m = 0, .n = 3, .k = 4, .bias = true});
  Check({.spec = spec(2), .m = 3, .n = 0, .k = 4, .beta = 1.0f});
  Check({.spec = spec(), .m = 3, .n = 5, .k = 0, .gap = 3});
  Check({.spec = spec(), .m = 3, .n = 5, .k = 0, .beta = 1.0f});
  Check({.spec = spec(3), .m = 300, .n = 5, .k = 0, .beta = 0.5f, .bias = true});
  Check({.spec = spec(3), .m = 3, .n = 5, .k = 0, .bias = true});
  Check({.spec = spec(), .m = 3, .n = 5, .k = 0, .beta = 1.0f, .addend = true});
  Check({.spec = spec(), .m = 3, .n = 5, .k = 0, .beta = 0.5f, .bias = true, .addend = true});
}

TEST_P(GemmGpuTest, MatchesReferenceAtModelShapes) {
  const int64_t step = 61;
  for (const bool bias : {false, true}) {
    Check({.spec = spec(2), .m = 512, .n = 1152, .k = 896, .bias = bias, .step = step});
  }
  Check({.spec = spec(), .m = 512, .n = 896, .k = 4864, .beta = 1.0f, .step = step});
  Check({.spec = spec(1), .m = 896, .n = 896, .k = 2048, .beta = 1.0f, .step = step});
}

// Every candidate sums in float32: tuned and untuned hold the same bound.
TEST_P(GemmGpuTest, TunedHoldsTheSameBound) {
  const Problem p({.spec = spec(2), .m = 520, .n = 264, .k = 1096});
  const Floats untuned = p.Compute();
  SetGemmTuning(true);
  const Floats tuned = p.Compute();
  SetGemmTuning(false);
  Expect(p, untuned);
  Expect(p, tuned);
  EXPECT_TRUE(SameBits(tuned, p.Compute())) << "the choice stays";
}

INSTANTIATE_TEST_SUITE_P(DTypes, GemmGpuTest,
                         testing::Values(std::pair{DType::kFloat32, DType::kFloat32},
                                         std::pair{DType::kBFloat16, DType::kBFloat16},
                                         std::pair{DType::kBFloat16, DType::kFloat32}),
                         [](const auto& info) {
                           return std::string(Name(info.param.first)) + "_to_" +
                                  Name(info.param.second);
                         });

TEST(GemmTableGpuTest, RoundTripGivesTheSameBits) {
  const Problem p({.spec = Spec(DType::kBFloat16, DType::kFloat32, 1),
                   .m = 896,
                   .n = 328,
                   .k = 4104,
                   .beta = 1.0f});
  const Floats untuned = p.Compute();
  const std::string before = GemmTable();
  SetGemmTuning(true);
  (void)p.Compute();  // adds to C many times
  const Floats tuned = p.Compute();
  const std::string after = GemmTable();
  EXPECT_NE(before, after) << "the times are new";

  EXPECT_TRUE(LoadGemmTable(before));
  EXPECT_TRUE(SameBits(p.Compute(), untuned)) << "what is loaded is not tuned again";
  EXPECT_EQ(GemmTable(), before);
  EXPECT_TRUE(LoadGemmTable(after));
  EXPECT_TRUE(SameBits(p.Compute(), tuned));
  EXPECT_EQ(GemmTable(), after);
  SetGemmTuning(false);
}

// What is added to is part of a row, so that the algorithm of one product is not the other's.
TEST(GemmTableGpuTest, AnAddendIsARowOfItsOwn) {
  const auto compute = [](bool addend) {
    return Problem({.spec = Spec(DType::kBFloat16, DType::kBFloat16, 2),
                    .m = 152,
                    .n = 56,
                    .k = 72,
                    .beta = 1.0f,
                    .addend = addend})
        .Compute();
  };
  SetGemmTuning(true);
  (void)compute(false);
  const Floats tuned = compute(true);
  SetGemmTuning(false);
  const std::string table = TunedGemmTable();
  const nlohmann::json gemms = nlohmann::json::parse(table).at("gemms");
  ASSERT_EQ(gemms.size(), 2u);
  EXPECT_NE(gemms[0].contains("addend"), gemms[1].contains("addend"));
  EXPECT_TRUE(LoadGemmTable(table));
  EXPECT_TRUE(SameBits(compute(true), tuned));
  SetGemmTuning(true);
  EXPECT_TRUE(SameBits(compute(true), tuned)) << "what is loaded is not tuned again";
  EXPECT_EQ(nlohmann::json::parse(TunedGemmTable()).at("gemms").size(), 1u);
  SetGemmTuning(false);
}

TEST(GemmTableGpuTest, TunedTableHoldsWhatWasLaunchedSinceTuningWasTurnedOn) {
  const auto rows = [](const std::string& table) {
    return nlohmann::json::parse(table).at("gemms").size();
  };
  const Problem before(
      {.spec = Spec(DType::kBFloat16, DType::kBFloat16), .m = 136, .n = 8, .k = 24});
  const Problem since(
      {.spec = Spec(DType::kBFloat16, DType::kBFloat16), .m = 8, .n = 136, .k = 24});
  (void)before.Compute();
  SetGemmTuning(true);
  EXPECT_EQ(rows(TunedGemmTable()), 0u);
  (void)since.Compute();
  SetGemmTuning(false);
  const std::string tuned = TunedGemmTable();
  EXPECT_EQ(rows(tuned), 1u);
  EXPECT_LE(2u, rows(GemmTable()));
  SetGemmTuning(true);
  EXPECT_TRUE(LoadGemmTable(tuned));
  EXPECT_EQ(rows(TunedGemmTable()), 0u) << "loaded, not launched";
  (void)since.Compute();
  EXPECT_EQ(TunedGemmTable(), tuned) << "what is loaded is not tuned again";
  SetGemmTuning(false);
}

TEST(GemmTableGpuTest, IgnoresTablesOfOthers) {
  EXPECT_FALSE(LoadGemmTable(""));
  EXPECT_FALSE(LoadGemmTable("{"));
  EXPECT_FALSE(LoadGemmTable("[]"));
  EXPECT_FALSE(LoadGemmTable(R"({"device": "other", "library": 1, "gemms": []})"));
  std::string table = GemmTable();
  table.replace(table.find("\"library\": "), 11, "\"library\": 9");
  EXPECT_FALSE(LoadGemmTable(table));
}

TEST(GemmTableGpuTest, CapturesWhileTuningIsOn) {
  const Problem p({.spec = Spec(DType::kBFloat16, DType::kBFloat16), .m = 72, .n = 88, .k = 104});
  const DeviceTensor out(DType::kBFloat16, 72 * 88);
  SetGemmTuning(true);
  Graph* graph = CaptureGraph(
      [&] {
        Gemm({.spec = p.c.spec,
              .m = 72,
              .n = 88,
              .k = 104,
              .a = p.device_a.data(),
              .lda = 104,
              .b = p.device_b.data(),
              .ldb = 88,
              .c = out.data(),
              .ldc = 88,
              .workspace = p.scratch.workspace()},
             TestStream());
      },
      TestStream());
  SetGemmTuning(false);
  for (int i = 0; i < 2; ++i) {
    LaunchGraph(graph, TestStream());
    Expect(p, out.Read());
  }
  DestroyGraph(graph);
}

TEST(GemmTableGpuTest, RefusesWhatItCannotDo) {
  EXPECT_FALSE(GemmSupports({.dtype = DType::kFloat32, .output_dtype = DType::kBFloat16}));
  EXPECT_THROW(Gemm({.m = 2, .n = 2, .k = 4, .lda = 3, .ldb = 2, .ldc = 2}, TestStream()),
               std::invalid_argument);
  EXPECT_THROW(Gemm({.m = -1}, TestStream()), std::invalid_argument);
}

}  // namespace
}  // namespace gpu_gemm_test
}  // namespace coxswain::kernels
