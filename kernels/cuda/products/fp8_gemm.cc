// Products in FP8 on cuBLASLt: algorithm by table, then one library call. Rows of codes end in
// zeros up to a multiple of 16, so that the product is over that many.
// Where the library has no algorithm that adds bias or Z, or none that rounds to C's type, it
// multiplies panels of rows of A into float32 in the workspace, and a kernel writes C from them. A
// panel of tiles has scales of its own: their layout has all rows of A beside each other.
// Source: cuBLAS 13 documentation, "cublasLtMatmul", FP8 kernels: both operands have k contiguous;
// TransformerEngine, cublaslt_gemm.cu (tiles and blocks without fast accumulation).
#include "kernels/products/fp8_gemm.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "kernels/cuda/products/fp8_sums.h"
#include "kernels/cuda/products/gemm_plan.h"
#include "kernels/cuda/products/gemm_tuning.h"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kSumsBytes = int64_t{64} << 20;
constexpr int64_t kProbe = 256;  // extents of the product that Supports asks the library about

int64_t PanelRows(int64_t m, int64_t n) {
  const int64_t fit = kSumsBytes / (std::max<int64_t>(n, 1) * 4) / kFp8Block * kFp8Block;
  return std::min(std::max(fit, kFp8Block), Fp8Blocks(m) * kFp8Block);
}
int64_t PanelSumsBytes(int64_t m, int64_t n) { return cuda::AlignUp(PanelRows(m, n) * n * 4); }
int64_t PanelScalesBytes(const Fp8GemmSpec& spec, int64_t m, int64_t n, int64_t k) {
  if (spec.a_scaling != Fp8Scaling::kTile) return 0;
  return cuda::AlignUp(PanelRows(m, n) * Fp8Blocks(k) * 4);
}

cuda::Product ProductOf(const Fp8GemmArgs& args) {
  const int64_t stride = Fp8Stride(args.k);
  cuda::Product product(
      GemmArgs{.spec = {.dtype = args.spec.bias_dtype,
                        .output_dtype = args.spec.output_dtype,
                        .transpose_b = true},
               .m = args.m,
               .n = args.n,
               .k = stride,
               .a = args.a,
               .lda = stride,
               .b = args.b,
               .ldb = stride,
               .beta = args.beta,
               .c = args.c,
               .ldc = args.ldc,
               .addend = args.addend,
               .bias = args.bias,
               .workspace = {.data = args.workspace.data, .bytes = GemmWorkspaceBytes()}});
  product.fp8 = {
      .used = true, .spec = args.spec, .a_scales = args.a_scales, .b_scales = args.b_scales};
  return product;
}

// Of `rows` rows of A from `first` on, a multiple of kFp8Block.
const float* PanelScales(const Fp8GemmArgs& args, int64_t first, int64_t rows, float* scratch,
                         Stream* stream) {
  const int64_t blocks = Fp8Blocks(args.k);
  switch (args.spec.a_scaling) {
    case Fp8Scaling::kTensor:
      return args.a_scales;
    case Fp8Scaling::kRow:
      return args.a_scales + first;
    case Fp8Scaling::kBlock:
      return args.a_scales + first / kFp8Block * Fp8PaddedScales(blocks);
    case Fp8Scaling::kTile:
      break;
  }
  const auto bytes = [](int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); };
  cuda::CheckCuda(
      cudaMemcpy2DAsync(scratch, bytes(Fp8PaddedScales(rows)), args.a_scales + first,
                        bytes(Fp8PaddedScales(args.m)), bytes(rows), static_cast<size_t>(blocks),
                        cudaMemcpyDeviceToDevice, cuda::Handle(stream)),
      "cudaMemcpy2DAsync");
  return scratch;
}

void LaunchInPanels(const Fp8GemmArgs& args, Stream* stream) {
  char* const scratch = static_cast<char*>(args.workspace.data) + GemmWorkspaceBytes();
  auto* const sums = reinterpret_cast<float*>(scratch);
  auto* const scales = reinterpret_cast<float*>(scratch + PanelSumsBytes(args.m, args.n));
  const int64_t panel = PanelRows(args.m, args.n);
  for (int64_t first = 0; first < args.m; first += panel) {
    const int64_t rows = std::min(panel, args.m - first);
    Fp8GemmArgs part = args;
    part.spec.output_dtype = DType::kFloat32;
    part.m = rows;
    part.a = args.a + first * Fp8Stride(args.k);
    part.a_scales = PanelScales(args, first, rows, scales, stream);
    part.beta = 0.0f;
    part.c = sums;
    part.ldc = args.n;
    part.addend = part.bias = nullptr;
    const cuda::Product product = ProductOf(part);
    const cuda::GemmChoice choice = cuda::ChooseGemm(product, stream);
    cuda::CheckCublas(cuda::LaunchProduct(product, choice, stream), "cublasLtMatmul");
    cuda::AddToSums(args, first, rows, sums, stream);
  }
}

// Whether the library has a product of these formats and scalings. Asked once of each.
bool LibraryHas(const Fp8GemmSpec& spec) {
  static std::mutex mutex;
  static std::array<std::optional<bool>, 2 * 2 * 4 * 4 * 2> known;
  const auto place = static_cast<size_t>(
      (((static_cast<int>(spec.a_format) * 2 + static_cast<int>(spec.b_format)) * 4 +
        static_cast<int>(spec.a_scaling)) *
           4 +
       static_cast<int>(spec.b_scaling)) *
          2 +
      (spec.promote ? 1 : 0));
  const std::lock_guard lock(mutex);
  if (!known[place]) {
    auto* const anywhere = reinterpret_cast<void*>(uintptr_t{256});  // not read
    Fp8GemmArgs args{.spec = spec, .m = kProbe, .n = kProbe, .k = kProbe};
    args.spec.output_dtype = DType::kFloat32;
    args.a = args.b = static_cast<const uint8_t*>(anywhere);
    args.a_scales = args.b_scales = static_cast<const float*>(anywhere);
    args.c = anywhere;
    args.ldc = kProbe;
    Stream stream;
    known[place] = cuda::HasGemm(ProductOf(args), &stream);
  }
  return *known[place];
}

void Validate(const Fp8GemmArgs& args, const Stream* stream) {
  cuda::RequireSupported(Fp8GemmSupports(args.spec), "Fp8Gemm");
  cuda::RequireExtent(args.m, "Fp8Gemm", "m");
  cuda::RequireExtent(args.n, "Fp8Gemm", "n");
  cuda::RequireExtent(args.k, "Fp8Gemm", "k");
  if (args.n % kFp8Alignment != 0) {
    throw std::invalid_argument("Fp8Gemm: n is " + std::to_string(args.n) +
                                ", must be a multiple of " + std::to_string(kFp8Alignment));
  }
  const bool tiles =
      args.spec.a_scaling == Fp8Scaling::kTile || args.spec.a_scaling == Fp8Scaling::kBlock;
  if (tiles && args.m % kFp8TileRows != 0) {
    throw std::invalid_argument("Fp8Gemm: m is " + std::to_string(args.m) +
                                ", must be a multiple of " + std::to_string(kFp8TileRows) +
                                " where A has tiles or blocks");
  }
  if (args.ldc < args.n) {
    throw std::invalid_argument("Fp8Gemm: ldc is " + std::to_string(args.ldc) + ", a row has " +
                                std::to_string(args.n));
  }
  if (stream == nullptr) throw std::invalid_argument("Fp8Gemm: needs a stream");
  cuda::RequireWorkspace(args.workspace, Fp8GemmWorkspaceBytes(args.spec, args.m, args.n, args.k),
                         "Fp8Gemm");
}

}  // namespace

bool Fp8GemmSupports(const Fp8GemmSpec& spec) {
  const int capability = cuda::Capability();
  const bool new_enough =
      spec.a_scaling == Fp8Scaling::kTensor ? capability >= 89 : capability == 90;
  return Fp8OperandsFit(spec) && new_enough && LibraryHas(spec);
}

int64_t Fp8GemmWorkspaceBytes(const Fp8GemmSpec& spec, int64_t m, int64_t n, int64_t k) {
  return GemmWorkspaceBytes() + PanelSumsBytes(m, n) + PanelScalesBytes(spec, m, n, k);
}

void Fp8Gemm(const Fp8GemmArgs& args, Stream* stream) {
  Validate(args, stream);
  if (args.m == 0 || args.n == 0) return;
  const cuda::Product product = ProductOf(args);
  if (args.k == 0) {
    cuda::GemmFill(product, stream);
    return;
  }
  const cuda::GemmChoice choice = cuda::ChooseGemm(product, stream);
  if (choice.apart) {
    LaunchInPanels(args, stream);
    return;
  }
  if (choice.bias_first) cuda::GemmFill(product, stream);
  cuda::CheckCublas(cuda::LaunchProduct(cuda::ProductOf(product, choice), choice, stream),
                    "cublasLtMatmul");
}

}  // namespace coxswain::kernels
