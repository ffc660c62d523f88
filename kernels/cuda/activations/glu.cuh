// Gated linear units on packed gate and up: y = f(gate) up, and dgate = dy up f'(gate), dup = dy
// f(gate), which may take their place.
//
// One thread takes kGluVectors vectors that lie a block apart, and fetches all of them before it
// uses one: 4 loads in flight forward, 6 backward. They do not stream: what is written is read by
// the next product, and streaming is 0.7 % slower on an H100. Bytes per output element: 3 sizeof(T)
// forward, 5 sizeof(T) backward. Elementwise: bitwise deterministic, and the backward reads all
// that it overwrites first.
//
// An Activation has Value(a) = f(a) and Slope(a, &value) = f'(a) with value = f(a).
#ifndef COXSWAIN_KERNELS_CUDA_ACTIVATIONS_GLU_CUH_
#define COXSWAIN_KERNELS_CUDA_ACTIVATIONS_GLU_CUH_

#include <algorithm>

#include "kernels/cuda/activations/approximate.cuh"
#include "kernels/cuda/divisor.cuh"
#include "kernels/cuda/stored_amax.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

inline constexpr int kGluThreads = 256;
inline constexpr int kGluVectors = 2;

// 1 / (1 + e^-x). e^-x is 2^(-x log2 e) rounded, off by (|x| + 4) u relative, u = 2^-24; so the
// result is off by (|x| + 4) (1 - result) u + 3 u, relative. 0 and 1 at the ends, NaN stays.
__device__ __forceinline__ float Logistic(float x) { return Reciprocal(1.0f + Exp2(-kLog2E * x)); }

// (dy, gate, up) become (y, dgate, dup). Every backward kernel calls this, so that their bits
// agree.
template <typename Activation>
__device__ __forceinline__ void GluGradient(float* dy, float* gate, float* up) {
  float value;
  const float slope = Activation::Slope(*gate, &value);
  *gate = *dy * *up * slope;
  const float output = *up * value;
  *up = *dy * value;
  *dy = output;
}

// Of vector v of y, as many of them to a row as `row` divides by: the place of its gate in gate_up,
// which has twice as many. Its up lies a row's vectors behind.
__device__ __forceinline__ int64_t GateOf(uint32_t v, const Divisor& row) {
  return int64_t{v + row.Quotient(v) * row.divisor};
}

// `count` vectors of y.
template <typename V, typename Activation, bool kAmax>
__global__ void __launch_bounds__(kGluThreads)
    GluForwardKernel(uint32_t count, Divisor row, const typename V::Element* gate_up,
                     typename V::Element* y, float* amax) {
  StoredAmax<typename V::Element, kAmax> largest(amax);
  const uint32_t first = blockIdx.x * (kGluThreads * kGluVectors) + threadIdx.x;
  typename V::Raw gates[kGluVectors] = {}, ups[kGluVectors] = {};
#pragma unroll
  for (int k = 0; k < kGluVectors; ++k) {
    const uint32_t v = first + k * kGluThreads;
    if (v < count) {
      const int64_t at = GateOf(v, row);
      gates[k] = V::Fetch(gate_up + at * V::kSize);
      ups[k] = V::Fetch(gate_up + (at + row.divisor) * V::kSize);
    }
  }
#pragma unroll
  for (int k = 0; k < kGluVectors; ++k) {
    V gate, up;
    gate.Unpack(gates[k]);
    up.Unpack(ups[k]);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) up.value[i] *= Activation::Value(gate.value[i]);
    const uint32_t v = first + k * kGluThreads;
    if (v < count) {
      up.Store(y + int64_t{v} * V::kSize);
      largest.Take(up);
    }
  }
  largest.Raise();
}

template <typename V, typename Activation, bool kAmax>
__global__ void __launch_bounds__(kGluThreads)
    GluBackwardKernel(uint32_t count, Divisor row, const typename V::Element* dy,
                      const typename V::Element* gate_up, typename V::Element* gradient,
                      typename V::Element* y, float* amax) {
  StoredAmax<typename V::Element, kAmax> largest(amax);
  const uint32_t first = blockIdx.x * (kGluThreads * kGluVectors) + threadIdx.x;
  typename V::Raw gates[kGluVectors] = {}, ups[kGluVectors] = {}, dys[kGluVectors] = {};
  int64_t at[kGluVectors] = {};
#pragma unroll
  for (int k = 0; k < kGluVectors; ++k) {
    const uint32_t v = first + k * kGluThreads;
    if (v < count) {
      at[k] = GateOf(v, row);
      gates[k] = V::Fetch(gate_up + at[k] * V::kSize);
      ups[k] = V::Fetch(gate_up + (at[k] + row.divisor) * V::kSize);
      dys[k] = V::Fetch(dy + int64_t{v} * V::kSize);
    }
  }
#pragma unroll
  for (int k = 0; k < kGluVectors; ++k) {
    V gate, up, d;
    gate.Unpack(gates[k]);
    up.Unpack(ups[k]);
    d.Unpack(dys[k]);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      GluGradient<Activation>(&d.value[i], &gate.value[i], &up.value[i]);
    }
    const uint32_t v = first + k * kGluThreads;
    if (v < count) {
      gate.Store(gradient + at[k] * V::kSize);
      up.Store(gradient + (at[k] + row.divisor) * V::kSize);
      if (y != nullptr) d.Store(y + int64_t{v} * V::kSize);
      largest.Take(gate);
      largest.Take(up);
    }
  }
  largest.Raise();
}

// Calls launch(first_row, vectors, blocks) for pieces of `rows` rows whose offsets, counted in
// vectors of gate_up, fit 32 bits.
template <typename Launch>
inline void ForGluPieces(int64_t rows, int64_t row_vectors, const Launch& launch) {
  const int64_t piece_rows = std::max<int64_t>(1, (int64_t{1} << 30) / row_vectors);
  for (int64_t first = 0; first < rows; first += piece_rows) {
    const int64_t vectors = std::min(piece_rows, rows - first) * row_vectors;
    launch(first, static_cast<uint32_t>(vectors),
           static_cast<unsigned>(CeilDiv(vectors, kGluThreads * kGluVectors)));
  }
}

// Args: SwigluForwardArgs or GegluForwardArgs.
template <typename Activation, class Args>
inline void GluForward(const Args& args, cudaStream_t stream) {
  const int64_t width = args.spec.intermediate;
  ForVectorOf(args.spec.dtype, width, {args.gate_up, args.y}, [&](auto vector) {
    using V = decltype(vector);
    using T = typename V::Element;
    const int64_t row_vectors = width / V::kSize;
    ForAmax(args.amax, [&](auto wanted) {
      ForGluPieces(args.rows, row_vectors, [&](int64_t first, uint32_t vectors, unsigned blocks) {
        GluForwardKernel<V, Activation, decltype(wanted)::value>
            <<<blocks, kGluThreads, 0, stream>>>(
                vectors, Divisor(static_cast<uint32_t>(row_vectors)),
                static_cast<const T*>(args.gate_up) + first * 2 * width,
                static_cast<T*>(args.y) + first * width, args.amax);
      });
    });
  });
}

// Args: SwigluBackwardArgs or GegluBackwardArgs.
template <typename Activation, class Args>
inline void GluBackward(const Args& args, cudaStream_t stream) {
  const int64_t width = args.spec.intermediate;
  void* gradient = args.gradient == nullptr ? args.gate_up : args.gradient;
  ForVectorOf(args.spec.dtype, width, {args.gate_up, gradient, args.dy, args.y}, [&](auto vector) {
    using V = decltype(vector);
    using T = typename V::Element;
    const int64_t row_vectors = width / V::kSize;
    ForAmax(args.amax, [&](auto wanted) {
      ForGluPieces(args.rows, row_vectors, [&](int64_t first, uint32_t vectors, unsigned blocks) {
        GluBackwardKernel<V, Activation, decltype(wanted)::value>
            <<<blocks, kGluThreads, 0, stream>>>(
                vectors, Divisor(static_cast<uint32_t>(row_vectors)),
                static_cast<const T*>(args.dy) + first * width,
                static_cast<const T*>(args.gate_up) + first * 2 * width,
                static_cast<T*>(gradient) + first * 2 * width,
                args.y == nullptr ? nullptr : static_cast<T*>(args.y) + first * width, args.amax);
      });
    });
  });
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_ACTIVATIONS_GLU_CUH_
