// dK and dV of attention over packed documents.
//   transposed, keys as rows: P^T = exp(K Q^T - lse), dS^T = P^T (V dO^T - delta), with softcap c
//   times 1 - (S / c)^2; dV = sum P^T dO, dK = scale sum dS^T Q, over rows and heads of the group
// Source: Dao, "FlashAttention-2", 2023, algorithm 2.
//
// One block of 4 warps per (tile of 64 keys of a document, kv head); a warp owns 16 keys. Tiles of
// Q and dO of every row that sees the keys, head after head of the group, pass through two stages
// of shared memory with their lse and delta; 32 rows at a time, so that S and dP stay in registers.
// K and V are kept in registers up to 64-wide heads, else read from shared memory again. Per pair
// of tiles 8 x 64^2 hd operations and 4 x 64 hd bytes from the L2. Deterministic: a key has one
// warp and a fixed order of heads and rows.
#include "kernels/cuda/flash_params.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kChunk = 32;  // rows
constexpr int kColumns = kChunk / 8;

// Shared memory: K, V, then two stages of Q, dO, lse [64] and delta [64].
template <int kDim>
inline constexpr int kStageBytes = 2 * kTileBytes<kDim> + 2 * kFlashTile * 4;
template <int kDim>
inline constexpr int kSharedBytes = 2 * kTileBytes<kDim> + 2 * kStageBytes<kDim>;

template <int kDim>
struct KeyState {
  static constexpr bool kInRegisters = kDim <= 64;
  static constexpr int kSteps = kInRegisters ? kDim / 16 : 1;
  uint32_t k[kSteps][4], v[kSteps][4];
  float dk[kDim / 8][4], dv[kDim / 8][4];
};

// s: dot products -> P^T; dp -> dS^T. lse and delta point at the chunk's rows.
template <bool kSoftcap>
__device__ __forceinline__ void ScoreGradient(const FlashParams& p, int first_key, int first_row,
                                              int end, bool masked, const float* lse,
                                              const float* delta, float (&s)[kColumns][4],
                                              float (&dp)[kColumns][4]) {
  ForEachElement<kColumns>([&](int n, int i, int key, int row) {
    const FlashProbability probability = ProbabilityOf<kSoftcap>(p, s[n][i], lse[row] * kLog2E);
    const bool hidden =
        masked && (first_row + row >= end || !p.Visible(first_row + row, first_key + key));
    s[n][i] = hidden ? 0.0f : probability.value;
    dp[n][i] = hidden ? 0.0f : probability.value * (dp[n][i] - delta[row]) * probability.slope;
  });
}

// Loads step k of the warp's K or V: from registers, or from its tile.
template <int kDim>
__device__ __forceinline__ void Left(const uint32_t (&kept)[KeyState<kDim>::kSteps][4],
                                     uint32_t tile, int k, uint32_t (&a)[4]) {
  if constexpr (KeyState<kDim>::kInRegisters) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = kept[k][i];
  } else {
    LoadLeft<kDim>(a, tile, WarpOfBlock() * 16, k);
  }
}

// One tile of rows, in shared memory at `stage`, from row `first_row` on.
template <int kDim>
__device__ __forceinline__ void AddRows(const FlashParams& p, const DocumentTile& tile,
                                        int first_row, const char* memory, int stage,
                                        KeyState<kDim>* state) {
  const uint32_t keys = SharedAddress(memory), rows = keys + stage;
  const int first_key = tile.first + WarpOfBlock() * 16;
  const bool masked = first_row + kFlashTile > tile.end || !p.AllVisible(first_row, tile.first);
  const float* lse = reinterpret_cast<const float*>(memory + stage + 2 * kTileBytes<kDim>);
#pragma unroll 1
  for (int chunk = 0; chunk < kFlashTile; chunk += kChunk) {
    if (first_row + chunk + kChunk <= first_key || first_row + chunk >= tile.end) continue;
    float s[kColumns][4], dp[kColumns][4];
    Zero(s);
    Zero(dp);
    MultiplyByRows<kDim>(
        s, [&](int k, uint32_t(&a)[4]) { Left<kDim>(state->k, keys, k, a); }, rows, chunk);
    MultiplyByRows<kDim>(
        dp, [&](int k, uint32_t(&a)[4]) { Left<kDim>(state->v, keys + kTileBytes<kDim>, k, a); },
        rows + kTileBytes<kDim>, chunk);
    const float* delta = lse + kFlashTile;
    if (p.softcap == 0.0f) {
      ScoreGradient<false>(p, first_key, first_row + chunk, tile.end, masked, lse + chunk,
                           delta + chunk, s, dp);
    } else {
      ScoreGradient<true>(p, first_key, first_row + chunk, tile.end, masked, lse + chunk,
                          delta + chunk, s, dp);
    }
    MultiplyByTile<kDim>(state->dv, s, rows + kTileBytes<kDim>, chunk);
    MultiplyByTile<kDim>(state->dk, dp, rows, chunk);
  }
}

template <int kDim>
__device__ __forceinline__ void LoadRows(const FlashParams& p, const DocumentTile& tile, int h,
                                         int first_row, const float* delta, uint32_t stage) {
  const int rows = tile.end - first_row;
  LoadTile<kDim>(stage, p.qkv + p.q(first_row, h), p.row(), rows, p.dim);
  LoadTile<kDim>(stage + kTileBytes<kDim>, p.dout + p.o(first_row, h), p.out_row(), rows, p.dim);
  static_assert(kFlashThreads == 2 * kFlashTile);
  const int i = threadIdx.x % kFlashTile;
  const float* source =
      (threadIdx.x < kFlashTile ? p.lse : delta) + int64_t{h} * p.tokens + first_row;
  const bool valid = i < rows;
  CopyAsync4(stage + 2 * kTileBytes<kDim> + threadIdx.x * 4, valid ? source + i : source, valid);
}

// Shared memory is free again for the block when it returns.
template <int kDim>
__device__ __forceinline__ void KeyGradientTile(const FlashParams& p, const DocumentTile& tile,
                                                int g, char* memory, const float* delta,
                                                bf16* dqkv) {
  const uint32_t base = SharedAddress(memory);
  const int keys = tile.end - tile.first;
  // Past the last row that sees a key of this tile.
  const int rows_end = p.window == 0
                           ? tile.end
                           : min(tile.end, min(tile.first + kFlashTile, tile.end) - 1 + p.window);
  LoadTile<kDim>(base, p.qkv + p.k(tile.first, g), p.row(), keys, p.dim);
  LoadTile<kDim>(base + kTileBytes<kDim>, p.qkv + p.v(tile.first, g), p.row(), keys, p.dim);
  int h = g * p.group(), row = tile.first, stage = 2 * kTileBytes<kDim>;
  const int last_head = h + p.group() - 1;
  LoadRows<kDim>(p, tile, h, row, delta, base + stage);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  KeyState<kDim> state;
  if constexpr (KeyState<kDim>::kInRegisters) {
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      LoadLeft<kDim>(state.k[k], base, WarpOfBlock() * 16, k);
      LoadLeft<kDim>(state.v[k], base + kTileBytes<kDim>, WarpOfBlock() * 16, k);
    }
  }
  Zero(state.dk);
  Zero(state.dv);
  while (true) {
    const bool next_head = row + kFlashTile >= rows_end;
    const bool last = next_head && h == last_head;
    const int next_row = next_head ? tile.first : row + kFlashTile;
    const int next_stage = 4 * kTileBytes<kDim> + kStageBytes<kDim> - stage;
    if (next_head) ++h;
    if (!last) {
      LoadRows<kDim>(p, tile, h, next_row, delta, base + next_stage);
      CommitCopies();
    }
    AddRows<kDim>(p, tile, row, memory, stage, &state);
    WaitForCopies<0>();
    __syncthreads();  // the next stage is there, and nobody reads this one any more
    if (last) break;
    row = next_row;
    stage = next_stage;
  }
  const float dk_scale[2] = {p.scale, p.scale}, dv_scale[2] = {1.0f, 1.0f};
  StoreRows<kDim>(state.dk, dk_scale, memory, dqkv + p.k(tile.first, g), p.row(), keys, p.dim);
  StoreRows<kDim>(state.dv, dv_scale, memory + kTileBytes<kDim>, dqkv + p.v(tile.first, g), p.row(),
                  keys, p.dim);
  __syncthreads();
}

template <int kDim>
__global__ void __launch_bounds__(kFlashThreads, kDim <= 64 ? 3 : 2)
    FlashAttentionKeyGradientKernel(FlashParams p, const float* delta, bf16* dqkv) {
  extern __shared__ __align__(128) char memory[];
  const int g = static_cast<int>(blockIdx.x) % p.kv_heads;
  for (int slot = static_cast<int>(blockIdx.x) / p.kv_heads; slot < p.slots;
       slot += static_cast<int>(gridDim.x) / p.kv_heads) {
    const DocumentTile tile = TileOfSlot(p.cu_seqlens, p.documents, slot, false);
    if (tile.begin == p.tokens) return;
    if (tile.first < tile.end) KeyGradientTile<kDim>(p, tile, g, memory, delta, dqkv);
  }
}

}  // namespace

void LaunchFlashKeyGradient(const FlashParams& p, const float* delta, bf16* dqkv, Stream* stream) {
  ForFlashDim(p.dim, [&](auto dim) {
    LaunchFlash(FlashAttentionKeyGradientKernel<dim.value>, FlashBlocks(p, p.kv_heads),
                kSharedBytes<dim.value>, stream, p, delta, dqkv);
  });
}

}  // namespace coxswain::kernels::cuda
