// Calls of CUDA's runtime as absl::Status, and functions of its driver, which is not linked.
#ifndef COXSWAIN_WORKER_COMM_CUDA_CALLS_H_
#define COXSWAIN_WORKER_COMM_CUDA_CALLS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::comm {

// The status is Internal, naming `call`, unless `result` is cudaSuccess.
absl::Status CudaStatus(cudaError_t result, const char* call);

// The driver's function `name` as CUDA 12.0 has it: its second version where there are two.
// Internal when the driver has none.
absl::StatusOr<void*> DriverFunction(const char* name);

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_CUDA_CALLS_H_
