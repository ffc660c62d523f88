#include "kernels/torch/launch.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>

#include "kernels/torch/versions.h"

namespace coxswain::kernels::torch_ops {
namespace {

std::atomic<void*> cuda_library{nullptr};

// The library serves the device that it was told first.
void SelectOnce(int index) {
  static std::once_flag once;
  static int selected = -1;
  std::call_once(once, [&] {
    auto* select =
        reinterpret_cast<decltype(&coxswain_select_device)>(CudaFunction("coxswain_select_device"));
    const int code = select(index);
    if (code == COXSWAIN_OK) selected = index;
  });
  TORCH_CHECK(selected == index, "coxswain: this process uses cuda:", selected,
              ", and a tensor is on cuda:", index, "; one process drives one GPU");
}

}  // namespace

void LoadCudaLibrary(const char* path) {
  if (cuda_library.load() != nullptr) return;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(library != nullptr, "coxswain: ", path, " does not load: ", dlerror());
  cuda_library = library;
}

void* CudaFunction(const char* name) {
  void* library = cuda_library.load();
  TORCH_CHECK(library != nullptr, "coxswain: ", name,
              ": the CUDA kernels are not loaded; this build of the package may have none");
  void* function = dlsym(library, name);
  TORCH_CHECK(function != nullptr, "coxswain: the CUDA library has no ", name);
  return function;
}

void* CurrentStream(const Tensor& tensor) {
  if (!tensor.is_cuda()) return nullptr;
  SelectOnce(tensor.device().index());
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  return NativeHandle(guard.getStream(tensor.device()));
}

void Check(int code, const char* op, const Tensor& tensor) {
  if (code == COXSWAIN_OK) return;
  const char* words = FunctionOf(tensor, &coxswain_last_error, "coxswain_last_error")();
  TORCH_CHECK_VALUE(code != COXSWAIN_INVALID_ARGUMENT, op, ": ", words);
  TORCH_CHECK(false, op, ": ", words);
}

Tensor Scratch(int64_t bytes, const Tensor& like) {
  return at::empty({std::max<int64_t>(bytes, 16)}, like.options().dtype(at::kByte));
}

}  // namespace coxswain::kernels::torch_ops
