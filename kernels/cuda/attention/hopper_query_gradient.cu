// dQ of attention over packed documents by warpgroup products.
//   P = exp(S - lse), dS = P (dO V^T - D), with softcap c times 1 - (S / c)^2; dQ = scale dS K
// Source: Dao, "FlashAttention-2", 2023, algorithm 2, split so that dQ needs no order among blocks.
//
// A block takes tiles of 128 packed rows (hopper_tiles.cuh). Warpgroup 0 brings Q and dO and,
// through rings of stages, tiles of keys and values: 128 of 64-wide heads, 64 of wider ones, for S
// and dP of a warpgroup's 64 rows are registers. Of keys wider than 128 shared memory holds one
// tile of Q and dO, of 256-wide ones two of keys and one of values. dS goes from there into the
// left operand of dS K, which runs while the next S and dP are put under way; the softmax of one
// warpgroup runs beside the products of the other.
//
// Barriers: q_full[s] (Q and dO), k_full[s], v_full[s] count their bytes; q_empty[s], k_empty[s],
// v_empty[s] a warp each of those that multiply. A full barrier's use n ends phase n, an empty
// one's wait before use n is for phase n - 1; RingPlace holds that parity. K is given back a tile
// later than V, when dS K is over. The rows of Q become those of dQ, which turns back before
// (hopper_rotation.cuh) where Q was turned.
//
// Bytes: Q, dO, dQ once; K and V by every tile of rows, from the L2 cache. Deterministic: a row has
// one warp and a fixed order of keys that depends on its document alone.
#include "kernels/cuda/attention/hopper_products.cuh"
#include "kernels/cuda/attention/hopper_rotation.cuh"

namespace coxswain::kernels::cuda {
namespace {

template <typename Widths>
struct Shape : Widths {
  using Widths::kDim;
  static constexpr int kGroups = 2;  // warpgroups that multiply
  static constexpr int kRows = 64 * kGroups;
  static constexpr int kKeys = kDim == 64 ? 128 : 64;
  static constexpr int kTiles = kDim > 128 ? 1 : 2;  // of Q and dO
  static constexpr int kKeyStages = kDim == 256 ? 2 : 3;
  static constexpr int kValueStages = kDim == 256 ? 1 : 3;
  static constexpr int kThreads = 128 * (kGroups + 1);
  // Q stays in registers where 64 keys at a time leave room: from shared memory both operands of
  // such narrow products take its whole bandwidth.
  static constexpr int kKeptSteps = kDim == 128 ? kDim / 16 : 0;
  static_assert(kKeptSteps == 0 || 16 * kKeptSteps == kDim);
};

struct Maps {
  TensorMap q, k, v, dout;
};

template <typename S>
struct alignas(1024) Shared {
  unsigned char q[S::kTiles][S::kRows * S::kDim * kBf16Bytes];  // in the end dQ
  unsigned char dout[S::kTiles][S::kRows * S::kValueDim * kBf16Bytes];
  unsigned char k[S::kKeyStages][S::kKeys * S::kDim * kBf16Bytes];
  unsigned char v[S::kValueStages][S::kKeys * S::kValueDim * kBf16Bytes];
  uint64_t q_full[S::kTiles], q_empty[S::kTiles];
  uint64_t k_full[S::kKeyStages], k_empty[S::kKeyStages];
  uint64_t v_full[S::kValueStages], v_empty[S::kValueStages];
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
  for (int s = 0; s < S::kKeyStages; ++s) {
    InitBarrier(&shared->k_full[s]);
    InitBarrier(&shared->k_empty[s], 4 * S::kGroups);
  }
  for (int s = 0; s < S::kValueStages; ++s) {
    InitBarrier(&shared->v_full[s]);
    InitBarrier(&shared->v_empty[s], 4 * S::kGroups);
  }
  PublishBarriers();
}

// By a warp.
template <typename S>
__device__ __forceinline__ void LoadTiles(const Maps& maps, const HopperParams& p,
                                          Shared<S>* shared) {
  RingPlace<S::kKeyStages> k;
  RingPlace<S::kValueStages> v;
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
        constexpr int kRowBytes = (S::kDim + S::kValueDim) * kBf16Bytes;
        ExpectBytes(q_full, p.tile_tokens * p.group_heads * kRowBytes);
        LoadPacked<S::kDim, S::kRows>(maps.q, p, item.kv_head, item.first, shared->q[q.stage],
                                      q_full);
        LoadPacked<S::kValueDim, S::kRows>(maps.dout, p, item.kv_head, item.first,
                                           shared->dout[q.stage], q_full);
      }
    }
    __syncwarp();
    if (item.first < 0) return;
    const KeyRange keys = KeysOf<S::kKeys>(p, item);
    for (int key = keys.first; key <= keys.last; key += S::kKeys) {
      LoadKeys<S::kDim, S::kKeys>(maps.k, item, key, shared->k[k.stage], &shared->k_empty[k.stage],
                                  &shared->k_full[k.stage], k.phase);
      LoadKeys<S::kValueDim, S::kKeys>(maps.v, item, key, shared->v[v.stage],
                                       &shared->v_empty[v.stage], &shared->v_full[v.stage],
                                       v.phase);
      k.Advance();
      v.Advance();
    }
  }
}

// Of a lane's two rows.
struct Rows {
  float log2_sum[2], delta[2];
  int token[2], position[2];  // position: for TurnBack
};

__device__ __forceinline__ Rows RowsOf(const HopperParams& p, const HopperItem& item, int group,
                                       const float2* statistics) {
  Rows rows;
  const int64_t first = PackedIndex(p, item.kv_head, item.first);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = LaneRow(group, h), token = TokenOfRow(p, row);
    float2 of_row = {0.0f, 0.0f};
    rows.position[h] = 0;
    if (token < p.tile_tokens && item.first + token < item.end) {
      of_row = statistics[first + row];
      if (p.cos != nullptr) rows.position[h] = p.positions[item.first + token];
    }
    rows.log2_sum[h] = of_row.x;
    rows.delta[h] = of_row.y;
    rows.token[h] = item.first + token;
  }
  return rows;
}

// Dot products -> the probabilities times the slopes of their scores.
template <bool kSoftcap, int kCount>
__device__ __forceinline__ void Probabilities(const HopperParams& p, const Rows& rows,
                                              float (&s)[kCount]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    const FlashProbability of = ProbabilityOf<kSoftcap>(p, s[n], rows.log2_sum[n / 2 % 2]);
    s[n] = kSoftcap ? of.value * of.slope : of.value;
  }
}

// Where a warpgroup is among keys and values.
template <typename S>
struct Places {
  RingPlace<S::kKeyStages> k;
  RingPlace<S::kValueStages> v;
};

template <typename S>
struct Operands {
  uint64_t q, dout;
  uint32_t kept_q[S::kKeptSteps > 0 ? S::kKeptSteps : 1][4];
  float dq[S::kDim / 2];
};

// Adds dS K of kKeys keys from `key` on. That product is under way when it returns; the one of
// before, with K of stage `previous`, is over. previous < 0: there was none.
template <typename S, bool kSoftcap, int kKeys>
__device__ __forceinline__ void AddKeys(const HopperParams& p, const HopperItem& item, int group,
                                        int key, const Rows& rows, int previous,
                                        const Places<S>& at, Shared<S>* shared, Operands<S>* of) {
  float s[kKeys / 2], dp[kKeys / 2];
  uint32_t ds[kKeys / 16][4];
  unsigned char* k = shared->k[at.k.stage];
  WaitForOwnPhase(&shared->k_full[at.k.stage], at.k.phase);
  MeetAt(kTurnBarrier + group, 256);
  BeginProducts();
  if constexpr (S::kKeptSteps > 0) {
    MultiplyRows<S::kKeys>(s, of->kept_q, RowsAlongK<64>(k));
  } else {
    MultiplyRows<S::kDim, S::kRows, S::kKeys>(s, of->q, RowsAlongK<64>(k));
  }
  CommitProducts();
  WaitForOwnPhase(&shared->v_full[at.v.stage], at.v.phase);
  MultiplyRows<S::kValueDim, S::kRows, S::kKeys>(dp, of->dout,
                                                 RowsAlongK<64>(shared->v[at.v.stage]));
  CommitProducts();
  PassBy(kTurnBarrier + 1 - group, 256);
  WaitForProducts<1>();  // S, and dS K of the tile before
  Finished(s);
  if (previous >= 0) Release(&shared->k_empty[previous]);
  Probabilities<kSoftcap>(p, rows, s);
  WaitForProducts<0>();
  Finished(dp);
  Release(&shared->v_empty[at.v.stage]);
#pragma unroll
  for (int n = 0; n < kKeys / 2; ++n) s[n] *= dp[n] - rows.delta[n / 2 % 2];
  if (IsMasked<kKeys>(p, item, key)) {
    ForEachSum<kKeys / 2>([&](int n, int h, int column) {
      if (!p.Visible(rows.token[h], key + column)) s[n] = 0.0f;
    });
  }
  Pack(s, ds);
  if (key + kKeys > item.end) {
    ZeroRows<S::kKeys, S::kBoxes>(k, item.end - key);
    PublishRows(group);
  }
  BeginProducts();
  MultiplyKept(of->dq, ds, RowsAcrossK<S::kKeys>(k), true);
  CommitProducts();
}

// A tile's rows of a warpgroup; its place in the ring goes on. Of the last keys one half is left
// out where no row sees it.
template <typename S, bool kSoftcap>
__device__ __forceinline__ void MultiplyTile(const HopperParams& p, const HopperItem& item,
                                             int group, int slot, const Rows& rows,
                                             Shared<S>* shared, Places<S>* at, Operands<S>* of) {
  const KeyRange keys = KeysOf<S::kKeys>(p, item);
  const unsigned char* own_q = shared->q[slot] + group * 64 * kBoxRowBytes;
  of->q = RowsAlongK<64>(own_q);
  of->dout = RowsAlongK<64>(shared->dout[slot] + group * 64 * kBoxRowBytes);
  if constexpr (S::kKeptSteps > 0) Keep<S::kRows>(own_q, of->kept_q);
#pragma unroll
  for (float& x : of->dq) x = 0.0f;
  int previous = -1;
  for (int key = keys.first; key <= keys.last; key += S::kKeys) {
    if (S::kKeys > 64 && keys.last - key < S::kKeys / 2) {
      AddKeys<S, kSoftcap, 64>(p, item, group, key, rows, previous, *at, shared, of);
    } else {
      AddKeys<S, kSoftcap, S::kKeys>(p, item, group, key, rows, previous, *at, shared, of);
    }
    previous = at->k.stage;
    at->k.Advance();
    at->v.Advance();
  }
  WaitForProducts<0>();
  Finished(of->dq);
  Release(&shared->k_empty[previous]);
}

template <typename S, bool kSoftcap>
__device__ __forceinline__ void MultiplyTiles(const HopperParams& p, int group,
                                              const float2* statistics, Shared<S>* shared) {
  Places<S> at;
  if (group == S::kGroups - 1) PassBy(kTurnBarrier, 256);
  for (RingPlace<S::kTiles> q;; q.Advance()) {
    WaitForOwnPhase(&shared->q_full[q.stage], q.phase);
    const HopperItem item = shared->item[q.stage];
    if (item.first < 0) return;
    const Rows rows = RowsOf(p, item, group, statistics);
    Operands<S> of;
    MultiplyTile<S, kSoftcap>(p, item, group, q.stage, rows, shared, &at, &of);
    if constexpr (S::kDim == S::kValueDim) TurnBack(p, rows.position, of.dq);
    const float scale[2] = {p.scale, p.scale};
    StoreSums<S::kRows>(
        of.dq, scale, shared->q[q.stage] + group * 64 * kBoxRowBytes, group * 64,
        {p.dq + p.query(item.first, item.kv_head * p.group_heads), p.q_row, p.group_heads,
         min(p.tile_tokens, item.end - item.first), p.reciprocal, p.dim});
    PublishToCopies();  // what was written and read here before copies write it
    Release(&shared->q_empty[q.stage]);
  }
}

#endif

template <typename S, bool kSoftcap>
__global__ void __launch_bounds__(S::kThreads, 1)
    HopperQueryGradientKernel(const __grid_constant__ Maps maps, const float2* statistics,
                              HopperParams p) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared = AlignedShared<Shared<S>>(dynamic);
  if (threadIdx.x == 0) InitShared(shared);
  __syncthreads();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<24>();
    if (threadIdx.x < kWarp) {
      LoadTiles<S>(maps, p, shared);
    } else if (threadIdx.x < 2 * kWarp) {
      FindItems<true>(p, &shared->next);
    }
  } else {
    TakeRegisters<240>();
    MultiplyTiles<S, kSoftcap>(p, group - 1, statistics, shared);
  }
#endif
}

template <typename S>
void Launch(const Documents& documents, HopperParams p, const float2* statistics, int* next,
            Stream* stream) {
  SetTiles(documents, S::kRows / p.group_heads, 2, next, &p);
  const int64_t out_row = int64_t{p.heads} * p.value_dim;
  const Maps maps{.q = MakeHeadMap(QueryBoxes(p, p.q, p.dim, p.q_row, p.tile_tokens)),
                  .k = MakeHeadMap(KeyBoxes(p, p.k, p.dim, p.k_row, S::kKeys)),
                  .v = MakeHeadMap(KeyBoxes(p, p.v, p.value_dim, p.v_row, S::kKeys)),
                  .dout = MakeHeadMap(QueryBoxes(p, p.dout, p.value_dim, out_row, p.tile_tokens))};
  LaunchHopper(
      p.softcap == 0.0f ? HopperQueryGradientKernel<S, false> : HopperQueryGradientKernel<S, true>,
      S::kThreads, sizeof(Shared<S>) + 1024, p, stream, maps, statistics);
}

}  // namespace

void LaunchHopperQueryGradient(const Documents& documents, HopperParams p, const float2* statistics,
                               int* next, Stream* stream) {
  ForHopperWidths(p.dim, p.value_dim, [&](auto widths) {
    Launch<Shape<decltype(widths)>>(documents, p, statistics, next, stream);
  });
}

}  // namespace coxswain::kernels::cuda
