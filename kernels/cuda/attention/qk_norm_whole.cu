// RMSNorm over all q heads of a token and over all its k heads, in place on packed rows, and its
// gradient: the rows of rms_norm_rows.cuh, a launch for q and one for k. Source:
// kernels/attention/heads.h.
//
// A row lives in the registers of one warp or one block, up to 2,048 vectors of 16 bytes; longer or
// unaligned rows are walked twice. Both gradients of weights use the workspace, one after the
// other. Bytes moved per element of q and k: 3 sizeof(T) either way. Bitwise deterministic on one
// model of GPU.
#include "kernels/cuda/attention/qk_norm_whole.h"

#include <algorithm>

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/norms/norm_rows.cuh"
#include "kernels/cuda/norms/rms_norm_rows.cuh"
#include "kernels/cuda/partial_sums.cuh"

namespace coxswain::kernels::cuda {
namespace {

// Vectors of a row that a thread holds at most.
constexpr int kMostVectors = 4;

// Elements from one token to the next, in qkv and in saved_qk; each has the r of q and that of k.
struct InTokens {
  int64_t packed, saved;
  __device__ int64_t Activation(int64_t row, int64_t hidden) const { return row * packed; }
  __device__ int64_t Saved(int64_t row, int64_t hidden) const { return row * saved; }
  __device__ int64_t Rstd(int64_t row) const { return 2 * row; }
};
template <typename T>
using ForwardRows = RmsForwardRows<T, InTokens>;
template <typename T>
using BackwardRows = RmsBackwardRows<T, InTokens>;

InTokens Layout(const QkNormSpec& spec) {
  const int64_t saved = (spec.num_heads + spec.num_kv_heads) * spec.head_dim;
  return {.packed = saved + spec.num_kv_heads * spec.head_dim, .saved = saved};
}

// The q heads or the k heads of a token.
struct Part {
  int index;
  int64_t first, width;  // elements
};
Part QueryPart(const QkNormSpec& spec) { return {0, 0, spec.num_heads * spec.head_dim}; }
Part KeyPart(const QkNormSpec& spec) {
  return {1, spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim};
}

template <typename T, class Owner>
__global__ void __launch_bounds__(Owner::kMaxThreads)
    QkNormWholeForwardKernel(ForwardRows<T> args) {
  RmsForwardRow<Owner, Stored::kInput>(args);
}

template <typename T>
__global__ void __launch_bounds__(kLoopThreads)
    QkNormWholeLoopedForwardKernel(ForwardRows<T> args) {
  RmsLoopedForwardRow<Stored::kInput>(args);
}

template <typename T, class Owner>
__global__ void __launch_bounds__(Owner::kMaxThreads, Owner::kResidentThreads / Owner::kMaxThreads)
    QkNormWholeBackwardKernel(BackwardRows<T> args, int stages) {
  LetNextStart();
  RmsBackwardRow<Owner>(args, stages);
}

template <typename T>
__global__ void __launch_bounds__(kLoopThreads)
    QkNormWholeLoopedBackwardKernel(BackwardRows<T> args) {
  RmsLoopedBackwardRow(args);
}

template <typename T>
void LaunchForward(const QkNormForwardArgs& args, const Part& part, cudaStream_t stream) {
  const InTokens layout = Layout(args.spec);
  T* x = static_cast<T*>(args.qkv) + part.first;
  T* saved = static_cast<T*>(args.saved_qk) + part.first;
  const void* weight = part.index == 0 ? args.q_weight : args.k_weight;
  const ForwardRows<T> rows{.rows = args.tokens,
                            .hidden = part.width,
                            .eps = args.spec.eps,
                            .offset = args.spec.weight_offset,
                            .x = x,
                            .residual = nullptr,
                            .weight = static_cast<const T*>(weight),
                            .saved = saved,
                            .y = x,
                            .rstd = args.rstd + part.index,
                            .layout = layout};
  const auto held = [](auto owner) { return QkNormWholeForwardKernel<T, decltype(owner)>; };
  // Every row is aligned where the first two are.
  LaunchForwardRows<T, kMostVectors>(rows,
                                     {x, x + layout.packed, saved, saved + layout.saved, weight},
                                     held, QkNormWholeLoopedForwardKernel<T>, stream);
}

BackwardGrid Plan(const QkNormSpec& spec, const Part& part, int64_t tokens) {
  return PlanBackward<kMostVectors>(spec.dtype, part.width, tokens);
}

template <typename T>
void LaunchBackward(const QkNormBackwardArgs& args, const Part& part, cudaStream_t stream) {
  const InTokens layout = Layout(args.spec);
  T* dx = static_cast<T*>(args.dqkv) + part.first;
  const T* saved = static_cast<const T*>(args.saved_qk) + part.first;
  const void* weight = part.index == 0 ? args.q_weight : args.k_weight;
  void* dweight = part.index == 0 ? args.dq_weight : args.dk_weight;
  float* partials = dweight == nullptr ? nullptr : static_cast<float*>(args.workspace.data);
  const BackwardRows<T> rows{.rows = args.tokens,
                             .hidden = part.width,
                             .dy = dx,
                             .x = saved,
                             .weight = static_cast<const T*>(weight),
                             .offset = args.spec.weight_offset,
                             .rstd = args.rstd + part.index,
                             .accumulate = false,
                             .dx = dx,
                             .partials = partials,
                             .layout = layout};
  const BackwardGrid grid = Plan(args.spec, part, args.tokens);
  const auto held = [](auto owner) { return QkNormWholeBackwardKernel<T, decltype(owner)>; };
  LaunchBackwardRows<T, kMostVectors>(rows,
                                      {dx, dx + layout.packed, saved, saved + layout.saved, weight},
                                      grid, held, QkNormWholeLoopedBackwardKernel<T>, stream);
  if (dweight == nullptr) return;
  AddPartials({.partials = partials,
               .count = grid.blocks,
               .columns = part.width,
               .gradients = 1,
               .gradient = {dweight, nullptr}},
              args.spec.grad_dtype, stream);
}

}  // namespace

void QkNormWholeForward(const QkNormForwardArgs& args, Stream* stream) {
  ForDType(args.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    LaunchForward<T>(args, QueryPart(args.spec), Handle(stream));
    LaunchForward<T>(args, KeyPart(args.spec), Handle(stream));
  });
  CheckLaunch("QkNorm");
}

int64_t QkNormWholeBackwardWorkspaceBytes(const QkNormSpec& spec, int64_t tokens) {
  const auto bytes = [&](const Part& part) {
    return AlignUp(Plan(spec, part, tokens).blocks * part.width * 4);
  };
  return std::max(bytes(QueryPart(spec)), bytes(KeyPart(spec)));
}

void QkNormWholeBackward(const QkNormBackwardArgs& args, Stream* stream) {
  ForDType(args.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    LaunchBackward<T>(args, QueryPart(args.spec), Handle(stream));
    LaunchBackward<T>(args, KeyPart(args.spec), Handle(stream));
  });
  CheckLaunch("QkNorm");
}

}  // namespace coxswain::kernels::cuda
