// The adapters of a mixture's experts: which body, and the order of its passes.
//
// bfloat16 with ranks that are multiples of 8 up to 128 takes grouped_low_rank.h, where rows are
// multiples of 16 bytes: h = x A_e^T and y += scale h B_e^T forward. Backward reads dy once for
// dh = scale dy B_e and dB_e += scale dy^T h where one pass can have both, twice otherwise; then
// dA_e += x^T dh, and dx += dh A_e. Else plain_grouped_lora.h.
//
// Bytes of R rows, at rank 16 and E = 128 experts of K = 2048 and N = 1536: forward 2 R (K + 2 N)
// and 2 E r (K + N); backward 2 R (N + 3 K), the same of the adapters and 8 E r (K + N) of their
// gradients. The rest is below 3 % of it, and partial sums (grouped_gradient.cu).
#include "kernels/experts/grouped_lora.h"

#include <algorithm>

#include "kernels/cuda/experts/grouped_low_rank.h"
#include "kernels/cuda/experts/plain_grouped_lora.h"
#include "kernels/cuda/products/fused_choice.h"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

constexpr char kForward[] = "GroupedLoraForward", kBackward[] = "GroupedLoraBackward";

bool IsNarrow(const GroupedLoraSpec& spec) {
  const int64_t widest = std::max(spec.in_features, spec.out_features);
  return spec.dtype == DType::kBFloat16 && spec.rank % 8 == 0 &&
         spec.rank <= cuda::kMaxGroupedRank && spec.in_features % 8 == 0 &&
         spec.out_features % 8 == 0 && widest < (int64_t{1} << 24);
}

cuda::GroupedRows RowsOf(const GroupedLoraSpec& spec, int64_t rows, const int32_t* offsets,
                         int64_t columns) {
  return {.offsets = offsets,
          .experts = static_cast<int32_t>(spec.experts),
          .rank = static_cast<int32_t>(spec.rank),
          .columns = static_cast<int32_t>(columns),
          .rows = rows};
}

int64_t HiddenBytes(const GroupedLoraSpec& spec, int64_t rows) {
  return cuda::AlignUp(rows * spec.rank * DTypeBytes(spec.dtype));
}

void NarrowForward(const GroupedLoraForwardArgs& args, Stream* stream) {
  const GroupedLoraSpec& spec = args.spec;
  cuda::Project({.of = RowsOf(spec, args.rows, args.offsets, spec.in_features),
                 .along_columns = true,
                 .x = args.x,
                 .w = args.a,
                 .p = args.h},
                kForward, stream);
  cuda::Update({.of = RowsOf(spec, args.rows, args.offsets, spec.out_features),
                .h = args.h,
                .w = args.b,
                .y = args.y,
                .scale = spec.scale},
               kForward, stream);
}

// dh and dB.
void OutputGradients(const GroupedLoraBackwardArgs& args, void* dh, float* partials,
                     Stream* stream) {
  const GroupedLoraSpec& spec = args.spec;
  const cuda::GroupedRows of = RowsOf(spec, args.rows, args.offsets, spec.out_features);
  cuda::GroupedGradient db{.of = of,
                           .x = args.dy,
                           .h = args.h,
                           .gradient = args.db,
                           .grad_dtype = spec.grad_dtype,
                           .scale = spec.scale,
                           .partials = partials};
  if (cuda::FusesProjection(of)) {
    db.w = args.b;
    db.p = dh;
    db.p_scale = spec.scale;
  } else {
    cuda::Project({.of = of, .x = args.dy, .w = args.b, .p = dh, .scale = spec.scale}, kBackward,
                  stream);
  }
  cuda::AddGradient(db, kBackward, stream);
}

void NarrowBackward(const GroupedLoraBackwardArgs& args, void* dh, float* partials,
                    Stream* stream) {
  const GroupedLoraSpec& spec = args.spec;
  OutputGradients(args, dh, partials, stream);
  const cuda::GroupedRows of = RowsOf(spec, args.rows, args.offsets, spec.in_features);
  cuda::AddGradient({.of = of,
                     .along_columns = true,
                     .x = args.x,
                     .h = dh,
                     .gradient = args.da,
                     .grad_dtype = spec.grad_dtype,
                     .partials = partials},
                    kBackward, stream);
  if (args.dx == nullptr) return;
  cuda::Update({.of = of, .along_columns = true, .h = dh, .w = args.a, .y = args.dx}, kBackward,
               stream);
}

void Require(const GroupedLoraSpec& spec, int64_t rows, const char* op) {
  cuda::RequireSupported(GroupedLoraSupports(spec), op);
  cuda::RequireExtent(rows, op, "rows");
}

}  // namespace

bool GroupedLoraSupports(const GroupedLoraSpec& spec) {
  return spec.experts > 0 && spec.in_features > 0 && spec.out_features > 0 && spec.rank > 0;
}

// dh, then partial sums of dB and of dA in turn.
int64_t GroupedLoraBackwardWorkspaceBytes(const GroupedLoraSpec& spec, int64_t rows) {
  const int64_t hidden = HiddenBytes(spec, rows);
  if (!IsNarrow(spec)) return hidden;
  const cuda::GroupedRows out = RowsOf(spec, rows, nullptr, spec.out_features);
  const cuda::GroupedRows in = RowsOf(spec, rows, nullptr, spec.in_features);
  return hidden + std::max(cuda::GradientPartialsBytes(out, cuda::FusesProjection(out)),
                           cuda::GradientPartialsBytes(in, false));
}

void GroupedLoraForward(const GroupedLoraForwardArgs& args, Stream* stream) {
  Require(args.spec, args.rows, kForward);
  if (args.rows == 0) return;
  if (IsNarrow(args.spec) && cuda::AllAligned(args.x, args.a, args.b, args.h, args.y)) {
    NarrowForward(args, stream);
  } else {
    cuda::PlainGroupedLora(args, stream);
  }
}

void GroupedLoraBackward(const GroupedLoraBackwardArgs& args, Stream* stream) {
  Require(args.spec, args.rows, kBackward);
  cuda::RequireWorkspace(args.workspace, GroupedLoraBackwardWorkspaceBytes(args.spec, args.rows),
                         kBackward);
  if (args.rows == 0) return;
  void* dh = args.workspace.data;
  if (IsNarrow(args.spec) && cuda::AllAligned(args.x, args.a, args.b, args.h, args.dy, args.da,
                                              args.db, args.dx, args.workspace.data)) {
    void* behind = static_cast<char*>(dh) + HiddenBytes(args.spec, args.rows);
    NarrowBackward(args, dh, static_cast<float*>(behind), stream);
  } else {
    cuda::PlainGroupedLora(args, dh, stream);
  }
}

}  // namespace coxswain::kernels
