// y = (u + 1) g s on packed gate and up, and its gradient (kernels/activations/gates.h).
//
// A thread takes kGluVectors vectors, as in glu.cuh, whose places and pieces these are: 3 sizeof(T)
// bytes per element of y forward, 5 sizeof(T) backward, where s is recomputed. Elementwise: bitwise
// deterministic. s is off by (|a g| + 4) (1 - s) u + 3 u relative (glu.cuh), u = 2^-24.
#include "kernels/activations/gates.h"

#include "kernels/cuda/activations/clamped_gate.cuh"
#include "kernels/cuda/activations/glu.cuh"

namespace coxswain::kernels {
namespace {

template <typename V, bool kAmax>
__global__ void __launch_bounds__(cuda::kGluThreads)
    ClampedForwardKernel(uint32_t count, cuda::Divisor row, float alpha, float limit,
                         const typename V::Element* gate_up, typename V::Element* y, float* amax) {
  cuda::StoredAmax<typename V::Element, kAmax> largest(amax);
  const uint32_t first = blockIdx.x * (cuda::kGluThreads * cuda::kGluVectors) + threadIdx.x;
  typename V::Raw gates[cuda::kGluVectors] = {}, ups[cuda::kGluVectors] = {};
#pragma unroll
  for (int k = 0; k < cuda::kGluVectors; ++k) {
    const uint32_t v = first + k * cuda::kGluThreads;
    if (v < count) {
      const int64_t at = cuda::GateOf(v, row);
      gates[k] = V::Fetch(gate_up + at * V::kSize);
      ups[k] = V::Fetch(gate_up + (at + row.divisor) * V::kSize);
    }
  }
#pragma unroll
  for (int k = 0; k < cuda::kGluVectors; ++k) {
    V gate, up;
    gate.Unpack(gates[k]);
    up.Unpack(ups[k]);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      const cuda::ClampedGateParts parts(gate.value[i], up.value[i], alpha, limit);
      up.value[i] = parts.up * parts.value;
    }
    const uint32_t v = first + k * cuda::kGluThreads;
    if (v < count) {
      up.Store(y + int64_t{v} * V::kSize);
      largest.Take(up);
    }
  }
  largest.Raise();
}

template <typename V, bool kAmax>
__global__ void __launch_bounds__(cuda::kGluThreads)
    ClampedBackwardKernel(uint32_t count, cuda::Divisor row, float alpha, float limit,
                          const typename V::Element* dy, const typename V::Element* gate_up,
                          typename V::Element* gradient, typename V::Element* y, float* amax) {
  cuda::StoredAmax<typename V::Element, kAmax> largest(amax);
  const uint32_t first = blockIdx.x * (cuda::kGluThreads * cuda::kGluVectors) + threadIdx.x;
  typename V::Raw gates[cuda::kGluVectors] = {}, ups[cuda::kGluVectors] = {};
  typename V::Raw dys[cuda::kGluVectors] = {};
  int64_t at[cuda::kGluVectors] = {};
#pragma unroll
  for (int k = 0; k < cuda::kGluVectors; ++k) {
    const uint32_t v = first + k * cuda::kGluThreads;
    if (v < count) {
      at[k] = cuda::GateOf(v, row);
      gates[k] = V::Fetch(gate_up + at[k] * V::kSize);
      ups[k] = V::Fetch(gate_up + (at[k] + row.divisor) * V::kSize);
      dys[k] = V::Fetch(dy + int64_t{v} * V::kSize);
    }
  }
#pragma unroll
  for (int k = 0; k < cuda::kGluVectors; ++k) {
    V gate, up, d;
    gate.Unpack(gates[k]);
    up.Unpack(ups[k]);
    d.Unpack(dys[k]);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      const float a = gate.value[i], b = up.value[i];
      const cuda::ClampedGateParts parts(a, b, alpha, limit);
      gate.value[i] = a > limit ? 0.0f : d.value[i] * parts.up * parts.slope;
      up.value[i] = b > limit || b < -limit ? 0.0f : d.value[i] * parts.value;
      d.value[i] = parts.up * parts.value;
    }
    const uint32_t v = first + k * cuda::kGluThreads;
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

void Require(const ClampedSwigluSpec& spec, int64_t rows, const char* op) {
  cuda::RequireSupported(ClampedSwigluSupports(spec), op);
  cuda::RequireExtent(rows, op, "rows");
}

}  // namespace

bool ClampedSwigluSupports(const ClampedSwigluSpec& spec) {
  return spec.intermediate > 0 && spec.alpha > 0 && spec.limit > 0;
}

void ClampedSwigluForward(const ClampedSwigluForwardArgs& args, Stream* stream) {
  Require(args.spec, args.rows, "ClampedSwigluForward");
  const int64_t width = args.spec.intermediate;
  cuda::ForVectorOf(args.spec.dtype, width, {args.gate_up, args.y}, [&](auto vector) {
    using V = decltype(vector);
    using T = typename V::Element;
    const int64_t of_row = width / V::kSize;
    cuda::ForAmax(args.amax, [&](auto wanted) {
      cuda::ForGluPieces(args.rows, of_row, [&](int64_t first, uint32_t count, unsigned blocks) {
        ClampedForwardKernel<V, decltype(wanted)::value>
            <<<blocks, cuda::kGluThreads, 0, cuda::Handle(stream)>>>(
                count, cuda::Divisor(static_cast<uint32_t>(of_row)), args.spec.alpha,
                args.spec.limit, static_cast<const T*>(args.gate_up) + first * 2 * width,
                static_cast<T*>(args.y) + first * width, args.amax);
      });
    });
  });
  cuda::CheckLaunch("ClampedSwigluForward");
}

void ClampedSwigluBackward(const ClampedSwigluBackwardArgs& args, Stream* stream) {
  Require(args.spec, args.rows, "ClampedSwigluBackward");
  const int64_t width = args.spec.intermediate;
  void* gradient = args.gradient == nullptr ? args.gate_up : args.gradient;
  cuda::ForVectorOf(
      args.spec.dtype, width, {args.gate_up, gradient, args.dy, args.y}, [&](auto vector) {
        using V = decltype(vector);
        using T = typename V::Element;
        const int64_t of_row = width / V::kSize;
        const cuda::Divisor row(static_cast<uint32_t>(of_row));
        cuda::ForAmax(args.amax, [&](auto wanted) {
          cuda::ForGluPieces(
              args.rows, of_row, [&](int64_t first, uint32_t count, unsigned blocks) {
                ClampedBackwardKernel<V, decltype(wanted)::value>
                    <<<blocks, cuda::kGluThreads, 0, cuda::Handle(stream)>>>(
                        count, row, args.spec.alpha, args.spec.limit,
                        static_cast<const T*>(args.dy) + first * width,
                        static_cast<const T*>(args.gate_up) + first * 2 * width,
                        static_cast<T*>(gradient) + first * 2 * width,
                        args.y == nullptr ? nullptr : static_cast<T*>(args.y) + first * width,
                        args.amax);
              });
        });
      });
  cuda::CheckLaunch("ClampedSwigluBackward");
}

}  // namespace coxswain::kernels
