// The functions of kernels/c_api/norms.h: the bits of the ops that they call. Norm of q and k:
// c_api_layers_test.cc.
#include "kernels/norms/norms.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"

namespace coxswain::kernels {
namespace gpu_c_api_norms_test {
namespace {

constexpr DType kType = DType::kBFloat16;
constexpr int64_t kRows = 7, kHidden = 40, kCount = kRows * kHidden;

class CApiNormsGpuTest : public testing::Test {
 protected:
  static Twins Empty(int64_t count, DType dtype = kType) {
    return Twins(Floats(Size(count)), dtype);
  }

  const DeviceTensor x_{kType, Normal(kCount, 1, kType)};
  const DeviceTensor dy_{kType, Normal(kCount, 2, kType)};
  const DeviceTensor weight_{kType, Normal(kHidden, 3, kType)};
  const DeviceTensor other_{kType, Normal(kCount, 4, kType)};
};

TEST_F(CApiNormsGpuTest, RmsNormOfASumWithAnOffset) {
  const RmsNormSpec spec{.dtype = kType, .hidden = kHidden, .eps = 1e-5f, .weight_offset = 1.0f};
  const Twins sum = Empty(kCount), y = Empty(kCount), rstd = Empty(kRows, DType::kFloat32);
  coxswain_rms_norm_args args{};
  args.dtype = COXSWAIN_BFLOAT16;
  args.rows = kRows;
  args.hidden = kHidden;
  args.eps = 1e-5f;
  args.weight_offset = 1.0f;
  args.x = x_.data();
  args.residual = other_.data();
  args.weight = weight_.data();
  args.sum = sum.c.data();
  args.y = y.c.data();
  args.rstd = rstd.c.floats();
  EXPECT_OK(coxswain_rms_norm_forward(&args, nullptr));
  AddRmsNormForward({.spec = spec,
                     .rows = kRows,
                     .x = x_.data(),
                     .residual = other_.data(),
                     .weight = weight_.data(),
                     .sum = sum.op.data(),
                     .y = y.op.data(),
                     .rstd = rstd.op.floats()},
                    TestStream());
  for (const Twins* t : {&sum, &y, &rstd}) t->ExpectSame("norm of a sum");
  args.residual = nullptr;
  EXPECT_OK(coxswain_rms_norm_forward(&args, nullptr));
  RmsNormForward({.spec = spec,
                  .rows = kRows,
                  .x = x_.data(),
                  .weight = weight_.data(),
                  .y = y.op.data(),
                  .rstd = rstd.op.floats()},
                 TestStream());
  for (const Twins* t : {&y, &rstd}) t->ExpectSame("norm");

  const Twins dx(Normal(kCount, 5, kType)), dweight = Empty(kHidden, DType::kFloat32);
  coxswain_rms_norm_backward_args back{};
  back.dtype = COXSWAIN_BFLOAT16;
  back.rows = kRows;
  back.hidden = kHidden;
  back.weight_offset = 1.0f;
  back.dy = dy_.data();
  back.x = x_.data();
  back.weight = weight_.data();
  back.rstd = rstd.c.floats();
  back.dx = dx.c.data();
  back.dweight = dweight.c.data();
  const Scratch scratch(coxswain_rms_norm_backward_workspace_bytes(&back));
  EXPECT_EQ(scratch.bytes(), RmsNormBackwardWorkspaceBytes(spec, kRows));
  back.workspace = Lent(scratch);
  EXPECT_OK(coxswain_rms_norm_backward(&back, nullptr));
  Synchronize(nullptr);  // one scratch
  RmsNormBackward({.spec = spec,
                   .rows = kRows,
                   .dy = dy_.data(),
                   .x = x_.data(),
                   .weight = weight_.data(),
                   .rstd = rstd.op.floats(),
                   .accumulate_dx = false,
                   .dx = dx.op.data(),
                   .dweight = dweight.op.data(),
                   .workspace = scratch.workspace()},
                  TestStream());
  for (const Twins* t : {&dx, &dweight}) t->ExpectSame("its gradients");
}

TEST_F(CApiNormsGpuTest, LayerNormWithABias) {
  const LayerNormSpec spec{.dtype = kType, .grad_dtype = kType, .hidden = kHidden, .eps = 1e-4f};
  const DeviceTensor bias(kType, Normal(kHidden, 6, kType));
  const Twins y = Empty(kCount), mean = Empty(kRows, DType::kFloat32);
  const Twins rstd = Empty(kRows, DType::kFloat32);
  coxswain_layer_norm_args args{};
  args.dtype = args.grad_dtype = COXSWAIN_BFLOAT16;
  args.rows = kRows;
  args.hidden = kHidden;
  args.eps = 1e-4f;
  args.x = x_.data();
  args.weight = weight_.data();
  args.bias = bias.data();
  args.y = y.c.data();
  args.mean = mean.c.floats();
  args.rstd = rstd.c.floats();
  EXPECT_OK(coxswain_layer_norm_forward(&args, nullptr));
  LayerNormForward({.spec = spec,
                    .rows = kRows,
                    .x = x_.data(),
                    .weight = weight_.data(),
                    .bias = bias.data(),
                    .y = y.op.data(),
                    .mean = mean.op.floats(),
                    .rstd = rstd.op.floats()},
                   TestStream());
  for (const Twins* t : {&y, &mean, &rstd}) t->ExpectSame("LayerNorm");

  const Twins dx(Normal(kCount, 5, kType)), dweight = Empty(kHidden), dbias = Empty(kHidden);
  args.dy = dy_.data();
  args.dx = dx.c.data();
  args.dweight = dweight.c.data();
  args.dbias = dbias.c.data();
  const Scratch scratch(coxswain_layer_norm_backward_workspace_bytes(&args));
  EXPECT_EQ(scratch.bytes(), LayerNormBackwardWorkspaceBytes(spec, kRows));
  args.workspace = Lent(scratch);
  EXPECT_OK(coxswain_layer_norm_backward(&args, nullptr));
  Synchronize(nullptr);
  LayerNormBackward({.spec = spec,
                     .rows = kRows,
                     .dy = dy_.data(),
                     .x = x_.data(),
                     .weight = weight_.data(),
                     .mean = mean.op.floats(),
                     .rstd = rstd.op.floats(),
                     .accumulate_dx = false,
                     .dx = dx.op.data(),
                     .dweight = dweight.op.data(),
                     .dbias = dbias.op.data(),
                     .workspace = scratch.workspace()},
                    TestStream());
  for (const Twins* t : {&dx, &dweight, &dbias}) t->ExpectSame("its gradients");
  args.workspace.bytes -= 1;
  EXPECT_REFUSED(coxswain_layer_norm_backward(&args, nullptr), "workspace of");
  args.hidden = 0;
  EXPECT_REFUSED(coxswain_layer_norm_forward(&args, nullptr), "LayerNorm");
}

}  // namespace
}  // namespace gpu_c_api_norms_test
}  // namespace coxswain::kernels
