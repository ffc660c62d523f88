// Forward of attention over packed documents on mma.sync, and what the flash kernels take.
//   m, l, O over tiles of keys: m' = max(m, rowmax S), P = exp(S - m'), l' = e^{m - m'} l + rowsum
//   P, O' = e^{m - m'} O + P V; out = O / l, lse = m + log l. A sink joins when all keys are met,
//   as a score without a value.
// Source: Dao, "FlashAttention-2", 2023, algorithm 1.
//
// One block of 4 warps per (tile of 64 rows of a document, query head); a warp owns 16 rows, Q in
// registers. K and V tiles pass through two stages of swizzled shared memory with cp.async. Only
// tiles that the mask cuts are masked, by element; a masked probability is exactly 0. Per pair of
// tiles 4 x 64^2 hd operations and 4 x 64 hd bytes from the L2. Deterministic: a row has one warp
// and a fixed order of keys that depends on its document alone.
//
// Heads wider than 128 are computed as 256: of a thread's registers Q has 64 and O 128, which
// leaves no more than 32 keys of scores; a block has 64 KiB of shared memory.
#include "kernels/cuda/attention/flash_attention.h"

#include "kernels/cuda/attention/flash_params.cuh"

namespace coxswain::kernels::cuda {
namespace {

template <int kDim>
struct ForwardState {
  uint32_t q[kDim / 16][4];
  float out[kDim / 8][4];
  float maximum[2], total[2];  // of rows g and g + 8; total of this lane's columns
};

// Scores of the warp's rows against a tile of keys -> unnormalised probabilities; rescales what has
// been summed so far. first_row is the warp's.
template <int kDim, int kColumns>
__device__ __forceinline__ void OnlineSoftmax(const FlashParams& p, int first_row, int first_key,
                                              bool masked, float (&s)[kColumns][4],
                                              ForwardState<kDim>* state) {
  if (p.softcap != 0.0f) {
    const float inverse = p.scale / p.softcap;
    ForEachElement<kColumns>(
        [&](int n, int i, int, int) { s[n][i] = p.softcap * Tanh(s[n][i] * inverse); });
  }
  if (masked) {
    ForEachElement<kColumns>([&](int n, int i, int row, int column) {
      if (!p.Visible(first_row + row, first_key + column)) s[n][i] = -INFINITY;
    });
  }
  const float factor = p.Log2Factor();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      largest = fmaxf(largest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    }
    const float maximum = fmaxf(state->maximum[half], QuadMax(largest));
    // A row that has seen no key yet keeps -infinity, which must not meet itself in a difference.
    const float shift = maximum == -INFINITY ? 0.0f : maximum * factor;
    const float shrink = Exp2(state->maximum[half] * factor - shift);
    state->maximum[half] = maximum;
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[n][i] = Exp2(s[n][i] * factor - shift);
        sum += s[n][i];
      }
    }
    state->total[half] = state->total[half] * shrink + sum;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      state->out[n][2 * half] *= shrink;
      state->out[n][2 * half + 1] *= shrink;
    }
  }
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

// Shared memory is free again for the block when it returns.
template <int kDim>
__device__ __forceinline__ void ForwardTile(const FlashParams& p, const DocumentTile& tile, int h,
                                            char* memory, bf16* out, float* lse) {
  const int lane = threadIdx.x % kWarp, warp_row = WarpOfBlock() * 16;
  const int g = h / p.group();
  const uint32_t stages = SharedAddress(memory);
  constexpr int kKeys = kPassingRows<kDim>;
  constexpr uint32_t kStage = 2 * kPassingBytes<kDim>;
  static_assert(kStage >= kTileBytes<kDim>, "Q and the output pass through a stage");
  const int last_key = p.LastKey<kKeys>(tile);
  int key = p.FirstKey<kKeys>(tile);
  LoadTile<kDim>(stages + kStage, p.q + p.query(tile.first, h), p.q_row, tile.end - tile.first,
                 p.dim);
  CommitCopies();
  LoadKeysAndValues<kDim>(p, tile, g, key, stages);
  CommitCopies();
  WaitForCopies<1>();
  __syncthreads();
  ForwardState<kDim> state;
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) LoadLeft<kDim>(state.q[k], stages + kStage, warp_row, k);
  Zero(state.out);
  state.maximum[0] = state.maximum[1] = -INFINITY;
  state.total[0] = state.total[1] = 0.0f;
  for (uint32_t stage = 0; key <= last_key; key += kKeys, stage ^= kStage) {
    WaitForCopies<0>();
    __syncthreads();  // this stage is there, and nobody reads the other one any more
    if (key + kKeys <= last_key) {
      LoadKeysAndValues<kDim>(p, tile, g, key + kKeys, stages + (stage ^ kStage));
      CommitCopies();
    }
    if (kKeys < kFlashTile && key > tile.first + warp_row + 15) continue;  // no row sees a key
    float s[kKeys / 8][4];
    Zero(s);
    MultiplyByRows<kDim>(
        s,
        [&](int k, uint32_t(&a)[4]) {
#pragma unroll
          for (int i = 0; i < 4; ++i) a[i] = state.q[k][i];
        },
        stages + stage, 0);
    OnlineSoftmax<kDim>(p, tile.first + warp_row, key,
                        !p.AllVisible<kFlashTile, kKeys>(tile.first, key), s, &state);
    MultiplyByTile<kDim>(state.out, s, stages + stage + kPassingBytes<kDim>, 0);
  }
  float scale[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const RowEnd end = EndOfRow(p, h, state.maximum[half], QuadSum(state.total[half]));
    scale[half] = end.scale;
    const int row = tile.first + warp_row + lane / 4 + half * 8;
    if (lane % 4 == 0 && row < tile.end) lse[int64_t{h} * p.tokens + row] = end.lse;
  }
  __syncthreads();
  StoreRows<kDim>(state.out, scale, memory, out + p.o(tile.first, h), p.out_row(),
                  tile.end - tile.first, p.value_dim);
  __syncthreads();
}

template <int kDim>
__global__ void __launch_bounds__(kFlashThreads, kDim <= 64 ? 4 : 2)
    FlashAttentionForwardKernel(FlashParams p, bf16* out, float* lse) {
  extern __shared__ __align__(128) char memory[];
  const int h = static_cast<int>(blockIdx.x) % p.heads;
  for (int slot = static_cast<int>(blockIdx.x) / p.heads; slot < p.slots;
       slot += static_cast<int>(gridDim.x) / p.heads) {
    const DocumentTile tile = TileOfSlot(p.cu_seqlens, p.documents, slot, true);
    if (tile.begin == p.tokens) return;
    if (tile.first < tile.end) ForwardTile<kDim>(p, tile, h, memory, out, lse);
  }
}

}  // namespace

bool FlashAttentionSupports(const AttentionSpec& spec) {
  const int64_t values = ValueDim(spec);
  return spec.dtype == DType::kBFloat16 && spec.head_dim % 8 == 0 && spec.head_dim <= 256 &&
         values % 8 == 0 && values <= 256 && QueryRow(spec) % 8 == 0 && KeyRow(spec) % 8 == 0 &&
         ValueRow(spec) % 8 == 0 && spec.scale > 0.0f;
}

void FlashAttentionForward(const AttentionForwardArgs& args, Stream* stream) {
  RequireFlashAligned(args.in);
  RequireFlashAligned(args.out, "out");
  FlashParams p = MakeFlashParams(args.spec, args.documents, args.tokens, args.in);
  p.sinks = MakeSinks(args.spec, args.sinks);
  ForFlashDim(p.widest(), [&](auto dim) {
    LaunchFlash(FlashAttentionForwardKernel<dim.value>, FlashBlocks(p, p.heads),
                4 * kPassingBytes<dim.value>, stream, p, static_cast<bf16*>(args.out), args.lse);
  });
  CheckLaunch("AttentionForward");
}

int64_t FlashAttentionBackwardWorkspaceBytes(const AttentionSpec& spec, int64_t tokens) {
  return static_cast<int64_t>(sizeof(float)) * spec.num_heads * tokens;
}

void FlashAttentionBackward(const AttentionBackwardArgs& args, Stream* stream) {
  RequireFlashAligned(args.in);
  RequireFlashAligned(args.out, "out");
  RequireFlashAligned(args.dout, "dout");
  RequireFlashAligned(args.gradients);
  FlashParams p = MakeFlashParams(args.spec, args.documents, args.tokens, args.in);
  p.out = static_cast<const bf16*>(args.out);
  p.dout = static_cast<const bf16*>(args.dout);
  p.lse = args.lse;
  float* delta = static_cast<float*>(args.workspace.data);
  p.dq = static_cast<bf16*>(args.gradients.q);
  p.dk = static_cast<bf16*>(args.gradients.k);
  p.dv = static_cast<bf16*>(args.gradients.v);
  LaunchFlashQueryGradient(p, delta, stream);
  LaunchFlashKeyGradient(p, delta, stream);
  CheckLaunch("AttentionBackward");
  LaunchSinkGradient({.tokens = args.tokens, .heads = p.heads, .lse = args.lse, .delta = delta},
                     MakeSinks(args.spec, args.sinks), args.sink_gradient, stream);
}

}  // namespace coxswain::kernels::cuda
