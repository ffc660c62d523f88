// dK and dV of attention over packed documents by warpgroup products.
//   transposed, keys as rows: P^T = exp(K Q^T - lse), dS^T = P^T (V dO^T - D), with softcap c times
//   1 - (S / c)^2; dV = sum P^T dO, dK = scale sum dS^T Q, over rows and heads of the group
// Source: Dao, "FlashAttention-2", 2023, algorithm 2.
//
// A block takes tiles of 128 keys of a document and one kv head; each of two warpgroups owns 64
// keys. Of keys wider than 128 a tile is 64 keys, whose dV one warpgroup has and whose dK the
// other: registers hold no more, and both make P^T. Warpgroup 0 brings K and V and, through a ring
// of stages, Q and dO of 64 packed rows (hopper_tiles.cuh) with their statistics: all heads of the
// group together, so that a tile spans few tokens. P^T and dS^T go from registers into the left
// operands of dV and dK, which run while the next products are put under way. K and V of 64-wide
// heads stay in registers; with 128-wide ones warpgroups give out their products in turns.
//
// Barriers: kv_full[s] counts the bytes of K and V, full[s] those of Q and dO and 32 lanes whose
// statistics have come; kv_empty[s], empty[s] a warp each of those that multiply. A full barrier's
// use n ends phase n, an empty one's wait before use n is for phase n - 1; RingPlace holds that
// parity. The rows of K and V become those of dK and dV; dK turns back before (hopper_rotation.cuh)
// where K was turned.
//
// Bytes: K, V, dK, dV once; Q and dO by every tile of keys, from the L2 cache. Deterministic: a key
// has one warp and a fixed order of rows that depends on its document alone.
#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/attention/hopper_products.cuh"
#include "kernels/cuda/attention/hopper_rotation.cuh"
#include "kernels/cuda/attention/transposed_scores.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kGroups = 2;  // warpgroups that multiply
constexpr int kRows = 64;   // packed rows of a stage
constexpr int kThreads = 128 * (kGroups + 1);

template <typename Widths>
struct Shape : Widths {
  using Widths::kDim;
  static constexpr bool kOwnKeys = kDim <= 128;  // of each warpgroup
  static constexpr int kKeys = kOwnKeys ? 64 * kGroups : 64;
  static constexpr int kTiles = kDim < 256 ? 2 : 1;  // of K and V
  static constexpr int kStages = kDim == 64 ? 5 : kDim < 256 ? 3 : 2;
  static constexpr int kKeptSteps = kDim == 64 ? kDim / 16 : 0;  // of K and V in registers
  static_assert(kKeptSteps == 0 || 16 * kKeptSteps == kDim);
};

// Whether warpgroups give out their products in turns.
template <typename S>
constexpr bool kTurns = S::kDim == 128;

struct Maps {
  TensorMap q, k, v, dout;
};

template <typename S>
struct alignas(1024) Shared {
  static constexpr int kStages = S::kStages, kTiles = S::kTiles;
  unsigned char k[kTiles][S::kKeys * S::kDim * kBf16Bytes];       // in the end dK
  unsigned char v[kTiles][S::kKeys * S::kValueDim * kBf16Bytes];  // in the end dV
  unsigned char q[kStages][kRows * S::kDim * kBf16Bytes];
  unsigned char dout[kStages][kRows * S::kValueDim * kBf16Bytes];
  float2 statistics[kStages][kRows];
  uint64_t kv_full[kTiles], kv_empty[kTiles];
  uint64_t full[kStages], empty[kStages];
  HopperItem item[kTiles];  // whose K and V they are
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The tokens whose rows see a key of the tile: from item.first on, up to this one.
template <typename S>
__device__ __forceinline__ int TokensEnd(const HopperParams& p, const HopperItem& item) {
  if (p.window == 0) return item.end;
  return min(item.end, min(item.first + S::kKeys, item.end) - 1 + p.window);
}

// By all threads. Rows that no box reaches stay 0.
template <typename S>
__device__ __forceinline__ void InitShared(const HopperParams& p, Shared<S>* shared) {
  if (threadIdx.x == 0) {
    for (int s = 0; s < S::kTiles; ++s) {
      InitBarrier(&shared->kv_full[s]);
      InitBarrier(&shared->kv_empty[s], 4 * kGroups);
    }
    for (int s = 0; s < S::kStages; ++s) {
      InitBarrier(&shared->full[s], 1 + kWarp);
      InitBarrier(&shared->empty[s], 4 * kGroups);
    }
    PublishBarriers();
  }
  if (threadIdx.x < 128) {
    for (int s = 0; s < S::kStages; ++s) {
      ZeroRows<kRows, S::kBoxes>(shared->q[s], p.row_tokens * p.group_heads);
      ZeroRows<kRows, S::kValueBoxes>(shared->dout[s], p.row_tokens * p.group_heads);
    }
    PublishToCopies();
  }
  __syncthreads();
}

// Q, dO and statistics of the rows from `token` on. By a warp.
template <typename S>
__device__ __forceinline__ void LoadRows(const Maps& maps, const HopperParams& p,
                                         const HopperItem& item, int token,
                                         const float2* statistics, int stage, unsigned phase,
                                         Shared<S>* shared) {
  uint64_t* full = &shared->full[stage];
  WaitForOwnPhase(&shared->empty[stage], phase ^ 1);
  if (threadIdx.x == 0) {
    constexpr int kRowBytes = (S::kDim + S::kValueDim) * kBf16Bytes;
    ExpectBytes(full, p.row_tokens * p.group_heads * kRowBytes);
    LoadPacked<S::kDim, kRows>(maps.q, p, item.kv_head, token, shared->q[stage], full);
    LoadPacked<S::kValueDim, kRows>(maps.dout, p, item.kv_head, token, shared->dout[stage], full);
  }
  __syncwarp();
  const float2* source = statistics + PackedIndex(p, item.kv_head, token);
  const int rows = min(p.row_tokens, item.end - token) * p.group_heads;
#pragma unroll
  for (int i = 0; i < kRows / kWarp; ++i) {
    const int row = i * kWarp + static_cast<int>(threadIdx.x);
    const bool valid = row < rows;
    CopyAsync8(SharedAddress(&shared->statistics[stage][row]), valid ? source + row : source,
               valid);
  }
  ArriveAfterCopies(full);
}

// By a warp.
template <typename S>
__device__ __forceinline__ void LoadTiles(const Maps& maps, const HopperParams& p,
                                          const float2* statistics, Shared<S>* shared) {
  RingPlace<S::kStages> place;
  HopperItems items;
  for (RingPlace<S::kTiles> kv;; kv.Advance()) {
    const HopperItem found = items.Next<false>(p);
    uint64_t* kv_full = &shared->kv_full[kv.stage];
    WaitForOwnPhase(&shared->kv_empty[kv.stage], kv.phase ^ 1);
    if (threadIdx.x == 0) {
      shared->item[kv.stage] = found;
      if (found.first < 0) {
        Arrive(kv_full);
      } else {
        ExpectBytes(kv_full, S::kKeys * (S::kDim + S::kValueDim) * kBf16Bytes);
        static_assert(S::kValueBoxes <= S::kBoxes);
        for (int box = 0; box < S::kBoxes; ++box) {
          const unsigned at = box * S::kKeys * kBoxRowBytes;
          LoadHeads(shared->k[kv.stage] + at, maps.k, box * 64, found.kv_head, found.first,
                    kv_full);
          if (box >= S::kValueBoxes) continue;
          LoadHeads(shared->v[kv.stage] + at, maps.v, box * 64, found.kv_head, found.first,
                    kv_full);
        }
      }
    }
    __syncwarp();
    if (found.first < 0) return;
    const HopperItem& item = shared->item[kv.stage];  // read anew: registers are few
    const int end = TokensEnd<S>(p, item);
    for (int token = item.first; token < end; token += p.row_tokens) {
      LoadRows<S>(maps, p, item, token, statistics, place.stage, place.phase, shared);
      place.Advance();
    }
  }
}

// What a warpgroup sums.
enum class Part { kBoth, kValues, kKeys };

template <typename S, Part kPart>
struct Keys {
  static constexpr int kKept = S::kKeptSteps > 0 ? S::kKeptSteps : 1;
  uint32_t k[kKept][4], v[kKept][4];
  uint64_t k_rows, v_rows;
  float dk[kPart == Part::kValues ? 1 : S::kDim / 2];
  float dv[kPart == Part::kKeys ? 1 : S::kValueDim / 2];
  uint32_t probabilities[kRows / 16][4], ds[kRows / 16][4];  // of the rows met last
  int pending;  // the stage of those rows; < 0: none is held
};

// Rows of a stage that are past the document's end become 0.
template <typename S>
__device__ __forceinline__ void CutRows(const HopperParams& p, const HopperItem& item, int token,
                                        int group, int stage, Shared<S>* shared) {
  if (token + p.row_tokens <= item.end) return;
  const int rows = (item.end - token) * p.group_heads;
  ZeroRows<kRows, S::kBoxes>(shared->q[stage], rows);
  ZeroRows<kRows, S::kValueBoxes>(shared->dout[stage], rows);
  PublishRows(group);
}

// S^T and, for dK, dP^T of the rows of a stage, a group of products each.
template <typename S, Part kPart>
__device__ __forceinline__ void Score(const unsigned char* q, const unsigned char* dout,
                                      const Keys<S, kPart>& keys, float (&s)[32], float (&dp)[32]) {
  if constexpr (S::kKeptSteps > 0) {
    MultiplyRows<kRows>(s, keys.k, RowsAlongK<64>(q));
    CommitProducts();
    MultiplyRows<kRows>(dp, keys.v, RowsAlongK<64>(dout));
    CommitProducts();
  } else {
    MultiplyRows<S::kDim, S::kKeys, kRows>(s, keys.k_rows, RowsAlongK<64>(q));
    CommitProducts();
    if constexpr (kPart == Part::kValues) return;
    MultiplyRows<S::kValueDim, S::kKeys, kRows>(dp, keys.v_rows, RowsAlongK<64>(dout));
    CommitProducts();
  }
}

// What is under way ends; no stage is held any more.
template <typename S, Part kPart>
__device__ __forceinline__ void Settle(Shared<S>* shared, Keys<S, kPart>* keys) {
  WaitForProducts<0>();
  Finished(keys->dk);
  Finished(keys->dv);
  if (keys->pending >= 0) Release(&shared->empty[keys->pending]);
  keys->pending = -1;
}

// The 64 keys from first_key on meet the rows from `token` on, in stage `stage`. The products of dV
// and dK are under way when it returns; those of before are over.
template <typename S, bool kSoftcap, Part kPart>
__device__ __forceinline__ void AddRows(const HopperParams& p, const HopperItem& item, int token,
                                        int first_key, int group, int stage, Shared<S>* shared,
                                        Keys<S, kPart>* keys) {
  CutRows<S>(p, item, token, group, stage, shared);
  float s[kRows / 2], dp[kRows / 2];
  if (kTurns<S>) MeetAt(kTurnBarrier + group, 256);
  if (kPart == Part::kBoth) WaitForProducts<1>();  // dV of before: the registers of its P are free
  BeginProducts();
  Score<S>(shared->q[stage], shared->dout[stage], *keys, s, dp);
  if (kTurns<S>) PassBy(kTurnBarrier + 1 - group, 256);
  WaitForProducts<kPart == Part::kValues ? 0 : 1>();  // S^T, and what was before
  Finished(s);
  if (keys->pending >= 0) Release(&shared->empty[keys->pending]);
  keys->pending = stage;
  Probabilities<kSoftcap>(p, shared->statistics[stage], s, keys->probabilities);
  const bool masked =
      token < first_key + 63 || (p.window != 0 && first_key <= token + p.row_tokens - 1 - p.window);
  const uint32_t hidden = masked ? Hidden(p, token, first_key) : 0;
  if constexpr (kPart != Part::kKeys) {
    if (masked) Hide(hidden, keys->probabilities);
    BeginProducts();
    MultiplyKept(keys->dv, keys->probabilities, RowsAcrossK<kRows>(shared->dout[stage]), true);
    CommitProducts();
  }
  if constexpr (kPart != Part::kValues) {
    WaitForProducts<kPart == Part::kBoth ? 1 : 0>();
    Finished(dp);
    ScoreGradient(shared->statistics[stage], dp, s);
    Pack(s, keys->ds);
    if (masked) Hide(hidden, keys->ds);
    BeginProducts();
    MultiplyKept(keys->dk, keys->ds, RowsAcrossK<kRows>(shared->q[stage]), true);
    CommitProducts();
  }
}

// The keys of a warpgroup: rows of a tile.
template <typename S>
__device__ __forceinline__ int OwnKeys(int group) {
  return S::kOwnKeys ? group * 64 : 0;
}

// Of a lane's row h of the warpgroup's keys, for TurnBack; that of the last one behind the
// document.
template <typename S>
__device__ __forceinline__ int KeyPosition(const HopperParams& p, const HopperItem& item, int group,
                                           int h) {
  if (p.cos == nullptr) return 0;
  const int row = OwnKeys<S>(group) + LaneRow(0, h);
  return p.positions[min(item.first + row, item.end - 1)];
}

// By way of the rows of K and V.
template <typename S, Part kPart>
__device__ __forceinline__ void StoreKeys(const HopperParams& p, const HopperItem& item, int group,
                                          unsigned char* own_k, unsigned char* own_v,
                                          Keys<S, kPart>* keys) {
  const float dk_scale[2] = {p.scale, p.scale}, dv_scale[2] = {1.0f, 1.0f};
  const int count = min(S::kKeys, item.end - item.first);
  if constexpr (!S::kOwnKeys) MeetAt(kTurnBarrier, 256);  // the other has read K and V
  if constexpr (kPart != Part::kValues) {
    if constexpr (S::kDim == S::kValueDim) {
      const int position[2] = {KeyPosition<S>(p, item, group, 0),
                               KeyPosition<S>(p, item, group, 1)};
      TurnBack(p, position, keys->dk);
    }
    StoreSums<S::kKeys>(keys->dk, dk_scale, own_k, OwnKeys<S>(group),
                        {p.dk + p.key(item.first, item.kv_head), p.k_row, 1, count, 65537, p.dim});
  }
  if constexpr (kPart != Part::kKeys) {
    StoreSums<S::kKeys>(
        keys->dv, dv_scale, own_v, OwnKeys<S>(group),
        {p.dv + p.value(item.first, item.kv_head), p.v_row, 1, count, 65537, p.value_dim});
  }
}

template <typename S, bool kSoftcap, Part kPart>
__device__ __forceinline__ void MultiplyTile(const HopperParams& p, const HopperItem& item,
                                             int group, int slot, Shared<S>* shared,
                                             RingPlace<S::kStages>* place, Keys<S, kPart>* keys) {
  unsigned char* own_k = shared->k[slot] + OwnKeys<S>(group) * kBoxRowBytes;
  unsigned char* own_v = shared->v[slot] + OwnKeys<S>(group) * kBoxRowBytes;
  if constexpr (S::kKeptSteps > 0) {
    Keep<S::kKeys>(own_k, keys->k);
    Keep<S::kKeys>(own_v, keys->v);
  }
  keys->k_rows = RowsAlongK<64>(own_k);
  keys->v_rows = RowsAlongK<64>(own_v);
#pragma unroll
  for (float& x : keys->dk) x = 0.0f;
#pragma unroll
  for (float& x : keys->dv) x = 0.0f;
  const int first_key = item.first + OwnKeys<S>(group), end = TokensEnd<S>(p, item);
  keys->pending = -1;
  for (int token = item.first; token < end; token += p.row_tokens) {
    WaitForOwnPhase(&shared->full[place->stage], place->phase);
    const bool sees = first_key < item.end && token + p.row_tokens > first_key &&
                      (p.window == 0 || token < first_key + 63 + p.window);
    if (sees) {
      AddRows<S, kSoftcap>(p, item, token, first_key, group, place->stage, shared, keys);
    } else {
      Settle(shared, keys);  // what comes may need the stage that is held
      if (kTurns<S>) {
        MeetAt(kTurnBarrier + group, 256);
        PassBy(kTurnBarrier + 1 - group, 256);
      }
      Release(&shared->empty[place->stage]);
    }
    place->Advance();
  }
  Settle(shared, keys);
  StoreKeys(p, item, group, own_k, own_v, keys);
}

template <typename S, bool kSoftcap, Part kPart>
__device__ __forceinline__ void MultiplyTiles(const HopperParams& p, int group, Shared<S>* shared) {
  RingPlace<S::kStages> place;
  if (kTurns<S> && group == kGroups - 1) PassBy(kTurnBarrier, 256);
  for (RingPlace<S::kTiles> kv;; kv.Advance()) {
    WaitForOwnPhase(&shared->kv_full[kv.stage], kv.phase);
    const HopperItem& item = shared->item[kv.stage];  // read anew: registers are few
    if (item.first < 0) return;
    Keys<S, kPart> keys;
    MultiplyTile<S, kSoftcap>(p, item, group, kv.stage, shared, &place, &keys);
    PublishToCopies();  // what was written and read here before copies write it
    Release(&shared->kv_empty[kv.stage]);
  }
}

#endif

template <typename S, bool kSoftcap>
__global__ void __launch_bounds__(kThreads, 1)
    HopperKeyGradientKernel(const __grid_constant__ Maps maps, const float2* statistics,
                            HopperParams p) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared = AlignedShared<Shared<S>>(dynamic);
  InitShared(p, shared);
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<S::kDim == 64 ? 40 : 24>();
    if (threadIdx.x < kWarp) LoadTiles<S>(maps, p, statistics, shared);
  } else {
    TakeRegisters<S::kDim == 64 ? 232 : 240>();
    if constexpr (S::kOwnKeys) {
      MultiplyTiles<S, kSoftcap, Part::kBoth>(p, group - 1, shared);
    } else if (group == 1) {
      MultiplyTiles<S, kSoftcap, Part::kValues>(p, 0, shared);
    } else {
      MultiplyTiles<S, kSoftcap, Part::kKeys>(p, 1, shared);
    }
  }
#endif
}

template <typename S>
void Launch(const Documents& documents, HopperParams p, const float2* statistics, int* next,
            Stream* stream) {
  p.row_tokens = kRows / p.group_heads;
  SetTiles(documents, S::kKeys, 8, next, &p);
  const int64_t out_row = int64_t{p.heads} * p.value_dim;
  const Maps maps{.q = MakeHeadMap(QueryBoxes(p, p.q, p.dim, p.q_row, p.row_tokens)),
                  .k = MakeHeadMap(KeyBoxes(p, p.k, p.dim, p.k_row, S::kKeys)),
                  .v = MakeHeadMap(KeyBoxes(p, p.v, p.value_dim, p.v_row, S::kKeys)),
                  .dout = MakeHeadMap(QueryBoxes(p, p.dout, p.value_dim, out_row, p.row_tokens))};
  LaunchHopper(
      p.softcap == 0.0f ? HopperKeyGradientKernel<S, false> : HopperKeyGradientKernel<S, true>,
      kThreads, sizeof(Shared<S>) + 1024, p, stream, maps, statistics);
}

}  // namespace

void LaunchHopperKeyGradient(const Documents& documents, HopperParams p, const float2* statistics,
                             int* next, Stream* stream) {
  ForHopperWidths(p.dim, p.value_dim, [&](auto widths) {
    Launch<Shape<decltype(widths)>>(documents, p, statistics, next, stream);
  });
}

}  // namespace coxswain::kernels::cuda
