// Forward of attention over packed documents by warpgroup products of codes in E4M3: the formulas
// of kernels/attention/fp8_attention.h, the tiles, warpgroups, turns and barriers of
// hopper_forward.cu.
//
// A box's row of 128 bytes is 128 codes, so a head of any width is one box. The copy engine takes
// codes in pairs as it takes values of bfloat16. Probabilities go into codes in the registers where
// their scores were; values lie turned, their keys in the order that this asks for
// (fp8_attention.cuh). The product with values begins anew at every tile of keys, and its sums are
// added to those before in float32: kept in units of the tile's scale of values, they shrink by the
// softmax and by the ratio of scales in one multiplication. Q comes in bfloat16: each warp makes
// the codes of its rows in their place, and stores what they stand for.
//
// Bytes: Q once and its rounded rows, O once; codes of K and V by every tile of rows, from the L2
// cache.
// Deterministic, and a row's bits depend on its document alone.
#include "kernels/cuda/attention/code_pieces.cuh"
#include "kernels/cuda/attention/fp8_attention.cuh"
#include "kernels/cuda/attention/fp8_rows.cuh"
#include "kernels/cuda/attention/hopper_products.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kKeys = fp8::kKeys, kWidth = fp8::kWidth;
constexpr int kGroups = 2;  // warpgroups that multiply
constexpr int kRows = 64 * kGroups;
constexpr int kTiles = 2;  // of Q
constexpr int kStages = 3;
constexpr int kThreads = 128 * (kGroups + 1);

struct Maps {
  TensorMap q, k, v;
};

struct alignas(1024) Shared {
  unsigned char q[kTiles][kRows * kWidth * kBf16Bytes];  // then codes in the first half, then out
  unsigned char k[kStages][kKeys * kWidth];
  unsigned char v[kStages][kWidth * kKeys];
  float q_scales[kRows];
  uint64_t q_full[kTiles], q_empty[kTiles];
  uint64_t k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  HopperItem item[kTiles];  // whose Q it is
  int document[kTiles];     // and of which document
  ItemSlot next;
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kLastKeys = 64;  // of a tile's products where no row sees the others
constexpr int kPairs = kWidth / 2;

__device__ __forceinline__ void InitShared(Shared* shared) {
  for (int s = 0; s < kTiles; ++s) {
    InitBarrier(&shared->q_full[s]);
    InitBarrier(&shared->q_empty[s], 4 * kGroups);
  }
  InitSlot(&shared->next);
  for (int s = 0; s < kStages; ++s) {
    InitBarrier(&shared->k_full[s]);
    InitBarrier(&shared->v_full[s]);
    InitBarrier(&shared->k_empty[s], 4 * kGroups);
    InitBarrier(&shared->v_empty[s], 4 * kGroups);
  }
  PublishBarriers();
}

// The values of a tile of keys, once their place is empty. By a warp.
__device__ __forceinline__ void LoadValues(const TensorMap& map, int kv_head, int value_key,
                                           unsigned char* to, uint64_t* empty, uint64_t* full,
                                           unsigned phase) {
  WaitForOwnPhase(empty, phase ^ 1);
  if (threadIdx.x % kWarp == 0) {
    ExpectBytes(full, kWidth * kKeys);
    LoadBox(to, map, value_key / 2, 0, kv_head, full);
  }
  __syncwarp();
}

// By a warp.
__device__ __forceinline__ void LoadTiles(const Maps& maps, const HopperParams& p, Shared* shared) {
  RingPlace<kStages> place;
  RingPlace<kTiles> q;
  for (unsigned item_phase = 0;; item_phase ^= 1, q.Advance()) {
    const HopperItem item = TakeItem(&shared->next, item_phase);
    const int document = item.first < 0 ? 0 : WarpLastAtMost(p.documents, item.first, [&](int d) {
      return p.cu_seqlens[d];
    });
    uint64_t* q_full = &shared->q_full[q.stage];
    WaitForOwnPhase(&shared->q_empty[q.stage], q.phase ^ 1);
    if (threadIdx.x == 0) {
      shared->item[q.stage] = item;
      shared->document[q.stage] = document;
      if (item.first < 0) {
        Arrive(q_full);
      } else {
        ExpectBytes(q_full, p.tile_tokens * p.group_heads * kWidth * kBf16Bytes);
        LoadPacked<kWidth, kRows>(maps.q, p, item.kv_head, item.first, shared->q[q.stage], q_full);
      }
    }
    __syncwarp();
    if (item.first < 0) return;
    const KeyRange keys = KeysOf<kKeys>(p, item);
    const int value_key = FirstValueKey(item.begin, document) - item.begin;
    for (int key = keys.first; key <= keys.last; key += kKeys) {
      LoadKeys<kPairs, kKeys>(maps.k, item, key, shared->k[place.stage],
                              &shared->k_empty[place.stage], &shared->k_full[place.stage],
                              place.phase);
      LoadValues(maps.v, item.kv_head, value_key + key, shared->v[place.stage],
                 &shared->v_empty[place.stage], &shared->v_full[place.stage], place.phase);
      place.Advance();
    }
  }
}

// What the tiles of an item have in common.
struct Context {
  const HopperParams& p;
  const HopperItem& item;
  const AttentionCodes& codes;
  const int group;
  Shared* const shared;
  const uint64_t q;
};

// Scores against the first keys of a tile, kCount of them, and their probabilities.
template <int kCount>
__device__ __forceinline__ void BeginRows(const Context& c, const RingPlace<kStages>& place,
                                          int key, int tile, fp8::Rows* rows) {
  float s[kCount / 2];
  const float key_scale = __ldg(c.codes.k_scales + tile);
  const float value_scale = __ldg(c.codes.v_scales + tile);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    rows->maximum[h] = -INFINITY;
    rows->total[h] = 0.0f;
  }
  rows->value_scale = value_scale;
#pragma unroll
  for (float& sum : rows->sums) sum = 0.0f;
  WaitForOwnPhase(&c.shared->k_full[place.stage], place.phase);
  BeginProducts();
  fp8::MultiplyKeys(s, c.q, RowsAlongK<64>(c.shared->k[place.stage]));
  CommitProducts();
  WaitForProducts<0>();
  Finished(s);
  Release(&c.shared->k_empty[place.stage]);
  fp8::OnlineSoftmax(c.p, c.item, c.group, key, key_scale, value_scale, s, rows);
  fp8::PackCodes<kCount / fp8::kStepCodes>(s, rows->probabilities);
}

// The same of the next tile of keys, beside the product of the probabilities and the values before.
template <int kCount>
__device__ __forceinline__ void NextKeys(const Context& c, RingPlace<kStages>* place, int key,
                                         int tile, fp8::Rows* rows) {
  float s[kCount / 2], product[kWidth / 2];
  const float key_scale = __ldg(c.codes.k_scales + tile);
  const float value_scale = __ldg(c.codes.v_scales + tile);
  const float ratio[2] = {rows->ratio[0], rows->ratio[1]};
  const int stage = place->stage;
  const unsigned phase = place->phase;
  place->Advance();
  WaitForOwnPhase(&c.shared->k_full[place->stage], place->phase);
  MeetAt(kTurnBarrier + c.group, 256);
  BeginProducts();
  fp8::MultiplyKeys(s, c.q, RowsAlongK<64>(c.shared->k[place->stage]));
  CommitProducts();
  WaitForOwnPhase(&c.shared->v_full[stage], phase);
  fp8::MultiplyValues<kKeys / fp8::kStepCodes>(product, rows->probabilities,
                                               RowsAlongK<64>(c.shared->v[stage]));
  CommitProducts();
  PassBy(kTurnBarrier + (c.group + 1) % kGroups, 256);
  WaitForProducts<1>();
  Finished(s);
  Release(&c.shared->k_empty[place->stage]);
  fp8::OnlineSoftmax(c.p, c.item, c.group, key, key_scale, value_scale, s, rows);
  // A branch that is never taken: ptxas moves the wait before the softmax, but over no branch.
  if (__any_sync(~0u, rows->total[0] == -1.0f)) __trap();
  WaitForProducts<0>();
  Finished(product);
  Release(&c.shared->v_empty[stage]);
  fp8::AddProduct(product, ratio, rows->sums);
  fp8::PackCodes<kCount / fp8::kStepCodes>(s, rows->probabilities);
}

// Keys from `first` on of a tile of values become 0, in chunks of 16; by a warpgroup.
__device__ __forceinline__ void ZeroKeys(unsigned char* values, int first) {
  const int row = static_cast<int>(threadIdx.x) % 128;
  for (int chunk = (first + 15) / 16; chunk < kKeys / 16; ++chunk) {
    reinterpret_cast<uint4*>(values + row * kBoxRowBytes)[chunk ^ (row & 7)] = uint4{0, 0, 0, 0};
  }
}

// The last probabilities, of keys from `key` on, times their values.
template <int kCount>
__device__ __forceinline__ void EndRows(const Context& c, RingPlace<kStages>* place, int key,
                                        fp8::Rows* rows) {
  unsigned char* values = c.shared->v[place->stage];
  WaitForOwnPhase(&c.shared->v_full[place->stage], place->phase);
  if (key + kCount > c.item.end) {
    ZeroKeys(values, c.item.end - key);
    PublishRows(c.group);
  }
  float product[kWidth / 2];
  BeginProducts();
  fp8::MultiplyValues<kCount / fp8::kStepCodes>(product, rows->probabilities,
                                                RowsAlongK<64>(values));
  CommitProducts();
  WaitForProducts<0>();
  Finished(product);
  Release(&c.shared->v_empty[place->stage]);
  fp8::AddProduct(product, rows->ratio, rows->sums);
  place->Advance();
}

__device__ __forceinline__ void Write(const Context& c, const fp8::Rows& rows,
                                      unsigned char* own_rows, bf16* out, float* lse) {
  const HopperParams& p = c.p;
  const HopperItem& item = c.item;
  const int tokens = min(p.tile_tokens, item.end - item.first);
  const int64_t row = PackedIndex(p, item.kv_head, item.first);
  float scale[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int lane_row = LaneRow(c.group, h), token = TokenOfRow(p, lane_row);
    const int head = item.kv_head * p.group_heads + lane_row - token * p.group_heads;
    const RowEnd end = fp8::EndOfCodes(p, head, rows.maximum[h], QuadSum(rows.total[h]));
    scale[h] = end.scale * rows.value_scale;
    if (threadIdx.x % 4 == 0 && token < tokens) lse[row + lane_row] = end.lse;
  }
  StoreSums<kRows>(rows.sums, scale, own_rows, c.group * 64,
                   {out + p.o(item.first, item.kv_head * p.group_heads), p.out_row(), p.group_heads,
                    tokens, p.reciprocal, p.value_dim});
}

// Makes codes of the warp's 16 rows of Q, in their place, and stores what the codes stand for.
__device__ __forceinline__ void EncodeRows(const Context& c, unsigned char* tile) {
  constexpr int kLanes = kWidth / 8;  // of a row, 8 elements each
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int first = LaneRow(c.group, 0) / 16 * 16 + static_cast<int>(threadIdx.x) % kWarp / kLanes;
  const int tokens = min(c.p.tile_tokens, c.item.end - c.item.first);
  uint4 pieces[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = first + 2 * i;
    pieces[i] = *reinterpret_cast<const uint4*>(tile + lane / 8 * (kRows * kBoxRowBytes) +
                                                row * kBoxRowBytes + (lane % 8 ^ (row & 7)) * 16);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = first + 2 * i, token = TokenOfRow(c.p, row);
    uint32_t largest = LargestSize(LargerSizes(0, pieces[i]));
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      largest = max(largest, __shfl_xor_sync(~0u, largest, offset));
    }
    const float scale = Fp8AttentionScale(largest);
    const uint2 codes = CodesOf(pieces[i], ReciprocalOfPower(scale));
    *reinterpret_cast<uint2*>(tile + row * kBoxRowBytes + (lane / 2 ^ (row & 7)) * 16 +
                              lane % 2 * 8) = codes;
    if (lane == 0) c.shared->q_scales[row] = scale;
    if (token >= tokens || lane * 8 >= c.p.dim) continue;
    const int head = c.item.kv_head * c.p.group_heads + row - token * c.p.group_heads;
    *reinterpret_cast<uint4*>(c.codes.rounded_q + c.p.query(c.item.first + token, head) +
                              lane * 8) = ValuesOf(codes, scale);
  }
  PublishRows(c.group);
}

// A tile's rows of a warpgroup; its place in the ring goes on. Of the last keys one half is left
// out where no row sees it.
__device__ __forceinline__ void AttendTile(const Context& c, int tile, unsigned char* own_rows,
                                           RingPlace<kStages>* place, bf16* out, float* lse) {
  const KeyRange keys = KeysOf<kKeys>(c.p, c.item);
  const int last = keys.first + (keys.last - keys.first) / kKeys * kKeys;
  const bool half = keys.last - last < kLastKeys;
  int key = keys.first;
  fp8::Rows rows;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    rows.factor[h] = c.p.scale * kLog2E * c.shared->q_scales[LaneRow(c.group, h)];
  }
  tile += (key - c.item.begin) / kKeys;
  if (half && key == last) {
    BeginRows<kLastKeys>(c, *place, key, tile, &rows);
  } else {
    BeginRows<kKeys>(c, *place, key, tile++, &rows);
    const int whole = half ? last - kKeys : last;
    while (key < whole) {
      key += kKeys;
      NextKeys<kKeys>(c, place, key, tile++, &rows);
    }
    if (half) NextKeys<kLastKeys>(c, place, last, tile, &rows);
  }
  if (half) {
    EndRows<kLastKeys>(c, place, last, &rows);
  } else {
    EndRows<kKeys>(c, place, last, &rows);
  }
  Write(c, rows, own_rows, out, lse);
}

__device__ __forceinline__ void AttendTiles(const HopperParams& p, const AttentionCodes& codes,
                                            int group, Shared* shared, bf16* out, float* lse) {
  if (group == kGroups - 1) PassBy(kTurnBarrier, 256);
  RingPlace<kStages> place;
  for (unsigned use = 0;; ++use) {
    const int slot = use % kTiles;
    WaitForOwnPhase(&shared->q_full[slot], use / kTiles % 2);
    const HopperItem& item = shared->item[slot];  // read anew: registers are few
    if (item.first < 0) return;
    const int tile = item.kv_head * codes.tiles + FirstCodeTile(item.begin, shared->document[slot]);
    unsigned char* own_rows = shared->q[slot] + group * 64 * kBoxRowBytes;
    const Context context = {p, item, codes, group, shared, RowsAlongK<64>(own_rows)};
    EncodeRows(context, shared->q[slot]);
    AttendTile(context, tile, own_rows, &place, out, lse);
    PublishToCopies();  // what was written and read here before copies write it
    Release(&shared->q_empty[slot]);
  }
}

#endif

__global__ void __launch_bounds__(kThreads, 1)
    HopperFp8ForwardKernel(const __grid_constant__ Maps maps, AttentionCodes codes, bf16* out,
                           float* lse, HopperParams p) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared = AlignedShared<Shared>(dynamic);
  if (threadIdx.x == 0) InitShared(shared);
  __syncthreads();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<24>();
    if (threadIdx.x < kWarp) {
      LoadTiles(maps, p, shared);
    } else if (threadIdx.x < 2 * kWarp) {
      FindItems<true>(p, &shared->next);
    }
  } else {
    TakeRegisters<240>();
    AttendTiles(p, codes, group - 1, shared, out, lse);
  }
#endif
}

}  // namespace

void LaunchHopperFp8Forward(const AttentionForwardArgs& args, HopperParams p,
                            const AttentionCodes& codes, int* next, Stream* stream) {
  SetTiles(args.documents, kRows / p.group_heads, 2, next, &p);
  const int dim = p.dim / 2;
  const Maps maps{.q = MakeHeadMap(QueryBoxes(p, p.q, p.dim, p.q_row, p.tile_tokens)),
                  .k = MakeHeadMap(KeyBoxes(p, codes.k, dim, int64_t{p.kv_heads} * dim, kKeys)),
                  .v = MakeStackMap({.data = codes.v,
                                     .matrices = p.kv_heads,
                                     .rows = p.value_dim,
                                     .columns = codes.value_keys / 2,
                                     .stride = codes.value_keys / 2,
                                     .matrix_stride = int64_t{p.value_dim} * codes.value_keys / 2,
                                     .box_rows = kWidth})};
  LaunchHopper(HopperFp8ForwardKernel, kThreads, sizeof(Shared) + 1024, p, stream, maps, codes,
               static_cast<bf16*>(args.out), args.lse);
}

}  // namespace coxswain::kernels::cuda
