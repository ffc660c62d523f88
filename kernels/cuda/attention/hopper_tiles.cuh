// What the attention kernels of compute capability 9.0a share: rows that pack the query heads of a
// kv head, the tiles of documents and how blocks take them.
//
// Packed rows. Row r of a tile from token t on is query head r % G of token t + r / G, G = nq /
// nkv: all heads of a group meet the same tile of keys, a tile spans few tokens, and the mask cuts
// little. A tile is floor(rows / G) tokens; what then is left of its rows belongs to nobody.
//
// Documents. Tiles of rows and of keys begin with their document. A box that runs over a document's
// end brings rows of the next one: scores of them are masked, and where they would be summed over
// they are zeroed in shared memory first, for a masked 0 times NaN is NaN.
//
// Blocks are as many as run at once; a counter in the workspace gives each its next tile, the
// longest of a document first. Documents known to be of equal length go a few at a time, the
// longest tiles of those first: few, for their keys and values must stay in the L2 cache.
#ifndef COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_TILES_CUH_
#define COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_TILES_CUH_

#include "kernels/cuda/attention/flash_params.cuh"
#include "kernels/cuda/tiles/cluster.cuh"
#include "kernels/cuda/tiles/ring_place.cuh"
#include "kernels/cuda/tiles/tma.cuh"

namespace coxswain::kernels::cuda {

inline constexpr int kHopperStages = 3;
inline constexpr unsigned kBoxRowBytes = 128;  // of 64 columns
// Named barriers beside that of the block.
inline constexpr int kTurnBarrier = 1;   // + warpgroup
inline constexpr int kGroupBarrier = 4;  // + warpgroup

struct HopperParams : FlashParams {
  int group_heads = 1;      // G
  unsigned reciprocal = 0;  // r reciprocal / 65536 = r / G for r < 192
  int row_tokens = 0;       // of a tile of packed rows that passes by a tile of keys
  int tile_tokens = 0;      // of a tile that blocks take
  int dense_tiles = 0;      // of each document; 0: lengths are known to the device alone
  int dense_documents = 1;  // that go together
  int items = 0;            // tiles x kv heads, those that do not exist included
  int* next = nullptr;      // the item that is taken after those that blocks begin with
  // dq and dk are turned back by these before they are stored; null: they are not.
  const float *cos = nullptr, *sin = nullptr;  // [positions, dim / 2]
  const int32_t* positions = nullptr;          // [tokens]
};

// Rows [begin, end) are a document, those from `first` on one tile of it. first < 0: none is left.
struct HopperItem {
  int begin, end, first, kv_head;
};

// The next item of a block: one warp finds it while another loads the one before.
struct ItemSlot {
  HopperItem item;
  uint64_t full, empty;  // a phase an item
};

inline HopperParams MakeHopperParams(const AttentionSpec& spec, const Documents& documents,
                                     int64_t tokens, const HeadInputs& in) {
  HopperParams p;
  static_cast<FlashParams&>(p) = MakeFlashParams(spec, documents, tokens, in);
  p.group_heads = p.heads / p.kv_heads;
  p.reciprocal = 65536u / static_cast<unsigned>(p.group_heads) + 1;
  return p;
}
// Where lengths are not known, document i owns the slots cu[i] / size + i .. cu[i + 1] / size + i,
// see TileSlots. Documents that go together have `together` tiles for each block.
inline void SetTiles(const Documents& documents, int tile_tokens, int together, int* next,
                     HopperParams* p) {
  p->tile_tokens = tile_tokens;
  p->next = next;
  p->dense_tiles =
      documents.dense ? static_cast<int>(CeilDiv(documents.max_length, int64_t{tile_tokens})) : 0;
  p->items = (p->tokens / tile_tokens + p->documents) * p->kv_heads;
  if (!documents.dense) return;
  const int each = p->dense_tiles * p->kv_heads;
  p->dense_documents = std::min(1 + together * Multiprocessors() / each, p->documents);
  p->items = static_cast<int>(CeilDiv(int64_t{p->documents}, int64_t{p->dense_documents})) *
             p->dense_documents * each;
}
// Of heads of `dim` elements: those of q or of dO; those of k or of v.
inline HeadBoxes QueryBoxes(const HopperParams& p, const void* data, int dim, int64_t row,
                            int tokens) {
  return {.data = data,
          .tokens = p.tokens,
          .heads = p.heads,
          .dim = dim,
          .stride = row,
          .box_tokens = tokens,
          .box_heads = p.group_heads};
}
inline HeadBoxes KeyBoxes(const HopperParams& p, const void* data, int dim, int64_t row, int keys) {
  return {.data = data,
          .tokens = p.tokens,
          .heads = p.kv_heads,
          .dim = dim,
          .stride = row,
          .box_tokens = keys,
          .box_heads = 1};
}
// The widths of a head of q and k, and of one of v and O, that a kernel is compiled for.
template <int kOfKeys, int kOfValues>
struct HopperWidths {
  static constexpr int kDim = kOfKeys, kValueDim = kOfValues;
  static constexpr int kBoxes = kDim / 64, kValueBoxes = kValueDim / 64;
  static_assert(kBoxes * 64 == kDim && kValueBoxes * 64 == kValueDim);
};
// Calls fn with the narrowest of them that the heads fit: the copy engine brings zeros for columns
// that a head does not have. Keys of 192 beside values of 128 are those of DeepSeek's latent
// attention.
template <typename Fn>
void ForHopperWidths(int dim, int value_dim, const Fn& fn) {
  const int widest = std::max(dim, value_dim);
  if (widest <= 64) return fn(HopperWidths<64, 64>{});
  if (widest <= 128) return fn(HopperWidths<128, 128>{});
  if (dim <= 192 && value_dim <= 128) return fn(HopperWidths<192, 128>{});
  fn(HopperWidths<256, 256>{});
}
// As many blocks as run at once, one a multiprocessor.
template <typename Kernel, typename... Args>
void LaunchHopper(Kernel kernel, int threads, int shared_bytes, const HopperParams& p,
                  Stream* stream, const Args&... args) {
  AllowSharedMemory(kernel, shared_bytes, "attention");
  const auto blocks = static_cast<unsigned>(std::min(Multiprocessors(), p.items));
  kernel<<<blocks, threads, static_cast<size_t>(shared_bytes), Handle(stream)>>>(args..., p);
}

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The item's tile; first >= end where there is none.
template <bool kLastFirst>
__device__ __forceinline__ HopperItem ItemAt(const HopperParams& p, int item) {
  const int slot = item / p.kv_heads, head = item - slot * p.kv_heads;
  int i, tile, tiles = p.dense_tiles;
  if (tiles > 0) {
    const int first = slot / (p.dense_documents * tiles) * p.dense_documents;
    tile = (slot - first * tiles) / p.dense_documents;
    i = slot - first * (tiles - 1) - tile * p.dense_documents;
    if (i >= p.documents) return {0, 0, 0, 0};
  } else {
    i = WarpLastAtMost(p.documents, slot,
                       [&](int d) { return p.cu_seqlens[d] / p.tile_tokens + d; });
  }
  const int begin = Uniform(p.cu_seqlens[i]), end = Uniform(p.cu_seqlens[i + 1]);
  if (p.dense_tiles == 0) {
    tile = slot - begin / p.tile_tokens - Uniform(i);
    tiles = (end - begin + p.tile_tokens - 1) / p.tile_tokens;
  }
  if (kLastFirst && tile < tiles) tile = tiles - 1 - tile;
  return {begin, end, begin + tile * p.tile_tokens, head};
}

// A warp's way through the items of its block.
class HopperItems {
 public:
  template <bool kLastFirst>
  __device__ __forceinline__ HopperItem Next(const HopperParams& p) {
    while (true) {
      int item = static_cast<int>(blockIdx.x);
      if (!first_) {
        if (threadIdx.x % kWarp == 0) item = atomicAdd(p.next, 1) + static_cast<int>(gridDim.x);
        item = Uniform(item);
      }
      first_ = false;
      if (item >= p.items) return {0, 0, -1, 0};
      const HopperItem tile = ItemAt<kLastFirst>(p, item);
      if (tile.first < tile.end) return tile;
      if (p.dense_tiles == 0 && tile.begin == p.tokens) return {0, 0, -1, 0};
    }
  }

 private:
  bool first_ = true;
};

__device__ __forceinline__ void InitSlot(ItemSlot* slot) {
  InitBarrier(&slot->full);
  InitBarrier(&slot->empty);
}
// By one warp, to the end.
template <bool kLastFirst>
__device__ __forceinline__ void FindItems(const HopperParams& p, ItemSlot* slot) {
  HopperItems items;
  for (unsigned phase = 0;; phase ^= 1) {
    const HopperItem item = items.Next<kLastFirst>(p);
    WaitForOwnPhase(&slot->empty, phase ^ 1);
    if (threadIdx.x % kWarp == 0) {
      slot->item = item;
      Arrive(&slot->full);
    }
    __syncwarp();
    if (item.first < 0) return;
  }
}
// Of an `empty` barrier that counts warps.
__device__ __forceinline__ void Release(uint64_t* barrier) {
  __syncwarp();
  if (threadIdx.x % kWarp == 0) Arrive(barrier);
}
// By another warp; its n-th call is of phase n.
__device__ __forceinline__ HopperItem TakeItem(ItemSlot* slot, unsigned phase) {
  WaitForOwnPhase(&slot->full, phase);
  const HopperItem item = slot->item;
  Release(&slot->empty);
  return item;
}

// Until `threads` threads have come to the named barrier, or not waiting for them.
__device__ __forceinline__ void MeetAt(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void PassBy(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// The tiles of kKeys keys that the rows of a tile see: the first key of the first one, and a key of
// the last one.
struct KeyRange {
  int first, last;
};
template <int kKeys>
__device__ __forceinline__ KeyRange KeysOf(const HopperParams& p, const HopperItem& item) {
  const int seen = p.window == 0 ? item.begin : max(item.begin, item.first - p.window + 1);
  return {item.begin + (seen - item.begin) / kKeys * kKeys,
          min(item.first + p.tile_tokens, item.end) - 1};
}
// Whether a row of the tile does not see all of the keys from first_key on.
template <int kKeys>
__device__ __forceinline__ bool IsMasked(const HopperParams& p, const HopperItem& item,
                                         int first_key) {
  const int last_token = min(item.first + p.tile_tokens, item.end) - 1;
  return first_key + (kKeys - 1) > item.first ||
         (p.window != 0 && first_key <= last_token - p.window);
}

// Of a tile's packed rows: that of a lane's sums with h, and the token of a row.
__device__ __forceinline__ int LaneRow(int group, int h) {
  return group * 64 + static_cast<int>(threadIdx.x) % 128 / kWarp * 16 +
         static_cast<int>(threadIdx.x) % kWarp / 4 + 8 * h;
}
__device__ __forceinline__ int TokenOfRow(const HopperParams& p, int row) {
  return static_cast<int>(static_cast<unsigned>(row) * p.reciprocal >> 16);
}
// Of the first packed row of a token in arrays of a number for each.
__device__ __forceinline__ int64_t PackedIndex(const HopperParams& p, int kv_head, int token) {
  return (int64_t{kv_head} * p.tokens + token) * p.group_heads;
}

// Packed rows of `tokens` tokens from `token` on, into boxes of kRows rows. By one thread.
template <int kDim, int kRows>
__device__ __forceinline__ void LoadPacked(const TensorMap& map, const HopperParams& p, int kv_head,
                                           int token, unsigned char* to, uint64_t* full) {
#pragma unroll
  for (int box = 0; box < kDim / 64; ++box) {
    LoadHeads(to + box * kRows * kBoxRowBytes, map, box * 64, kv_head * p.group_heads, token, full);
  }
}
// kRows keys or values, once their place is empty. By a warp.
template <int kDim, int kRows>
__device__ __forceinline__ void LoadKeys(const TensorMap& map, const HopperItem& item, int key,
                                         unsigned char* to, uint64_t* empty, uint64_t* full,
                                         unsigned phase) {
  WaitForOwnPhase(empty, phase ^ 1);
  if (threadIdx.x % kWarp == 0) {
    ExpectBytes(full, kRows * kDim * kBf16Bytes);
#pragma unroll
    for (int box = 0; box < kDim / 64; ++box) {
      LoadHeads(to + box * kRows * kBoxRowBytes, map, box * 64, item.kv_head, key, full);
    }
  }
  __syncwarp();
}

// Dynamic shared memory starts at a multiple of 16, boxes at one of 1024.
template <typename Shared>
__device__ __forceinline__ Shared* AlignedShared(unsigned char* dynamic) {
  return reinterpret_cast<Shared*>(dynamic + (1024 - SharedAddress(dynamic) % 1024) % 1024);
}

#endif

// The launches. Statistics: of each packed row the base 2 logarithm of its sum, and rowsum(dO O).
void LaunchHopperForward(const AttentionForwardArgs& args, HopperParams p, int* next,
                         Stream* stream);
void LaunchHopperQueryGradient(const Documents& documents, HopperParams p, const float2* statistics,
                               int* next, Stream* stream);
void LaunchHopperKeyGradient(const Documents& documents, HopperParams p, const float2* statistics,
                             int* next, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ATTENTION_HOPPER_TILES_CUH_
