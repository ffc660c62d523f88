// The adapters of a mixture's experts, on CUDA cores.
//
// Into the rank: a warp has a row, whose elements its lanes take in turns, and a sum for each of
// kAtOnce columns of the rank. Out of the rank: a thread has a column of kRows rows. Gradients of A
// and B: a thread has a column of the wide rows and kAtOnce elements of the rank, and adds the rows
// of the expert in their order. Every element has one writer: bitwise deterministic.
//
// Off by at most (columns / 32 + 5) roundings of the sum of the sizes into the rank, rank out of
// it, and the rows of the expert in gradients.
#include "kernels/grouped_lora.h"

#include <algorithm>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 16;
constexpr int kRows = 8;

// The expert that has the row; `experts` for a row of none.
__device__ int ExpertOf(const int32_t* offsets, int experts, int64_t row) {
  int low = 0, high = experts;  // offsets[low] <= row, where an expert has it
  if (row >= offsets[experts]) return experts;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (offsets[middle] <= row ? low : high) = middle;
  }
  return low;
}

// A matrix of each expert, element (j, k) of expert e: data[e size + j by_rank + k by_wide], j an
// element of the rank, k of the wide rows.
template <typename T>
struct Factors {
  const T* data;
  int64_t size, by_rank, by_wide;
};

struct Rows {
  const int32_t* offsets;
  int experts;
  int64_t count, wide;
  int rank;
  float scale;
};

// low[i, j] = scale sum over k of wide[i, k] f_e(j, k), 0 for rows of no expert.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    IntoRankKernel(const Rows rows, const T* wide, const Factors<T> factors, T* low) {
  const int64_t row = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / cuda::kWarp;
  const int lane = threadIdx.x % cuda::kWarp;
  if (row >= rows.count) return;
  const int expert = ExpertOf(rows.offsets, rows.experts, row);
  const T* x = wide + row * rows.wide;
  const T* f = factors.data + expert * factors.size;
  for (int first = 0; first < rows.rank; first += kAtOnce) {
    float sums[kAtOnce] = {};
    for (int64_t k = lane; k < rows.wide && expert < rows.experts; k += cuda::kWarp) {
      const float value = cuda::ToFloat(x[k]);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (first + j >= rows.rank) continue;
        sums[j] += value * cuda::ToFloat(f[(first + j) * factors.by_rank + k * factors.by_wide]);
      }
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const float sum = cuda::WarpSum(sums[j]);
      if (lane == 0 && first + j < rows.rank) {
        low[row * rows.rank + first + j] = cuda::FromFloat<T>(rows.scale * sum);
      }
    }
  }
}

// wide[i, k] += scale sum over j of low[i, j] f_e(j, k).
template <typename T>
__global__ void __launch_bounds__(kThreads)
    OutOfRankKernel(const Rows rows, const T* low, const Factors<T> factors, T* wide) {
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= rows.wide) return;
  for (int i = 0; i < kRows; ++i) {
    const int64_t row = int64_t{blockIdx.y} * kRows + i;
    if (row >= rows.count) return;
    const int expert = ExpertOf(rows.offsets, rows.experts, row);
    if (expert == rows.experts) return;
    const T* f = factors.data + expert * factors.size + column * factors.by_wide;
    const T* h = low + row * rows.rank;
    float sum = 0.0f;
    for (int j = 0; j < rows.rank; ++j) {
      sum += cuda::ToFloat(h[j]) * cuda::ToFloat(f[j * factors.by_rank]);
    }
    T* at = wide + row * rows.wide + column;
    *at = cuda::FromFloat<T>(cuda::ToFloat(*at) + rows.scale * sum);
  }
}

// gradient_e(j, k) += scale sum over the rows i of expert e of low[i, j] wide[i, k].
template <typename T, typename G>
__global__ void __launch_bounds__(kThreads)
    RankGradientKernel(const Rows rows, const T* low, const T* wide, const Factors<G> at,
                       G* gradient) {
  const int expert = blockIdx.y, first = blockIdx.z * kAtOnce;
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= rows.wide) return;
  float sums[kAtOnce] = {};
  for (int64_t row = rows.offsets[expert]; row < rows.offsets[expert + 1]; ++row) {
    const float value = cuda::ToFloat(wide[row * rows.wide + column]);
    const T* h = low + row * rows.rank + first;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (first + j < rows.rank) sums[j] += cuda::ToFloat(h[j]) * value;
    }
  }
#pragma unroll
  for (int j = 0; j < kAtOnce; ++j) {
    if (first + j >= rows.rank) continue;
    G* to = gradient + expert * at.size + (first + j) * at.by_rank + column * at.by_wide;
    *to = cuda::FromFloat<G>(cuda::ToFloat(*to) + rows.scale * sums[j]);
  }
}

// The launches of one type of rows and one of gradients.
template <typename T, typename G>
struct Launches {
  const GroupedLoraSpec& spec;
  const int32_t* offsets;
  int64_t count;
  cudaStream_t stream;

  Rows Of(int64_t wide, float scale) const {
    return {offsets, static_cast<int>(spec.experts), count, wide, static_cast<int>(spec.rank),
            scale};
  }
  // A [r, K] and B [N, r].
  Factors<T> A(const void* data) const {
    return {static_cast<const T*>(data), spec.rank * spec.in_features, spec.in_features, 1};
  }
  Factors<T> B(const void* data) const {
    return {static_cast<const T*>(data), spec.rank * spec.out_features, 1, spec.rank};
  }
  Factors<G> GradientA() const { return {nullptr, spec.rank * spec.in_features, spec.in_features, 1}; }
  Factors<G> GradientB() const { return {nullptr, spec.rank * spec.out_features, 1, spec.rank}; }

  void IntoRank(const Rows& rows, const void* wide, const Factors<T>& factors, void* low) const {
    const int64_t blocks = cuda::CeilDiv(count, kThreads / cuda::kWarp);
    IntoRankKernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        rows, static_cast<const T*>(wide), factors, static_cast<T*>(low));
  }
  void OutOfRank(const Rows& rows, const void* low, const Factors<T>& factors, void* wide) const {
    const dim3 grid(static_cast<unsigned>(cuda::CeilDiv(rows.wide, kThreads)),
                    static_cast<unsigned>(cuda::CeilDiv(count, kRows)));
    OutOfRankKernel<T><<<grid, kThreads, 0, stream>>>(rows, static_cast<const T*>(low), factors,
                                                      static_cast<T*>(wide));
  }
  void Gradient(const Rows& rows, const void* low, const void* wide, const Factors<G>& at,
                void* gradient) const {
    const dim3 grid(static_cast<unsigned>(cuda::CeilDiv(rows.wide, kThreads)),
                    static_cast<unsigned>(spec.experts),
                    static_cast<unsigned>(cuda::CeilDiv(spec.rank, kAtOnce)));
    RankGradientKernel<T, G><<<grid, kThreads, 0, stream>>>(
        rows, static_cast<const T*>(low), static_cast<const T*>(wide), at,
        static_cast<G*>(gradient));
  }
};

template <typename Args, typename Use>
void WithTypes(const Args& args, Stream* stream, const Use& use) {
  cuda::RequireSupported(GroupedLoraSupports(args.spec), "GroupedLora");
  if (args.rows == 0) return;
  const cudaStream_t on = cuda::Handle(stream);
  if (args.spec.dtype == DType::kFloat32) {
    use(Launches<float, float>{args.spec, args.offsets, args.rows, on});
  } else {
    use(Launches<cuda::bf16, float>{args.spec, args.offsets, args.rows, on});
  }
  cuda::CheckLaunch("GroupedLora");
}

}  // namespace

bool GroupedLoraSupports(const GroupedLoraSpec& spec) {
  return spec.grad_dtype == DType::kFloat32 && spec.experts > 0 && spec.experts < 65536 &&
         spec.in_features > 0 && spec.out_features > 0 && spec.rank > 0;
}

int64_t GroupedLoraBackwardWorkspaceBytes(const GroupedLoraSpec& spec, int64_t rows) {
  return rows * spec.rank * DTypeBytes(spec.dtype);
}

void GroupedLoraForward(const GroupedLoraForwardArgs& args, Stream* stream) {
  WithTypes(args, stream, [&args](const auto& launch) {
    launch.IntoRank(launch.Of(args.spec.in_features, 1.0f), args.x, launch.A(args.a), args.h);
    launch.OutOfRank(launch.Of(args.spec.out_features, args.spec.scale), args.h, launch.B(args.b),
                     args.y);
  });
}

void GroupedLoraBackward(const GroupedLoraBackwardArgs& args, Stream* stream) {
  cuda::RequireWorkspace(args.workspace, GroupedLoraBackwardWorkspaceBytes(args.spec, args.rows),
                         "GroupedLora");
  WithTypes(args, stream, [&args](const auto& launch) {
    const Rows in = launch.Of(args.spec.in_features, 1.0f);
    const Rows out = launch.Of(args.spec.out_features, args.spec.scale);
    void* dh = args.workspace.data;
    launch.IntoRank(out, args.dy, launch.B(args.b), dh);
    launch.Gradient(in, dh, args.x, launch.GradientA(), args.da);
    launch.Gradient(out, args.h, args.dy, launch.GradientB(), args.db);
    if (args.dx != nullptr) launch.OutOfRank(in, dh, launch.A(args.a), args.dx);
  });
}

}  // namespace coxswain::kernels
