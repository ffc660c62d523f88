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
//
// Heads wider than 128 are computed as 256, and a thread cannot hold both sums, 128 registers each:
// one launch makes dV, one dK. K has 64 registers, S and dP are of 16 rows at a time, V stays in
// shared memory; with two stages of 32 rows that is 64.5 KiB for dV and 96.5 KiB for dK. S is
// computed twice: 10 x 64^2 hd operations, and Q and dO pass twice.
#include "kernels/cuda/attention/flash_params.cuh"

namespace coxswain::kernels::cuda {
namespace {

template <int kDim>
inline constexpr int kChunk = kDim <= 128 ? 32 : 16;  // rows

// What a launch computes: the sums of both do not fit into the registers of wide heads.
enum class Gradient { kBoth, kKeys, kValues };

// Tiles of K and V, as far as they stay, then two stages of Q, dO, and lse and delta of their rows.
// K that does not stay passes through the second stage, which is free until its rows are loaded.
template <int kDim, Gradient kOf>
struct Layout {
  static constexpr bool kKeyStays = kOf == Gradient::kBoth;
  static constexpr bool kValueStays = kOf != Gradient::kValues;
  static constexpr int kStage = 2 * kPassingBytes<kDim> + 2 * kPassingRows<kDim> * 4;
  static constexpr int kFirstStage = (kKeyStays + kValueStays) * kTileBytes<kDim>;
  static constexpr int kKey = kKeyStays ? 0 : kFirstStage + kStage;
  static constexpr int kValue = kKeyStays ? kTileBytes<kDim> : 0;
  static constexpr int kBytes = kFirstStage + 2 * kStage;
  static_assert(kStage >= kTileBytes<kDim>, "a stage holds a tile of K, dK or dV");
};

template <int kDim, Gradient kOf>
struct KeyState {
  static constexpr bool kKeepsKey = kDim <= 64 || !Layout<kDim, kOf>::kKeyStays;
  static constexpr bool kKeepsValue = kDim <= 64;
  uint32_t k[kKeepsKey ? kDim / 16 : 1][4], v[kKeepsValue ? kDim / 16 : 1][4];
  float dk[kDim / 8][4], dv[kDim / 8][4];
};

// s: dot products -> P^T; dp -> dS^T. lse and delta point at the chunk's rows.
template <bool kSoftcap, int kColumns>
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

// One tile of rows, in shared memory at `stage`, from row `first_row` on.
template <int kDim, Gradient kOf>
__device__ __forceinline__ void AddRows(const FlashParams& p, const DocumentTile& tile,
                                        int first_row, const char* memory, int stage,
                                        KeyState<kDim, kOf>* state) {
  constexpr int kRows = kPassingRows<kDim>;
  const uint32_t base = SharedAddress(memory), rows = base + stage;
  const uint32_t keys = base + Layout<kDim, kOf>::kKey, values = base + Layout<kDim, kOf>::kValue;
  const int first_key = tile.first + WarpOfBlock() * 16;
  const bool masked =
      first_row + kRows > tile.end || !p.AllVisible<kRows, kFlashTile>(first_row, tile.first);
  const float* lse = reinterpret_cast<const float*>(memory + stage + 2 * kPassingBytes<kDim>);
#pragma unroll 1
  for (int chunk = 0; chunk < kRows; chunk += kChunk<kDim>) {
    if (first_row + chunk + kChunk<kDim> <= first_key || first_row + chunk >= tile.end) continue;
    float s[kChunk<kDim> / 8][4], dp[kChunk<kDim> / 8][4];
    Zero(s);
    Zero(dp);
    MultiplyByRows<kDim>(
        s, [&](int k, uint32_t(&a)[4]) { TakeLeft<kDim>(state->k, keys, k, a); }, rows, chunk);
    if constexpr (kOf != Gradient::kValues) {
      MultiplyByRows<kDim>(
          dp, [&](int k, uint32_t(&a)[4]) { TakeLeft<kDim>(state->v, values, k, a); },
          rows + kPassingBytes<kDim>, chunk);
    }
    const float* delta = lse + kRows;
    if (p.softcap == 0.0f) {
      ScoreGradient<false>(p, first_key, first_row + chunk, tile.end, masked, lse + chunk,
                           delta + chunk, s, dp);
    } else {
      ScoreGradient<true>(p, first_key, first_row + chunk, tile.end, masked, lse + chunk,
                          delta + chunk, s, dp);
    }
    if constexpr (kOf != Gradient::kKeys) {
      MultiplyByTile<kDim>(state->dv, s, rows + kPassingBytes<kDim>, chunk);
    }
    if constexpr (kOf != Gradient::kValues) MultiplyByTile<kDim>(state->dk, dp, rows, chunk);
  }
}

template <int kDim>
__device__ __forceinline__ void LoadRows(const FlashParams& p, const DocumentTile& tile, int h,
                                         int first_row, const float* delta, uint32_t stage) {
  constexpr int kRows = kPassingRows<kDim>;
  const int rows = tile.end - first_row;
  LoadTile<kDim, kRows>(stage, p.q + p.query(first_row, h), p.q_row, rows, p.dim);
  LoadTile<kDim, kRows>(stage + kPassingBytes<kDim>, p.dout + p.o(first_row, h), p.out_row(), rows,
                        p.value_dim);
  static_assert(kFlashThreads >= 2 * kRows);
  if (kFlashThreads > 2 * kRows && threadIdx.x >= 2 * kRows) return;
  const int i = threadIdx.x % kRows;
  const float* source = (threadIdx.x < kRows ? p.lse : delta) + int64_t{h} * p.tokens + first_row;
  const bool valid = i < rows;
  CopyAsync4(stage + 2 * kPassingBytes<kDim> + threadIdx.x * 4, valid ? source + i : source, valid);
}

template <int kDim, Gradient kOf>
__device__ __forceinline__ void LoadKeysAndValues(const FlashParams& p, const DocumentTile& tile,
                                                  int g, uint32_t base) {
  using Memory = Layout<kDim, kOf>;
  const int keys = tile.end - tile.first;
  LoadTile<kDim>(base + Memory::kKey, p.k + p.key(tile.first, g), p.k_row, keys, p.dim);
  if constexpr (Memory::kValueStays) {
    LoadTile<kDim>(base + Memory::kValue, p.v + p.value(tile.first, g), p.v_row, keys, p.value_dim);
  }
}

// Takes what the warp keeps of K and V; its sums become 0.
template <int kDim, Gradient kOf>
__device__ __forceinline__ void Begin(uint32_t base, KeyState<kDim, kOf>* state) {
  using Memory = Layout<kDim, kOf>;
  using State = KeyState<kDim, kOf>;
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    if constexpr (State::kKeepsKey) {
      LoadLeft<kDim>(state->k[k], base + Memory::kKey, WarpOfBlock() * 16, k);
    }
    if constexpr (State::kKeepsValue) {
      LoadLeft<kDim>(state->v[k], base + Memory::kValue, WarpOfBlock() * 16, k);
    }
  }
  if constexpr (!Memory::kKeyStays) __syncthreads();  // nobody reads K any more
  Zero(state->dk);
  Zero(state->dv);
}

// Writes the sums by way of shared memory that nobody reads any more.
template <int kDim, Gradient kOf>
__device__ __forceinline__ void Store(const FlashParams& p, const DocumentTile& tile, int g,
                                      char* memory, const KeyState<kDim, kOf>& state) {
  const int keys = tile.end - tile.first;
  const float dk_scale[2] = {p.scale, p.scale}, dv_scale[2] = {1.0f, 1.0f};
  if constexpr (kOf != Gradient::kValues) {
    StoreRows<kDim>(state.dk, dk_scale, memory, p.dk + p.key(tile.first, g), p.k_row, keys, p.dim);
  }
  if constexpr (kOf == Gradient::kBoth) memory += kTileBytes<kDim>;
  if constexpr (kOf != Gradient::kKeys) {
    StoreRows<kDim>(state.dv, dv_scale, memory, p.dv + p.value(tile.first, g), p.v_row, keys,
                    p.value_dim);
  }
}

// Shared memory is free again for the block when it returns.
template <int kDim, Gradient kOf>
__device__ __forceinline__ void KeyGradientTile(const FlashParams& p, const DocumentTile& tile,
                                                int g, char* memory, const float* delta) {
  using Memory = Layout<kDim, kOf>;
  constexpr int kRows = kPassingRows<kDim>;
  const uint32_t base = SharedAddress(memory);
  // Past the last row that sees a key of this tile.
  const int rows_end = p.window == 0
                           ? tile.end
                           : min(tile.end, min(tile.first + kFlashTile, tile.end) - 1 + p.window);
  LoadKeysAndValues<kDim, kOf>(p, tile, g, base);
  int h = g * p.group(), row = tile.first, stage = Memory::kFirstStage;
  const int last_head = h + p.group() - 1;
  LoadRows<kDim>(p, tile, h, row, delta, base + stage);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  KeyState<kDim, kOf> state;
  Begin(base, &state);
  while (true) {
    const bool next_head = row + kRows >= rows_end;
    const bool last = next_head && h == last_head;
    const int next_row = next_head ? tile.first : row + kRows;
    const int next_stage = 2 * Memory::kFirstStage + Memory::kStage - stage;
    if (next_head) ++h;
    if (!last) {
      LoadRows<kDim>(p, tile, h, next_row, delta, base + next_stage);
      CommitCopies();
    }
    AddRows(p, tile, row, memory, stage, &state);
    WaitForCopies<0>();
    __syncthreads();  // the next stage is there, and nobody reads this one any more
    if (last) break;
    row = next_row;
    stage = next_stage;
  }
  Store(p, tile, g, memory, state);
  __syncthreads();
}

template <int kDim, Gradient kOf>
__global__ void __launch_bounds__(kFlashThreads, kDim <= 64 ? 3 : 2)
    FlashAttentionKeyGradientKernel(FlashParams p, const float* delta) {
  extern __shared__ __align__(128) char memory[];
  const int g = static_cast<int>(blockIdx.x) % p.kv_heads;
  for (int slot = static_cast<int>(blockIdx.x) / p.kv_heads; slot < p.slots;
       slot += static_cast<int>(gridDim.x) / p.kv_heads) {
    const DocumentTile tile = TileOfSlot(p.cu_seqlens, p.documents, slot, false);
    if (tile.begin == p.tokens) return;
    if (tile.first < tile.end) KeyGradientTile<kDim, kOf>(p, tile, g, memory, delta);
  }
}

template <int kDim, Gradient kOf>
void Launch(const FlashParams& p, const float* delta, Stream* stream) {
  LaunchFlash(FlashAttentionKeyGradientKernel<kDim, kOf>, FlashBlocks(p, p.kv_heads),
              Layout<kDim, kOf>::kBytes, stream, p, delta);
}

}  // namespace

void LaunchFlashKeyGradient(const FlashParams& p, const float* delta, Stream* stream) {
  ForFlashDim(p.widest(), [&](auto dim) {
    if constexpr (dim.value <= 128) {
      Launch<dim.value, Gradient::kBoth>(p, delta, stream);
    } else {
      Launch<dim.value, Gradient::kValues>(p, delta, stream);
      Launch<dim.value, Gradient::kKeys>(p, delta, stream);
    }
  });
}

}  // namespace coxswain::kernels::cuda
