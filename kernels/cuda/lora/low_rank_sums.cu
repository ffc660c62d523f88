// Second stage of the low-rank passes: P = scale sum over slices, G += sum over splits.
//
// P: one thread per four ranks of a row. G: a warp per split, eight splits side by side over 128
// elements, then the eight warps in order. Reads 4 bytes per partial sum, which the pass before
// left in L2; order fixed by the plan: bitwise deterministic. Both start early
// (early_launch.cuh), for the stage is short: 4 to 9 us on an H200.
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/lora/low_rank_pass.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kElements = 4 * kWarp;  // of G per block

__device__ __forceinline__ void AddTo(float4* sum, const float4& x) {
  sum->x += x.x;
  sum->y += x.y;
  sum->z += x.z;
  sum->w += x.w;
}

__global__ void LowRankSumColumnsKernel(const __grid_constant__ LowRankPass pass, int member) {
  const int64_t quads = pass.rows * pass.rank / 4;
  const int64_t quad = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  WaitForPrevious();
  if (quad >= quads) return;
  float4 sum = {0, 0, 0, 0};
  for (int i = 0; i < pass.plan.slices; ++i) {
    const LowRankSlice& slice = pass.plan.slice[i];
    if (slice.member != member) continue;
    AddTo(&sum, reinterpret_cast<const float4*>(pass.sums + slice.column_sums)[quad]);
  }
  const int64_t row = quad * 4 / pass.rank, rank = quad * 4 % pass.rank;
  __nv_bfloat162 packed[2] = {__floats2bfloat162_rn(pass.scale * sum.x, pass.scale * sum.y),
                              __floats2bfloat162_rn(pass.scale * sum.z, pass.scale * sum.w)};
  bf16* p = pass.member[member].p + row * pass.ldp + rank;
  *reinterpret_cast<uint2*>(p) = *reinterpret_cast<const uint2*>(packed);
}

template <typename Grad>
__global__ void __launch_bounds__(kThreads)
    LowRankSumRowsKernel(const __grid_constant__ LowRankPass pass) {
  __shared__ float4 parts[kWarps][kWarp];
  const LowRankSlice& slice = pass.plan.slice[blockIdx.y];
  const int elements = slice.columns * pass.rank;
  WaitForPrevious();
  if (static_cast<int>(blockIdx.x) * kElements >= elements) return;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first = static_cast<int>(blockIdx.x) * kElements + 4 * lane;
  float4 sum = {0, 0, 0, 0};
  if (first < elements) {
    const float* from = pass.sums + slice.row_sums + first;
#pragma unroll 8
    for (int split = warp; split < slice.splits; split += kWarps) {
      AddTo(&sum, *reinterpret_cast<const float4*>(from + int64_t{split} * elements));
    }
  }
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || first >= elements) return;
#pragma unroll
  for (int i = 1; i < kWarps; ++i) AddTo(&sum, parts[i][lane]);
  const float value[4] = {sum.x, sum.y, sum.z, sum.w};
  const int64_t column = slice.column + first / pass.rank, rank = first % pass.rank;
  Grad* gradient = static_cast<Grad*>(pass.member[slice.member].gradient) +
                   column * pass.column_stride + rank * pass.rank_stride;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    Grad* at = gradient + i * pass.rank_stride;
    *at = FromFloat<Grad>(ToFloat(*at) + value[i]);
  }
}

}  // namespace

void SumColumns(const LowRankPass& pass, Stream* stream) {
  const int64_t blocks = CeilDiv(pass.rows * pass.rank / 4, kThreads);
  for (int i = 0; i < pass.plan.slices; ++i) {
    const LowRankSlice& slice = pass.plan.slice[i];
    if (slice.column_sums < 0 || slice.column != 0) continue;
    LaunchEarly(LowRankSumColumnsKernel, static_cast<unsigned>(blocks), kThreads, 0, Handle(stream),
                "LoraLinear", pass, static_cast<int>(slice.member));
  }
}

void SumRows(const LowRankPass& pass, Stream* stream) {
  const int64_t blocks = CeilDiv(int64_t{pass.plan.widest} * pass.rank, kElements);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(pass.plan.slices));
  ForDType(pass.grad_dtype, [&](auto zero) {
    LaunchEarly(LowRankSumRowsKernel<decltype(zero)>, grid, kThreads, 0, Handle(stream),
                "LoraLinear", pass);
  });
}

}  // namespace coxswain::kernels::cuda
