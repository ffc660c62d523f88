// The products of adapters (kernels/lora_linear.h) as passes of low_rank_pass.cu: h = x A^T is P
// with W = A^T; g_j = scale dy_j B_j and dB_j += scale dy_j^T h_j are P and G of one pass over
// dy_j; dA += g^T x is G^T with H = g. Bytes and determinism: there.
#include "kernels/cuda/low_rank.h"

#include "kernels/cuda/low_rank_pass.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {
namespace {

int64_t StackedRank(const LoraLinearSpec& spec) { return spec.members * spec.rank; }

bool Takes(const LoraLinearSpec& spec) {
  return spec.dtype == DType::kBFloat16 && spec.rank % 8 == 0 && spec.in_features % 8 == 0;
}

}  // namespace

bool LowRankProjection(const LoraLinearForwardArgs& args, const void* x, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  if (!Takes(spec) || !Aligned<bf16>(x, 0) || !Aligned<bf16>(args.a, 0) ||
      !Aligned<bf16>(args.h, 0)) {
    return false;
  }
  LowRankPass pass{
      .ldx = spec.in_features, .ldw = spec.in_features, .ldp = StackedRank(spec), .scale = 1.0f};
  pass.member[0] = {.x = static_cast<const bf16*>(x),
                    .w = static_cast<const bf16*>(args.a),
                    .p = static_cast<bf16*>(args.h)};
  return RunLowRankPass(
      Sums::kColumns, pass,
      {.rows = args.rows, .rank = StackedRank(spec), .members = 1, .columns = {spec.in_features}},
      args.workspace, stream);
}

bool LowRankMemberGradients(const LoraLinearBackwardArgs& args, void* g, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  if (!Takes(spec) || spec.ldy % 8 != 0 || !Aligned<bf16>(args.dy, 0) ||
      !Aligned<bf16>(args.h, 0) || !Aligned<bf16>(g, 0)) {
    return false;
  }
  LowRankPass pass{.ldx = spec.ldy,
                   .ldw = spec.rank,
                   .ldh = StackedRank(spec),
                   .ldp = StackedRank(spec),
                   .scale = spec.scale,
                   .grad_dtype = spec.grad_dtype,
                   .column_stride = spec.rank,
                   .rank_stride = 1};
  LowRankProblem problem{
      .rows = args.rows, .rank = spec.rank, .members = static_cast<int32_t>(spec.members)};
  for (int64_t j = 0; j < spec.members; ++j) {
    if (spec.out_features[j] % 8 != 0 || spec.column_offset[j] % 8 != 0 ||
        !Aligned<bf16>(args.b[j], 0)) {
      return false;
    }
    problem.columns[j] = spec.out_features[j];
    pass.member[j] = {.x = static_cast<const bf16*>(args.dy) + spec.column_offset[j],
                      .w = static_cast<const bf16*>(args.b[j]),
                      .h = static_cast<const bf16*>(args.h) + j * spec.rank,
                      .p = static_cast<bf16*>(g) + j * spec.rank,
                      .gradient = args.db[j]};
  }
  return RunLowRankPass(Sums::kBoth, pass, problem, args.workspace, stream);
}

bool LowRankGradientOfA(const LoraLinearBackwardArgs& args, const void* g, const void* x,
                        Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  if (!Takes(spec) || !Aligned<bf16>(x, 0) || !Aligned<bf16>(g, 0)) return false;
  LowRankPass pass{.ldx = spec.in_features,
                   .ldh = StackedRank(spec),
                   .grad_dtype = spec.grad_dtype,
                   .column_stride = 1,
                   .rank_stride = spec.in_features};
  pass.member[0] = {
      .x = static_cast<const bf16*>(x), .h = static_cast<const bf16*>(g), .gradient = args.da};
  return RunLowRankPass(
      Sums::kRows, pass,
      {.rows = args.rows, .rank = StackedRank(spec), .members = 1, .columns = {spec.in_features}},
      args.workspace, stream);
}

}  // namespace coxswain::kernels::cuda
