// The functions of kernels/c_api/attention.h: the bits of the ops that they call. Rotation:
// c_api_test.cc.
#include "kernels/attention/attention.h"
#include "kernels/attention/cached_attention.h"
#include "kernels/attention/heads.h"
#include "kernels/products/rotated_linear.h"
#include "kernels/tensors/rows.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"

namespace coxswain::kernels {
namespace gpu_c_api_attention_test {
namespace {

constexpr DType kType = DType::kBFloat16;
constexpr int64_t kHeads = 4, kKvHeads = 2, kDim = 64;
constexpr int64_t kRow = (kHeads + 2 * kKvHeads) * kDim;

AttentionSpec Spec() {
  return {.dtype = kType,
          .num_heads = kHeads,
          .num_kv_heads = kKvHeads,
          .head_dim = kDim,
          .window = 20,
          .scale = 0.125f};
}

// The same with values of another width and sinks.
AttentionSpec SpecWithSinks() {
  AttentionSpec spec = Spec();
  spec.value_dim = 32;
  spec.sinks = true;
  spec.sink_dtype = kType;
  return spec;
}
const Floats kSinks = {0.0f, -1.5f, 2.0f, 0.25f};

void ExpectPackedTwins(const AttentionSpec& spec) {
  const int64_t tokens = 96, longest = 66;
  const int64_t row = PackedRow(spec), out_row = kHeads * ValueDim(spec);
  const DeviceTensor logits(kType, kSinks);
  const void* sinks = spec.sinks ? logits.data() : nullptr;
  const Twins dsinks(Floats(kHeads, 3.0f), DType::kFloat32);
  const AttentionExtents extents{.tokens = tokens, .documents = 2, .max_length = longest};
  const DeviceValues<int32_t> boundaries({0, 30, 96});
  const DeviceTensor qkv(kType, Normal(tokens * row, 1, kType));
  const DeviceTensor dout(kType, Normal(tokens * out_row, 2, kType));
  const Twins out(Floats(Size(tokens * out_row))), gradients(Floats(Size(tokens * row)));
  const Twins lse(Floats(Size(kHeads * tokens)), DType::kFloat32);
  const HeadInputs in = PackedInputs(spec, qkv.data());
  const HeadOutputs into = PackedOutputs(spec, gradients.c.data());
  coxswain_attention_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.deterministic = 1;
  args.num_heads = kHeads;
  args.num_kv_heads = kKvHeads;
  args.head_dim = kDim;
  args.value_dim = spec.value_dim;
  args.sinks = sinks;
  args.sink_dtype = COXSWAIN_BFLOAT16;
  args.dsinks = spec.sinks ? dsinks.c.floats() : nullptr;
  args.window = 20;
  args.scale = 0.125f;
  args.tokens = tokens;
  args.documents = 2;
  args.max_length = longest;
  args.cu_seqlens = boundaries.data();
  args.q = in.q;
  args.k = in.k;
  args.v = in.v;
  args.out = out.c.data();
  args.lse = lse.c.floats();
  args.dout = dout.data();
  args.dq = into.q;
  args.dk = into.k;
  args.dv = into.v;
  // Both round qkv in place, to the same.
  const HeadOutputs rounded = spec.fp8 ? PackedOutputs(spec, qkv.data()) : HeadOutputs{};
  args.fp8 = spec.fp8;
  args.rounded_q = rounded.q;
  args.rounded_k = rounded.k;
  args.rounded_v = rounded.v;
  EXPECT_OK(coxswain_prepare_attention(&args, nullptr));
  const Scratch forward(coxswain_attention_forward_workspace_bytes(&args));
  EXPECT_EQ(forward.bytes(), AttentionForwardWorkspaceBytes(spec, extents));
  args.workspace = Lent(forward);
  EXPECT_OK(coxswain_attention_forward(&args, nullptr));
  Synchronize(nullptr);  // one scratch
  const Documents documents{.count = 2, .cu_seqlens = boundaries.data(), .max_length = longest};
  AttentionForward({.spec = spec,
                    .tokens = tokens,
                    .documents = documents,
                    .in = in,
                    .sinks = sinks,
                    .out = out.op.data(),
                    .lse = lse.op.floats(),
                    .rounded = rounded,
                    .workspace = forward.workspace()},
                   TestStream());
  for (const Twins* t : {&out, &lse}) t->ExpectSame("attention");
  const Scratch backward(coxswain_attention_backward_workspace_bytes(&args));
  EXPECT_EQ(backward.bytes(), AttentionBackwardWorkspaceBytes(spec, extents));
  args.workspace = Lent(backward);
  EXPECT_OK(coxswain_attention_backward(&args, nullptr));
  Synchronize(nullptr);
  AttentionBackward({.spec = spec,
                     .tokens = tokens,
                     .documents = documents,
                     .in = in,
                     .sinks = sinks,
                     .out = out.op.data(),
                     .lse = lse.op.floats(),
                     .dout = dout.data(),
                     .gradients = PackedOutputs(spec, gradients.op.data()),
                     .sink_gradient = spec.sinks ? dsinks.op.floats() : nullptr,
                     .workspace = backward.workspace()},
                    TestStream());
  gradients.ExpectSame("gradients of q, k and v");
  dsinks.ExpectSame("gradients of sinks");
  EXPECT_EQ(dsinks.c.Read() != Floats(kHeads, 3.0f), spec.sinks);
}

TEST(CApiAttentionGpuTest, PackedDocumentsForwardAndBackward) {
  ExpectPackedTwins(Spec());
  ExpectPackedTwins(SpecWithSinks());
  AttentionSpec fp8 = Spec();
  fp8.fp8 = true;
  if (AttentionSupports(fp8)) ExpectPackedTwins(fp8);  // compute capability 9.0
}

void ExpectCachedTwins(const AttentionSpec& attention) {
  const int64_t rows = 6, sequences = 2, length = 32;
  CachedAttentionSpec spec{.attention = attention, .length = length};
  const DeviceTensor logits(kType, kSinks);
  const void* sinks = attention.sinks ? logits.data() : nullptr;
  const int64_t value_dim = ValueDim(attention);
  spec.attention.window = 2;
  spec.attention.softcap = 0.5f;
  const DeviceValues<int32_t> owners({0, 0, 0, 1, 1, -1}), places({0, 1, 2, 0, 1, 0});
  const DeviceTensor qkv(kType, Normal(rows * PackedRow(attention), 1, kType));
  const int64_t cached = sequences * length * kKvHeads;
  const Twins keys(Floats(Size(cached * kDim))), values(Floats(Size(cached * value_dim)));
  const Twins out(Normal(rows * kHeads * value_dim, 2, kType));
  coxswain_cached_attention_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.num_heads = kHeads;
  args.num_kv_heads = kKvHeads;
  args.head_dim = kDim;
  args.value_dim = attention.value_dim;
  args.sinks = sinks;
  args.sink_dtype = COXSWAIN_BFLOAT16;
  args.window = 2;
  args.scale = 0.125f;
  args.softcap = 0.5f;
  args.length = length;
  args.rows = rows;
  args.sequences = owners.data();
  args.positions = places.data();
  args.qkv = qkv.data();
  args.keys = keys.c.data();
  args.values = values.c.data();
  args.out = out.c.data();
  const CacheRows cache_rows{rows, owners.data(), places.data()};
  const KeyValueCache cache{keys.op.data(), values.op.data()};
  EXPECT_OK(coxswain_cache_append(&args, nullptr));
  CacheAppend({.spec = spec, .rows = cache_rows, .qkv = qkv.data(), .cache = cache}, TestStream());
  for (const Twins* t : {&keys, &values}) t->ExpectSame("cache");
  const Scratch scratch(coxswain_cached_attention_workspace_bytes(&args));
  EXPECT_EQ(scratch.bytes(), CachedAttentionWorkspaceBytes(spec, rows));
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_cached_attention(&args, nullptr));
  Synchronize(nullptr);
  CachedAttention({.spec = spec,
                   .rows = cache_rows,
                   .qkv = qkv.data(),
                   .sinks = sinks,
                   .cache = cache,
                   .out = out.op.data(),
                   .workspace = scratch.workspace()},
                  TestStream());
  out.ExpectSame("attention over the cache");
  args.workspace.bytes -= 1;
  EXPECT_REFUSED(coxswain_cached_attention(&args, nullptr), "CachedAttention: workspace of");
  args.length = 0;
  EXPECT_REFUSED(coxswain_cache_append(&args, nullptr), "CacheAppend");
}

TEST(CApiAttentionGpuTest, RowsOverACache) {
  ExpectCachedTwins(Spec());
  ExpectCachedTwins(SpecWithSinks());
}

TEST(CApiAttentionGpuTest, LatentHeadsForwardAndBackward) {
  const int64_t tokens = 3;
  const LatentHeadsSpec spec{
      .dtype = kType, .heads = 2, .nope = 16, .rope = 16, .value = 8, .interleaved = true};
  const Twins qkv(Floats(Size(tokens * LatentPackedRow(spec))));
  const Twins q(Normal(tokens * LatentQueryRow(spec), 1, kType));
  const Twins kv(Normal(tokens * LatentKeyValueRow(spec), 2, kType));
  const Twins k_rope(Normal(tokens * spec.rope, 3, kType));
  const DeviceTensor dqkv(kType, Normal(tokens * LatentPackedRow(spec), 4, kType));
  const DeviceTensor cos(DType::kFloat32, Normal(4 * 8, 5, DType::kFloat32));
  const DeviceTensor sin(DType::kFloat32, Normal(4 * 8, 6, DType::kFloat32));
  const DeviceValues<int32_t> positions({2, 0, 3});
  coxswain_latent_heads_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.interleaved = 1;
  args.tokens = tokens;
  args.heads = spec.heads;
  args.nope = spec.nope;
  args.rope = spec.rope;
  args.value = spec.value;
  args.cos = cos.floats();
  args.sin = sin.floats();
  args.positions = positions.data();
  args.q = args.dq = q.c.data();
  args.kv = args.dkv = kv.c.data();
  args.k_rope = args.dk_rope = k_rope.c.data();
  args.qkv = qkv.c.data();
  args.dqkv = dqkv.data();
  const LatentPlaces places{cos.floats(), sin.floats(), positions.data()};
  LatentHeadsForward({.spec = spec,
                      .tokens = tokens,
                      .places = places,
                      .q = q.op.data(),
                      .kv = kv.op.data(),
                      .k_rope = k_rope.op.data(),
                      .qkv = qkv.op.data()},
                     TestStream());
  LatentHeadsBackward({.spec = spec,
                       .tokens = tokens,
                       .places = places,
                       .dqkv = dqkv.data(),
                       .dq = q.op.data(),
                       .dkv = kv.op.data(),
                       .dk_rope = k_rope.op.data()},
                      TestStream());
  EXPECT_OK(coxswain_latent_heads_forward(&args, nullptr));
  EXPECT_OK(coxswain_latent_heads_backward(&args, nullptr));
  qkv.ExpectSame("qkv");
  q.ExpectSame("dq");
  kv.ExpectSame("dkv");
  k_rope.ExpectSame("dk_rope");
  args.rope = 15;
  EXPECT_REFUSED(coxswain_latent_heads_forward(&args, nullptr), "LatentHeads");
}

TEST(CApiAttentionGpuTest, SplitRowsForwardAndBackward) {
  const int64_t rows = 3;
  const SplitRowsSpec spec{.dtype = kType, .first = 5, .second = 2};
  const DeviceTensor x(kType, Normal(rows * 7, 1, kType));
  const Twins first(Floats(15)), second(Floats(6)), dx(Floats(21));
  SplitRowsForward({spec, rows, x.data(), first.op.data(), second.op.data()}, TestStream());
  SplitRowsBackward({spec, rows, first.op.data(), second.op.data(), dx.op.data()}, TestStream());
  coxswain_split_rows_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = rows;
  args.first_columns = 5;
  args.second_columns = 2;
  args.x = x.data();
  args.first = first.c.data();
  args.second = second.c.data();
  args.dfirst = first.c.data();
  args.dsecond = second.c.data();
  args.dx = dx.c.data();
  EXPECT_OK(coxswain_split_rows_forward(&args, nullptr));
  EXPECT_OK(coxswain_split_rows_backward(&args, nullptr));
  first.ExpectSame("first");
  second.ExpectSame("second");
  dx.ExpectSame("dx");
  args.first_columns = 0;
  EXPECT_REFUSED(coxswain_split_rows_forward(&args, nullptr), "SplitRows");
}

TEST(CApiAttentionGpuTest, QueriesKeysAndValuesTurnedByTheirProduct) {
  const int64_t tokens = 70, in = 64;
  const RopeTable table = BuildRopeTable({.rotated = kDim}, tokens);
  const DeviceTensor cos(DType::kFloat32, table.cos), sin(DType::kFloat32, table.sin);
  std::vector<int32_t> places;
  for (int32_t t = 0; t < tokens; ++t) places.push_back(t % 33);
  const DeviceValues<int32_t> positions(places);
  const DeviceTensor x(kType, Normal(tokens * in, 1, kType)), bias(kType, Normal(kRow, 2, kType));
  const DeviceTensor weight(kType, Normal(kRow * in, 3, kType));
  const Twins qkv(Floats(Size(tokens * kRow)));
  const Scratch scratch(coxswain_gemm_workspace_bytes());
  coxswain_rotated_linear_args args{};
  args.in_features = in;
  args.x = x.data();
  args.weight = weight.data();
  args.bias = bias.data();
  args.rope.dtype = COXSWAIN_BFLOAT16;
  args.rope.num_heads = kHeads;
  args.rope.num_kv_heads = kKvHeads;
  args.rope.head_dim = kDim;
  args.rope.tokens = tokens;
  args.rope.qkv = qkv.c.data();
  args.rope.cos = cos.floats();
  args.rope.sin = sin.floats();
  args.rope.positions = positions.data();
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_rotated_linear_forward(&args, nullptr));
  Synchronize(nullptr);  // one scratch
  RotatedLinearForward({.in_features = in,
                        .x = x.data(),
                        .weight = weight.data(),
                        .bias = bias.data(),
                        .rope = {.spec = {.dtype = kType,
                                          .num_heads = kHeads,
                                          .num_kv_heads = kKvHeads,
                                          .head_dim = kDim},
                                 .tokens = tokens,
                                 .qkv = qkv.op.data(),
                                 .cos = cos.floats(),
                                 .sin = sin.floats(),
                                 .positions = positions.data()},
                        .workspace = scratch.workspace()},
                       TestStream());
  qkv.ExpectSame("rotated linear");
  args.in_features = 0;
  EXPECT_REFUSED(coxswain_rotated_linear_forward(&args, nullptr), "RotatedLinear");
}

}  // namespace
}  // namespace gpu_c_api_attention_test
}  // namespace coxswain::kernels
