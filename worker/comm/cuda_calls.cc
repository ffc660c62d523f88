#include "worker/comm/cuda_calls.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::comm {

absl::Status CudaStatus(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", cudaGetErrorString(result)));
}

absl::StatusOr<void*> DriverFunction(const char* name) {
  constexpr unsigned kVersion = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  RETURN_IF_ERROR(CudaStatus(
      cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault, &found),
      name));
  if (found == cudaDriverEntryPointSuccess && function != nullptr) return function;
  return absl::InternalError(absl::StrCat("the CUDA driver has no ", name));
}

}  // namespace coxswain::comm
