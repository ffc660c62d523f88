// Products of rank g r: those that reduce a wide matrix to it by passes of low_rank.cu where they
// take the operands, the others and the rest by the library. The dropped copy of x is made whole in
// the workspace, in both directions; in backward its place is then taken by g A, which is dropped
// on its way into dx.
#include "kernels/lora_linear.h"

#include "kernels/cuda/low_rank.h"
#include "kernels/cuda/stream.h"
#include "kernels/gemm.h"

namespace coxswain::kernels {
namespace {

const void* Offset(const void* data, int64_t elements, DType dtype) {
  return static_cast<const char*>(data) + elements * DTypeBytes(dtype);
}
void* Offset(void* data, int64_t elements, DType dtype) {
  return static_cast<char*>(data) + elements * DTypeBytes(dtype);
}

int64_t DroppedBytes(const LoraLinearSpec& spec, int64_t rows) {
  if (spec.dropout_rate == 0.0f) return 0;
  return cuda::AlignUp(rows * spec.in_features * DTypeBytes(spec.dtype));
}
int64_t GradientBytes(const LoraLinearSpec& spec, int64_t rows) {
  return cuda::AlignUp(rows * spec.stacked_rank() * DTypeBytes(spec.dtype));
}

// The workspace in order: of the products, g, dropped x.
Workspace ProductScratch(const Workspace& workspace) {
  return {.data = workspace.data, .bytes = GemmWorkspaceBytes()};
}
void* Behind(const Workspace& workspace, int64_t bytes) {
  return static_cast<char*>(workspace.data) + GemmWorkspaceBytes() + bytes;
}

void Drop(const LoraLinearSpec& spec, DropoutArgs args, Stream* stream) {
  args.spec = {.dtype = spec.dtype, .columns = spec.in_features, .rate = spec.dropout_rate};
  DropoutApply(args, stream);
}

// What A is multiplied with: x itself, or its dropped copy in `scratch`.
const void* DroppedInput(const LoraLinearSpec& spec, const DropoutArgs& args, void* scratch,
                         Stream* stream) {
  if (spec.dropout_rate == 0.0f) return args.x;
  DropoutArgs dropped = args;
  dropped.y = scratch;
  Drop(spec, dropped, stream);
  return scratch;
}

// h = x A^T for all members at once.
void ProjectDown(const LoraLinearForwardArgs& args, const void* x, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.dtype, .transpose_b = true},
        .m = args.rows,
        .n = spec.stacked_rank(),
        .k = spec.in_features,
        .a = x,
        .lda = spec.in_features,
        .b = args.a,
        .ldb = spec.in_features,
        .c = args.h,
        .ldc = spec.stacked_rank(),
        .workspace = ProductScratch(args.workspace)},
       stream);
}

// y_j += scale h_j B_j^T.
void ProjectUp(const LoraLinearForwardArgs& args, int64_t j, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  const LoraMember& member = spec.members[static_cast<size_t>(j)];
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.dtype, .transpose_b = true},
        .m = args.rows,
        .n = member.out_features,
        .k = spec.rank,
        .alpha = spec.scale,
        .a = Offset(static_cast<const void*>(args.h), j * spec.rank, spec.dtype),
        .lda = spec.stacked_rank(),
        .b = member.b,
        .ldb = spec.rank,
        .beta = args.accumulate_y ? 1.0f : 0.0f,
        .c = Offset(args.y, member.column_offset, spec.dtype),
        .ldc = spec.ldy,
        .workspace = ProductScratch(args.workspace)},
       stream);
}

// g_j = scale dy_j B_j;  dB_j += scale dy_j^T h_j.
void MemberGradients(const LoraLinearBackwardArgs& args, int64_t j, void* g, Stream* stream) {
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
        .c = Offset(g, j * spec.rank, spec.dtype),
        .ldc = stacked,
        .workspace = ProductScratch(args.workspace)},
       stream);
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.grad_dtype, .transpose_a = true},
        .m = member.out_features,
        .n = spec.rank,
        .k = args.rows,
        .alpha = spec.scale,
        .a = dy,
        .lda = spec.ldy,
        .b = Offset(args.h, j * spec.rank, spec.dtype),
        .ldb = stacked,
        .beta = 1.0f,
        .c = member.db,
        .ldc = spec.rank,
        .workspace = ProductScratch(args.workspace)},
       stream);
}

// dA += g^T x.
void GradientOfA(const LoraLinearBackwardArgs& args, const void* g, const void* x, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.grad_dtype, .transpose_a = true},
        .m = spec.stacked_rank(),
        .n = spec.in_features,
        .k = args.rows,
        .a = g,
        .lda = spec.stacked_rank(),
        .b = x,
        .ldb = spec.in_features,
        .beta = 1.0f,
        .c = args.da,
        .ldc = spec.in_features,
        .workspace = ProductScratch(args.workspace)},
       stream);
}

// dx += undrop(g A).
void GradientOfX(const LoraLinearBackwardArgs& args, const void* g, void* scratch, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  const bool dropped = spec.dropout_rate > 0.0f;
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = spec.dtype},
        .m = args.rows,
        .n = spec.in_features,
        .k = spec.stacked_rank(),
        .a = g,
        .lda = spec.stacked_rank(),
        .b = args.a,
        .ldb = spec.in_features,
        .beta = dropped || !args.accumulate_dx ? 0.0f : 1.0f,
        .c = dropped ? scratch : args.dx,
        .ldc = spec.in_features,
        .workspace = ProductScratch(args.workspace)},
       stream);
  if (!dropped) return;
  Drop(spec,
       {.mask = args.mask,
        .rows = args.rows,
        .x = scratch,
        .y = args.dx,
        .accumulate = args.accumulate_dx},
       stream);
}

}  // namespace

bool LoraLinearSupports(const LoraLinearSpec& spec) {
  if (!GemmSupports({.dtype = spec.dtype, .output_dtype = spec.grad_dtype})) return false;
  if (spec.members.empty() || spec.rank < 1) return false;
  for (const LoraMember& member : spec.members) {
    if (member.out_features < 1 || member.column_offset < 0 ||
        member.column_offset + member.out_features > spec.ldy) {
      return false;
    }
  }
  return DropoutSupports(
      {.dtype = spec.dtype, .columns = spec.in_features, .rate = spec.dropout_rate});
}

int64_t LoraLinearForwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows) {
  return GemmWorkspaceBytes() + DroppedBytes(spec, rows);
}

int64_t LoraLinearBackwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows) {
  return GemmWorkspaceBytes() + GradientBytes(spec, rows) + DroppedBytes(spec, rows);
}

void LoraLinearForward(const LoraLinearForwardArgs& args, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  cuda::RequireSupported(LoraLinearSupports(spec), "LoraLinear");
  cuda::RequireExtent(args.rows, "LoraLinear", "rows");
  cuda::RequireWorkspace(args.workspace, LoraLinearForwardWorkspaceBytes(spec, args.rows),
                         "LoraLinear");
  if (args.rows == 0) return;
  const void* x = DroppedInput(spec, {.mask = args.mask, .rows = args.rows, .x = args.x},
                               Behind(args.workspace, 0), stream);
  if (!cuda::LowRankProjection(args, x, stream)) ProjectDown(args, x, stream);
  const auto members = static_cast<int64_t>(spec.members.size());
  for (int64_t j = 0; j < members; ++j) ProjectUp(args, j, stream);
}

void LoraLinearBackward(const LoraLinearBackwardArgs& args, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  cuda::RequireSupported(LoraLinearSupports(spec), "LoraLinear");
  cuda::RequireExtent(args.rows, "LoraLinear", "rows");
  cuda::RequireWorkspace(args.workspace, LoraLinearBackwardWorkspaceBytes(spec, args.rows),
                         "LoraLinear");
  if (args.rows == 0) return;
  void* g = Behind(args.workspace, 0);
  void* scratch = Behind(args.workspace, GradientBytes(spec, args.rows));
  if (!cuda::LowRankMemberGradients(args, g, stream)) {
    const auto members = static_cast<int64_t>(spec.members.size());
    for (int64_t j = 0; j < members; ++j) MemberGradients(args, j, g, stream);
  }
  const void* x =
      DroppedInput(spec, {.mask = args.mask, .rows = args.rows, .x = args.x}, scratch, stream);
  if (!cuda::LowRankGradientOfA(args, g, x, stream)) GradientOfA(args, g, x, stream);
  if (args.dx != nullptr) GradientOfX(args, g, scratch, stream);
}

}  // namespace coxswain::kernels
