// Forward of attention over packed documents by warpgroup products of codes in E4M3: the formulas
// of kernels/attention/fp8_attention.h, the tiles, warpgroups, turns and barriers of
// hopper_forward.cu.
//
// A box's row of 128 bytes is 128 codes, so a head of any width is one box. The copy engine takes
// codes in pairs as it takes values of bfloat16. A tile has 192 keys, of which the last one's
// products take 64 where no row sees the others. Probabilities go into codes in the
// registers where their scores were; values lie turned, their keys in the order that this asks for
// (fp8_attention.cuh). Sums are in units of the last tile's scale of values: they shrink by the
// softmax and by the ratio of scales in one multiplication. The tensor core adds codes with 13 bits
// behind the largest one's first, and cuts off the others. So after a run of 16 tiles a warpgroup
// adds its sums to those in shared memory and begins anew: a sum is off by about 48 2^-14 of
// itself, and not by more with every key.
//
// Bytes: codes of Q once, O once; codes of K and V by every tile of rows, from the L2 cache.
// Deterministic, and a row's bits depend on its document alone.
// Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3.2 (sums of the tensor
// core).
#include "kernels/cuda/attention/fp8_attention.cuh"
#include "kernels/cuda/attention/fp8_rows.cuh"
#include "kernels/cuda/attention/hopper_products.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kKeys = fp8::kKeys, kWidth = fp8::kWidth;
constexpr int kGroups = 2;  // warpgroups that multiply
constexpr int kRows = 64 * kGroups;
constexpr int kTiles = 2;  // of Q
constexpr int kStages = 2;
constexpr int kThreads = 128 * (kGroups + 1);

struct Maps {
  TensorMap q, k;
  TensorMap first_values, other_values;  // 128 and 64 keys of a tile
};

struct alignas(1024) Shared {
  unsigned char q[kTiles][kRows * kWidth * kBf16Bytes];  // codes in the first half; in the end out
  unsigned char k[kStages][kKeys * kWidth];
  unsigned char v[kStages][kWidth * kKeys];  // boxes of 128 and of 64 keys
  float sums[kGroups][kWidth / 2][128];      // of earlier runs of tiles, by thread
  float maxima[kRows];                       // of scores when they were written
  float value_scales[4 * kGroups];           // their unit, by warp
  uint64_t q_full[kTiles], q_empty[kTiles];
  uint64_t k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  HopperItem item[kTiles];  // whose Q it is
  int document[kTiles];     // and of which document
  ItemSlot next;
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kLastKeys = 64;           // of a tile's products where no row sees the others
constexpr int kKeysOfRun = 16 * kKeys;  // whose products the tensor core adds up
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
__device__ __forceinline__ void LoadValues(const Maps& maps, int kv_head, int value_key,
                                           unsigned char* to, uint64_t* empty, uint64_t* full,
                                           unsigned phase) {
  WaitForOwnPhase(empty, phase ^ 1);
  if (threadIdx.x % kWarp == 0) {
    ExpectBytes(full, kWidth * kKeys);
    LoadBox(to, maps.first_values, value_key / 2, 0, kv_head, full);
    LoadBox(to + kWidth * fp8::kFirstKeys, maps.other_values, (value_key + fp8::kFirstKeys) / 2, 0,
            kv_head, full);
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
        ExpectBytes(q_full, p.tile_tokens * p.group_heads * kWidth);
        LoadPacked<kPairs, kRows>(maps.q, p, item.kv_head, item.first, shared->q[q.stage], q_full);
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
      LoadValues(maps, item.kv_head, value_key + key, shared->v[place.stage],
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

// Begins a run of tiles: scores against the first kCount keys of a tile, and their probabilities.
template <int kCount>
__device__ __forceinline__ void BeginRows(const Context& c, const RingPlace<kStages>& place,
                                          int key, int tile, fp8::Rows* rows) {
  float s[kCount / 2];
  const float key_scale = __ldg(c.codes.k_scales + tile);
  const float value_scale = __ldg(c.codes.v_scales + tile);
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
  float s[kCount / 2];
  const float key_scale = __ldg(c.codes.k_scales + tile);
  const float value_scale = __ldg(c.codes.v_scales + tile);
  const int stage = place->stage;
  const unsigned phase = place->phase;
  place->Advance();
  WaitForOwnPhase(&c.shared->k_full[place->stage], place->phase);
  MeetAt(kTurnBarrier + c.group, 256);
  BeginProducts();
  fp8::MultiplyKeys(s, c.q, RowsAlongK<64>(c.shared->k[place->stage]));
  CommitProducts();
  WaitForOwnPhase(&c.shared->v_full[stage], phase);
  fp8::MultiplyValues<kKeys / fp8::kStepCodes>(rows->sums, rows->probabilities, c.shared->v[stage]);
  CommitProducts();
  PassBy(kTurnBarrier + (c.group + 1) % kGroups, 256);
  WaitForProducts<1>();
  Finished(s);
  Release(&c.shared->k_empty[place->stage]);
  fp8::OnlineSoftmax(c.p, c.item, c.group, key, key_scale, value_scale, s, rows);
  WaitForProducts<0>();
  Finished(rows->sums);
  Release(&c.shared->v_empty[stage]);
#pragma unroll
  for (int n = 0; n < kWidth / 2; ++n) rows->sums[n] *= rows->ratio[n / 2 % 2];
  fp8::PackCodes<kCount / fp8::kStepCodes>(s, rows->probabilities);
}

// Keys from `first` on of a tile of values become 0, in chunks of 16; by a warpgroup.
__device__ __forceinline__ void ZeroKeys(unsigned char* values, int first) {
  constexpr int kOfFirst = fp8::kFirstKeys / 16, kChunks = kKeys / 16;
  const int row = static_cast<int>(threadIdx.x) % 128;
  auto* of_first = reinterpret_cast<uint4*>(values + row * fp8::kFirstKeys);
  auto* of_other =
      reinterpret_cast<uint4*>(values + kWidth * fp8::kFirstKeys + row * fp8::kOtherKeys);
  for (int chunk = (first + 15) / 16; chunk < kChunks; ++chunk) {
    uint4& codes = chunk < kOfFirst ? of_first[chunk ^ (row & 7)]
                                    : of_other[(chunk - kOfFirst) ^ (row >> 1 & 3)];
    codes = uint4{0, 0, 0, 0};
  }
}

// The last probabilities, of kCount keys from `key` on, times their values.
template <int kCount>
__device__ __forceinline__ void EndRows(const Context& c, RingPlace<kStages>* place, int key,
                                        fp8::Rows* rows) {
  unsigned char* values = c.shared->v[place->stage];
  WaitForOwnPhase(&c.shared->v_full[place->stage], place->phase);
  if (key + kCount > c.item.end) {
    ZeroKeys(values, c.item.end - key);
    PublishRows(c.group);
  }
  BeginProducts();
  fp8::MultiplyValues<kCount / fp8::kStepCodes>(rows->sums, rows->probabilities, values);
  CommitProducts();
  WaitForProducts<0>();
  Finished(rows->sums);
  Release(&c.shared->v_empty[place->stage]);
  place->Advance();
}

// The factors that make of sums in shared memory ones in the unit of `rows`, shrunk as those are.
__device__ __forceinline__ void FactorsOfKept(const Context& c, const fp8::Rows& rows,
                                              float (&factors)[2]) {
  const float unit = c.shared->value_scales[c.group * 4 + threadIdx.x % 128 / kWarp];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float shift = rows.maximum[h] == -INFINITY ? 0.0f : rows.maximum[h];
    factors[h] = Exp2(c.shared->maxima[LaneRow(c.group, h)] - shift) * unit *
                 ReciprocalOfPower(rows.value_scale);
  }
}
// Ends a run of tiles: its sums go into shared memory, to those of the runs before.
__device__ __forceinline__ void KeepSums(const Context& c, bool adds, const fp8::Rows& rows) {
  float factors[2] = {0.0f, 0.0f};
  if (adds) FactorsOfKept(c, rows, factors);
#pragma unroll
  for (int n = 0; n < kWidth / 2; ++n) {
    float* at = &c.shared->sums[c.group][n][threadIdx.x % 128];
    *at = adds ? *at * factors[n / 2 % 2] + rows.sums[n] : rows.sums[n];
  }
  __syncwarp();
  if (threadIdx.x % kWarp == 0) {
    c.shared->value_scales[c.group * 4 + threadIdx.x % 128 / kWarp] = rows.value_scale;
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (threadIdx.x % 4 == 0) c.shared->maxima[LaneRow(c.group, h)] = rows.maximum[h];
  }
  __syncwarp();
}
__device__ __forceinline__ void AddKept(const Context& c, fp8::Rows* rows) {
  float factors[2];
  FactorsOfKept(c, *rows, factors);
#pragma unroll
  for (int n = 0; n < kWidth / 2; ++n) {
    rows->sums[n] += c.shared->sums[c.group][n][threadIdx.x % 128] * factors[n / 2 % 2];
  }
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

// The last tile of a run, of whose kCount first keys some row sees one. `begins`: it is the first.
template <int kCount>
__device__ __forceinline__ void LastKeys(const Context& c, RingPlace<kStages>* place, bool begins,
                                         int key, int tile, fp8::Rows* rows) {
  if (begins) {
    BeginRows<kCount>(c, *place, key, tile, rows);
  } else {
    NextKeys<kCount>(c, place, key, tile, rows);
  }
  EndRows<kCount>(c, place, key, rows);
}

__device__ __forceinline__ void SetRows(const Context& c, const float* q_scales, fp8::Rows* rows) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = LaneRow(c.group, h), token = TokenOfRow(c.p, row);
    const bool exists = token < min(c.p.tile_tokens, c.item.end - c.item.first);
    rows->factor[h] = exists ? c.p.scale * kLog2E * __ldg(q_scales + row) : 0.0f;
    rows->maximum[h] = -INFINITY;
    rows->total[h] = 0.0f;
  }
  rows->value_scale = 1.0f;
}

// A tile's rows of a warpgroup; its place in the ring goes on. `tile`: of the document's first
// keys.
__device__ __forceinline__ void AttendTile(const Context& c, const float* q_scales, int tile,
                                           unsigned char* own_rows, RingPlace<kStages>* place,
                                           bf16* out, float* lse) {
  const KeyRange keys = KeysOf<kKeys>(c.p, c.item);
  const int last = keys.first + (keys.last - keys.first) / kKeys * kKeys;
  int key = keys.first;
  tile += (key - c.item.begin) / kKeys;
  fp8::Rows rows;
  SetRows(c, q_scales, &rows);
  while (true) {
    const bool more = last - key >= kKeysOfRun;
    const int end = more ? key + kKeysOfRun - kKeys : last;
    const bool begins = key == end;
    if (!begins) {
      BeginRows<kKeys>(c, *place, key, tile++, &rows);
      for (key += kKeys; key < end; key += kKeys) NextKeys<kKeys>(c, place, key, tile++, &rows);
    }
    if (!more && keys.last - last < kLastKeys) {
      LastKeys<kLastKeys>(c, place, begins, key, tile++, &rows);
    } else {
      LastKeys<kKeys>(c, place, begins, key, tile++, &rows);
    }
    key += kKeys;
    const bool kept = end - keys.first >= kKeysOfRun;
    if (!more) {
      if (kept) AddKept(c, &rows);
      break;
    }
    KeepSums(c, kept, rows);
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
    AttendTile(context, codes.q_scales + PackedIndex(p, item.kv_head, item.first), tile, own_rows,
               &place, out, lse);
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
  StackBoxes values = {.data = codes.v,
                       .matrices = p.kv_heads,
                       .rows = p.value_dim,
                       .columns = codes.value_keys / 2,
                       .stride = codes.value_keys / 2,
                       .matrix_stride = int64_t{p.value_dim} * codes.value_keys / 2,
                       .box_rows = kWidth,
                       .box_row_bytes = 128};
  const TensorMap first_values = MakeStackMap(values);
  values.box_row_bytes = 64;
  const Maps maps{
      .q = MakeHeadMap(QueryBoxes(p, codes.q, dim, int64_t{p.heads} * dim, p.tile_tokens)),
      .k = MakeHeadMap(KeyBoxes(p, codes.k, dim, int64_t{p.kv_heads} * dim, kKeys)),
      .first_values = first_values,
      .other_values = MakeStackMap(values)};
  LaunchHopper(HopperFp8ForwardKernel, kThreads, sizeof(Shared) + 1024, p, stream, maps, codes,
               static_cast<bf16*>(args.out), args.lse);
}

}  // namespace coxswain::kernels::cuda
