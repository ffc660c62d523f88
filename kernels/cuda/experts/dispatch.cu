// The rows of each token, in the order of experts (kernels/experts/expert_rows.h).
//
// Forward scatters: a block reads the row of its token once and writes it to the k places, so that
// x is read once and not k times. The block of token t also writes the zeros that belong into
// places t k to t k + k - 1, where they are behind the last pair. Backward gathers: a sum of k rows
// in float32, slots rising (token_rows.cuh). A row has one writer: bitwise deterministic.
//
// Bytes: (1 + k) sizeof(T) per element of x, forward and backward.
#include "kernels/experts/expert_rows.h"

#include "kernels/cuda/loss/token_rows.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

template <typename V>
__global__ void __launch_bounds__(cuda::kTokenThreads)
    DispatchForwardKernel(const DispatchForwardArgs args) {
  using T = typename V::Element;
  using Raw = typename V::Raw;
  const int64_t token = blockIdx.x, hidden = args.spec.hidden, chosen = args.spec.chosen;
  const T* x = static_cast<const T*>(args.x) + token * hidden;
  T* rows = static_cast<T*>(args.rows);
  for (int64_t slot = 0; slot < chosen; slot += cuda::kSlots) {
    const int64_t pair = token * chosen + slot;
    int32_t places[cuda::kSlots], order[cuda::kSlots];
    cuda::LoadSlots(args.places + pair, chosen - slot, -1, places);
    cuda::LoadSlots(args.order + pair, chosen - slot, 0, order);
    for (int64_t column = int64_t{threadIdx.x} * V::kSize; column < hidden;
         column += int64_t{blockDim.x} * V::kSize) {
      const Raw raw = V::Fetch(x + column);
#pragma unroll
      for (int i = 0; i < cuda::kSlots; ++i) {
        if (places[i] >= 0) *reinterpret_cast<Raw*>(rows + places[i] * hidden + column) = raw;
        if (order[i] < 0) *reinterpret_cast<Raw*>(rows + (pair + i) * hidden + column) = Raw{};
      }
    }
  }
}

}  // namespace

bool DispatchSupports(const DispatchSpec& spec) { return spec.hidden > 0 && spec.chosen > 0; }

void DispatchForward(const DispatchForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(DispatchSupports(args.spec), "Dispatch");
  cuda::RequirePairs(args.tokens, args.spec.chosen, "Dispatch");
  if (args.tokens == 0) return;
  const int64_t hidden = args.spec.hidden;
  cuda::ForVectorOf(args.spec.dtype, hidden, {args.x, args.rows}, [&](auto vector) {
    using V = decltype(vector);
    DispatchForwardKernel<V>
        <<<static_cast<unsigned>(args.tokens), cuda::TokenThreads(hidden / V::kSize), 0,
           cuda::Handle(stream)>>>(args);
  });
  cuda::CheckLaunch("DispatchForward");
}

void DispatchBackward(const DispatchBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(DispatchSupports(args.spec), "Dispatch");
  cuda::RequirePairs(args.tokens, args.spec.chosen, "Dispatch");
  cuda::SumTokens<false>({args.tokens, args.spec.hidden, args.spec.chosen, args.places, nullptr,
                          args.drows, args.dx, args.accumulate},
                         args.spec.dtype, cuda::Handle(stream));
  cuda::CheckLaunch("DispatchBackward");
}

}  // namespace coxswain::kernels
