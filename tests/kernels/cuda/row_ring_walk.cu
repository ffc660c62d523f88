#include "tests/kernels/cuda/row_ring_walk.h"

#include "kernels/cuda/norms/norm_rows.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kMost = 4;  // vectors of a thread, as in the norms' backward

template <class Owner>
__host__ __device__ constexpr int SlotsOf(int threads) {
  return Owner::kVectors * (Owner::kWarpPerRow ? cuda::kWarp : threads);
}

template <class Owner>
__global__ void __launch_bounds__(Owner::kMaxThreads) WalkKernel(RowRingWalk walk) {
  extern __shared__ uint4 ring_memory[];
  const auto vectors = static_cast<int>(walk.vectors);
  const int slots = SlotsOf<Owner>(static_cast<int>(blockDim.x));
  const cuda::RowRing<Owner> ring{ring_memory, walk.stages, walk.tensors, vectors};
  const auto* const in = reinterpret_cast<const uint4*>(walk.in);
  auto* const out = reinterpret_cast<uint4*>(walk.out);
  const auto fetch = [&](int64_t row, int stage) {
    for (int t = 0; t < walk.tensors; ++t) {
      ring.Fetch(stage, t, in + (t * walk.rows + row) * vectors);
    }
  };
  const auto use = [&](int64_t row, int stage) {
    for (int t = 0; t < walk.tensors; ++t) {
#pragma unroll
      for (int i = 0; i < Owner::kVectors; ++i) {
        out[(t * walk.rows + row) * slots + Owner::Index(i)] = ring.Read(stage, t, i);
      }
    }
  };
  ring.Walk(walk.rows, fetch, use);
}

}  // namespace

int64_t RowRingSlots(int64_t vectors) {
  int64_t slots = 0;
  cuda::ForOwner<kMost>(vectors, [&](auto owner) {
    slots = SlotsOf<decltype(owner)>(owner.Threads(vectors, cuda::kBackwardThreads));
  });
  return slots;
}

void WalkRowRing(const RowRingWalk& walk, Stream* stream) {
  cuda::ForOwner<kMost>(walk.vectors, [&](auto owner) {
    using Owner = decltype(owner);
    const int threads = owner.Threads(walk.vectors, cuda::kBackwardThreads);
    const int bytes = cuda::BackwardSharedBytes<float, Owner>(threads, walk.stages, walk.tensors);
    cuda::CheckCuda(
        cudaFuncSetAttribute(WalkKernel<Owner>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "row ring");
    WalkKernel<Owner>
        <<<static_cast<unsigned>(walk.blocks), threads, bytes, cuda::Handle(stream)>>>(walk);
    cuda::CheckLaunch("row ring");
  });
}

}  // namespace coxswain::kernels
