// What a Stream is in the CUDA library, and the checks of its calls.
#ifndef COXSWAIN_KERNELS_CUDA_STREAM_H_
#define COXSWAIN_KERNELS_CUDA_STREAM_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

class Stream {
 public:
  Stream();
  // Of a stream that someone else made and keeps alive.
  explicit Stream(cudaStream_t foreign);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t cuda() const { return stream_; }
  cublasLtHandle_t cublaslt() const { return cublaslt_; }
  // Made on first use: the attention plans alone need it.
  cudnnHandle_t cudnn();

 private:
  cudaStream_t stream_ = nullptr;
  bool owned_ = true;
  cublasLtHandle_t cublaslt_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
};

namespace cuda {

// The runtime's stream of a possibly null handle.
inline cudaStream_t Handle(const Stream* stream) {
  return stream == nullptr ? nullptr : stream->cuda();
}

// Throw DeviceError (std::bad_alloc when memory is short) naming the call.
void CheckCuda(cudaError_t result, const char* call);
void CheckCublas(cublasStatus_t result, const char* call);
void CheckCudnn(cudnnStatus_t result, const char* call);
// After a launch: reports a wrong configuration now, a fault of an earlier kernel when it is known.
inline void CheckLaunch(const char* op) { CheckCuda(cudaGetLastError(), op); }

// Contract checks of the launchers: std::invalid_argument naming the op and the values.
inline void RequireSupported(bool supported, const char* op) {
  if (!supported) throw std::invalid_argument(std::string(op) + ": this spec is not supported");
}
inline void RequireExtent(int64_t extent, const char* op, const char* name) {
  if (extent < 0) {
    throw std::invalid_argument(std::string(op) + ": " + name + " is " + std::to_string(extent) +
                                ", must not be negative");
  }
}
// `stride` elements between rows of `columns`, 0: `columns`.
inline int64_t RowStride(int64_t stride, int64_t columns, const char* op) {
  if (stride == 0) return columns;
  if (stride < columns) {
    throw std::invalid_argument(std::string(op) + ": " + std::to_string(stride) +
                                " elements between rows of " + std::to_string(columns));
  }
  return stride;
}
inline void RequireWorkspace(const Workspace& workspace, int64_t bytes, const char* op) {
  if (workspace.bytes < bytes || (bytes > 0 && workspace.data == nullptr)) {
    throw std::invalid_argument(std::string(op) + ": workspace of " +
                                std::to_string(workspace.bytes) + " bytes, needs " +
                                std::to_string(bytes));
  }
}

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
// Rounds up so that what follows in a workspace stays aligned.
inline int64_t AlignUp(int64_t bytes) { return (bytes + 255) / 256 * 256; }

int Multiprocessors();
// Bytes that the blocks of a multiprocessor share, 1 KiB for each of them included.
int SharedMemoryOfMultiprocessor();
// Compute capability x 10 of the selected device.
int Capability();

// Lets a kernel be launched with `bytes` of shared memory beside its own. What it was allowed
// before stays: a graph may hold launches that need it.
void AllowSharedMemory(const void* kernel, int bytes, const char* op);
template <typename... Args>
void AllowSharedMemory(void (*kernel)(Args...), int bytes, const char* op) {
  AllowSharedMemory(reinterpret_cast<const void*>(kernel), bytes, op);
}

}  // namespace cuda
}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_CUDA_STREAM_H_
