// gate_up = x W_e^T + b_e and y = f(gate) up over the rows of each expert, in one launch; f of
// silu.cuh or clamped_gate.cuh.
// Source: Shazeer, "GLU Variants Improve Transformer", 2020; transformers GptOssExperts.
//
// What it saves, of a layer of Qwen3-30B-A3B: 16,384 tokens of 8 experts are R = 131,072 rows, K =
// 2,048, I = 768, E = 128. The pass behind the product reads 4 R I bytes and writes 2 R I, 604 MB:
// 0.20 ms at the 3.0 TB/s of an H100's copy, 0.14 ms at the 4.25 of an H200's. The product is 4 R K
// I = 0.825 TFLOP, 1.30 ms at 635 TFLOP/s, and moves 2 R K + 4 E K I + 4 R I = 1.75 GB. With y
// written by it, 1.95 GB take 0.65 ms of an H100's copy: hidden behind the tensor cores. So one
// launch of 1.30 ms stands for two of 1.50 (1.44): 13 % (10 %) less, at most; in 48 layers 10 ms (7
// ms) of a forward pass, and as much where recomputation repeats the product. gate_up that nothing
// reads again, 403 MB, is not written.
//
// row_tiles.cuh, with tiles that hold the same columns of gate and of up: 32 of gate, the same 32
// of up, the next 32 of gate and so on, 128 of each. W_e [2 I, K] is a stack of two matrices, gate
// and up, and a box takes 32 rows of both: the layout of the weights stays, and a stage is as many
// bytes as there. A tile of which 64 columns or fewer are left takes the first half alone. So a
// thread holds both factors of its elements of y, rounded, for which it does what glu.cuh does.
// What leaves goes by chunks as in gated_chunks.cuh.
//
// Bytes: 6 per element of y written, 2 without gate_up. Rows behind the last segment are filled
// with zeros by a warp of each block that is free. Bitwise deterministic, and the bits of
// grouped_product.cu followed by those two: a sum runs over k in the same order, in one warpgroup;
// a row's bits do not depend on the other rows.
#include "kernels/cuda/experts/grouped_gated_product.h"

#include "kernels/cuda/activations/clamped_gate.cuh"
#include "kernels/cuda/activations/silu.cuh"
#include "kernels/cuda/experts/row_tiles.cuh"
#include "kernels/cuda/products/fused_choice.h"
#include "kernels/cuda/products/gated_chunks.cuh"
#include "kernels/cuda/shared_address.cuh"
#include "kernels/cuda/tiles/mma.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kBoxes = 4;                         // of a stage's weights
constexpr int kBoxRows = kGatedColumns / kBoxes;  // of gate, and of up
static_assert(kBoxRows == kGatedChunkColumns);    // a box of weights makes a chunk

struct GatedMaps {
  TensorMap rows, weight, gate, up, y;
};

struct SwigluGate {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ float operator()(float gate, float up) const {
    return up * Silu::Value(gate);
  }
#endif
};

struct ClampedGate {
  float alpha, limit;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ float operator()(float gate, float up) const {
    const ClampedGateParts parts(gate, up, alpha, limit);
    return parts.up * parts.value;
  }
#endif
};

// Terms of product_tiles.cuh.
struct GatedTerms : WholeTiles {
  int columns;  // of gate

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ Columns Of(const RowTile& tile) const {
    return tile.column * kGatedColumns + kGatedColumns / 2 < columns ? Columns::kAll
                                                                     : Columns::kFirstHalf;
  }
  __device__ __forceinline__ void LoadWeight(unsigned char* to, const TensorMap& map, int k,
                                             const RowTile& tile, uint64_t* barrier) const {
    LoadWeights<kBoxes>(tile, Of(tile), [&](int box, bool shared) {
      unsigned char* place = to + box * 2 * kBoxRows * kGatedDepth * kBf16Bytes;
      LoadWeightBox(place, map, k, tile.column * kGatedColumns + box * kBoxRows, 2 * tile.expert,
                    shared, barrier);
    });
  }
#endif
};

struct BiasedGatedTerms : GatedTerms {
  const bf16* bias;  // [experts, 2 columns]

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ __forceinline__ float2 Addend(const RowTile& tile, int j) const {
    constexpr int kBoxPairs = kBoxRows / 8;
    const int column = tile.column * kGatedColumns + j / (2 * kBoxPairs) * kBoxRows +
                       j % kBoxPairs * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
    if (column >= columns) return {};
    const bool up = j / kBoxPairs % 2 == 1;
    const bf16* pair = bias + int64_t{tile.expert} * 2 * columns + (up ? columns : 0) + column;
    const uint32_t values = __ldg(reinterpret_cast<const uint32_t*>(pair));
    return {Low(values), High(values)};
  }
#endif
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// By one thread for each warpgroup that multiplies: the rows that are the segment's.
__device__ __forceinline__ void StoreGatedRows(const GatedMaps& maps, const RowGrid& grid,
                                               bool wants_gate_up, GatedShared* shared, int half) {
  ForTiles(grid, [&](const RowTile& tile) {
    const WindowBox box(tile, half * kRowBox);
    for (int c = 0; c < kGatedChunks; ++c) {
      const int column = tile.column * kGatedColumns + c * kGatedChunkColumns;
      WaitForOwnPhase(&shared->written[half], c & 1);
      if (box.Any()) {
        if (wants_gate_up) {
          StoreBox(maps.gate, column, box.row, box.window, shared->chunks[half][0]);
          StoreBox(maps.up, column, box.row, box.window, shared->chunks[half][1]);
        }
        StoreBox(maps.y, column, box.row, box.window, shared->chunks[half][2]);
      }
      CloseGroup();
      WaitUntilRead<0>();
      Arrive(&shared->stored[half]);
    }
  });
  WaitUntilWritten();
}

// What a warpgroup does with a tile. A part is a chunk: slices 0 and 2 put 16 columns of gate and
// up where they are stored from, 1 and 3 those of y.
template <typename Gate>
class GatedRows {
 public:
  static constexpr int kParts = kGatedChunks, kSlices = 4;
  static_assert(kSlices == 2 * kGatedChunkColumns / 16);

  __device__ __forceinline__ GatedRows(const Gate& gate, bool wants_gate_up, GatedShared* shared,
                                       int half)
      : gate_(gate), wants_gate_up_(wants_gate_up), shared_(shared), half_(half) {
    const unsigned chunk = SharedAddress(shared->chunks[half][0]);
#pragma unroll
    for (int i = 0; i < kSlices / 2; ++i) at_[i] = chunk + BlocksOffset<kGatedChunkColumns>(i);
  }
  __device__ __forceinline__ void Fetch(int, int) {}
  __device__ __forceinline__ void Finish(int chunk, int s, const uint32_t (&tile)[64]) {
    if (s == 0) WaitForOwnPhase(&shared_->stored[half_], (chunk & 1) ^ 1);
    const uint32_t *gates = &tile[4 * (s / 2)], *ups = gates + kGatedChunkColumns / 4;
    if (s % 2 == 1) {
      PutProducts(gates, ups, at_[s / 2] + 2 * kGatedChunkBytes);
    } else if (wants_gate_up_) {
      StoreBlocks4(at_[s / 2], gates[0], gates[1], gates[2], gates[3]);
      StoreBlocks4(at_[s / 2] + kGatedChunkBytes, ups[0], ups[1], ups[2], ups[3]);
    }
    if (s != kSlices - 1) return;
    PublishToCopies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) Arrive(&shared_->written[half_]);
  }

 private:
  __device__ __forceinline__ void PutProducts(const uint32_t* gates, const uint32_t* ups,
                                              unsigned at) {
    uint32_t ys[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      ys[i] = PackPair(gate_(Low(gates[i]), Low(ups[i])), gate_(High(gates[i]), High(ups[i])));
    }
    StoreBlocks4(at, ys[0], ys[1], ys[2], ys[3]);
  }

  const Gate gate_;
  bool wants_gate_up_;
  GatedShared* shared_;
  int half_;
  unsigned at_[kSlices / 2];
};

#endif

// The rows behind the last segment.
struct GatedRowsBehind {
  RowsBehind gate_up, y;
};

template <typename Gate, typename Terms>
__global__ void __launch_bounds__(kProductThreads, 1)
    GroupedGatedKernel(const __grid_constant__ GatedMaps maps, const __grid_constant__ Terms terms,
                       RowGrid grid, Gate gate, bool wants_gate_up, GatedRowsBehind behind) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared =
      reinterpret_cast<GatedShared*>(dynamic + (1024 - SharedAddress(dynamic) % 1024) % 1024);
  if (threadIdx.x == 0) InitGated(shared);
  ClusterBarrier();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<40>();
    if (threadIdx.x == 0) {
      LoadOperands(grid, terms, &shared->operands, &shared->barriers,
                   [&](const RowTile& tile, int k, unsigned char* left, unsigned char* right,
                       uint64_t* barrier) {
                     LoadRows<kGatedDepth>(left, maps.rows, k, tile, barrier);
                     terms.LoadWeight(right, maps.weight, k, tile, barrier);
                   });
    }
    if (threadIdx.x == 32) StoreGatedRows(maps, grid, wants_gate_up, shared, 0);
    if (threadIdx.x == 64) StoreGatedRows(maps, grid, wants_gate_up, shared, 1);
    if (threadIdx.x >= 96) {
      FillRowsBehind(behind.gate_up, grid);
      FillRowsBehind(behind.y, grid);
    }
  } else {
    TakeRegisters<232>();
    Multiplier<false, kGatedStages, kGatedDepth> multiplier(&shared->operands, &shared->barriers,
                                                            group - 1);
    GatedRows<Gate> work(gate, wants_gate_up, shared, group - 1);
    multiplier.Run(grid, terms, &work);
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#endif
}

GatedMaps MapsOf(const GroupedGatedLinearForwardArgs& args) {
  const int64_t k = args.spec.in_features, n = args.spec.intermediate;
  auto* gate_up = static_cast<bf16*>(args.gate_up);
  const auto result = [&](const void* data, int64_t stride) {
    return MakeWindowMap(data, args.rows, n, stride, kGatedChunkColumns * kBf16Bytes);
  };
  return {.rows = MakeTensorMap({args.x, args.rows, k, k, kRowBox, kGatedDepth}),
          .weight = MakeStackMap({.data = args.weight,
                                  .matrices = 2 * args.spec.experts,
                                  .rows = n,
                                  .columns = k,
                                  .stride = k,
                                  .matrix_stride = n * k,
                                  .box_rows = kBoxRows,
                                  .box_matrices = 2}),
          .gate = result(gate_up, 2 * n),
          .up = result(gate_up + n, 2 * n),
          .y = result(args.y, n)};
}

template <typename Gate, typename Terms>
void Launch(const GroupedGatedLinearForwardArgs& args, const Gate& gate, Terms terms,
            Stream* stream) {
  const int64_t n = args.spec.intermediate;
  terms.columns = static_cast<int>(n);
  const RowGrid grid = MakeRowGrid(args.offsets, args.spec.experts, n, kGatedColumns,
                                   args.spec.in_features, kGatedDepth);
  GatedRowsBehind behind = {};
  if (args.zeros_behind) {
    behind.y = {static_cast<bf16*>(args.y), args.rows, n};
    if (args.wants_gate_up) behind.gate_up = {static_cast<bf16*>(args.gate_up), args.rows, 2 * n};
  }
  LaunchProduct(GroupedGatedKernel<Gate, Terms>, kGatedSharedBytes, MostTiles(grid, args.rows),
                Handle(stream), "GroupedGatedLinearForward", MapsOf(args), terms, grid, gate,
                args.wants_gate_up, behind);
}

template <typename Gate>
void LaunchWith(const GroupedGatedLinearForwardArgs& args, const Gate& gate, Stream* stream) {
  if (args.bias == nullptr) return Launch(args, gate, GatedTerms{}, stream);
  BiasedGatedTerms terms = {};
  terms.bias = static_cast<const bf16*>(args.bias);
  Launch(args, gate, terms, stream);
}

}  // namespace

bool GroupedGatedProductRuns(const GroupedGatedLinearForwardArgs& args) {
  return args.spec.dtype == DType::kBFloat16 && Capability() == 90 &&
         args.spec.in_features % 8 == 0 && args.spec.intermediate % 8 == 0 &&
         AllAligned(args.x, args.weight, args.bias, args.gate_up, args.y);
}

void GroupedGatedProduct(const GroupedGatedLinearForwardArgs& args, Stream* stream) {
  if (args.spec.limit == 0.0f) return LaunchWith(args, SwigluGate{}, stream);
  LaunchWith(args, ClampedGate{args.spec.alpha, args.spec.limit}, stream);
}

}  // namespace coxswain::kernels::cuda
