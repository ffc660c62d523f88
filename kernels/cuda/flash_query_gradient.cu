// dQ of attention over packed documents, and delta = rowsum(dO O) for the dK and dV that follow.
//   P = exp(S - lse), dS = P (dO V^T - delta), with softcap c times 1 - (S / c)^2; dQ = scale dS K
// Source: Dao, "FlashAttention-2", 2023, algorithm 2, split so that dQ needs no atomics.
//
// One block of 4 warps per (tile of 64 rows of a document, query head); a warp owns 16 rows, Q and
// dO in registers. K and V tiles pass through two stages of shared memory; 32 keys at a time, so
// that S and dP stay in registers. Per pair of tiles 6 x 64^2 hd operations and 4 x 64 hd bytes
// from the L2. Deterministic: a row has one warp and a fixed order of keys.
#include "kernels/cuda/flash_params.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kChunk = 32;  // keys
constexpr int kColumns = kChunk / 8;

template <int kDim>
struct QueryState {
  uint32_t q[kDim / 16][4], dout[kDim / 16][4];
  float dq[kDim / 8][4];
  float log2_sum[2], delta[2];  // of rows g and g + 8
};

// s: dot products -> dS. Rows and keys count from the warp's first row and the chunk's first key.
template <bool kSoftcap>
__device__ __forceinline__ void ScoreGradient(const FlashParams& p, int first_row, int first_key,
                                              bool masked, const float (&log2_sum)[2],
                                              const float (&delta)[2],
                                              const float (&dp)[kColumns][4],
                                              float (&s)[kColumns][4]) {
  ForEachElement<kColumns>([&](int n, int i, int row, int column) {
    const FlashProbability probability = ProbabilityOf<kSoftcap>(p, s[n][i], log2_sum[i / 2]);
    const float ds = probability.value * (dp[n][i] - delta[i / 2]) * probability.slope;
    s[n][i] = masked && !p.Visible(first_row + row, first_key + column) ? 0.0f : ds;
  });
}

template <int kDim>
__device__ __forceinline__ void AddChunk(const FlashParams& p, int first_row, int first_key,
                                         bool masked, uint32_t keys, int chunk,
                                         QueryState<kDim>* state) {
  float s[kColumns][4], dp[kColumns][4];
  Zero(s);
  Zero(dp);
  MultiplyByRows<kDim>(
      s,
      [&](int k, uint32_t(&a)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = state->q[k][i];
      },
      keys, chunk);
  MultiplyByRows<kDim>(
      dp,
      [&](int k, uint32_t(&a)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = state->dout[k][i];
      },
      keys + kTileBytes<kDim>, chunk);
  if (p.softcap == 0.0f) {
    ScoreGradient<false>(p, first_row, first_key, masked, state->log2_sum, state->delta, dp, s);
  } else {
    ScoreGradient<true>(p, first_row, first_key, masked, state->log2_sum, state->delta, dp, s);
  }
  MultiplyByTile<kDim>(state->dq, s, keys, chunk);
}

// Q, dO and delta of the warp's rows, from tiles of Q, dO and O.
template <int kDim>
__device__ __forceinline__ void LoadQueries(const FlashParams& p, const DocumentTile& tile, int h,
                                            uint32_t q, uint32_t dout, uint32_t out, float* delta,
                                            QueryState<kDim>* state) {
  const int lane = threadIdx.x % kWarp, warp_row = WarpOfBlock() * 16;
  float sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    uint32_t o[4];
    LoadLeft<kDim>(state->q[k], q, warp_row, k);
    LoadLeft<kDim>(state->dout[k], dout, warp_row, k);
    LoadLeft<kDim>(o, out, warp_row, k);
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // fragments 0 and 2 are of row g, 1 and 3 of row g + 8
      const float2 a = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(o[i]));
      const float2 b =
          __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(state->dout[k][i]));
      sum[i % 2] += a.x * b.x + a.y * b.y;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = tile.first + warp_row + lane / 4 + half * 8;
    const int64_t at = int64_t{h} * p.tokens + row;
    state->delta[half] = QuadSum(sum[half]);
    state->log2_sum[half] = row < tile.end ? p.lse[at] * kLog2E : 0.0f;
    if (lane % 4 == 0 && row < tile.end) delta[at] = state->delta[half];
  }
  Zero(state->dq);
}

template <int kDim>
__device__ __forceinline__ void LoadKeysAndValues(const FlashParams& p, const DocumentTile& tile,
                                                  int g, int first_key, uint32_t stage) {
  const int rows = tile.end - first_key;
  LoadTile<kDim>(stage, p.qkv + p.k(first_key, g), p.row(), rows, p.dim);
  LoadTile<kDim>(stage + kTileBytes<kDim>, p.qkv + p.v(first_key, g), p.row(), rows, p.dim);
}

// Shared memory is free again for the block when it returns.
template <int kDim>
__device__ __forceinline__ void QueryGradientTile(const FlashParams& p, const DocumentTile& tile,
                                                  int h, char* memory, float* delta, bf16* dqkv) {
  const int warp_row = WarpOfBlock() * 16, g = h / p.group(), rows = tile.end - tile.first;
  const uint32_t stages = SharedAddress(memory);
  constexpr uint32_t kStage = 2 * kTileBytes<kDim>;
  const uint32_t q = stages + kStage, dout = q + kTileBytes<kDim>, out = dout + kTileBytes<kDim>;
  int key = p.FirstKey(tile);
  LoadTile<kDim>(q, p.qkv + p.q(tile.first, h), p.row(), rows, p.dim);
  LoadTile<kDim>(dout, p.dout + p.o(tile.first, h), p.out_row(), rows, p.dim);
  LoadTile<kDim>(out, p.out + p.o(tile.first, h), p.out_row(), rows, p.dim);
  CommitCopies();
  LoadKeysAndValues<kDim>(p, tile, g, key, stages);
  CommitCopies();
  WaitForCopies<1>();
  __syncthreads();
  QueryState<kDim> state;
  LoadQueries<kDim>(p, tile, h, q, dout, out, delta, &state);
  for (uint32_t stage = 0; key <= tile.first; key += kFlashTile, stage ^= kStage) {
    WaitForCopies<0>();
    __syncthreads();  // this stage is there, and nobody reads the other one any more
    if (key + kFlashTile <= tile.first) {
      LoadKeysAndValues<kDim>(p, tile, g, key + kFlashTile, stages + (stage ^ kStage));
      CommitCopies();
    }
    const bool masked = !p.AllVisible(tile.first, key);
    const int last_row = tile.first + warp_row + 15;
#pragma unroll 1
    for (int chunk = 0; chunk < kFlashTile && key + chunk <= last_row; chunk += kChunk) {
      AddChunk<kDim>(p, tile.first + warp_row, key + chunk, masked, stages + stage, chunk, &state);
    }
  }
  __syncthreads();
  const float scale[2] = {p.scale, p.scale};
  StoreRows<kDim>(state.dq, scale, memory, dqkv + p.q(tile.first, h), p.row(), rows, p.dim);
  __syncthreads();
}

template <int kDim>
__global__ void __launch_bounds__(kFlashThreads, kDim <= 64 ? 3 : 2)
    FlashAttentionQueryGradientKernel(FlashParams p, float* delta, bf16* dqkv) {
  extern __shared__ __align__(128) char memory[];
  const int h = static_cast<int>(blockIdx.x) % p.heads;
  for (int slot = static_cast<int>(blockIdx.x) / p.heads; slot < p.slots;
       slot += static_cast<int>(gridDim.x) / p.heads) {
    const DocumentTile tile = TileOfSlot(p.cu_seqlens, p.documents, slot, true);
    if (tile.begin == p.tokens) return;
    if (tile.first < tile.end) QueryGradientTile<kDim>(p, tile, h, memory, delta, dqkv);
  }
}

}  // namespace

void LaunchFlashQueryGradient(const FlashParams& p, float* delta, bf16* dqkv, Stream* stream) {
  ForFlashDim(p.dim, [&](auto dim) {
    LaunchFlash(FlashAttentionQueryGradientKernel<dim.value>, FlashBlocks(p, p.heads),
                5 * kTileBytes<dim.value>, stream, p, delta, dqkv);
  });
}

}  // namespace coxswain::kernels::cuda
