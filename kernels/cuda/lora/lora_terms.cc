// Products of rank g r: those that reduce a wide matrix to it by passes of low_rank.cu where they
// take the operands; y and dx in one launch with W (lora_product.h) or by the library behind each
// other, as the table says. The dropped copy of x is made whole in the workspace, in both
// directions; for dx its place is taken by g A, which is dropped on its way into dx.
#include "kernels/lora/lora_base.h"

#include "kernels/cuda/lora/lora_product.h"
#include "kernels/cuda/lora/lora_workspace.h"
#include "kernels/cuda/lora/low_rank.h"
#include "kernels/cuda/products/fused_choice.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels {
namespace {

const void* Offset(const void* data, int64_t elements, DType dtype) {
  return static_cast<const char*>(data) + elements * DTypeBytes(dtype);
}
void* Offset(void* data, int64_t elements, DType dtype) {
  return static_cast<char*>(data) + elements * DTypeBytes(dtype);
}

void Drop(const LoraLinearSpec& spec, DropoutArgs args, Stream* stream) {
  args.spec = {.dtype = spec.dtype, .columns = spec.in_features, .rate = spec.dropout_rate};
  DropoutApply(args, stream);
}

// What A is multiplied with: x itself, or its dropped copy in the workspace.
template <typename Args>
const void* DroppedInput(const Args& args, Stream* stream) {
  if (args.spec.dropout_rate == 0.0f) return args.x;
  void* dropped = cuda::DroppedX(args);
  Drop(args.spec, {.mask = args.mask, .rows = args.rows, .x = args.x, .y = dropped}, stream);
  return dropped;
}

// h for all members at once.
void ProjectDown(const LoraLinearForwardArgs& args, const void* x, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.dtype, .transpose_b = true},
        .m = args.rows,
        .n = spec.stacked_rank(),
        .k = spec.in_features,
        .alpha = spec.scale,
        .a = x,
        .lda = spec.in_features,
        .b = args.a,
        .ldb = spec.in_features,
        .c = args.h,
        .ldc = spec.stacked_rank(),
        .workspace = cuda::ProductScratch(args.workspace)},
       stream);
}

// y_j = h_j B_j^T, added to y where `accumulate`.
void ProjectUp(const LoraLinearForwardArgs& args, int64_t j, bool accumulate, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  const LoraMember& member = spec.members[static_cast<size_t>(j)];
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.dtype, .transpose_b = true},
        .m = args.rows,
        .n = member.out_features,
        .k = spec.rank,
        .a = Offset(static_cast<const void*>(args.h), j * spec.rank, spec.dtype),
        .lda = spec.stacked_rank(),
        .b = member.b,
        .ldb = spec.rank,
        .beta = accumulate ? 1.0f : 0.0f,
        .c = Offset(args.y, member.column_offset, spec.dtype),
        .ldc = spec.ldy,
        .workspace = cuda::ProductScratch(args.workspace)},
       stream);
}

// g_j = scale dy_j B_j;  dB_j += dy_j^T h_j.
void MemberGradients(const LoraLinearBackwardArgs& args, int64_t j, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  const LoraMember& member = spec.members[static_cast<size_t>(j)];
  const int64_t stacked = spec.stacked_rank();
  const void* dy = Offset(args.dy, member.column_offset, spec.dtype);
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.dtype},
        .m = args.rows,
        .n = spec.rank,
        .k = member.out_features,
        .alpha = spec.scale,
        .a = dy,
        .lda = spec.ldy,
        .b = member.b,
        .ldb = spec.rank,
        .c = Offset(cuda::GradientOfH(args), j * spec.rank, spec.dtype),
        .ldc = stacked,
        .workspace = cuda::ProductScratch(args.workspace)},
       stream);
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.grad_dtype, .transpose_a = true},
        .m = member.out_features,
        .n = spec.rank,
        .k = args.rows,
        .a = dy,
        .lda = spec.ldy,
        .b = Offset(args.h, j * spec.rank, spec.dtype),
        .ldb = stacked,
        .beta = 1.0f,
        .c = member.db,
        .ldc = spec.rank,
        .workspace = cuda::ProductScratch(args.workspace)},
       stream);
}

// dA += g^T x.
void GradientOfA(const LoraLinearBackwardArgs& args, const void* x, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.grad_dtype, .transpose_a = true},
        .m = spec.stacked_rank(),
        .n = spec.in_features,
        .k = args.rows,
        .a = cuda::GradientOfH(args),
        .lda = spec.stacked_rank(),
        .b = x,
        .ldb = spec.in_features,
        .beta = 1.0f,
        .c = args.da,
        .ldc = spec.in_features,
        .workspace = cuda::ProductScratch(args.workspace)},
       stream);
}

// dx = undrop(g A), added to dx where told.
void LowRankInputGradient(const LoraLinearBackwardArgs& args, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  const bool dropped = spec.dropout_rate > 0.0f;
  void* product = dropped ? cuda::DroppedX(args) : args.dx;
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.dtype},
        .m = args.rows,
        .n = spec.in_features,
        .k = spec.stacked_rank(),
        .a = cuda::GradientOfH(args),
        .lda = spec.stacked_rank(),
        .b = args.a,
        .ldb = spec.in_features,
        .beta = dropped || !args.accumulate_dx ? 0.0f : 1.0f,
        .c = product,
        .ldc = spec.in_features,
        .workspace = cuda::ProductScratch(args.workspace)},
       stream);
  if (!dropped) return;
  Drop(spec,
       {.mask = args.mask,
        .rows = args.rows,
        .x = product,
        .y = args.dx,
        .accumulate = args.accumulate_dx},
       stream);
}

// Every column of y has an adapter: then the low-rank product is written first and that with W
// added to it, which saves reading y once more.
bool MembersCover(const LoraLinearSpec& spec) {
  int64_t columns = 0;
  for (const LoraMember& member : spec.members) columns += member.out_features;
  return columns == spec.columns();
}

void OutputByProducts(const LoraLinearForwardArgs& args, Stream* stream) {
  const bool first = MembersCover(args.spec);
  const auto members = static_cast<int64_t>(args.spec.members.size());
  if (!first) LoraBaseOutput(args, args.accumulate_y, stream);
  for (int64_t j = 0; j < members; ++j) {
    ProjectUp(args, j, /*accumulate=*/!first || args.accumulate_y, stream);
  }
  if (first) LoraBaseOutput(args, /*accumulate=*/true, stream);
}

void InputGradientByProducts(const LoraLinearBackwardArgs& args, Stream* stream) {
  LowRankInputGradient(args, stream);
  LoraBaseInputGradient(args, /*accumulate=*/true, stream);
}

template <typename Args>
cuda::LoraKey KeyOf(const Args& args, bool backward) {
  return {.backward = backward,
          .rows = args.rows,
          .in = args.spec.in_features,
          .out = args.spec.columns(),
          .rank = args.spec.rank,
          .members = static_cast<int64_t>(args.spec.members.size())};
}

}  // namespace

void LoraProjection(const LoraLinearForwardArgs& args, Stream* stream) {
  if (args.rows == 0) return;
  const void* x = DroppedInput(args, stream);
  if (!cuda::LowRankProjection(args, x, stream)) ProjectDown(args, x, stream);
}

void LoraOutput(const LoraLinearForwardArgs& args, Stream* stream) {
  if (args.rows == 0) return;
  cuda::LaunchFaster(
      cuda::LoraProductRuns(args), KeyOf(args, false), [&] { cuda::LoraProduct(args, stream); },
      [&] { OutputByProducts(args, stream); }, stream);
}

void LoraMemberGradients(const LoraLinearBackwardArgs& args, Stream* stream) {
  if (args.rows == 0) return;
  if (cuda::LowRankMemberGradients(args, cuda::GradientOfH(args), stream)) return;
  const auto members = static_cast<int64_t>(args.spec.members.size());
  for (int64_t j = 0; j < members; ++j) MemberGradients(args, j, stream);
}

void LoraGradientOfA(const LoraLinearBackwardArgs& args, Stream* stream) {
  if (args.rows == 0) return;
  const void* x = DroppedInput(args, stream);
  if (!cuda::LowRankGradientOfA(args, cuda::GradientOfH(args), x, stream)) {
    GradientOfA(args, x, stream);
  }
}

void LoraInputGradient(const LoraLinearBackwardArgs& args, Stream* stream) {
  if (args.rows == 0) return;
  cuda::LaunchFaster(
      cuda::LoraProductRuns(args), KeyOf(args, true), [&] { cuda::LoraProduct(args, stream); },
      [&] { InputGradientByProducts(args, stream); }, stream);
}

}  // namespace coxswain::kernels
