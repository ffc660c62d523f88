// Invariant kernels-2: ops that take rows apart, look them up or reduce them.
#include <cmath>
#include <numeric>

#include "kernels/attention/heads.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/lora/dora.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/products/bias.h"
#include "kernels/rope.h"
#include "kernels/tensors/rows.h"
#include "tests/kernels/cuda/large_tensor.h"

namespace coxswain::kernels {
namespace gpu_large_sizes_test {
namespace {

// Whole numbers: their sums are exact in every order.
Floats WholeRows(int64_t columns, unsigned seed) {
  Floats values = Rows(columns, seed);
  for (float& value : values) value = std::nearbyint(4 * value);
  return values;
}

// `first` for all rows but the last, which count from 0.
std::vector<int32_t> LastCount(int64_t rows, int32_t first) {
  std::vector<int32_t> values(Size(rows), first);
  std::iota(values.end() - kLast, values.end(), 0);
  return values;
}

TEST(LargeRowsGpuTest, Argmax) {
  SKIP_WITHOUT_MEMORY_FOR(1);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n);
    const Floats last = Rows(n, 1);
    const LargeTensor values(rows, n, last);
    const DeviceTensor few(kType, last);
    const DeviceValues<int32_t> columns(std::vector<int32_t>(Size(rows), -2));
    const DeviceValues<int32_t> few_columns(std::vector<int32_t>(Size(kLast), -2));
    const ArgmaxSpec spec{.dtype = kType, .columns = n};
    Argmax({.spec = spec, .rows = rows, .values = values.data(), .columns = columns.data()},
           TestStream());
    Argmax({.spec = spec, .rows = kLast, .values = few.data(), .columns = few_columns.data()},
           TestStream());
    std::vector<int32_t> want(Size(rows - kLast), 0);  // the first of equals
    for (const int32_t column : few_columns.Read()) want.push_back(column);
    EXPECT_EQ(columns.Read(), want);
  }
}

TEST(LargeRowsGpuTest, BiasBackward) {
  SKIP_WITHOUT_MEMORY_FOR(1);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n);
    const BiasSpec spec{.dtype = kType, .grad_dtype = DType::kFloat32};
    const Floats last = WholeRows(n, 1);
    const LargeTensor dy(rows, n, last);
    const DeviceTensor dbias(DType::kFloat32, Floats(Size(n), 0.0f));
    const Scratch scratch(BiasBackwardWorkspaceBytes(spec, rows, n));
    BiasBackward({.spec = spec,
                  .rows = rows,
                  .columns = n,
                  .dy = dy.data(),
                  .ldy = n,
                  .dbias = dbias.data(),
                  .workspace = scratch.workspace()},
                 TestStream());
    Floats want(Size(n), 0.0f);
    for (size_t i = 0; i < last.size(); ++i) want[i % Size(n)] += last[i];
    EXPECT_EQ(dbias.Read(), want);
  }
}

TEST(LargeRowsGpuTest, EmbeddingOfManyTokens) {
  SKIP_WITHOUT_MEMORY_FOR(1);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n);
    const EmbeddingSpec spec{.dtype = kType, .vocab = kLast + 1, .hidden = n};
    const DeviceValues<int32_t> ids(LastCount(rows, kLast));  // row kLast is of zeros
    const Floats last = WholeRows(n, 1);
    Floats table = last;
    table.resize(table.size() + Size(n), 0.0f);
    const DeviceTensor weight(kType, table);
    const LargeTensor out(rows, n);
    EmbeddingForward({.spec = spec,
                      .tokens = rows,
                      .ids = ids.data(),
                      .weight = weight.data(),
                      .out = out.data()},
                     TestStream());
    EXPECT_TRUE(SameBits(out.Last(), last));
    EXPECT_TRUE(out.StartsWithZeros());
    const DeviceTensor dweight(DType::kFloat32, Floats(table.size(), 0.0f));
    const Scratch scratch(EmbeddingBackwardWorkspaceBytes(spec, rows));
    EmbeddingBackward({.spec = spec,
                       .tokens = rows,
                       .ids = ids.data(),
                       .dout = out.data(),
                       .dweight = dweight.data(),
                       .workspace = scratch.workspace()},
                      TestStream());
    EXPECT_EQ(dweight.Read(), table);
  }
}

TEST(LargeRowsGpuTest, EmbeddingOfALargeVocabulary) {
  SKIP_WITHOUT_MEMORY_FOR(3);
  const int64_t n = 4095, vocab = RowsOf(n);
  const EmbeddingSpec spec{.dtype = kType, .vocab = vocab, .hidden = n};
  std::vector<int32_t> of_last(Size(kLast));
  std::iota(of_last.begin(), of_last.end(), static_cast<int32_t>(vocab - kLast));
  const DeviceValues<int32_t> ids(of_last);
  const Floats last = Rows(n, 1);
  const DeviceTensor out(kType, kLast * n);
  {
    const LargeTensor weight(vocab, n, last);
    EmbeddingForward({.spec = spec,
                      .tokens = kLast,
                      .ids = ids.data(),
                      .weight = weight.data(),
                      .out = out.data()},
                     TestStream());
    EXPECT_TRUE(SameBits(out.Read(), last));
  }
  const LargeTensor dweight(vocab, n, Floats(last.size(), 0.0f), DType::kFloat32);
  const Scratch scratch(EmbeddingBackwardWorkspaceBytes(spec, kLast));
  EmbeddingBackward({.spec = spec,
                     .tokens = kLast,
                     .ids = ids.data(),
                     .dout = out.data(),
                     .dweight = dweight.data(),
                     .workspace = scratch.workspace()},
                    TestStream());
  EXPECT_TRUE(SameBits(dweight.Last(), last));
  EXPECT_TRUE(dweight.StartsWithZeros());
}

TEST(LargeRowsGpuTest, SigmoidGate) {
  SKIP_WITHOUT_MEMORY_FOR(3);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n);
    const SigmoidGateSpec spec{.dtype = kType, .columns = n};
    const Floats few_gates = Normal(kLast, 3, kType), last_x = Rows(n, 1), last_y = Rows(n, 2);
    Floats every_gate(Size(rows - kLast), 0.0f);
    every_gate.insert(every_gate.end(), few_gates.begin(), few_gates.end());
    const DeviceTensor gates(kType, every_gate), few(kType, few_gates);
    const LargeTensor x(rows, n, last_x), y(rows, n, last_y);
    const DeviceTensor few_x(kType, last_x), few_y(kType, last_y);
    const auto both = [&](int64_t count, const void* logits, void* in, void* out) {
      SigmoidGateForward({.spec = spec, .rows = count, .logits = logits, .x = in, .y = out},
                         TestStream());
      SigmoidGateBackward({.spec = spec,
                           .rows = count,
                           .logits = logits,
                           .x = in,
                           .dy = out,
                           .dx = in,
                           .dlogits = const_cast<void*>(logits)},
                          TestStream());
    };
    both(rows, gates.data(), x.data(), y.data());
    both(kLast, few.data(), few_x.data(), few_y.data());
    ExpectLast(y, few_y, "sum");
    ExpectLast(x, few_x, "gradient of rows");
    const Floats dlogits = gates.Read();
    EXPECT_TRUE(SameBits(Floats(dlogits.end() - kLast, dlogits.end()), few.Read()));
    EXPECT_EQ(dlogits.front(), 0.0f);
  }
}

TEST(LargeRowsGpuTest, SplitRows) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n), beside = n / 8;
    const SplitRowsSpec spec{.dtype = kType, .first = n, .second = beside};
    const Floats last = Rows(n + beside, 1);
    const LargeTensor x(rows, n + beside, last), first(rows, n), second(rows, beside);
    const DeviceTensor few(kType, last), few_first(kType, kLast * n);
    const DeviceTensor few_second(kType, kLast * beside);
    const auto both = [&](int64_t count, void* whole, void* left, void* right) {
      SplitRowsForward({.spec = spec, .rows = count, .x = whole, .first = left, .second = right},
                       TestStream());
      SetMemory(whole, 0xff, count * (n + beside) * DTypeBytes(kType), TestStream());
      SplitRowsBackward(
          {.spec = spec, .rows = count, .dfirst = left, .dsecond = right, .dx = whole},
          TestStream());
    };
    both(rows, x.data(), first.data(), second.data());
    both(kLast, few.data(), few_first.data(), few_second.data());
    ExpectLast(first, few_first, "first columns");
    ExpectLast(second, few_second, "second columns");
    EXPECT_TRUE(SameBits(x.Last(), last));
    EXPECT_TRUE(x.StartsWithZeros());
  }
}

// Of tokens, one after the other, that stand at 0 .. 6.
TEST(LargeRowsGpuTest, LatentHeads) {
  SKIP_WITHOUT_MEMORY_FOR(6);
  const LatentHeadsSpec spec{.dtype = kType, .heads = 16, .nope = 128, .rope = 64, .value = 128};
  const int64_t q_row = LatentQueryRow(spec), kv_row = LatentKeyValueRow(spec);
  const int64_t rows = RowsOf(q_row), packed = LatentPackedRow(spec);
  const RopeTable table = BuildRopeTable({.rotated = spec.rope}, 7);
  const DeviceTensor cos(DType::kFloat32, table.cos), sin(DType::kFloat32, table.sin);
  std::vector<int32_t> every(Size(rows));
  for (size_t t = 0; t < every.size(); ++t) every[t] = static_cast<int32_t>(t % 7);
  const DeviceValues<int32_t> positions(every);
  const Floats last_q = Rows(q_row, 1), last_kv = Rows(kv_row, 2), last_k = Rows(spec.rope, 3);
  const LargeTensor q(rows, q_row, last_q), kv(rows, kv_row, last_kv), k(rows, spec.rope, last_k);
  const LargeTensor qkv(rows, packed);
  const DeviceTensor few_q(kType, last_q), few_kv(kType, last_kv), few_k(kType, last_k);
  const DeviceTensor few_qkv(kType, kLast * packed);
  const auto both = [&](int64_t first, int64_t count, void* a, void* b, void* c, void* all) {
    const LatentPlaces places{cos.floats(), sin.floats(), positions.data() + first};
    LatentHeadsForward(
        {.spec = spec, .tokens = count, .places = places, .q = a, .kv = b, .k_rope = c, .qkv = all},
        TestStream());
    LatentHeadsBackward({.spec = spec,
                         .tokens = count,
                         .places = places,
                         .dqkv = all,
                         .dq = a,
                         .dkv = b,
                         .dk_rope = c},
                        TestStream());
  };
  both(0, rows, q.data(), kv.data(), k.data(), qkv.data());
  both(rows - kLast, kLast, few_q.data(), few_kv.data(), few_k.data(), few_qkv.data());
  ExpectLast(qkv, few_qkv, "packed");
  ExpectLast(q, few_q, "gradient of q");
  ExpectLast(kv, few_kv, "gradient of k and v");
  ExpectLast(k, few_k, "gradient of the turned part of k");
}

// ||W_j||^2 of whole numbers is exact in every order of its sum.
TEST(LargeRowsGpuTest, DoraRowSquares) {
  SKIP_WITHOUT_MEMORY_FOR(1);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n);
    const Floats last = WholeRows(n, 1);
    const LargeTensor w(rows, n, last);
    const DeviceTensor squares(DType::kFloat32, rows);
    DoraRowSquares(
        {.dtype = kType, .rows = rows, .columns = n, .w = w.data(), .squares = squares.floats()},
        TestStream());
    Floats want(Size(rows), 0.0f);
    for (size_t i = 0; i < last.size(); ++i) {
      want[Size(rows - kLast) + i / Size(n)] += last[i] * last[i];
    }
    EXPECT_EQ(squares.Read(), want);
  }
}

TEST(LargeRowsGpuTest, Dora) {
  SKIP_WITHOUT_MEMORY_FOR(3);
  const int64_t n = 4096, rows = RowsOf(n);
  const DeviceTensor magnitude(kType, Normal(n, 4, kType));
  const DeviceTensor dmagnitude(DType::kFloat32, Floats(Size(n), 0.0f));
  const LoraMember member{
      .out_features = n, .magnitude = magnitude.data(), .dmagnitude = dmagnitude.data()};
  const LoraLinearSpec spec{.dtype = kType,
                            .grad_dtype = DType::kFloat32,
                            .in_features = 8,
                            .rank = 8,
                            .members = {&member, 1},
                            .ldy = n};
  const DeviceTensor norm(DType::kFloat32, Floats(Size(n), 2.0f));
  const DeviceTensor factor(DType::kFloat32, Normal(n, 5, kType));
  const Floats last_u = Rows(n, 1), last_dy = Rows(n, 2);
  const LargeTensor u(rows, n, last_u), y(rows, n), dy(rows, n, last_dy);
  const DeviceTensor few_u(kType, last_u), few_y(kType, kLast * n), few_dy(kType, last_dy);
  const auto both = [&](int64_t count, const void* before, void* after, void* gradient) {
    const Scratch scratch(DoraBackwardWorkspaceBytes(spec, count));
    DoraForward({.spec = spec, .rows = count, .u = before, .factor = factor.floats(), .y = after},
                TestStream());
    DoraBackward({.spec = spec,
                  .rows = count,
                  .u = before,
                  .norm = norm.floats(),
                  .factor = factor.floats(),
                  .dy = gradient,
                  .workspace = scratch.workspace()},
                 TestStream());
    Synchronize(TestStream());  // before the scratch goes
  };
  both(rows, u.data(), y.data(), dy.data());
  both(kLast, few_u.data(), few_y.data(), few_dy.data());
  ExpectLast(y, few_y, "scaled");
  ExpectLast(dy, few_dy, "gradient");
}

}  // namespace
}  // namespace gpu_large_sizes_test
}  // namespace coxswain::kernels
