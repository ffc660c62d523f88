// dQ of attention over packed documents, and delta = rowsum(dO O) for the dK and dV that follow.
//   P = exp(S - lse), dS = P (dO V^T - delta), with softcap c times 1 - (S / c)^2; dQ = scale dS K
// Source: Dao, "FlashAttention-2", 2023, algorithm 2, split so that dQ needs no atomics.
//
// One block of 4 warps per (tile of 64 rows of a document, query head); a warp owns 16 rows, Q and
// dO in registers. K and V tiles pass through two stages of shared memory; 32 keys at a time, so
// that S and dP stay in registers. Per pair of tiles 6 x 64^2 hd operations and 4 x 64 hd bytes
// from the L2. Deterministic: a row has one warp and a fixed order of keys.
//
// Heads wider than 128 are computed as 256: of a thread's registers Q has 64 and dQ 128, so that dO
// is read from shared memory again and S and dP are of 16 keys at a time. dO and two stages of 32
// keys are 96 KiB.
#include "kernels/cuda/attention/flash_params.cuh"

namespace coxswain::kernels::cuda {
namespace {

template <int kDim>
inline constexpr int kChunk = kDim <= 128 ? 32 : 16;  // keys

// Two stages of K and V; Q passes through the second one, which is free until its keys are loaded.
// dO of wide heads stays in shared memory, and their O passes through the first stage.
template <int kDim>
struct Layout {
  static constexpr bool kWide = kDim > 128;
  static constexpr int kStage = 2 * kPassingBytes<kDim>;
  static constexpr int kQ = kStage;
  static constexpr int kDout = kQ + kTileBytes<kDim>;
  static constexpr int kOut = kWide ? 0 : kDout + kTileBytes<kDim>;
  static constexpr int kBytes = (kWide ? kDout : kOut) + kTileBytes<kDim>;
  static_assert(kStage >= kTileBytes<kDim>, "a stage holds a tile of Q, O or dQ");
};

template <int kDim>
struct QueryState {
  static constexpr int kDoutSteps = Layout<kDim>::kWide ? 1 : kDim / 16;
  uint32_t q[kDim / 16][4], dout[kDoutSteps][4];
  float dq[kDim / 8][4];
  float log2_sum[2], delta[2];  // of rows g and g + 8
};

// s: dot products -> dS. Rows and keys count from the warp's first row and the chunk's first key.
template <bool kSoftcap, int kColumns>
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
                                         bool masked, uint32_t keys, int chunk, uint32_t dout,
                                         QueryState<kDim>* state) {
  float s[kChunk<kDim> / 8][4], dp[kChunk<kDim> / 8][4];
  Zero(s);
  Zero(dp);
  MultiplyByRows<kDim>(
      s, [&](int k, uint32_t(&a)[4]) { TakeLeft<kDim>(state->q, 0, k, a); }, keys, chunk);
  MultiplyByRows<kDim>(
      dp, [&](int k, uint32_t(&a)[4]) { TakeLeft<kDim>(state->dout, dout, k, a); },
      keys + kPassingBytes<kDim>, chunk);
  if (p.softcap == 0.0f) {
    ScoreGradient<false>(p, first_row, first_key, masked, state->log2_sum, state->delta, dp, s);
  } else {
    ScoreGradient<true>(p, first_row, first_key, masked, state->log2_sum, state->delta, dp, s);
  }
  MultiplyByTile<kDim>(state->dq, s, keys, chunk);
}

// Q, dO where it is kept, and delta of the warp's rows, from the tiles of Q, dO and O.
template <int kDim>
__device__ __forceinline__ void TakeQueries(const FlashParams& p, const DocumentTile& tile, int h,
                                            uint32_t base, float* delta, QueryState<kDim>* state) {
  const int lane = threadIdx.x % kWarp, warp_row = WarpOfBlock() * 16;
  float sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    uint32_t o[4];
    uint32_t(&d)[4] = state->dout[Layout<kDim>::kWide ? 0 : k];
    LoadLeft<kDim>(state->q[k], base + Layout<kDim>::kQ, warp_row, k);
    LoadLeft<kDim>(d, base + Layout<kDim>::kDout, warp_row, k);
    LoadLeft<kDim>(o, base + Layout<kDim>::kOut, warp_row, k);
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // fragments 0 and 2 are of row g, 1 and 3 of row g + 8
      const float2 a = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(o[i]));
      const float2 b = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(d[i]));
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
  constexpr int kKeys = kPassingRows<kDim>;
  LoadTile<kDim, kKeys>(stage, p.k + p.key(first_key, g), p.k_row, rows, p.dim);
  LoadTile<kDim, kKeys>(stage + kPassingBytes<kDim>, p.v + p.value(first_key, g), p.v_row, rows,
                        p.value_dim);
}

// Fills the state of a tile of rows and starts to load the tile of keys at `key` into stage 0.
template <int kDim>
__device__ __forceinline__ void Begin(const FlashParams& p, const DocumentTile& tile, int h,
                                      int key, uint32_t base, float* delta,
                                      QueryState<kDim>* state) {
  using Memory = Layout<kDim>;
  const int g = h / p.group(), rows = tile.end - tile.first;
  LoadTile<kDim>(base + Memory::kQ, p.q + p.query(tile.first, h), p.q_row, rows, p.dim);
  LoadTile<kDim>(base + Memory::kDout, p.dout + p.o(tile.first, h), p.out_row(), rows, p.value_dim);
  LoadTile<kDim>(base + Memory::kOut, p.out + p.o(tile.first, h), p.out_row(), rows, p.value_dim);
  CommitCopies();
  if constexpr (!Memory::kWide) {
    LoadKeysAndValues<kDim>(p, tile, g, key, base);
    CommitCopies();
  }
  WaitForCopies<Memory::kWide ? 0 : 1>();
  __syncthreads();
  TakeQueries<kDim>(p, tile, h, base, delta, state);
  if constexpr (Memory::kWide) {
    __syncthreads();  // nobody reads O any more
    LoadKeysAndValues<kDim>(p, tile, g, key, base);
    CommitCopies();
  }
}

// Shared memory is free again for the block when it returns.
template <int kDim>
__device__ __forceinline__ void QueryGradientTile(const FlashParams& p, const DocumentTile& tile,
                                                  int h, char* memory, float* delta) {
  constexpr int kKeys = kPassingRows<kDim>;
  constexpr uint32_t kStage = Layout<kDim>::kStage;
  const int warp_row = WarpOfBlock() * 16, g = h / p.group();
  const uint32_t stages = SharedAddress(memory), dout = stages + Layout<kDim>::kDout;
  const int last_key = p.LastKey<kKeys>(tile);
  int key = p.FirstKey<kKeys>(tile);
  QueryState<kDim> state;
  Begin<kDim>(p, tile, h, key, stages, delta, &state);
  for (uint32_t stage = 0; key <= last_key; key += kKeys, stage ^= kStage) {
    WaitForCopies<0>();
    __syncthreads();  // this stage is there, and nobody reads the other one any more
    if (key + kKeys <= last_key) {
      LoadKeysAndValues<kDim>(p, tile, g, key + kKeys, stages + (stage ^ kStage));
      CommitCopies();
    }
    const bool masked = !p.AllVisible<kFlashTile, kKeys>(tile.first, key);
    const int last_row = tile.first + warp_row + 15;
#pragma unroll 1
    for (int chunk = 0; chunk < kKeys && key + chunk <= last_row; chunk += kChunk<kDim>) {
      AddChunk<kDim>(p, tile.first + warp_row, key + chunk, masked, stages + stage, chunk, dout,
                     &state);
    }
  }
  __syncthreads();
  const float scale[2] = {p.scale, p.scale};
  StoreRows<kDim>(state.dq, scale, memory, p.dq + p.query(tile.first, h), p.q_row,
                  tile.end - tile.first, p.dim);
  __syncthreads();
}

template <int kDim>
__global__ void __launch_bounds__(kFlashThreads, kDim <= 64 ? 3 : 2)
    FlashAttentionQueryGradientKernel(FlashParams p, float* delta) {
  extern __shared__ __align__(128) char memory[];
  const int h = static_cast<int>(blockIdx.x) % p.heads;
  for (int slot = static_cast<int>(blockIdx.x) / p.heads; slot < p.slots;
       slot += static_cast<int>(gridDim.x) / p.heads) {
    const DocumentTile tile = TileOfSlot(p.cu_seqlens, p.documents, slot, true);
    if (tile.begin == p.tokens) return;
    if (tile.first < tile.end) QueryGradientTile<kDim>(p, tile, h, memory, delta);
  }
}

}  // namespace

void LaunchFlashQueryGradient(const FlashParams& p, float* delta, Stream* stream) {
  ForFlashDim(p.widest(), [&](auto dim) {
    LaunchFlash(FlashAttentionQueryGradientKernel<dim.value>, FlashBlocks(p, p.heads),
                Layout<dim.value>::kBytes, stream, p, delta);
  });
}

}  // namespace coxswain::kernels::cuda
