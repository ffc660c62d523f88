// y = gelu(x) of every element, and its gradient. Source: kernels/activations/gates.h.
//
// One thread takes kVectors vectors that lie a block apart, and fetches all of them before it uses
// one. Every byte is touched once, so loads and stores stream: 2 sizeof(T) bytes per element
// forward, 3 sizeof(T) backward; the activations of gelu.cuh, bitwise deterministic. Single
// elements where the count is not made of vectors.
#include "kernels/activations/gates.h"

#include "kernels/cuda/activations/gelu.cuh"
#include "kernels/cuda/stored_amax.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kVectors = 2;

// This thread's vector k.
__device__ __forceinline__ int64_t Index(int k) {
  return int64_t{blockIdx.x} * (kThreads * kVectors) + k * kThreads + threadIdx.x;
}

template <class V, class Activation, bool kAmax>
__global__ void __launch_bounds__(kThreads)
    GeluForwardKernel(int64_t count, const typename V::Element* x, typename V::Element* y,
                      float* amax) {
  cuda::StoredAmax<typename V::Element, kAmax> largest(amax);
  typename V::Raw raw[kVectors] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (Index(k) < count) raw[k] = V::FetchStreaming(x + Index(k) * V::kSize);
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    V a;
    a.Unpack(raw[k]);
#pragma unroll
    for (float& value : a.value) value = Activation::Value(value);
    if (Index(k) < count) {
      a.StoreStreaming(y + Index(k) * V::kSize);
      largest.Take(a);
    }
  }
  largest.Raise();
}

template <class V, class Activation, bool kAmax>
__global__ void __launch_bounds__(kThreads)
    GeluBackwardKernel(int64_t count, const typename V::Element* dy, const typename V::Element* x,
                       typename V::Element* dx, float* amax) {
  cuda::StoredAmax<typename V::Element, kAmax> largest(amax);
  typename V::Raw raw[kVectors] = {}, gradient[kVectors] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (Index(k) >= count) continue;
    raw[k] = V::FetchStreaming(x + Index(k) * V::kSize);
    gradient[k] = V::FetchStreaming(dy + Index(k) * V::kSize);
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    V a, d;
    a.Unpack(raw[k]);
    d.Unpack(gradient[k]);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      float value;
      a.value[i] = d.value[i] * Activation::Slope(a.value[i], &value);
    }
    if (Index(k) < count) {
      a.StoreStreaming(dx + Index(k) * V::kSize);
      largest.Take(a);
    }
  }
  largest.Raise();
}

// Calls fn with the activation of the spec and the vector by which `elements` elements at each of
// `data` are read.
template <typename Fn>
void ForActivation(const GeluSpec& spec, int64_t elements, std::initializer_list<const void*> data,
                   const Fn& fn) {
  cuda::ForVectorOf(spec.dtype, elements, data, [&](auto vector) {
    spec.tanh ? fn(vector, cuda::TanhGelu{}) : fn(vector, cuda::ErfGelu{});
  });
}

unsigned Blocks(int64_t vectors) {
  return static_cast<unsigned>(cuda::CeilDiv(vectors, kThreads * kVectors));
}

}  // namespace

bool GeluSupports(const GeluSpec& spec) { return spec.columns > 0; }

void GeluForward(const GeluForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(GeluSupports(args.spec), "GeluForward");
  cuda::RequireExtent(args.rows, "GeluForward", "rows");
  const int64_t elements = args.rows * args.spec.columns;
  if (elements == 0) return;
  ForActivation(args.spec, elements, {args.x, args.y}, [&](auto vector, auto activation) {
    using V = decltype(vector);
    using T = typename V::Element;
    const int64_t count = elements / V::kSize;
    cuda::ForAmax(args.amax, [&](auto wanted) {
      GeluForwardKernel<V, decltype(activation), decltype(wanted)::value>
          <<<Blocks(count), kThreads, 0, cuda::Handle(stream)>>>(
              count, static_cast<const T*>(args.x), static_cast<T*>(args.y), args.amax);
    });
  });
  cuda::CheckLaunch("GeluForward");
}

void GeluBackward(const GeluBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(GeluSupports(args.spec), "GeluBackward");
  cuda::RequireExtent(args.rows, "GeluBackward", "rows");
  const int64_t elements = args.rows * args.spec.columns;
  if (elements == 0) return;
  void* gradient = args.gradient == nullptr ? args.x : args.gradient;
  ForActivation(args.spec, elements, {args.dy, args.x, gradient},
                [&](auto vector, auto activation) {
                  using V = decltype(vector);
                  using T = typename V::Element;
                  const int64_t count = elements / V::kSize;
                  cuda::ForAmax(args.amax, [&](auto wanted) {
                    GeluBackwardKernel<V, decltype(activation), decltype(wanted)::value>
                        <<<Blocks(count), kThreads, 0, cuda::Handle(stream)>>>(
                            count, static_cast<const T*>(args.dy), static_cast<const T*>(args.x),
                            static_cast<T*>(gradient), args.amax);
                  });
                });
  cuda::CheckLaunch("GeluBackward");
}

}  // namespace coxswain::kernels
