#include "kernels/c_api/c_api.h"

#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/cut_cross_entropy.h"
#include "kernels/products/gemm.h"
#include "kernels/rope.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {
namespace gpu_c_api_test {
namespace {

TEST(CApiGpuTest, SameBitsAsTheOpOnADefaultStream) {
  const Floats logits = Normal(2 * 1008, 1, DType::kBFloat16);
  const DeviceTensor ours(DType::kBFloat16, logits), theirs(DType::kBFloat16, logits);
  const DeviceTensor loss(DType::kFloat32, 2), other_loss(DType::kFloat32, 2);
  const DeviceValues<int32_t> targets({3, 999});
  const DeviceValues<float> scale({0.5f});
  CrossEntropy({.spec = {.dtype = DType::kBFloat16, .vocab = 1000},
                .rows = 2,
                .logits = ours.data(),
                .ld = 1008,
                .targets = targets.data(),
                .gradient_scale = scale.data(),
                .loss = loss.floats()},
               TestStream());
  coxswain_cross_entropy_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = 2;
  args.vocab = 1000;
  args.ld = 1008;
  args.logits = theirs.data();
  args.targets = targets.data();
  args.gradient_scale = scale.data();
  args.loss = other_loss.floats();
  ASSERT_EQ(coxswain_cross_entropy(&args, nullptr), COXSWAIN_OK) << coxswain_last_error();
  Synchronize(nullptr);
  EXPECT_TRUE(SameBits(ours.Read(), theirs.Read()));
  EXPECT_TRUE(SameBits(loss.Read(), other_loss.Read()));
}

TEST(CApiGpuTest, CutCrossEntropyGivesTheBitsOfTheOp) {
  const CutCrossEntropySpec spec{
      .dtype = DType::kBFloat16, .hidden = 16, .vocab = 700, .logit_scale = 2.0f, .z_loss = 0.01f};
  const DeviceTensor x(spec.dtype, Normal(3 * 16, 1, spec.dtype));
  const DeviceTensor weight(spec.dtype, Normal(700 * 16, 2, spec.dtype));
  const DeviceValues<int32_t> targets({3, -100, 699});
  const DeviceValues<float> scale({0.5f});
  const DeviceTensor row_weights(DType::kFloat32, Floats{0.5f, 1.0f, -2.0f});
  const auto vector = [] { return DeviceTensor(DType::kFloat32, 3); };
  const DeviceTensor loss = vector(), nll = vector(), hits = vector();
  const DeviceTensor c_loss = vector(), c_nll = vector(), c_hits = vector();
  const DeviceTensor statistics(DType::kFloat32, 6), c_statistics(DType::kFloat32, 6);
  const DeviceTensor dx(DType::kFloat32, 48), c_dx(DType::kFloat32, 48);
  const Floats before = Normal(700 * 16, 3, DType::kFloat32);
  const DeviceTensor dweight(DType::kFloat32, before), c_dweight(DType::kFloat32, before);
  const Scratch scratch(CutCrossEntropyUsualBytes(spec, 3));
  CutCrossEntropyForward({.spec = spec,
                          .rows = 3,
                          .x = x.data(),
                          .weight = weight.data(),
                          .targets = targets.data(),
                          .loss = loss.floats(),
                          .nll = nll.floats(),
                          .hits = hits.floats(),
                          .statistics = statistics.floats(),
                          .workspace = scratch.workspace()},
                         TestStream());
  CutCrossEntropyBackward({.spec = spec,
                           .rows = 3,
                           .x = x.data(),
                           .weight = weight.data(),
                           .targets = targets.data(),
                           .statistics = statistics.floats(),
                           .gradient_scale = scale.data(),
                           .row_weights = row_weights.floats(),
                           .dx = dx.floats(),
                           .dweight = dweight.data(),
                           .accumulate = true,
                           .workspace = scratch.workspace()},
                          TestStream());
  Synchronize(TestStream());
  coxswain_cut_cross_entropy_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.grad_dtype = COXSWAIN_FLOAT32;
  args.rows = 3;
  args.hidden = 16;
  args.vocab = 700;
  args.logit_scale = 2.0f;
  args.z_loss = 0.01f;
  args.x = x.data();
  args.weight = weight.data();
  args.targets = targets.data();
  args.loss = c_loss.floats();
  args.nll = c_nll.floats();
  args.hits = c_hits.floats();
  args.statistics = c_statistics.floats();
  args.gradient_scale = scale.data();
  args.row_weights = row_weights.floats();
  args.dx = c_dx.floats();
  args.dweight = c_dweight.data();
  args.accumulate = 1;
  ASSERT_EQ(coxswain_cut_cross_entropy_workspace_bytes(&args), scratch.bytes());
  args.workspace = {scratch.data(), scratch.bytes()};
  ASSERT_EQ(coxswain_cut_cross_entropy_forward(&args, nullptr), COXSWAIN_OK)
      << coxswain_last_error();
  ASSERT_EQ(coxswain_cut_cross_entropy_backward(&args, nullptr), COXSWAIN_OK)
      << coxswain_last_error();
  Synchronize(nullptr);
  EXPECT_TRUE(SameBits(loss.Read(), c_loss.Read()) && SameBits(nll.Read(), c_nll.Read()));
  EXPECT_TRUE(SameBits(hits.Read(), c_hits.Read()));
  EXPECT_TRUE(SameBits(statistics.Read(), c_statistics.Read()));
  EXPECT_TRUE(SameBits(dx.Read(), c_dx.Read()) && SameBits(dweight.Read(), c_dweight.Read()));
  args.workspace.bytes = 64;
  EXPECT_EQ(coxswain_cut_cross_entropy_forward(&args, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(coxswain_last_error()).find("workspace of 64 bytes"), std::string::npos);
}

TEST(CApiGpuTest, RotatesPartOfAHeadAndScalesQueries) {
  const RopeSpec spec{.num_heads = 3, .num_kv_heads = 1, .head_dim = 16, .rotated = 8};
  const RopeTable table = BuildRopeTable({.rotated = spec.rotated}, 4);
  const DeviceTensor cos(DType::kFloat32, table.cos), sin(DType::kFloat32, table.sin);
  const DeviceTensor scale(DType::kFloat32, BuildQueryScale(0.5, 2, 4));
  const DeviceValues<int32_t> positions({0, 1, 3});
  const Floats qkv = Normal(3 * 5 * 16, 1, DType::kFloat32);
  const DeviceTensor ours(DType::kFloat32, qkv), theirs(DType::kFloat32, qkv);
  RopeForward({.spec = spec,
               .tokens = 3,
               .qkv = ours.data(),
               .cos = cos.floats(),
               .sin = sin.floats(),
               .positions = positions.data(),
               .query_scale = scale.floats()},
              TestStream());
  coxswain_rope_args args{};
  args.num_heads = 3;
  args.num_kv_heads = 1;
  args.head_dim = 16;
  args.rotated = 8;
  args.tokens = 3;
  args.qkv = theirs.data();
  args.cos = cos.floats();
  args.sin = sin.floats();
  args.positions = positions.data();
  args.query_scale = scale.floats();
  ASSERT_EQ(coxswain_rope_forward(&args, nullptr), COXSWAIN_OK) << coxswain_last_error();
  Synchronize(nullptr);
  EXPECT_TRUE(SameBits(ours.Read(), theirs.Read()));
  ASSERT_EQ(coxswain_rope_backward(&args, nullptr), COXSWAIN_OK) << coxswain_last_error();
  RopeBackward({.spec = spec,
                .tokens = 3,
                .qkv = ours.data(),
                .cos = cos.floats(),
                .sin = sin.floats(),
                .positions = positions.data(),
                .query_scale = scale.floats()},
               TestStream());
  Synchronize(nullptr);
  EXPECT_TRUE(SameBits(ours.Read(), theirs.Read()));
}

TEST(CApiGpuTest, Product) {
  const int64_t m = 24, n = 16, k = 40;
  const DType type = DType::kBFloat16;
  const DeviceTensor a(type, Normal(m * k, 1, type)), b(type, Normal(n * k, 2, type));
  const DeviceTensor bias(type, Normal(n, 3, type)), ours(type, m * n), theirs(type, m * n);
  const Scratch scratch(coxswain_gemm_workspace_bytes());
  Synchronize(TestStream());
  coxswain_gemm_args args{};
  args.dtype = args.output_dtype = COXSWAIN_BFLOAT16;
  args.transpose_b = 1;
  args.m = m;
  args.n = n;
  args.k = k;
  args.alpha = 1.0f;
  args.a = a.data();
  args.b = b.data();
  args.bias = bias.data();
  args.c = theirs.data();
  args.lda = args.ldb = k;
  args.ldc = n;
  args.workspace = {scratch.data(), scratch.bytes()};
  ASSERT_EQ(coxswain_set_gemm_tuning(0), COXSWAIN_OK);
  ASSERT_EQ(coxswain_gemm(&args, nullptr), COXSWAIN_OK) << coxswain_last_error();
  Synchronize(nullptr);  // one scratch
  Gemm({.spec = {.dtype = type, .output_dtype = type, .transpose_b = true},
        .m = m,
        .n = n,
        .k = k,
        .a = a.data(),
        .lda = k,
        .b = b.data(),
        .ldb = k,
        .c = ours.data(),
        .ldc = n,
        .bias = bias.data(),
        .workspace = scratch.workspace()},
       TestStream());
  EXPECT_TRUE(SameBits(ours.Read(), theirs.Read()));
}

TEST(CApiGpuTest, SaysWhatWasWrong) {
  coxswain_swiglu_args swiglu{};
  swiglu.dtype = 7;
  EXPECT_EQ(coxswain_swiglu_forward(&swiglu, nullptr), COXSWAIN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(coxswain_last_error()).find("dtype is 7"), std::string::npos);
  coxswain_cross_entropy_args loss{};
  EXPECT_EQ(coxswain_cross_entropy(&loss, nullptr), COXSWAIN_INVALID_ARGUMENT) << "no vocabulary";
  coxswain_rms_norm_backward_args norm{};
  norm.grad_dtype = -1;
  EXPECT_EQ(coxswain_rms_norm_backward_workspace_bytes(&norm), -1);
  EXPECT_EQ(coxswain_select_device(10000), COXSWAIN_DEVICE_ERROR);
  EXPECT_EQ(coxswain_select_device(0), COXSWAIN_OK);
}

}  // namespace
}  // namespace gpu_c_api_test
}  // namespace coxswain::kernels
