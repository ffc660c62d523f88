// Invariant kernels-2: elementwise ops, norms and rotations of more than 2^31 elements. Others:
// large_rows_test.cc, large_lists_test.cc, large_products_test.cc, large_routers_test.cc,
// expert_permutation_test.cc, and the tests of gates.h, gemm.h, cross_entropy.h and lora_linear.h.
#include <numeric>

#include "kernels/activations/dropout.h"
#include "kernels/activations/gates.h"
#include "kernels/attention/heads.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/norms/norms.h"
#include "kernels/rope.h"
#include "kernels/tensors/rows.h"
#include "kernels/tensors/whole_tensors.h"
#include "tests/kernels/cuda/large_tensor.h"

namespace coxswain::kernels {
namespace gpu_large_sizes_test {
namespace {

// Forward and backward of a gated unit: op(rows, gate_up, y), gradient(rows, dy, gate_up).
template <typename Forward, typename Backward>
void CheckGatedUnit(int64_t n, const Forward& forward, const Backward& backward) {
  const int64_t rows = RowsOf(n);
  const Floats last = Rows(2 * n, 1), last_dy = Rows(n, 2);
  const LargeTensor gate_up(rows, 2 * n, last), y(rows, n), dy(rows, n, last_dy);
  const DeviceTensor few(kType, last), few_y(kType, kLast * n), few_dy(kType, last_dy);
  forward(rows, gate_up.data(), y.data());
  forward(kLast, few.data(), few_y.data());
  ExpectLast(y, few_y, "forward");
  backward(rows, dy.data(), gate_up.data());
  backward(kLast, few_dy.data(), few.data());
  ExpectLast(gate_up, few, "backward");
}

TEST(LargeSizesGpuTest, Swiglu) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  for (const int64_t n : kWidths) {
    const SwigluSpec spec{.dtype = kType, .intermediate = n};
    CheckGatedUnit(
        n,
        [&](int64_t rows, const void* gate_up, void* y) {
          SwigluForward({.spec = spec, .rows = rows, .gate_up = gate_up, .y = y}, TestStream());
        },
        [&](int64_t rows, const void* dy, void* gate_up) {
          SwigluBackward({.spec = spec, .rows = rows, .dy = dy, .gate_up = gate_up}, TestStream());
        });
  }
}

TEST(LargeSizesGpuTest, ClampedSwiglu) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  for (const int64_t n : kWidths) {
    const ClampedSwigluSpec spec{.dtype = kType, .intermediate = n, .alpha = 1.702f, .limit = 1.5f};
    CheckGatedUnit(
        n,
        [&](int64_t rows, const void* gate_up, void* y) {
          ClampedSwigluForward({.spec = spec, .rows = rows, .gate_up = gate_up, .y = y},
                               TestStream());
        },
        [&](int64_t rows, const void* dy, void* gate_up) {
          ClampedSwigluBackward({.spec = spec, .rows = rows, .dy = dy, .gate_up = gate_up},
                                TestStream());
        });
  }
}

TEST(LargeSizesGpuTest, Geglu) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  for (const int64_t n : kWidths) {
    const GegluSpec spec{.dtype = kType, .intermediate = n};
    CheckGatedUnit(
        n,
        [&](int64_t rows, const void* gate_up, void* y) {
          GegluForward({.spec = spec, .rows = rows, .gate_up = gate_up, .y = y}, TestStream());
        },
        [&](int64_t rows, const void* dy, void* gate_up) {
          GegluBackward({.spec = spec, .rows = rows, .dy = dy, .gate_up = gate_up}, TestStream());
        });
  }
}

TEST(LargeSizesGpuTest, Add) {
  SKIP_WITHOUT_MEMORY_FOR(2);
  const int64_t n = 4095, rows = RowsOf(n);  // the last elements fill no vector
  const Floats last_x = Rows(n, 1), last_y = Rows(n, 2);
  const LargeTensor x(rows, n, last_x), y(rows, n, last_y);
  const DeviceTensor few_x(kType, last_x), few_y(kType, last_y);
  const auto add = [](int64_t count, const void* from, void* to) {
    Add({.dtype = kType, .x_dtype = kType, .count = count, .alpha = 2.0f, .x = from, .y = to},
        TestStream());
  };
  add(rows * n, x.data(), y.data());
  add(kLast * n, few_x.data(), few_y.data());
  ExpectLast(y, few_y, "sum");
}

TEST(LargeSizesGpuTest, Convert) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  const int64_t n = 4095, rows = RowsOf(n);
  const Floats last = Rows(n, 1);
  const LargeTensor in(rows, n, last), wide(rows, n, DType::kFloat32), back(rows, n);
  Convert({.from = kType,
           .to = DType::kFloat32,
           .count = rows * n,
           .in = in.data(),
           .out = wide.data()},
          TestStream());
  EXPECT_TRUE(SameBits(wide.Last(), last));
  Convert({.from = DType::kFloat32,
           .to = kType,
           .count = rows * n,
           .in = wide.data(),
           .out = back.data()},
          TestStream());
  EXPECT_TRUE(SameBits(back.Last(), last));
  EXPECT_TRUE(back.StartsWithZeros());
}

TEST(LargeSizesGpuTest, Dropout) {
  SKIP_WITHOUT_MEMORY_FOR(2);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n);
    std::vector<uint32_t> places(Size(rows));
    std::iota(places.begin(), places.end(), 0u);
    const DeviceValues<uint32_t> positions(places), step({3});
    const Floats last = Rows(n, 1);
    const LargeTensor x(rows, n, last), y(rows, n);
    const DeviceTensor few(kType, last), few_y(kType, kLast * n);
    const auto drop = [&](int64_t first, int64_t count, const void* from, void* to) {
      DropoutApply({.spec = {.dtype = kType, .columns = n, .rate = 0.25f},
                    .mask = {.key = {1, 2},
                             .site = 5,
                             .step = step.data(),
                             .bins = positions.data() + first,
                             .positions = positions.data() + first},
                    .rows = count,
                    .x = from,
                    .y = to},
                   TestStream());
    };
    drop(0, rows, x.data(), y.data());
    drop(rows - kLast, kLast, few.data(), few_y.data());
    ExpectLast(y, few_y, "dropped");
  }
}

TEST(LargeSizesGpuTest, Rope) {
  SKIP_WITHOUT_MEMORY_FOR(1);
  for (const int64_t dim : {64, 62}) {
    const int64_t row = (14 + 2 * 2) * dim, rows = RowsOf(row);
    const RopeSpec spec{.dtype = kType, .num_heads = 14, .num_kv_heads = 2, .head_dim = dim};
    const RopeTable table = BuildRopeTable({.rotated = dim}, 7);
    const DeviceTensor cos(DType::kFloat32, table.cos), sin(DType::kFloat32, table.sin);
    std::vector<int32_t> places(Size(rows));
    for (size_t t = 0; t < places.size(); ++t) places[t] = static_cast<int32_t>(t % 7);
    const DeviceValues<int32_t> positions(places);
    const Floats last = Rows(row, 1);
    const LargeTensor qkv(rows, row, last);
    const DeviceTensor few(kType, last);
    const auto rotate = [&](int64_t first, int64_t tokens, void* data) {
      RopeForward({.spec = spec,
                   .tokens = tokens,
                   .qkv = data,
                   .cos = cos.floats(),
                   .sin = sin.floats(),
                   .positions = positions.data() + first},
                  TestStream());
    };
    rotate(0, rows, qkv.data());
    rotate(rows - kLast, kLast, few.data());
    ExpectLast(qkv, few, "rotated");
  }
}

TEST(LargeSizesGpuTest, RowGather) {
  SKIP_WITHOUT_MEMORY_FOR(2);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n);
    const RowGatherSpec spec{.dtype = kType, .columns = n};
    std::vector<int32_t> every(Size(rows));
    std::iota(every.begin(), every.end(), 0);
    const DeviceValues<int32_t> index(every);
    const Floats last = Rows(n, 1);
    const LargeTensor tall(rows, n, last), gathered(rows, n);
    GatherRows({.spec = spec,
                .rows = rows,
                .index = index.data(),
                .in = tall.data(),
                .out = gathered.data()},
               TestStream());
    EXPECT_TRUE(SameBits(gathered.Last(), last));
    EXPECT_TRUE(gathered.StartsWithZeros());
    ScatterAddRows({.spec = spec,
                    .rows = rows,
                    .index = index.data(),
                    .in = tall.data(),
                    .out = gathered.data()},
                   TestStream());
    Floats twice = last;
    for (float& value : twice) value *= 2.0f;
    EXPECT_TRUE(SameBits(gathered.Last(), twice));
    EXPECT_TRUE(gathered.StartsWithZeros());
  }
}

TEST(LargeSizesGpuTest, RandomFill) {
  SKIP_WITHOUT_MEMORY_FOR(1);
  const int64_t n = 4095, rows = RowsOf(n);
  for (const RandomFillKind kind :
       {RandomFillKind::kConstant, RandomFillKind::kUniform, RandomFillKind::kNormal}) {
    const LargeTensor all(rows, n);
    const DeviceTensor few(kType, kLast * n);
    const auto fill = [&](int64_t first, int64_t count, void* out) {
      RandomFill({.dtype = kType,
                  .kind = kind,
                  .value = 2.0,
                  .key = {1, 2},
                  .first = first,
                  .count = count,
                  .out = out},
                 TestStream());
    };
    fill(0, rows * n, all.data());
    fill((rows - kLast) * n, kLast * n, few.data());
    EXPECT_TRUE(SameBits(all.Last(), few.Read()));
  }
}

TEST(LargeSizesGpuTest, RmsNorm) {
  SKIP_WITHOUT_MEMORY_FOR(3);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n);
    const RmsNormSpec spec{.dtype = kType, .hidden = n};
    const DeviceTensor weight(kType, Normal(n, 3, kType));
    const Floats last = Rows(n, 1), last_dy = Rows(n, 2);
    const LargeTensor x(rows, n, last), y(rows, n), dy(rows, n, last_dy);
    const DeviceTensor few(kType, last), few_y(kType, kLast * n), few_dy(kType, last_dy);
    const DeviceTensor rstd(DType::kFloat32, rows), few_rstd(DType::kFloat32, kLast);
    const auto forward = [&](int64_t count, const void* in, void* out, float* saved) {
      RmsNormForward(
          {.spec = spec, .rows = count, .x = in, .weight = weight.data(), .y = out, .rstd = saved},
          TestStream());
    };
    forward(rows, x.data(), y.data(), rstd.floats());
    forward(kLast, few.data(), few_y.data(), few_rstd.floats());
    ExpectLast(y, few_y, "norm");
    const auto backward = [&](int64_t count, const void* in, const float* saved, void* gradient) {
      RmsNormBackward({.spec = spec,
                       .rows = count,
                       .dy = gradient,
                       .x = in,
                       .weight = weight.data(),
                       .rstd = saved,
                       .accumulate_dx = false,
                       .dx = gradient},
                      TestStream());
    };
    backward(rows, x.data(), rstd.floats(), dy.data());
    backward(kLast, few.data(), few_rstd.floats(), few_dy.data());
    ExpectLast(dy, few_dy, "gradient");
  }
}

TEST(LargeSizesGpuTest, LayerNorm) {
  SKIP_WITHOUT_MEMORY_FOR(3);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n);
    const LayerNormSpec spec{.dtype = kType, .hidden = n};
    const DeviceTensor weight(kType, Normal(n, 3, kType));
    const Floats last = Rows(n, 1), last_dy = Rows(n, 2);
    const LargeTensor x(rows, n, last), y(rows, n), dy(rows, n, last_dy);
    const DeviceTensor few(kType, last), few_y(kType, kLast * n), few_dy(kType, last_dy);
    const DeviceTensor saved(DType::kFloat32, 2 * rows), few_saved(DType::kFloat32, 2 * kLast);
    const auto forward = [&](int64_t count, const void* in, void* out, float* mean) {
      LayerNormForward({.spec = spec,
                        .rows = count,
                        .x = in,
                        .weight = weight.data(),
                        .y = out,
                        .mean = mean,
                        .rstd = mean + count},
                       TestStream());
    };
    forward(rows, x.data(), y.data(), saved.floats());
    forward(kLast, few.data(), few_y.data(), few_saved.floats());
    ExpectLast(y, few_y, "norm");
    const auto backward = [&](int64_t count, const void* in, const float* mean, void* gradient) {
      LayerNormBackward({.spec = spec,
                         .rows = count,
                         .dy = gradient,
                         .x = in,
                         .weight = weight.data(),
                         .mean = mean,
                         .rstd = mean + count,
                         .accumulate_dx = false,
                         .dx = gradient},
                        TestStream());
    };
    backward(rows, x.data(), saved.floats(), dy.data());
    backward(kLast, few.data(), few_saved.floats(), few_dy.data());
    ExpectLast(dy, few_dy, "gradient");
  }
}

TEST(LargeSizesGpuTest, QkNorm) {
  SKIP_WITHOUT_MEMORY_FOR(2);
  const int64_t heads = 14, kv_heads = 2, dim = 64, row = (heads + 2 * kv_heads) * dim;
  const int64_t rows = RowsOf((heads + kv_heads) * dim);
  for (const bool whole : {false, true}) {
    const QkNormSpec spec{.dtype = kType,
                          .num_heads = heads,
                          .num_kv_heads = kv_heads,
                          .head_dim = dim,
                          .whole = whole};
    const DeviceTensor weight(kType, Normal(heads * dim, 3, kType));
    const Floats last = Rows(row, 1);
    const LargeTensor qkv(rows, row, last), saved(rows, (heads + kv_heads) * dim);
    const DeviceTensor few(kType, last), few_saved(kType, kLast * (heads + kv_heads) * dim);
    const int64_t norms = whole ? 2 : heads + kv_heads;
    const DeviceTensor rstd(DType::kFloat32, rows * norms);
    const DeviceTensor few_rstd(DType::kFloat32, kLast * norms);
    const auto both = [&](int64_t tokens, void* data, void* kept, float* lengths) {
      QkNormForward({.spec = spec,
                     .tokens = tokens,
                     .qkv = data,
                     .q_weight = weight.data(),
                     .k_weight = weight.data(),
                     .saved_qk = kept,
                     .rstd = lengths},
                    TestStream());
      QkNormBackward({.spec = spec,
                      .tokens = tokens,
                      .dqkv = data,
                      .saved_qk = kept,
                      .rstd = lengths,
                      .q_weight = weight.data(),
                      .k_weight = weight.data()},
                     TestStream());
    };
    both(rows, qkv.data(), saved.data(), rstd.floats());
    both(kLast, few.data(), few_saved.data(), few_rstd.floats());
    ExpectLast(saved, few_saved, "q and k before their norm");
    ExpectLast(qkv, few, "norm and its gradient");
  }
}

TEST(LargeSizesGpuTest, TargetHits) {
  SKIP_WITHOUT_MEMORY_FOR(1);
  for (const int64_t n : kWidths) {
    const int64_t rows = RowsOf(n);
    const Floats last = Rows(n, 1);
    const LargeTensor logits(rows, n, last);
    const std::vector<int32_t> targets(Size(rows), 0);  // the first of equals
    const DeviceValues<int32_t> device_targets(targets);
    const DeviceTensor hits(DType::kFloat32, rows);
    TargetHits({.spec = {.dtype = kType, .vocab = n},
                .rows = rows,
                .logits = logits.data(),
                .targets = device_targets.data(),
                .hits = hits.floats()},
               TestStream());
    const Floats got = hits.Read();
    for (size_t row = 0; row < got.size(); ++row) {
      ASSERT_EQ(got[row], row + Size(kLast) < got.size() ? 1.0f : 0.0f) << row;
    }
  }
}

}  // namespace
}  // namespace gpu_large_sizes_test
}  // namespace coxswain::kernels
