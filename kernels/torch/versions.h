// What differs between the releases of libtorch that this folder compiles against, 1.13 to 2.x.
#ifndef COXSWAIN_KERNELS_TORCH_VERSIONS_H_
#define COXSWAIN_KERNELS_TORCH_VERSIONS_H_

#include <ATen/autocast_mode.h>
#include <c10/core/Stream.h>
#include <torch/library.h>
#include <torch/version.h>

#include <optional>

namespace coxswain::kernels::torch_ops {

#if TORCH_VERSION_MAJOR >= 2
using std::optional;
inline void* NativeHandle(const c10::Stream& stream) { return stream.native_handle(); }
inline at::ScalarType AutocastType() { return at::autocast::get_autocast_dtype(at::kCUDA); }
// Where the shapes of the ops' results are, for torch.compile.
inline void SayPythonModule(torch::Library& library) {
  library.set_python_module("coxswain_kernels.shapes");
}
#else
using c10::optional;
// Debian's libtorch is one for CPUs.
inline void* NativeHandle(const c10::Stream& stream) { return nullptr; }
inline at::ScalarType AutocastType() { return at::autocast::get_autocast_gpu_dtype(); }
inline void SayPythonModule(torch::Library& library) {}
#endif

}  // namespace coxswain::kernels::torch_ops

#endif  // COXSWAIN_KERNELS_TORCH_VERSIONS_H_
