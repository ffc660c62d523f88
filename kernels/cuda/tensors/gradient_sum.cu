// Elementwise over 16 bytes of the gradient: 8 bytes an element, 12 with a companion; a Philox
// block for each 8 elements where they are drawn for. Bitwise deterministic, and as on the CPU.
#include "kernels/tensors/gradient_sum.h"

#include <stdexcept>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/tensors/gradient_sum.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;

// Block x: vectors of kSize from x kThreads on.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    AddToGradientKernel(int64_t vectors, cuda::SumParameter sum, bool accumulate, const float* term,
                        cuda::bf16* gradient) {
  const int64_t vector = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (vector >= vectors) return;
  const int64_t element = vector * kSize;
  constexpr int kLoad = kSize < 4 ? kSize : 4;
  float terms[kSize];
#pragma unroll
  for (int i = 0; i < kSize; i += kLoad) {
    cuda::Vector<float, kLoad> part;
    part.LoadStreaming(term + element + i);
#pragma unroll
    for (int j = 0; j < kLoad; ++j) terms[i + j] = part.value[j];
  }
  cuda::Vector<cuda::bf16, kSize> sums = {};
  if (accumulate) sums.Load(gradient + element);
  cuda::AddTerms(sum, element, accumulate, terms, &sums);
  sums.Store(gradient + element);
}

template <int kSize>
void Launch(const AddToGradientArgs& args, int64_t first, int64_t end, cudaStream_t stream) {
  const int64_t vectors = (end - first) / kSize;
  if (vectors == 0) return;
  AddToGradientKernel<kSize>
      <<<static_cast<unsigned>(cuda::CeilDiv(vectors, kThreads)), kThreads, 0, stream>>>(
          vectors, cuda::MakeSum(args.sum.From(first)), args.accumulate, args.term + first,
          static_cast<cuda::bf16*>(args.gradient) + first);
}

}  // namespace

void AddToGradient(const AddToGradientArgs& args, Stream* stream) {
  constexpr int kSize = cuda::kVector<cuda::bf16>;
  cuda::RequireExtent(args.count, "AddToGradient", "count");
  if (args.count == 0) return;
  if (args.sum.mode == GradientSumMode::kCompensated && args.sum.companion == nullptr) {
    throw std::invalid_argument("AddToGradient: a compensated sum without a companion");
  }
  const bool aligned =
      cuda::Aligned<float>(args.term, 0) && cuda::Aligned<cuda::bf16>(args.gradient, 0) &&
      cuda::Aligned<cuda::bf16>(args.sum.companion, 0) && args.sum.number % kSize == 0;
  const int64_t whole = aligned ? args.count / kSize * kSize : 0;
  Launch<kSize>(args, 0, whole, cuda::Handle(stream));
  Launch<1>(args, whole, args.count, cuda::Handle(stream));
  cuda::CheckLaunch("AddToGradient");
}

}  // namespace coxswain::kernels
