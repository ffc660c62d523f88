// Calls of the C ABI (kernels/c_api/c_api.h) on tensors: of the CPU's kernels, which are linked, or
// of libcoxswain_kernels_cuda.so, which is loaded when the first tensor of a GPU comes.
#ifndef COXSWAIN_KERNELS_TORCH_LAUNCH_H_
#define COXSWAIN_KERNELS_TORCH_LAUNCH_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/c_api/c_api.h"

namespace coxswain::kernels::torch_ops {

using at::Tensor;

// Loads the CUDA library from `path`. Before the first launch on a GPU; again, it does nothing.
void LoadCudaLibrary(const char* path);
// Of the loaded library; throws where none is loaded or it has no such function.
void* CudaFunction(const char* name);
// The current stream of a tensor's device, and that device chosen in the library; null on the CPU.
void* CurrentStream(const Tensor& tensor);
// Throws what the library says of a code other than COXSWAIN_OK, with the op's name.
void Check(int code, const char* op, const Tensor& tensor);

template <typename Function>
Function* FunctionOf(const Tensor& tensor, Function* cpu, const char* name) {
  return tensor.is_cuda() ? reinterpret_cast<Function*>(CudaFunction(name)) : cpu;
}

// Scratch of `bytes` from torch's allocator, which hands it out again in the order of the stream.
Tensor Scratch(int64_t bytes, const Tensor& like);

template <typename Args>
using Launcher = int(const Args*, void*);
template <typename Args>
using WorkspaceBytes = int64_t(const Args*);

template <typename Args>
void Launch(Launcher<Args>* cpu, const char* name, const Args& args, const Tensor& tensor) {
  void* stream = CurrentStream(tensor);
  Check(FunctionOf(tensor, cpu, name)(&args, stream), name, tensor);
}

// With the workspace that the op asks for.
template <typename Args>
void LaunchLent(Launcher<Args>* cpu, const char* name, WorkspaceBytes<Args>* cpu_bytes,
                const char* bytes_name, Args args, const Tensor& tensor) {
  void* stream = CurrentStream(tensor);
  const int64_t bytes = FunctionOf(tensor, cpu_bytes, bytes_name)(&args);
  Check(bytes < 0 ? COXSWAIN_INVALID_ARGUMENT : COXSWAIN_OK, name, tensor);
  const Tensor scratch = Scratch(bytes, tensor);
  args.workspace = {scratch.data_ptr(), bytes};
  Check(FunctionOf(tensor, cpu, name)(&args, stream), name, tensor);
}

// A function of the C ABI with its name, which the CUDA library is asked for.
#define COXSWAIN_LAUNCH(function, args, tensor) \
  ::coxswain::kernels::torch_ops::Launch(&coxswain_##function, "coxswain_" #function, args, tensor)
#define COXSWAIN_LAUNCH_LENT(function, args, tensor)                                       \
  ::coxswain::kernels::torch_ops::LaunchLent(                                              \
      &coxswain_##function, "coxswain_" #function, &coxswain_##function##_workspace_bytes, \
      "coxswain_" #function "_workspace_bytes", args, tensor)

}  // namespace coxswain::kernels::torch_ops

#endif  // COXSWAIN_KERNELS_TORCH_LAUNCH_H_
