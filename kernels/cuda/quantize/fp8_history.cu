// The history of delayed scaling: two launches an update, over some hundred operands. A thread has
// an operand; what it reads of it lies beside what its neighbours read but for the history, 128
// bytes. Counts are of integers: bitwise deterministic, the bits of the CPU.
#include "kernels/quantize/fp8_history.h"

#include <cfloat>
#include <cmath>

#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) JudgeObservedKernel(const Fp8JudgeObservedArgs args) {
  __shared__ int nonfinite;
  if (threadIdx.x == 0) nonfinite = 0;
  __syncthreads();
  int own = 0;
  for (int64_t at = threadIdx.x; at < args.ranks * args.operands; at += kThreads) {
    const int64_t rank = at / args.operands, i = at - rank * args.operands;
    own += isfinite(args.observed[rank * args.stride + i]) ? 0 : 1;
  }
  if (own > 0) atomicAdd(&nonfinite, own);
  __syncthreads();
  if (threadIdx.x != 0 || nonfinite == 0) return;
  args.sums->nonfinite += static_cast<double>(nonfinite);
  args.sums->sum_squares = __longlong_as_double(0x7ff8000000000000ll);
}

__global__ void __launch_bounds__(kThreads) MoveHistoryKernel(const Fp8MoveHistoryArgs args) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= args.operands) return;
  float* const history = args.history + i * kFp8History;
  if (args.observed != nullptr) {
    float observed = 0.0f;
    for (int64_t rank = 0; rank < args.ranks; ++rank) {
      float* const of_rank = args.observed + rank * args.stride + i;
      observed = fmaxf(observed, *of_rank);
      *of_rank = 0.0f;
    }
    if (*args.skip == 0) history[*args.updates % kFp8History] = observed;
  }
  float largest = 0.0f;
  for (int slot = 0; slot < kFp8History; ++slot) largest = fmaxf(largest, history[slot]);
  args.expected[i] = fminf(__fmul_rn(kFp8Margin, largest), FLT_MAX);
}

}  // namespace

void Fp8JudgeObserved(const Fp8JudgeObservedArgs& args, Stream* stream) {
  cuda::RequireExtent(args.ranks, "Fp8JudgeObserved", "ranks");
  cuda::RequireExtent(args.operands, "Fp8JudgeObserved", "operands");
  if (args.ranks * args.operands == 0) return;
  JudgeObservedKernel<<<1, kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("Fp8JudgeObserved");
}

void Fp8MoveHistory(const Fp8MoveHistoryArgs& args, Stream* stream) {
  cuda::RequireExtent(args.ranks, "Fp8MoveHistory", "ranks");
  cuda::RequireExtent(args.operands, "Fp8MoveHistory", "operands");
  if (args.operands == 0) return;
  const auto blocks = static_cast<unsigned>(cuda::CeilDiv(args.operands, int64_t{kThreads}));
  MoveHistoryKernel<<<blocks, kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("Fp8MoveHistory");
}

}  // namespace coxswain::kernels
