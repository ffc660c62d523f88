// Forward of attention over packed documents by warpgroup products.
//   m, l, O over tiles of keys: m' = max(m, rowmax S), P = exp(S - m'), l' = e^{m - m'} l + rowsum
//   P, O' = e^{m - m'} O + P V; out = O / l, lse = m + log l. A sink joins when all keys are met,
//   as a score without a value.
// Source: Shah and others, "FlashAttention-3", 2024, algorithms 1 and 2.
//
// A block takes tiles of 192 packed rows (hopper_tiles.cuh) of 64-wide heads, 128 of wider ones.
// Warpgroup 0 brings Q and, through a ring of stages, tiles of 128 keys and values, 64 of 256-wide
// heads. Of keys wider than 128 one tile of Q at a time is in shared memory. Each other warpgroup
// owns 64 rows. It puts the scores of the next tile of keys and the product of the present P with V
// under way together, and makes the next P of the scores while V is multiplied. P goes from the
// scores' registers into the product's left operand. Warpgroups issue their products in turns, so
// that the softmax of one runs beside the products of the others.
//
// Barriers: q_full[s], k_full[s], v_full[s] count their bytes; q_empty[s], k_empty[s], v_empty[s] a
// warp each of those that multiply. A full barrier's use n ends phase n, an empty one's wait before
// use n is for phase n - 1; RingPlace holds that parity. The rows of Q become those of out.
//
// Bytes: Q, O once; K and V by every tile of rows, from the L2 cache. Deterministic: a row has one
// warp and a fixed order of keys that depends on its document alone.
#include "kernels/cuda/attention/hopper_products.cuh"

namespace coxswain::kernels::cuda {
namespace {

// Narrow heads have registers for a third warpgroup that multiplies, without a softcap's.
template <typename Widths, bool kCapped>
struct Shape : Widths {
  using Widths::kDim, Widths::kValueDim;
  static constexpr bool kSoftcap = kCapped;
  static constexpr int kGroups = kDim == 64 && !kSoftcap ? 3 : 2;  // that multiply
  static constexpr int kRows = 64 * kGroups;
  static constexpr int kTiles = kDim > 128 ? 1 : 2;  // of Q
  static constexpr int kKeys = kDim == 256 ? 64 : 128;
  static constexpr int kStages = kDim == 64 ? 3 : 2;
  static constexpr int kThreads = 128 * (kGroups + 1);
};

struct Maps {
  TensorMap q, k, v;
};

template <typename S>
struct alignas(1024) Shared {
  unsigned char q[S::kTiles][S::kRows * S::kDim * kBf16Bytes];  // in the end out
  unsigned char k[S::kStages][S::kKeys * S::kDim * kBf16Bytes];
  unsigned char v[S::kStages][S::kKeys * S::kValueDim * kBf16Bytes];
  uint64_t q_full[S::kTiles], q_empty[S::kTiles];
  uint64_t k_full[S::kStages], k_empty[S::kStages], v_full[S::kStages], v_empty[S::kStages];
  HopperItem item[S::kTiles];  // whose Q it is
  ItemSlot next;
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <typename S>
__device__ __forceinline__ void InitShared(Shared<S>* shared) {
  for (int s = 0; s < S::kTiles; ++s) {
    InitBarrier(&shared->q_full[s]);
    InitBarrier(&shared->q_empty[s], 4 * S::kGroups);
  }
  InitSlot(&shared->next);
  for (int s = 0; s < S::kStages; ++s) {
    InitBarrier(&shared->k_full[s]);
    InitBarrier(&shared->v_full[s]);
    InitBarrier(&shared->k_empty[s], 4 * S::kGroups);
    InitBarrier(&shared->v_empty[s], 4 * S::kGroups);
  }
  PublishBarriers();
}

// By a warp.
template <typename S>
__device__ __forceinline__ void LoadTiles(const Maps& maps, const HopperParams& p,
                                          Shared<S>* shared) {
  RingPlace<S::kStages> place;
  RingPlace<S::kTiles> q;
  for (unsigned item_phase = 0;; item_phase ^= 1, q.Advance()) {
    const HopperItem item = TakeItem(&shared->next, item_phase);
    uint64_t* q_full = &shared->q_full[q.stage];
    WaitForOwnPhase(&shared->q_empty[q.stage], q.phase ^ 1);
    if (threadIdx.x == 0) {
      shared->item[q.stage] = item;
      if (item.first < 0) {
        Arrive(q_full);
      } else {
        ExpectBytes(q_full, p.tile_tokens * p.group_heads * S::kDim * kBf16Bytes);
        LoadPacked<S::kDim, S::kRows>(maps.q, p, item.kv_head, item.first, shared->q[q.stage],
                                      q_full);
      }
    }
    __syncwarp();
    if (item.first < 0) return;
    const KeyRange keys = KeysOf<S::kKeys>(p, item);
    for (int key = keys.first; key <= keys.last; key += S::kKeys) {
      LoadKeys<S::kDim, S::kKeys>(maps.k, item, key, shared->k[place.stage],
                                  &shared->k_empty[place.stage], &shared->k_full[place.stage],
                                  place.phase);
      LoadKeys<S::kValueDim, S::kKeys>(maps.v, item, key, shared->v[place.stage],
                                       &shared->v_empty[place.stage], &shared->v_full[place.stage],
                                       place.phase);
      place.Advance();
    }
  }
}

// Of a warpgroup's 64 rows.
template <typename S>
struct Rows {
  float sums[S::kValueDim / 2];
  uint32_t probabilities[S::kKeys / 16][4];
  float maximum[2], total[2];  // of a lane's two rows; total of the lane's columns
  float shrink[2];             // the factor by which older sums shrink
};

// Scores of keys from first_key on -> unnormalised probabilities.
template <typename S, int kCount>
__device__ __forceinline__ void OnlineSoftmax(const HopperParams& p, const HopperItem& item,
                                              int group, int first_key, float (&s)[kCount],
                                              Rows<S>* rows) {
  if constexpr (S::kSoftcap) {
    const float inverse = p.scale / p.softcap;
#pragma unroll
    for (float& x : s) x = p.softcap * Tanh(x * inverse);
  }
  if (IsMasked<2 * kCount>(p, item, first_key)) {
    const int tokens[2] = {item.first + TokenOfRow(p, LaneRow(group, 0)),
                           item.first + TokenOfRow(p, LaneRow(group, 1))};
    ForEachSum<kCount>([&](int n, int h, int column) {
      if (!p.Visible(tokens[h], first_key + column)) s[n] = -INFINITY;
    });
  }
  const float factor = S::kSoftcap ? kLog2E : p.scale * kLog2E;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = -INFINITY;
#pragma unroll
    for (int n = 2 * h; n < kCount; n += 4) largest = fmaxf(largest, fmaxf(s[n], s[n + 1]));
    const float maximum = fmaxf(rows->maximum[h], QuadMax(largest));
    // A row that has seen no key yet keeps -infinity, which must not meet itself in a difference.
    const float shift = maximum == -INFINITY ? 0.0f : maximum * factor;
    rows->shrink[h] = Exp2(rows->maximum[h] * factor - shift);
    rows->maximum[h] = maximum;
    float sum = 0.0f;
#pragma unroll
    for (int n = 2 * h; n < kCount; n += 4) {
      s[n] = Exp2(s[n] * factor - shift);
      s[n + 1] = Exp2(s[n + 1] * factor - shift);
      sum += s[n] + s[n + 1];
    }
    rows->total[h] = rows->total[h] * rows->shrink[h] + sum;
  }
}

template <typename S>
__device__ __forceinline__ void Write(const HopperParams& p, const HopperItem& item, int group,
                                      const Rows<S>& rows, unsigned char* own_rows, bf16* out,
                                      float* lse) {
  const int tokens = min(p.tile_tokens, item.end - item.first);
  const int64_t row = PackedIndex(p, item.kv_head, item.first);
  float scale[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int lane_row = LaneRow(group, h), token = TokenOfRow(p, lane_row);
    const int head = item.kv_head * p.group_heads + lane_row - token * p.group_heads;
    const RowEnd end = EndOfRow(p, head, rows.maximum[h], QuadSum(rows.total[h]));
    scale[h] = end.scale;
    if (threadIdx.x % 4 == 0 && token < tokens) lse[row + lane_row] = end.lse;
  }
  StoreSums<S::kRows>(rows.sums, scale, own_rows, group * 64,
                      {out + p.o(item.first, item.kv_head * p.group_heads), p.out_row(),
                       p.group_heads, tokens, p.reciprocal, p.value_dim});
}

// Scores against the first keys of a tile, kKeys of them, and their probabilities.
template <typename S, int kKeys>
__device__ __forceinline__ void BeginRows(const HopperParams& p, const HopperItem& item, int group,
                                          Shared<S>* shared, const RingPlace<S::kStages>& place,
                                          uint64_t q, int key, Rows<S>* rows) {
  float s[kKeys / 2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    rows->maximum[h] = -INFINITY;
    rows->total[h] = 0.0f;
  }
#pragma unroll
  for (int n = 0; n < S::kValueDim / 2; ++n) rows->sums[n] = 0.0f;
  WaitForOwnPhase(&shared->k_full[place.stage], place.phase);
  BeginProducts();
  MultiplyRows<S::kDim, S::kRows, S::kKeys>(s, q, RowsAlongK<64>(shared->k[place.stage]));
  CommitProducts();
  WaitForProducts<0>();
  Finished(s);
  Release(&shared->k_empty[place.stage]);
  OnlineSoftmax<S>(p, item, group, key, s, rows);
  Pack(s, FirstOf<kKeys / 16>(rows->probabilities));
}

// The same of the next tile of keys, beside the product of the probabilities and the values before.
template <typename S, int kKeys>
__device__ __forceinline__ void NextKeys(const HopperParams& p, const HopperItem& item, int group,
                                         Shared<S>* shared, RingPlace<S::kStages>* place,
                                         uint64_t q, int key, Rows<S>* rows) {
  float s[kKeys / 2];
  const int stage = place->stage;
  const unsigned phase = place->phase;
  place->Advance();
  WaitForOwnPhase(&shared->k_full[place->stage], place->phase);
  MeetAt(kTurnBarrier + group, 256);
  BeginProducts();
  MultiplyRows<S::kDim, S::kRows, S::kKeys>(s, q, RowsAlongK<64>(shared->k[place->stage]));
  CommitProducts();
  WaitForOwnPhase(&shared->v_full[stage], phase);
  MultiplyKept(rows->sums, rows->probabilities, RowsAcrossK<S::kKeys>(shared->v[stage]), true);
  CommitProducts();
  PassBy(kTurnBarrier + (group + 1) % S::kGroups, 256);
  WaitForProducts<1>();
  Finished(s);
  Release(&shared->k_empty[place->stage]);
  OnlineSoftmax<S>(p, item, group, key, s, rows);
  WaitForProducts<0>();
  Finished(rows->sums);
  Release(&shared->v_empty[stage]);
#pragma unroll
  for (int n = 0; n < S::kValueDim / 2; ++n) rows->sums[n] *= rows->shrink[n / 2 % 2];
  Pack(s, FirstOf<kKeys / 16>(rows->probabilities));
}

// The last probabilities, of keys from `key` on, times their values.
template <typename S, int kKeys>
__device__ __forceinline__ void EndRows(const HopperItem& item, int group, Shared<S>* shared,
                                        RingPlace<S::kStages>* place, int key, Rows<S>* rows) {
  unsigned char* values = shared->v[place->stage];
  WaitForOwnPhase(&shared->v_full[place->stage], place->phase);
  if (key + kKeys > item.end) {
    ZeroRows<S::kKeys, S::kValueBoxes>(values, item.end - key);
    PublishRows(group);
  }
  BeginProducts();
  MultiplyKept(rows->sums, FirstOf<kKeys / 16>(rows->probabilities), RowsAcrossK<S::kKeys>(values),
               true);
  CommitProducts();
  WaitForProducts<0>();
  Finished(rows->sums);
  Release(&shared->v_empty[place->stage]);
  place->Advance();
}

constexpr int kLastKeys = 64;  // of a tile's products where no row sees the others

// A tile's rows of a warpgroup; its place in the ring goes on. Of the last keys one half is left
// out where no row sees it.
template <typename S>
__device__ __forceinline__ void AttendTile(const HopperParams& p, const HopperItem& item, int group,
                                           Shared<S>* shared, unsigned char* own_rows,
                                           RingPlace<S::kStages>* place, bf16* out, float* lse) {
  const KeyRange keys = KeysOf<S::kKeys>(p, item);
  const uint64_t q = RowsAlongK<64>(own_rows);
  const int last = keys.first + (keys.last - keys.first) / S::kKeys * S::kKeys;
  const bool half = kLastKeys < S::kKeys && keys.last - last < kLastKeys;
  int key = keys.first;
  Rows<S> rows;
  if (half && key == last) {
    BeginRows<S, kLastKeys>(p, item, group, shared, *place, q, key, &rows);
  } else {
    BeginRows<S, S::kKeys>(p, item, group, shared, *place, q, key, &rows);
    const int whole = half ? last - S::kKeys : last;
    while (key < whole) {
      key += S::kKeys;
      NextKeys<S, S::kKeys>(p, item, group, shared, place, q, key, &rows);
    }
    if (half) NextKeys<S, kLastKeys>(p, item, group, shared, place, q, last, &rows);
  }
  if (half) {
    EndRows<S, kLastKeys>(item, group, shared, place, last, &rows);
  } else {
    EndRows<S, S::kKeys>(item, group, shared, place, last, &rows);
  }
  Write<S>(p, item, group, rows, own_rows, out, lse);
}

template <typename S>
__device__ __forceinline__ void AttendTiles(const HopperParams& p, int group, Shared<S>* shared,
                                            bf16* out, float* lse) {
  if (group == S::kGroups - 1) PassBy(kTurnBarrier, 256);
  RingPlace<S::kStages> place;
  for (unsigned use = 0;; ++use) {
    const int slot = use % S::kTiles;
    WaitForOwnPhase(&shared->q_full[slot], use / S::kTiles % 2);
    const HopperItem& item = shared->item[slot];  // read anew: registers are few
    if (item.first < 0) return;
    AttendTile<S>(p, item, group, shared, shared->q[slot] + group * 64 * kBoxRowBytes, &place, out,
                  lse);
    PublishToCopies();  // what was written and read here before copies write it
    Release(&shared->q_empty[slot]);
  }
}

#endif

template <typename S>
__global__ void __launch_bounds__(S::kThreads, 1)
    HopperForwardKernel(const __grid_constant__ Maps maps, bf16* out, float* lse, HopperParams p) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared = AlignedShared<Shared<S>>(dynamic);
  if (threadIdx.x == 0) InitShared(shared);
  __syncthreads();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<S::kGroups == 3 ? 32 : 24>();
    if (threadIdx.x < kWarp) {
      LoadTiles<S>(maps, p, shared);
    } else if (threadIdx.x < 2 * kWarp) {
      FindItems<true>(p, &shared->next);
    }
  } else {
    TakeRegisters<S::kGroups == 3 ? 160 : 240>();
    AttendTiles<S>(p, group - 1, shared, out, lse);
  }
#endif
}

template <typename S>
void Launch(const AttentionForwardArgs& args, HopperParams p, int* next, Stream* stream) {
  SetTiles(args.documents, S::kRows / p.group_heads, 2, next, &p);
  const Maps maps{.q = MakeHeadMap(QueryBoxes(p, p.q, p.dim, p.q_row, p.tile_tokens)),
                  .k = MakeHeadMap(KeyBoxes(p, p.k, p.dim, p.k_row, S::kKeys)),
                  .v = MakeHeadMap(KeyBoxes(p, p.v, p.value_dim, p.v_row, S::kKeys))};
  LaunchHopper(HopperForwardKernel<S>, S::kThreads, sizeof(Shared<S>) + 1024, p, stream, maps,
               static_cast<bf16*>(args.out), args.lse);
}

}  // namespace

void LaunchHopperForward(const AttentionForwardArgs& args, HopperParams p, int* next,
                         Stream* stream) {
  ForHopperWidths(p.dim, p.value_dim, [&](auto widths) {
    using Widths = decltype(widths);
    if (p.softcap != 0.0f) return Launch<Shape<Widths, true>>(args, p, next, stream);
    Launch<Shape<Widths, false>>(args, p, next, stream);
  });
}

}  // namespace coxswain::kernels::cuda
