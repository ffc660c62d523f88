// AdamW over a list of tensors in one launch (kernels/optimizer/adamw.h has the formulas).
//
// A block per chunk of kTensorChunk elements, 4 neighbouring elements per thread: 16-byte accesses
// of float32, 8-byte ones of bfloat16. Bytes moved per element, with bfloat16 gradients: 28 with a
// master (read 14, written 14), 26 in float32 without, 22 with stochastic rounding; 2 more with
// float32 gradients, 8 less with states in bfloat16, whose root and quotient are approximate, for
// draws and rounding take the instructions. Elements are independent: bitwise deterministic.
#include "kernels/optimizer/adamw.h"

#include "kernels/cuda/optimizer/adamw.cuh"
#include "kernels/cuda/optimizer/adamw_count.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tensor_list.cuh"

namespace coxswain::kernels {
namespace {

// S: type of the states.
template <typename S>
__global__ void __launch_bounds__(cuda::kAdamWThreads, 4)
    AdamWKernel(const AdamWTensor* tensors, int64_t count, const OptimizerScalars* scalars,
                const __grid_constant__ cuda::AdamWDraws draws) {
  __shared__ cuda::AdamWChunk chunk;
  if (scalars->skip != 0) return;
  if (threadIdx.x < cuda::kWarp) {
    const int64_t found = cuda::FindTensor(tensors, count, blockIdx.x);
    if (threadIdx.x == 0) {
      const int64_t first = tensors[found].first_chunk - tensors[0].first_chunk;
      cuda::PlaceChunk(draws, tensors[found], int64_t{blockIdx.x} - first, &chunk);
      chunk.coefficients = cuda::MakeCoefficients(*scalars, chunk.tensor);
    }
  }
  __syncthreads();
  cuda::UpdateChunkOf<S>(chunk, draws);
}

__global__ void AdamWCountUpdateKernel(OptimizerScalars* scalars) {
  if (scalars->skip == 0) ++scalars->applied_updates;
}

}  // namespace

namespace cuda {

void CountUpdate(OptimizerScalars* scalars, cudaStream_t stream) {
  AdamWCountUpdateKernel<<<1, 1, 0, stream>>>(scalars);
  CheckLaunch("AdamW");
}

}  // namespace cuda

bool AdamWSupports(DType p_dtype, DType g_dtype, bool master) {
  return p_dtype == DType::kBFloat16 || !master;
}

void AdamW(const AdamWArgs& args, Stream* stream) {
  cuda::RequireExtent(args.chunks, "AdamW", "chunks");
  const cudaStream_t handle = cuda::Handle(stream);
  if (args.chunks > 0) {
    const auto kernel =
        args.state_dtype == DType::kFloat32 ? AdamWKernel<float> : AdamWKernel<cuda::bf16>;
    kernel<<<static_cast<unsigned>(args.chunks), cuda::kAdamWThreads, 0, handle>>>(
        args.tensors, args.count, args.scalars, cuda::MakeDraws(args.draws));
    cuda::CheckLaunch("AdamW");
  }
  if (args.last) cuda::CountUpdate(args.scalars, handle);
}

}  // namespace coxswain::kernels
