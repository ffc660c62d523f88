#include <algorithm>
#include <numeric>
#include <tuple>

#include "kernels/tensors/rows.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {

namespace gpu_embedding_test {
namespace {

using Ids = std::vector<int32_t>;

// Parameter: type of the rows, type of the gradient.
class EmbeddingGpuTest : public testing::TestWithParam<std::tuple<DType, DType>> {
 protected:
  DType dtype_ = std::get<0>(GetParam()), grad_dtype_ = std::get<1>(GetParam());

  EmbeddingSpec Spec(int64_t vocab, int64_t hidden) const {
    return {.dtype = dtype_, .grad_dtype = grad_dtype_, .vocab = vocab, .hidden = hidden};
  }
  Floats Backward(const EmbeddingSpec& spec, const Ids& ids, const Floats& dout,
                  const Floats& before, int64_t begin = 0, int64_t end = -1) const {
    const auto tokens = static_cast<int64_t>(ids.size());
    const DeviceValues<int32_t> device_ids(ids);
    const DeviceTensor device_dout(dtype_, dout), dweight(grad_dtype_, before);
    const Scratch scratch(EmbeddingBackwardWorkspaceBytes(spec, tokens));
    EmbeddingBackward({.spec = spec,
                       .tokens = tokens,
                       .ids = device_ids.data(),
                       .dout = device_dout.data(),
                       .dweight = dweight.data(),
                       .begin = begin,
                       .end = end,
                       .workspace = scratch.workspace()},
                      TestStream());
    return dweight.Read();
  }
  void ExpectGradient(int64_t vocab, int64_t hidden, const Ids& ids, int64_t begin = 0,
                      int64_t end = -1) const;
};

// n rows in runs of at most 128 and ceil(n / 128) partial sums: at most n + 1 roundings of a sum of
// magnitudes, then one of the gradient's type.
void EmbeddingGpuTest::ExpectGradient(int64_t vocab, int64_t hidden, const Ids& ids, int64_t begin,
                                      int64_t end) const {
  const auto tokens = static_cast<int64_t>(ids.size());
  const Floats dout = Normal(tokens * hidden, 1, dtype_);
  const Floats before = Normal(vocab * hidden, 2, grad_dtype_);
  Doubles want = Double(before), magnitude(before.size(), 0.0), rows(before.size(), 0.0);
  for (size_t i = 0; i < want.size(); ++i) magnitude[i] = std::abs(want[i]);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < hidden; ++j) {
      const int64_t element = ids[Size(t)] * hidden + j;
      if (element < begin || (end >= 0 && element >= end)) continue;  // id -1 among them
      const double x = dout[Size(t * hidden + j)];
      const size_t at = Size(element);
      want[at] += x;
      magnitude[at] += std::abs(x);
      rows[at] += 1;
    }
  }
  const Floats got = Backward(Spec(vocab, hidden), ids, dout, before, begin, end);
  for (size_t i = 0; i < want.size(); ++i) {
    const double bound = rows[i] == 0 ? 0
                                      : (rows[i] + 1) * kUnit(DType::kFloat32) * magnitude[i] +
                                            kUnit(grad_dtype_) * std::abs(want[i]) * 1.001;
    ASSERT_NEAR(got[i], want[i], bound)
        << "vocab " << vocab << " hidden " << hidden << " tokens " << tokens << " at " << i;
  }
  EXPECT_TRUE(SameBits(got, Backward(Spec(vocab, hidden), ids, dout, before, begin, end)));
}

// A power of two scales without rounding; 300 equal ids cross the chunks of the backward.
TEST_P(EmbeddingGpuTest, ScalesRowsAndTheirGradients) {
  for (const int64_t hidden : {7, 64}) {
    const EmbeddingSpec plain = Spec(11, hidden);
    EmbeddingSpec scaled = plain;
    scaled.scale = 4.0f;
    Ids ids(300, 3);
    ids[5] = 0;
    ids[200] = 10;
    const Floats dout = Normal(300 * hidden, 1, dtype_), zeros(Size(11 * hidden), 0.0f);
    Floats want = Backward(plain, ids, dout, zeros);
    for (float& value : want) value *= 4.0f;
    EXPECT_TRUE(SameBits(Backward(scaled, ids, dout, zeros), want)) << hidden;

    const Floats weight = Normal(11 * hidden, 2, dtype_);
    const DeviceValues<int32_t> device_ids(ids);
    const DeviceTensor device_weight(dtype_, weight), out(dtype_, 300 * hidden);
    EmbeddingForward({.spec = scaled,
                      .tokens = 300,
                      .ids = device_ids.data(),
                      .weight = device_weight.data(),
                      .out = out.data()},
                     TestStream());
    const Floats got = out.Read();
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t row = i / Size(hidden), column = i % Size(hidden);
      ASSERT_EQ(got[i], 4.0f * weight[Size(ids[row]) * Size(hidden) + column]) << i;
    }
  }
}

Ids RandomIds(int64_t tokens, int64_t vocab, unsigned seed) {
  std::mt19937 random(seed);
  Ids ids(Size(tokens));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab));
  return ids;
}

TEST_P(EmbeddingGpuTest, GathersRows) {
  for (const int64_t hidden : {1, 3, 7, 8, 12, 896}) {
    const int64_t vocab = 101, tokens = 317;
    const Ids ids = RandomIds(tokens, vocab, 3);
    const Floats weight = Normal(vocab * hidden, 1, dtype_);
    const DeviceTensor device_weight(dtype_, weight), out(dtype_, tokens * hidden);
    const DeviceValues<int32_t> device_ids(ids);
    EmbeddingForward({.spec = Spec(vocab, hidden),
                      .tokens = tokens,
                      .ids = device_ids.data(),
                      .weight = device_weight.data(),
                      .out = out.data()},
                     TestStream());
    Floats want;
    for (const int32_t id : ids) {
      want.insert(want.end(), weight.begin() + id * hidden, weight.begin() + (id + 1) * hidden);
    }
    EXPECT_TRUE(SameBits(out.Read(), want)) << hidden;
  }
}

TEST_P(EmbeddingGpuTest, AddsGradientsForEveryTail) {
  for (const int64_t hidden : {1, 3, 4, 5, 8, 97, 520}) {
    for (const int64_t tokens : {1, 2, 127, 128, 129, 1031}) {
      ExpectGradient(11, hidden, RandomIds(tokens, 11, 4));
    }
  }
}

// Runs that fill chunks exactly, end at a boundary, cover several chunks, and one id alone.
TEST_P(EmbeddingGpuTest, AddsRunsThatCrossChunks) {
  for (const std::vector<int>& lengths : std::vector<std::vector<int>>{
           {128, 128, 128}, {1, 127, 128, 1}, {64, 128, 64}, {5, 700, 3, 250, 128}, {1000}}) {
    Ids ids;
    for (size_t id = 0; id < lengths.size(); ++id) {
      ids.insert(ids.end(), Size(lengths[id]), static_cast<int32_t>(id));
    }
    std::shuffle(ids.begin(), ids.end(), std::mt19937(5));
    ExpectGradient(static_cast<int64_t>(lengths.size()), 20, ids);
  }
}

// Parts that cut rows, with and without vectors; -1 is no token.
TEST_P(EmbeddingGpuTest, AddsToAPartOfTheGradient) {
  const int64_t vocab = 41, hidden = 96, all = vocab * hidden;
  Ids ids = RandomIds(1500, vocab, 9);
  for (size_t t = 0; t < ids.size(); t += 2) ids[t] = t % 4 == 0 ? -1 : 17;
  for (const auto& [begin, end] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 64},
                                                {64, 1664},
                                                {17 * hidden + 32, 17 * hidden + 64},
                                                {1665, 1729},
                                                {3904, all},
                                                {0, 0}}) {
    ExpectGradient(vocab, hidden, ids, begin, end);
  }
}

TEST_P(EmbeddingGpuTest, AddsGradientsForModels) {
  Ids ids = RandomIds(2048, 1500, 6);
  for (size_t t = 0; t < ids.size(); t += 3) ids[t] = 7;  // a frequent one
  ExpectGradient(1500, 896, ids);
  ExpectGradient(200, 3584, RandomIds(300, 200, 7));
}

TEST_P(EmbeddingGpuTest, ReplaysFromAGraph) {
  const EmbeddingSpec spec = Spec(151936, 8);
  const int64_t tokens = 8192;
  const DeviceValues<int32_t> ids(RandomIds(tokens, spec.vocab, 8));
  const Floats dout = Normal(tokens * 8, 1, dtype_), zeros(Size(spec.vocab * 8), 0.0f);
  const DeviceTensor device_dout(dtype_, dout), dweight(grad_dtype_, zeros);
  const Scratch scratch(EmbeddingBackwardWorkspaceBytes(spec, tokens));
  const Floats launched = Backward(spec, ids.Read(), dout, zeros);
  Graph* graph = CaptureGraph(
      [&] {
        EmbeddingBackward({.spec = spec,
                           .tokens = tokens,
                           .ids = ids.data(),
                           .dout = device_dout.data(),
                           .dweight = dweight.data(),
                           .workspace = scratch.workspace()},
                          TestStream());
      },
      TestStream());
  LaunchGraph(graph, TestStream());
  const Floats replayed = dweight.Read();
  DestroyGraph(graph);
  EXPECT_TRUE(SameBits(replayed, launched));
}

TEST_P(EmbeddingGpuTest, WorkspaceStaysInsideThePlan) {
  for (const int64_t hidden : {64, 896, 3584}) {
    for (const int64_t tokens : {1, 128, 4096, 32768, 1 << 20}) {
      EXPECT_LE(EmbeddingBackwardWorkspaceBytes(Spec(151936, hidden), tokens),
                (1 << 20) + 128 * tokens + 4 * hidden * (tokens / 64 + 1))
          << hidden << " " << tokens;
    }
  }
  EXPECT_EQ(EmbeddingBackwardWorkspaceBytes(Spec(10, 4), 0), 0);
}

INSTANTIATE_TEST_SUITE_P(DTypes, EmbeddingGpuTest,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16),
                                          testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& info) {
                           return std::string(Name(std::get<0>(info.param))) + "_" +
                                  Name(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace gpu_embedding_test

namespace gpu_row_gather_test {
namespace {

class RowGatherGpuTest : public testing::TestWithParam<DType> {
 protected:
  DType dtype_ = GetParam();

  // `rows` different rows of `tall`, every third left out.
  static std::vector<int32_t> Index(int64_t rows, int64_t tall) {
    std::vector<int32_t> index(Size(tall));
    std::iota(index.begin(), index.end(), 0);
    std::shuffle(index.begin(), index.end(), std::mt19937(1));
    index.resize(Size(rows));
    for (size_t i = 2; i < index.size(); i += 3) index[i] = -1;
    return index;
  }
};

TEST_P(RowGatherGpuTest, GathersAndScattersForEveryTail) {
  for (const int64_t columns : {1, 2, 7, 8, 9, 24, 896, 3584}) {
    const int64_t rows = 67, tall = 131;
    const std::vector<int32_t> index = Index(rows, tall);
    const DeviceValues<int32_t> device_index(index);
    const Floats matrix = Normal(tall * columns, 1, dtype_),
                 added = Normal(rows * columns, 2, dtype_);
    const DeviceTensor in(dtype_, matrix), out(dtype_, rows * columns);
    const DeviceTensor addend(dtype_, added), target(dtype_, matrix);
    const RowGatherSpec spec{.dtype = dtype_, .columns = columns};
    GatherRows({.spec = spec,
                .rows = rows,
                .index = device_index.data(),
                .in = in.data(),
                .out = out.data()},
               TestStream());
    ScatterAddRows({.spec = spec,
                    .rows = rows,
                    .index = device_index.data(),
                    .in = addend.data(),
                    .out = target.data()},
                   TestStream());
    Floats gathered(added.size(), 0.0f), scattered = matrix;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = index[Size(i)];
      for (int64_t j = 0; j < columns && row >= 0; ++j) {
        const size_t from = Size(i * columns + j), to = Size(row * columns + j);
        gathered[from] = matrix[to];
        scattered[to] = Round(matrix[to] + added[from], dtype_);
      }
    }
    EXPECT_TRUE(SameBits(out.Read(), gathered)) << columns;
    EXPECT_TRUE(SameBits(target.Read(), scattered)) << columns;
  }
}

TEST_P(RowGatherGpuTest, NoRowsDoNothing) {
  GatherRows({.spec = {.dtype = dtype_, .columns = 8}}, TestStream());
  ScatterAddRows({.spec = {.dtype = dtype_, .columns = 8}}, TestStream());
}

INSTANTIATE_TEST_SUITE_P(DTypes, RowGatherGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gpu_row_gather_test

}  // namespace coxswain::kernels
