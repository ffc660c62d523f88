// Products on cuBLASLt: what a choice of algorithm depends on, the candidates for it and their
// times.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_PLAN_H_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_PLAN_H_

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/products/fp8_gemm.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::cuda {

// What a product of operands in FP8 has beside a GemmArgs.
struct Fp8Terms {
  bool used = false;
  Fp8GemmSpec spec = {};
  const float *a_scales = nullptr, *b_scales = nullptr;
};
// A product as cuBLASLt gets it. In FP8 it is {transpose_b} with k padded to kFp8Alignment, and
// spec.dtype is of the bias alone.
struct Product : GemmArgs {
  Product() = default;
  Product(const GemmArgs& args) : GemmArgs(args) {}  // NOLINT(google-explicit-constructor)
  Fp8Terms fp8 = {};
};

// All that the set of valid algorithms and their speed depend on.
struct GemmKey {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t workspace = 0;  // bytes lent, at most GemmWorkspaceBytes()
  GemmSpec spec = {};
  bool accumulate = false;  // beta != 0
  bool bias = false;
  // Bytes that the addresses of A, B, C and bias are multiples of: 256, 16, 8, 4 or 2.
  int32_t alignment[4] = {256, 256, 256, 256};
  int32_t addend = 0;  // of the addend likewise; 0: what is added to is C
  Fp8Terms fp8 = {};   // but for its pointers

  bool operator==(const GemmKey& other) const;
};

struct GemmKeyHash {
  size_t operator()(const GemmKey& key) const;
};

GemmKey MakeGemmKey(const Product& args);

struct GemmChoice {
  cublasLtMatmulAlgo_t algo = {};
  size_t workspace_bytes = 0;
  // No algorithm adds the bias to this product: C = beta Z + bias first, then accumulate onto it.
  bool bias_first = false;
  // FP8: none adds beta Z either. The product alone into float32 scratch, then C from it.
  bool apart = false;
  double microseconds = 0;  // 0: not measured
};

// The arguments of the product itself under `choice`: those of args, or args with beta 1 and
// neither bias nor addend.
Product ProductOf(const Product& args, const GemmChoice& choice);

// Up to 24 deterministic algorithms, the heuristic's favourite first. A split sum over k is allowed
// only when its parts meet in float32 in the workspace, in a fixed order. FP8: where there is none
// and the product adds something or rounds, a choice that is `apart`. Throws std::invalid_argument
// if there is none.
std::vector<GemmChoice> GemmCandidates(const Product& args, Stream* stream);
// Whether there is a deterministic algorithm that does all of the product.
bool HasGemm(const Product& args, Stream* stream);
// Whether this library and device run `choice` within the workspace.
bool GemmRuns(const Product& args, const GemmChoice& choice, Stream* stream);
// The fastest of the candidates, timed in turns on the operands of args, some 12 ms each. Waits for
// the stream by polling.
GemmChoice FastestGemm(const Product& args, Stream* stream);

cublasStatus_t LaunchProduct(const Product& args, const GemmChoice& choice, Stream* stream);

// Z of the product: what beta multiplies. C where it is not read.
inline const void* AddendOf(const GemmArgs& args) {
  return args.beta == 0.0f || args.addend == nullptr ? args.c : args.addend;
}

// C = beta Z + bias (0 where null), what is left of a product without terms.
void GemmFill(const GemmArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_PLAN_H_
