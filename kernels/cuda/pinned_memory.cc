#include "kernels/pinned_memory.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/stream.h"

namespace coxswain::kernels {

bool PinMemory(void* data, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  if (cudaHostRegister(data, size, cudaHostRegisterDefault) == cudaSuccess) return true;
  (void)cudaGetLastError();  // what breaks more than this, the next launch reports
  return false;
}

void UnpinMemory(void* data) { (void)cudaHostUnregister(data); }

void FinishStream(Stream* stream) noexcept { (void)cudaStreamSynchronize(cuda::Handle(stream)); }

}  // namespace coxswain::kernels
