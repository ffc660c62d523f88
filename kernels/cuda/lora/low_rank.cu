// The products of adapters (kernels/lora/lora_linear.h) as passes of low_rank_pass.cu: h = scale x
// A^T is P with W = A^T; g_j = scale dy_j B_j and dB_j += dy_j^T h_j are P and G of one pass over
// dy_j; dA += g^T x is G^T with H = g. Bytes and determinism: there.
#include "kernels/cuda/lora/low_rank.h"

#include "kernels/cuda/lora/low_rank_pass.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {
namespace {

bool Takes(const LoraLinearSpec& spec) {
  return spec.dtype == DType::kBFloat16 && spec.rank % 8 == 0 && spec.in_features % 8 == 0 &&
         spec.members.size() <= kMaxLowRankMembers;
}

}  // namespace

bool LowRankProjection(const LoraLinearForwardArgs& args, const void* x, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  if (!Takes(spec) || !Aligned<bf16>(x, 0) || !Aligned<bf16>(args.a, 0) ||
      !Aligned<bf16>(args.h, 0)) {
    return false;
  }
  LowRankPass pass{.ldx = spec.in_features,
                   .ldw = spec.in_features,
                   .ldp = spec.stacked_rank(),
                   .scale = spec.scale};
  pass.member[0] = {.x = static_cast<const bf16*>(x),
                    .w = static_cast<const bf16*>(args.a),
                    .p = static_cast<bf16*>(args.h)};
  return RunLowRankPass(
      Sums::kColumns, pass,
      {.rows = args.rows, .rank = spec.stacked_rank(), .members = 1, .columns = {spec.in_features}},
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
                   .ldh = spec.stacked_rank(),
                   .ldp = spec.stacked_rank(),
                   .scale = spec.scale,
                   .grad_dtype = spec.grad_dtype,
                   .column_stride = spec.rank,
                   .rank_stride = 1};
  LowRankProblem problem{
      .rows = args.rows, .rank = spec.rank, .members = static_cast<int32_t>(spec.members.size())};
  for (size_t j = 0; j < spec.members.size(); ++j) {
    const LoraMember& member = spec.members[j];
    if (member.out_features % 8 != 0 || member.column_offset % 8 != 0 ||
        !Aligned<bf16>(member.b, 0)) {
      return false;
    }
    const int64_t first = static_cast<int64_t>(j) * spec.rank;
    problem.columns[j] = member.out_features;
    pass.member[j] = {.x = static_cast<const bf16*>(args.dy) + member.column_offset,
                      .w = static_cast<const bf16*>(member.b),
                      .h = static_cast<const bf16*>(args.h) + first,
                      .p = static_cast<bf16*>(g) + first,
                      .gradient = member.db};
  }
  return RunLowRankPass(Sums::kBoth, pass, problem, args.workspace, stream);
}

bool LowRankGradientOfA(const LoraLinearBackwardArgs& args, const void* g, const void* x,
                        Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  if (!Takes(spec) || !Aligned<bf16>(x, 0) || !Aligned<bf16>(g, 0)) return false;
  LowRankPass pass{.ldx = spec.in_features,
                   .ldh = spec.stacked_rank(),
                   .grad_dtype = spec.grad_dtype,
                   .column_stride = 1,
                   .rank_stride = spec.in_features};
  pass.member[0] = {
      .x = static_cast<const bf16*>(x), .h = static_cast<const bf16*>(g), .gradient = args.da};
  return RunLowRankPass(
      Sums::kRows, pass,
      {.rows = args.rows, .rank = spec.stacked_rank(), .members = 1, .columns = {spec.in_features}},
      args.workspace, stream);
}

}  // namespace coxswain::kernels::cuda
