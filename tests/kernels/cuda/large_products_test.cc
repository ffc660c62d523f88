// Invariant kernels-2: attention, and products whose rows or outputs have more than 2^31 elements.
// Operands of products are whole numbers, so that every order of their sums is exact.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/attention/attention.h"
#include "kernels/attention/cached_attention.h"
#include "kernels/experts/grouped_gated_linear.h"
#include "kernels/experts/grouped_linear.h"
#include "kernels/experts/grouped_lora.h"
#include "kernels/lora/lora_gated_linear.h"
#include "kernels/products/gated_linear.h"
#include "kernels/products/rotated_linear.h"
#include "tests/kernels/cuda/large_tensor.h"

namespace coxswain::kernels {
namespace gpu_large_sizes_test {
namespace {

// -2 .. 2.
Floats Whole(int64_t count, unsigned seed) {
  Floats values = Normal(count, seed, kType);
  for (float& value : values) value = std::nearbyint(std::clamp(value, -2.0f, 2.0f));
  return values;
}

// Where the rows of two experts begin and end: the second one has the last rows.
std::vector<int32_t> OfLastExpert(int64_t count) {
  return {0, static_cast<int32_t>(count - kLast), static_cast<int32_t>(count)};
}

// Documents of 1,024 zero rows, and one of the last rows.
TEST(LargeProductsGpuTest, Attention) {
  SKIP_WITHOUT_MEMORY_FOR(6);
  const AttentionSpec spec{
      .dtype = kType, .num_heads = 14, .num_kv_heads = 2, .head_dim = 64, .scale = 0.125f};
  ASSERT_TRUE(AttentionSupports(spec));
  const int64_t row = PackedRow(spec), out_row = spec.num_heads * spec.head_dim;
  const int64_t length = 1024, tokens = (RowsOf(out_row) / length + 1) * length + kLast;
  const Floats last = Rows(row, 1), last_dout = Rows(out_row, 2);
  const LargeTensor qkv(tokens, row, last), dout(tokens, out_row, last_dout);
  const LargeTensor out(tokens, out_row), dqkv(tokens, row);
  const DeviceTensor few(kType, last), few_dout(kType, last_dout);
  const DeviceTensor few_out(kType, kLast * out_row), few_dqkv(kType, kLast * row);
  std::vector<int32_t> every;
  for (int64_t begin = 0; begin < tokens; begin += length) {
    every.push_back(static_cast<int32_t>(begin));
  }
  every.push_back(static_cast<int32_t>(tokens));
  const auto both = [&](const std::vector<int32_t>& cu, const void* in, const void* gradient,
                        void* to, void* din) {
    const DeviceValues<int32_t> cu_seqlens(cu);
    const int64_t count = cu.back(), documents = static_cast<int64_t>(cu.size()) - 1;
    const AttentionExtents extents{.tokens = count, .documents = documents, .max_length = length};
    PrepareAttention(spec, extents, TestStream());
    const Scratch forward(AttentionForwardWorkspaceBytes(spec, extents));
    const Scratch backward(AttentionBackwardWorkspaceBytes(spec, extents));
    const DeviceTensor lse(DType::kFloat32, spec.num_heads * count);
    const Documents all{.count = documents, .cu_seqlens = cu_seqlens.data(), .max_length = length};
    AttentionForward({.spec = spec,
                      .tokens = count,
                      .documents = all,
                      .in = PackedInputs(spec, in),
                      .out = to,
                      .lse = lse.floats(),
                      .workspace = forward.workspace()},
                     TestStream());
    AttentionBackward({.spec = spec,
                       .tokens = count,
                       .documents = all,
                       .in = PackedInputs(spec, in),
                       .out = to,
                       .lse = lse.floats(),
                       .dout = gradient,
                       .gradients = PackedOutputs(spec, din),
                       .workspace = backward.workspace()},
                      TestStream());
    Synchronize(TestStream());
  };
  both(every, qkv.data(), dout.data(), out.data(), dqkv.data());
  both({0, kLast}, few.data(), few_dout.data(), few_out.data(), few_dqkv.data());
  ExpectLast(out, few_out, "out");
  ExpectLast(dqkv, few_dqkv, "gradients of q, k and v");
}

// The last of many sequences, told in the same places of a cache of its own.
TEST(LargeProductsGpuTest, CachedAttention) {
  SKIP_WITHOUT_MEMORY_FOR(2);
  CachedAttentionSpec spec;
  spec.attention = {
      .dtype = kType, .num_heads = 16, .num_kv_heads = 8, .head_dim = 128, .scale = 0.125f};
  spec.length = 4096;
  const int64_t width = 8 * 128, row = PackedRow(spec.attention), out_row = 16 * 128;
  const int64_t sequences = (int64_t{1} << 31) / (spec.length * width) + 1;
  const auto answer = [&](int64_t count) {
    const int64_t bytes = count * spec.length * width * DTypeBytes(kType);
    const DeviceBytes keys(bytes), values(bytes);
    SetMemory(keys.data(), 0xff, bytes, nullptr);
    SetMemory(values.data(), 0xff, bytes, nullptr);
    const KeyValueCache cache{keys.data(), values.data()};
    const DeviceTensor qkv(kType, Rows(row, 1)), out(kType, kLast * out_row);
    std::vector<int32_t> places(Size(kLast));
    std::iota(places.begin(), places.end(), 0);
    const DeviceValues<int32_t> of(
        std::vector<int32_t>(Size(kLast), static_cast<int32_t>(count - 1)));
    const DeviceValues<int32_t> at(places);
    const CacheRows rows{kLast, of.data(), at.data()};
    const Scratch scratch(CachedAttentionWorkspaceBytes(spec, kLast));
    CacheAppend({.spec = spec, .rows = rows, .qkv = qkv.data(), .cache = cache}, TestStream());
    CachedAttention({.spec = spec,
                     .rows = rows,
                     .qkv = qkv.data(),
                     .cache = cache,
                     .out = out.data(),
                     .workspace = scratch.workspace()},
                    TestStream());
    return out.Read();
  };
  const Floats alone = answer(1);
  EXPECT_EQ(alone[0], alone[0]) << "no NaN of the places behind";
  EXPECT_TRUE(SameBits(answer(sequences), alone));
}

TEST(LargeProductsGpuTest, GatedLinear) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  const GatedLinearSpec spec{.dtype = kType, .hidden = 64, .intermediate = 4096};
  const int64_t h = spec.hidden, i = spec.intermediate, rows = RowsOf(i);
  const DeviceTensor up(kType, Whole(2 * i * h, 1)), down(kType, Whole(h * i, 2));
  const DeviceBytes scratch(int64_t{64} << 20);
  const Floats last = Whole(kLast * h, 3), last_dout = Whole(kLast * h, 4);
  const LargeTensor x(rows, h, last), dout(rows, h, last_dout), gate_up(rows, 2 * i), y(rows, i);
  const DeviceTensor few(kType, last), few_dout(kType, last_dout);
  const DeviceTensor few_gate_up(kType, kLast * 2 * i), few_y(kType, kLast * i);
  const auto forward = [&](int64_t count, const void* in, void* both, void* out) {
    GatedLinearForward({.spec = spec,
                        .rows = count,
                        .x = in,
                        .weight = up.data(),
                        .gate_up = both,
                        .y = out,
                        .workspace = scratch.workspace()},
                       TestStream());
  };
  const auto backward = [&](int64_t count, const void* gradient, void* both, void* out) {
    GatedLinearBackward({.spec = spec,
                         .rows = count,
                         .dout = gradient,
                         .weight = down.data(),
                         .gate_up = both,
                         .y = out,
                         .wants_y = true,
                         .workspace = scratch.workspace()},
                        TestStream());
  };
  forward(rows, x.data(), gate_up.data(), y.data());
  forward(kLast, few.data(), few_gate_up.data(), few_y.data());
  ExpectLast(gate_up, few_gate_up, "gate and up");
  ExpectLast(y, few_y, "gated");
  backward(rows, dout.data(), gate_up.data(), y.data());
  backward(kLast, few_dout.data(), few_gate_up.data(), few_y.data());
  ExpectLast(gate_up, few_gate_up, "gradient of gate and up");
  ExpectLast(y, few_y, "gated again");
}

// Forward of gate and up, and backward of down, which read the same gate and up.
TEST(LargeProductsGpuTest, LoraGatedLinear) {
  SKIP_WITHOUT_MEMORY_FOR(5);
  const int64_t h = 64, i = 4096, r = 8, rows = RowsOf(i);
  const DeviceTensor up(kType, Whole(2 * i * h, 1)), down(kType, Whole(h * i, 2));
  const DeviceTensor up_a(kType, Whole(2 * r * h, 3)), up_b(kType, Whole(2 * i * r, 4));
  const DeviceTensor down_a(kType, Whole(r * i, 5)), down_b(kType, Whole(h * r, 6));
  DeviceTensor db(DType::kFloat32, Floats(Size(h * r), 0.0f));
  const LoraMember gates[] = {{.out_features = i, .b = up_b.data()},
                              {.out_features = i,
                               .column_offset = i,
                               .b = static_cast<const uint16_t*>(up_b.data()) + i * r}};
  const LoraMember rest{.out_features = h, .b = down_b.data(), .db = db.data()};
  const LoraLinearSpec to_gates{
      .dtype = kType, .in_features = h, .rank = r, .members = gates, .ldy = 2 * i, .scale = 1.0f};
  const LoraLinearSpec from_gates{
      .dtype = kType, .in_features = i, .rank = r, .members = {&rest, 1}, .ldy = h, .scale = 1.0f};
  const Floats last = Whole(kLast * h, 7), last_dy = Whole(kLast * h, 8);
  const LargeTensor x(rows, h, last), low(rows, 2 * r), gate_up(rows, 2 * i), product(rows, i);
  const Floats last_down = Whole(kLast * r, 9);
  const LargeTensor dy(rows, h, last_dy), of_down(rows, r, last_down);
  const DeviceTensor few(kType, last), few_low(kType, kLast * 2 * r), few_dy(kType, last_dy);
  const DeviceTensor few_down(kType, last_down);
  const DeviceTensor few_gate_up(kType, kLast * 2 * i), few_product(kType, kLast * i);
  const auto forward = [&](int64_t count, const void* in, void* lows, void* both, void* out) {
    const Scratch scratch(LoraLinearForwardWorkspaceBytes(to_gates, count));
    LoraGatedLinearForward({.linear = {.spec = to_gates,
                                       .rows = count,
                                       .x = in,
                                       .weight = up.data(),
                                       .a = up_a.data(),
                                       .h = lows,
                                       .y = both,
                                       .workspace = scratch.workspace()},
                            .product = out},
                           TestStream());
    Synchronize(TestStream());  // before the scratch goes
  };
  // The product comes back in dx. Returns dA, and dB behind it.
  const auto backward = [&](int64_t count, const void* gradient, const void* lows, void* both,
                            void* again) {
    const DeviceTensor da(DType::kFloat32, Floats(Size(r * i), 0.0f));
    db.Write(Floats(Size(h * r), 0.0f));
    const Scratch scratch(LoraLinearBackwardWorkspaceBytes(from_gates, count));
    LoraGatedLinearBackward({.linear = {.spec = from_gates,
                                        .rows = count,
                                        .weight = down.data(),
                                        .a = down_a.data(),
                                        .h = lows,
                                        .dy = gradient,
                                        .da = da.data(),
                                        .dx = again,
                                        .workspace = scratch.workspace()},
                             .gate_up = both},
                            TestStream());
    return std::pair(da.Read(), db.Read());
  };
  forward(rows, x.data(), low.data(), gate_up.data(), product.data());
  forward(kLast, few.data(), few_low.data(), few_gate_up.data(), few_product.data());
  ExpectLast(low, few_low, "x A^T");
  ExpectLast(gate_up, few_gate_up, "gate and up");
  ExpectLast(product, few_product, "gated");
  const auto [da, dwhole] =
      backward(rows, dy.data(), of_down.data(), gate_up.data(), product.data());
  const auto [few_da, few_dwhole] =
      backward(kLast, few_dy.data(), few_down.data(), few_gate_up.data(), few_product.data());
  ExpectLast(gate_up, few_gate_up, "gradient of gate and up");
  ExpectLast(product, few_product, "gated again");
  EXPECT_EQ(dwhole, few_dwhole);
  // Five terms of at most 64 x 2 x 2 by the product in two orders, each with at most four
  // roundings.
  float largest = 0;
  for (const float value : few_product.Read()) largest = std::max(largest, std::abs(value));
  for (size_t k = 0; k < da.size(); ++k) {
    ASSERT_NEAR(da[k], few_da[k], 8 * 0x1p-24 * kLast * 256 * largest) << k;
  }
}

// The last rows are those of the last expert. bfloat16 rounds equal sums alike.
TEST(LargeProductsGpuTest, GroupedLinear) {
  SKIP_WITHOUT_MEMORY_FOR(2);
  const GroupedLinearSpec spec{
      .dtype = kType, .experts = 2, .in_features = 64, .out_features = 4096};
  const int64_t k = spec.in_features, n = spec.out_features, rows = RowsOf(n);
  const DeviceTensor weight(kType, Whole(2 * n * k, 1));
  const Floats last = Whole(kLast * k, 2);
  const LargeTensor x(rows, k, last), y(rows, n), dx(rows, k);
  const DeviceTensor few(kType, last), few_y(kType, kLast * n), few_dx(kType, kLast * k);
  const DeviceTensor dweight(DType::kFloat32, 2 * n * k), few_dweight(DType::kFloat32, 2 * n * k);
  const auto all = [&](int64_t count, const void* in, void* out, void* din,
                       const DeviceTensor& dw) {
    const DeviceValues<int32_t> offsets(OfLastExpert(count));
    GroupedLinearForward({.spec = spec,
                          .rows = count,
                          .offsets = offsets.data(),
                          .x = in,
                          .weight = weight.data(),
                          .y = out},
                         TestStream());
    GroupedLinearInputGradient({.spec = spec,
                                .rows = count,
                                .offsets = offsets.data(),
                                .dy = out,
                                .weight = weight.data(),
                                .dx = din},
                               TestStream());
    GroupedLinearWeightGradient({.spec = spec,
                                 .rows = count,
                                 .offsets = offsets.data(),
                                 .dy = out,
                                 .x = in,
                                 .dweight = dw.data()},
                                TestStream());
    Synchronize(TestStream());
  };
  all(rows, x.data(), y.data(), dx.data(), dweight);
  all(kLast, few.data(), few_y.data(), few_dx.data(), few_dweight);
  ExpectLast(y, few_y, "y");
  ExpectLast(dx, few_dx, "dx");
  EXPECT_EQ(dweight.Read(), few_dweight.Read());
}

TEST(LargeProductsGpuTest, GroupedGatedLinear) {
  SKIP_WITHOUT_MEMORY_FOR(4);
  const GroupedGatedLinearSpec spec{
      .dtype = kType, .experts = 2, .in_features = 64, .intermediate = 4096};
  const int64_t k = spec.in_features, i = spec.intermediate, rows = RowsOf(i);
  const DeviceTensor weight(kType, Whole(2 * 2 * i * k, 1));
  const Floats last = Whole(kLast * k, 2);
  const LargeTensor x(rows, k, last), gate_up(rows, 2 * i), y(rows, i);
  const DeviceTensor few(kType, last), few_gate_up(kType, kLast * 2 * i), few_y(kType, kLast * i);
  const auto forward = [&](int64_t count, const void* in, void* both, void* out) {
    const DeviceValues<int32_t> offsets(OfLastExpert(count));
    GroupedGatedLinearForward({.spec = spec,
                               .rows = count,
                               .offsets = offsets.data(),
                               .x = in,
                               .weight = weight.data(),
                               .gate_up = both,
                               .y = out},
                              TestStream());
    Synchronize(TestStream());
  };
  forward(rows, x.data(), gate_up.data(), y.data());
  forward(kLast, few.data(), few_gate_up.data(), few_y.data());
  ExpectLast(gate_up, few_gate_up, "gate and up");
  ExpectLast(y, few_y, "gated");
}

TEST(LargeProductsGpuTest, GroupedLora) {
  SKIP_WITHOUT_MEMORY_FOR(3);
  const GroupedLoraSpec spec{
      .dtype = kType, .experts = 2, .in_features = 64, .out_features = 4096, .rank = 8};
  const int64_t k = spec.in_features, n = spec.out_features, r = spec.rank, rows = RowsOf(n);
  const DeviceTensor a(kType, Whole(2 * r * k, 1)), b(kType, Whole(2 * n * r, 2));
  const Floats last_x = Whole(kLast * k, 3), last_dy = Whole(kLast * n, 4);
  const Floats none_y(Size(kLast * n), 0.0f), none_x(Size(kLast * k), 0.0f);
  const LargeTensor x(rows, k, last_x), h(rows, r), y(rows, n, none_y), dy(rows, n, last_dy);
  const LargeTensor dx(rows, k, none_x);
  const DeviceTensor few_x(kType, last_x), few_h(kType, kLast * r), few_y(kType, none_y);
  const DeviceTensor few_dy(kType, last_dy), few_dx(kType, none_x);
  // Gradients of A and B, behind one another.
  const auto both = [&](int64_t count, const void* in, void* low, void* out, const void* gradient,
                        void* din) {
    const DeviceValues<int32_t> offsets(OfLastExpert(count));
    const DeviceTensor da(DType::kFloat32, Floats(Size(2 * r * k), 0.0f));
    const DeviceTensor db(DType::kFloat32, Floats(Size(2 * n * r), 0.0f));
    const Scratch scratch(GroupedLoraBackwardWorkspaceBytes(spec, count));
    GroupedLoraForward({.spec = spec,
                        .rows = count,
                        .offsets = offsets.data(),
                        .x = in,
                        .a = a.data(),
                        .b = b.data(),
                        .h = low,
                        .y = out},
                       TestStream());
    GroupedLoraBackward({.spec = spec,
                         .rows = count,
                         .offsets = offsets.data(),
                         .x = in,
                         .a = a.data(),
                         .b = b.data(),
                         .h = low,
                         .dy = gradient,
                         .da = da.data(),
                         .db = db.data(),
                         .dx = din,
                         .workspace = scratch.workspace()},
                        TestStream());
    Floats gradients = da.Read();
    const Floats of_b = db.Read();
    gradients.insert(gradients.end(), of_b.begin(), of_b.end());
    return gradients;
  };
  const Floats all = both(rows, x.data(), h.data(), y.data(), dy.data(), dx.data());
  const Floats alone =
      both(kLast, few_x.data(), few_h.data(), few_y.data(), few_dy.data(), few_dx.data());
  ExpectLast(h, few_h, "x A^T");
  ExpectLast(y, few_y, "y");
  ExpectLast(dx, few_dx, "dx");
  EXPECT_EQ(all, alone);
}

// Of tokens, one after the other, that stand at 0 .. 6.
TEST(LargeProductsGpuTest, RotatedLinear) {
  SKIP_WITHOUT_MEMORY_FOR(2);
  const RopeSpec spec{.dtype = kType, .num_heads = 14, .num_kv_heads = 2, .head_dim = 64};
  const int64_t row = (14 + 2 * 2) * spec.head_dim, k = 64, rows = RowsOf(row);
  const RopeTable table = BuildRopeTable({.rotated = spec.head_dim}, 7);
  const DeviceTensor cos(DType::kFloat32, table.cos), sin(DType::kFloat32, table.sin);
  std::vector<int32_t> every(Size(rows));
  for (size_t t = 0; t < every.size(); ++t) every[t] = static_cast<int32_t>(t % 7);
  const DeviceValues<int32_t> positions(every);
  const DeviceTensor weight(kType, Whole(row * k, 1));
  const DeviceBytes scratch(int64_t{64} << 20);
  const Floats last = Whole(kLast * k, 2);
  const LargeTensor x(rows, k, last), qkv(rows, row);
  const DeviceTensor few(kType, last), few_qkv(kType, kLast * row);
  const auto forward = [&](int64_t first, int64_t tokens, const void* in, void* out) {
    RotatedLinearForward({.in_features = k,
                          .x = in,
                          .weight = weight.data(),
                          .rope = {.spec = spec,
                                   .tokens = tokens,
                                   .qkv = out,
                                   .cos = cos.floats(),
                                   .sin = sin.floats(),
                                   .positions = positions.data() + first},
                          .workspace = scratch.workspace()},
                         TestStream());
  };
  forward(0, rows, x.data(), qkv.data());
  forward(rows - kLast, kLast, few.data(), few_qkv.data());
  ExpectLast(qkv, few_qkv, "turned");
}

}  // namespace
}  // namespace gpu_large_sizes_test
}  // namespace coxswain::kernels
