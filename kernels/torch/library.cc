// What the Python package calls that is no op.
#include "kernels/torch/registration.h"

namespace coxswain::kernels::torch_ops {
namespace {

// Arguments of an op are values. NOLINTNEXTLINE(performance-unnecessary-value-param)
void LoadCuda(std::string path) { LoadCudaLibrary(path.c_str()); }

// While on, the first product of each shape on a GPU is timed by several algorithms.
void TuneProducts(bool on) {
  auto* tune = reinterpret_cast<decltype(&coxswain_set_gemm_tuning)>(
      CudaFunction("coxswain_set_gemm_tuning"));
  TORCH_CHECK(tune(on ? 1 : 0) == COXSWAIN_OK, "coxswain: tuning cannot be set");
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  library.def("load_cuda(str path) -> ()", LoadCuda);
  library.def("tune_products(bool on) -> ()", TuneProducts);
}

}  // namespace coxswain::kernels::torch_ops
