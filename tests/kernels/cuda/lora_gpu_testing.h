// What the tests of products with adapters share.
#ifndef COXSWAIN_TESTS_KERNELS_CUDA_LORA_GPU_TESTING_H_
#define COXSWAIN_TESTS_KERNELS_CUDA_LORA_GPU_TESTING_H_

#include "kernels/cuda/lora/lora_product.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {

// Where one launch has both terms.
class FusedLoraTest : public testing::Test {
 protected:
  void SetUp() override {
    const LoraLinearSpec spec{.dtype = DType::kBFloat16, .in_features = 8, .rank = 8, .ldy = 8};
    if (!cuda::LoraProductTakes(spec)) GTEST_SKIP() << "compute capability 9.0 alone has it";
  }
};

// The first `count` elements of g, bfloat16, which a backward left in its workspace behind the
// scratch of products (kernels/cuda/lora/lora_workspace.h).
inline Floats ReadGradientOfH(const Scratch& workspace, int64_t count) {
  Synchronize(TestStream());
  std::vector<uint16_t> bits(Size(count));
  CopyMemory(bits.data(), static_cast<const char*>(workspace.data()) + GemmWorkspaceBytes(),
             count * 2, nullptr);
  Floats g;
  for (const uint16_t value : bits) g.push_back(FromBFloat16Bits(value));
  return g;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_CUDA_LORA_GPU_TESTING_H_
