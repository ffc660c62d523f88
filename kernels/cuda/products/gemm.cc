// Products on cuBLASLt: algorithm by table, then one library call.
#include "kernels/products/gemm.h"

#include "kernels/cuda/products/gemm_plan.h"
#include "kernels/cuda/products/gemm_table.h"
#include "kernels/cuda/products/gemm_tuning.h"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kWorkspaceBytes = int64_t{64} << 20;

void RequireStride(int64_t stride, int64_t columns, const char* name) {
  if (stride < columns) {
    throw std::invalid_argument("Gemm: " + std::string(name) + " is " + std::to_string(stride) +
                                ", a row has " + std::to_string(columns));
  }
}

void Validate(const GemmArgs& args, const Stream* stream) {
  cuda::RequireSupported(GemmSupports(args.spec), "Gemm");
  cuda::RequireExtent(args.m, "Gemm", "m");
  cuda::RequireExtent(args.n, "Gemm", "n");
  cuda::RequireExtent(args.k, "Gemm", "k");
  RequireStride(args.lda, args.spec.transpose_a ? args.m : args.k, "lda");
  RequireStride(args.ldb, args.spec.transpose_b ? args.k : args.n, "ldb");
  RequireStride(args.ldc, args.n, "ldc");
  if (stream == nullptr) throw std::invalid_argument("Gemm: needs a stream");
}

}  // namespace

bool GemmSupports(const GemmSpec& spec) {
  return spec.dtype == DType::kBFloat16 || spec.output_dtype == DType::kFloat32;
}

int64_t GemmWorkspaceBytes() { return kWorkspaceBytes; }
std::string GemmTable() { return cuda::GemmChoices::Instance().ToJson(cuda::Rows::kAll); }
std::string TunedGemmTable() { return cuda::GemmChoices::Instance().ToJson(cuda::Rows::kUsed); }
bool LoadGemmTable(const std::string& table) { return cuda::GemmChoices::Instance().Load(table); }

void Gemm(const GemmArgs& args, Stream* stream) {
  Validate(args, stream);
  if (args.m == 0 || args.n == 0) return;
  if (args.k == 0) {
    cuda::GemmFill(args, stream);
    return;
  }
  const cuda::GemmChoice choice = cuda::ChooseGemm(args, stream);
  if (choice.bias_first) cuda::GemmFill(args, stream);
  cuda::CheckCublas(cuda::LaunchProduct(cuda::ProductOf(args, choice), choice, stream),
                    "cublasLtMatmul");
}

}  // namespace coxswain::kernels
