// The pairs (token, slot) by expert (kernels/experts/expert_rows.h): a stable counting sort in
// three launches, of which the second and third start early.
//
// The pairs are cut into runs of whole tiles, one per block. Count: a block counts the experts of
// its run, by integer additions in shared memory, whose order does not show. Scan: a warp per
// expert turns the counts of the blocks into sums of those before, and adds up its pairs. Place: a
// block scans the experts' counts to offsets, and walks its tiles: a warp has kItems x 32 pairs of
// a tile in a row, where the lanes that hold the same expert find each other (match_any) and rank
// themselves by lane; a pass over the warps' counts gives each warp's first place of each expert.
// Integers alone, each place is written once: the same for every launch.
//
// Bytes: 16 per pair, which is read twice; 4 E per block of kTile pairs, at most kMostBlocks.
#include "kernels/experts/expert_rows.h"

#include <algorithm>
#include <cub/block/block_scan.cuh>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/experts/route.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / cuda::kWarp;
constexpr int kItems = 4;  // pairs of a thread in a tile
constexpr int kTile = kThreads * kItems;
constexpr int64_t kMostBlocks = 512;
constexpr int kExpertsPerThread = static_cast<int>(kMostExperts) / kThreads;
static_assert(kExpertsPerThread * kThreads == kMostExperts);

int64_t BlocksOf(int64_t pairs) {
  return std::clamp<int64_t>(cuda::CeilDiv(pairs, kTile), 1, kMostBlocks);
}

struct Runs {
  int64_t pairs = 0, run = 0;  // pairs of a block, whole tiles
  int experts = 0, blocks = 0;
  int32_t* before = nullptr;  // [E, blocks]: of a block, then of the blocks before it

  __device__ __forceinline__ int64_t Begin() const { return min(pairs, blockIdx.x * run); }
  __device__ __forceinline__ int64_t End() const { return min(pairs, (blockIdx.x + 1) * run); }
};

// -1 for what is no expert.
__device__ __forceinline__ int32_t ExpertAt(const int32_t* ids, int64_t pair, int64_t end,
                                            int experts) {
  const int32_t id = pair < end ? ids[pair] : -1;
  return id < experts ? id : -1;
}

__global__ void __launch_bounds__(kThreads)
    SortCountKernel(const SortByExpertArgs args, const Runs runs) {
  __shared__ int32_t counts[kMostExperts];
  cuda::LetNextStart();
  for (int e = threadIdx.x; e < runs.experts; e += kThreads) counts[e] = 0;
  __syncthreads();
  const int64_t end = runs.End();
#pragma unroll 4
  for (int64_t pair = runs.Begin() + threadIdx.x; pair < end; pair += kThreads) {
    const int32_t expert = ExpertAt(args.ids, pair, end, runs.experts);
    if (expert >= 0) atomicAdd(&counts[expert], 1);
  }
  __syncthreads();
  for (int e = threadIdx.x; e < runs.experts; e += kThreads) {
    runs.before[e * runs.blocks + blockIdx.x] = counts[e];
  }
}

__global__ void __launch_bounds__(kThreads)
    SortScanKernel(const SortByExpertArgs args, const Runs runs) {
  cuda::LetNextStart();
  cuda::WaitForPrevious();
  const int lane = threadIdx.x % cuda::kWarp;
  const int expert = static_cast<int>(blockIdx.x) * kWarps + threadIdx.x / cuda::kWarp;
  if (expert >= runs.experts) return;
  int32_t* row = runs.before + expert * runs.blocks;
  int32_t total = 0;
  for (int block = lane; block - lane < runs.blocks; block += cuda::kWarp) {
    const int32_t own = block < runs.blocks ? row[block] : 0;
    int32_t through = own;
#pragma unroll
    for (int offset = 1; offset < cuda::kWarp; offset *= 2) {
      const int32_t below = __shfl_up_sync(~0u, through, offset);
      if (lane >= offset) through += below;
    }
    if (block < runs.blocks) row[block] = total + through - own;
    total += __shfl_sync(~0u, through, cuda::kWarp - 1);
  }
  if (lane == 0) args.counts[expert] = total;
}

// offsets [E] of counts, in shared memory; the sum of all in every thread.
__device__ __forceinline__ int32_t ScanCounts(const int32_t* counts, int experts,
                                              int32_t* offsets) {
  using Scan = cub::BlockScan<int32_t, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  int32_t own[kExpertsPerThread], total = 0;
  const int first = threadIdx.x * kExpertsPerThread;
#pragma unroll
  for (int i = 0; i < kExpertsPerThread; ++i) {
    own[i] = first + i < experts ? counts[first + i] : 0;
  }
  Scan(storage).ExclusiveSum(own, own, total);
#pragma unroll
  for (int i = 0; i < kExpertsPerThread; ++i) offsets[first + i] = own[i];
  __syncthreads();
  return total;
}

// How many pairs of its expert stand before each of a thread's in its warp, whose counts by expert
// are made here. A round has the next 32 pairs.
__device__ __forceinline__ void RankInWarp(const int32_t (&experts)[kItems], int32_t* counts,
                                           int32_t (&ranks)[kItems]) {
  const unsigned below = (1u << (threadIdx.x % cuda::kWarp)) - 1;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const unsigned same = __match_any_sync(~0u, experts[i]);
    const bool left_out = experts[i] < 0;
    ranks[i] = left_out ? 0 : counts[experts[i]] + __popc(same & below);
    __syncwarp();
    if (!left_out && (same & below) == 0) counts[experts[i]] += __popc(same);
    __syncwarp();
  }
}

// Turns the warps' counts into the first place of each warp, and moves `next` [E] behind the tile.
__device__ __forceinline__ void PlaceWarps(int experts, int32_t (&counts)[kWarps][kMostExperts],
                                           int32_t* next) {
  __syncthreads();
  for (int e = threadIdx.x; e < experts; e += kThreads) {
    int32_t place = next[e];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const int32_t count = counts[w][e];
      counts[w][e] = place;
      place += count;
    }
    next[e] = place;
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads)
    SortPlaceKernel(const SortByExpertArgs args, const Runs runs) {
  __shared__ int32_t next[kMostExperts], counts[kWarps][kMostExperts];
  cuda::WaitForPrevious();
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
  const int32_t total = ScanCounts(args.counts, runs.experts, next);
  for (int e = threadIdx.x; e < runs.experts; e += kThreads) {
    if (blockIdx.x == 0) args.offsets[e] = next[e];
    next[e] += runs.before[e * runs.blocks + blockIdx.x];
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) args.offsets[runs.experts] = total;
  const int64_t end = runs.End();
  for (int64_t tile = runs.Begin(); tile < end; tile += kTile) {
    const int64_t first = tile + warp * (kItems * cuda::kWarp) + lane;
    int32_t experts[kItems], ranks[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      experts[i] = ExpertAt(args.ids, first + i * cuda::kWarp, end, runs.experts);
    }
    for (int e = lane; e < runs.experts; e += cuda::kWarp) counts[warp][e] = 0;
    __syncwarp();
    RankInWarp(experts, counts[warp], ranks);
    PlaceWarps(runs.experts, counts, next);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int64_t pair = first + i * cuda::kWarp;
      if (pair >= end) continue;
      const int32_t place = experts[i] < 0 ? -1 : counts[warp][experts[i]] + ranks[i];
      args.places[pair] = place;
      if (place >= 0) args.order[place] = static_cast<int32_t>(pair);
      if (pair >= total) args.order[pair] = -1;
    }
    __syncwarp();
  }
}

}  // namespace

bool SortByExpertSupports(const SortByExpertSpec& spec) {
  return spec.experts > 0 && spec.experts <= kMostExperts && spec.chosen > 0;
}

int64_t SortByExpertWorkspaceBytes(const SortByExpertSpec& spec, int64_t tokens) {
  return 4 * spec.experts * BlocksOf(tokens * spec.chosen);
}

void SortByExpert(const SortByExpertArgs& args, Stream* stream) {
  cuda::RequireSupported(SortByExpertSupports(args.spec), "SortByExpert");
  cuda::RequireExtent(args.tokens, "SortByExpert", "tokens");
  const int64_t pairs = args.tokens * args.spec.chosen;
  if (pairs > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("SortByExpert: " + std::to_string(pairs) +
                                " pairs, places are below 2147483648");
  }
  cuda::RequireWorkspace(args.workspace, SortByExpertWorkspaceBytes(args.spec, args.tokens),
                         "SortByExpert");
  const int64_t blocks = BlocksOf(pairs);
  const Runs runs{.pairs = pairs,
                  .run = cuda::CeilDiv(cuda::CeilDiv(pairs, blocks), kTile) * kTile,
                  .experts = static_cast<int>(args.spec.experts),
                  .blocks = static_cast<int>(blocks),
                  .before = static_cast<int32_t*>(args.workspace.data)};
  const cudaStream_t handle = cuda::Handle(stream);
  const auto grid = static_cast<unsigned>(blocks);
  SortCountKernel<<<grid, kThreads, 0, handle>>>(args, runs);
  cuda::CheckLaunch("SortByExpert");
  cuda::LaunchEarly(SortScanKernel,
                    dim3(static_cast<unsigned>(cuda::CeilDiv(runs.experts, kWarps))), kThreads, 0,
                    handle, "SortByExpert", args, runs);
  cuda::LaunchEarly(SortPlaceKernel, dim3(grid), kThreads, 0, handle, "SortByExpert", args, runs);
}

}  // namespace coxswain::kernels
