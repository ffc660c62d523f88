// A row-major product C = A B is the column-major C^T = B^T A^T: our B is the library's first
// operand and our A its second, with the same transposes; the bias runs along the columns of its
// result.
#include "kernels/cuda/products/gemm_plan.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/time_in_turns.h"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kMaxCandidates = 24;

cudaDataType_t DataType(DType dtype) { return dtype == DType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF; }

cudaDataType_t DataType(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}
bool InTiles(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::kTile || scaling == Fp8Scaling::kBlock;
}
int32_t ScaleMode(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kTensor:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    case Fp8Scaling::kRow:
      return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    case Fp8Scaling::kTile:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case Fp8Scaling::kBlock:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  }
  return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

int32_t AlignmentOf(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  for (const int32_t bytes : {256, 16, 8, 4}) {
    if (address % static_cast<uintptr_t>(bytes) == 0) return bytes;
  }
  return 2;
}

// The library's descriptions of one launch, on the stack: nothing is shared between threads.
class Descriptors {
 public:
  explicit Descriptors(const Product& args) {
    const GemmSpec& spec = args.spec;
    // Float32 operands are multiplied in float32: this compute type never rounds them to TF32.
    CheckCublas(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                "cublasLtMatmulDescInit");
    const cublasOperation_t first = spec.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = spec.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    Set(CUBLASLT_MATMUL_DESC_TRANSA, first);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, second);
    if (args.bias != nullptr) {
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias);
      Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(DataType(spec.dtype)));
    }
    if (args.fp8.used) SetFp8(args.fp8);
    const int64_t m = args.m, n = args.n, k = args.k;
    const Fp8Terms& fp8 = args.fp8;
    const cudaDataType_t type = DataType(spec.dtype);
    const cudaDataType_t first_type = fp8.used ? DataType(fp8.spec.b_format) : type;
    const cudaDataType_t second_type = fp8.used ? DataType(fp8.spec.a_format) : type;
    Layout(&first_, first_type, spec.transpose_b ? k : n, spec.transpose_b ? n : k, args.ldb);
    Layout(&second_, second_type, spec.transpose_a ? m : k, spec.transpose_a ? k : m, args.lda);
    Layout(&result_, DataType(spec.output_dtype), n, m, args.ldc);
  }
  cublasLtMatmulDesc_t operation() { return &operation_; }
  cublasLtMatrixLayout_t first() { return &first_; }
  cublasLtMatrixLayout_t second() { return &second_; }
  cublasLtMatrixLayout_t result() { return &result_; }

 private:
  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    CheckCublas(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof(value)),
                "cublasLtMatmulDescSetAttribute");
  }
  void SetFp8(const Fp8Terms& fp8) {
    // Tiles and blocks have their sums of 128 of k scaled, which no fast accumulation allows.
    const bool fast = !fp8.spec.promote && !InTiles(fp8.spec.a_scaling);
    Set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(fast));
    Set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, fp8.b_scales);
    Set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, fp8.a_scales);
    Set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, ScaleMode(fp8.spec.b_scaling));
    Set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, ScaleMode(fp8.spec.a_scaling));
  }
  static void Layout(cublasLtMatrixLayoutOpaque_t* layout, cudaDataType_t type, int64_t rows,
                     int64_t columns, int64_t stride) {
    CheckCublas(cublasLtMatrixLayoutInit(layout, type, static_cast<uint64_t>(rows),
                                         static_cast<uint64_t>(columns), stride),
                "cublasLtMatrixLayoutInit");
  }

  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t first_, second_, result_;
};

class Preference {
 public:
  explicit Preference(const GemmKey& key) {
    CheckCublas(cublasLtMatmulPreferenceInit(&preference_), "cublasLtMatmulPreferenceInit");
    Set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(key.workspace));
    Set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE |
                              CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto bytes = [&](int i) { return static_cast<uint32_t>(key.alignment[i]); };
    Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(1));
    Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(0));
    Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        key.addend == 0 ? bytes(2) : static_cast<uint32_t>(key.addend));
    Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(2));
  }
  cublasLtMatmulPreference_t get() { return &preference_; }

 private:
  template <typename T>
  void Set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    CheckCublas(
        cublasLtMatmulPreferenceSetAttribute(&preference_, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  }

  cublasLtMatmulPreferenceOpaque_t preference_;
};

bool Deterministic(const cublasLtMatmulAlgo_t& algo) {
  uint32_t scheme = 0;
  size_t written = 0;
  CheckCublas(cublasLtMatmulAlgoConfigGetAttribute(&algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                   &scheme, sizeof(scheme), &written),
              "cublasLtMatmulAlgoConfigGetAttribute");
  return scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
         scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

std::vector<GemmChoice> HeuristicChoices(const Product& args, bool bias_first, Stream* stream) {
  const Product product = ProductOf(args, {.bias_first = bias_first});
  const GemmKey key = MakeGemmKey(product);
  Descriptors descriptors(product);
  Preference preference(key);
  std::array<cublasLtMatmulHeuristicResult_t, kMaxCandidates> results{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      stream->cublaslt(), descriptors.operation(), descriptors.first(), descriptors.second(),
      descriptors.result(), descriptors.result(), preference.get(), kMaxCandidates, results.data(),
      &count);
  std::vector<GemmChoice> choices;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    return choices;
  }
  CheckCublas(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS &&
        result.workspaceSize <= static_cast<size_t>(key.workspace) && Deterministic(result.algo)) {
      choices.push_back(
          {.algo = result.algo, .workspace_bytes = result.workspaceSize, .bias_first = bias_first});
    }
  }
  return choices;
}

// cuBLASLt adds a bias of the output's type alone; in FP8 one of bfloat16 alone.
bool AddsBias(const Product& args) {
  if (args.bias == nullptr) return true;
  if (args.fp8.used) return args.fp8.spec.bias_dtype == DType::kBFloat16;
  return args.spec.dtype == args.spec.output_dtype;
}

bool SameFp8(const Fp8Terms& a, const Fp8Terms& b) {
  return a.used == b.used && a.spec.a_format == b.spec.a_format &&
         a.spec.b_format == b.spec.b_format && a.spec.a_scaling == b.spec.a_scaling &&
         a.spec.b_scaling == b.spec.b_scaling && a.spec.promote == b.spec.promote;
}
int64_t Fp8Word(const Fp8Terms& fp8) {
  return static_cast<int64_t>(fp8.spec.a_format) << 8 |
         static_cast<int64_t>(fp8.spec.b_format) << 7 |
         static_cast<int64_t>(fp8.spec.a_scaling) << 5 |
         static_cast<int64_t>(fp8.spec.b_scaling) << 3 | fp8.spec.promote << 1 | fp8.used << 0;
}

}  // namespace

bool GemmKey::operator==(const GemmKey& other) const {
  return m == other.m && n == other.n && k == other.k && lda == other.lda && ldb == other.ldb &&
         ldc == other.ldc && workspace == other.workspace && spec.dtype == other.spec.dtype &&
         spec.output_dtype == other.spec.output_dtype &&
         spec.transpose_a == other.spec.transpose_a && spec.transpose_b == other.spec.transpose_b &&
         accumulate == other.accumulate && bias == other.bias && addend == other.addend &&
         SameFp8(fp8, other.fp8) &&
         std::equal(std::begin(alignment), std::end(alignment), std::begin(other.alignment));
}

// Source: Fowler, Noll, Vo, FNV-1a, over 64-bit words.
size_t GemmKeyHash::operator()(const GemmKey& key) const {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](int64_t word) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 0x100000001b3u;
    hash ^= hash >> 29;
  };
  for (const int64_t word : {key.m, key.n, key.k, key.lda, key.ldb, key.ldc, key.workspace}) {
    mix(word);
  }
  for (const int32_t bytes : key.alignment) mix(bytes);
  mix(key.addend);
  if (key.fp8.used) mix(Fp8Word(key.fp8));
  mix(static_cast<int64_t>(key.spec.dtype) << 8 | static_cast<int64_t>(key.spec.output_dtype) << 4 |
      key.spec.transpose_a << 3 | key.spec.transpose_b << 2 | key.accumulate << 1 | key.bias << 0);
  return static_cast<size_t>(hash);
}

GemmKey MakeGemmKey(const Product& args) {
  return {.m = args.m,
          .n = args.n,
          .k = args.k,
          .lda = args.lda,
          .ldb = args.ldb,
          .ldc = args.ldc,
          .workspace = std::min(args.workspace.bytes, GemmWorkspaceBytes()),
          .spec = args.spec,
          .accumulate = args.beta != 0.0f,
          .bias = args.bias != nullptr,
          .alignment = {AlignmentOf(args.a), AlignmentOf(args.b), AlignmentOf(args.c),
                        AlignmentOf(args.bias)},
          .addend = AddendOf(args) == args.c ? 0 : AlignmentOf(args.addend),
          .fp8 = {.used = args.fp8.used, .spec = args.fp8.spec}};
}

Product ProductOf(const Product& args, const GemmChoice& choice) {
  Product product = args;
  if (choice.bias_first) {
    product.beta = 1.0f;
    product.bias = nullptr;
    product.addend = nullptr;
  }
  return product;
}

std::vector<GemmChoice> GemmCandidates(const Product& args, Stream* stream) {
  std::vector<GemmChoice> choices;
  if (AddsBias(args)) choices = HeuristicChoices(args, false, stream);
  if (choices.empty() && args.bias != nullptr) choices = HeuristicChoices(args, true, stream);
  const bool plain =
      args.bias == nullptr && args.beta == 0.0f && args.spec.output_dtype == DType::kFloat32;
  if (choices.empty() && args.fp8.used && !plain) choices.push_back({.apart = true});
  if (choices.empty()) {
    throw std::invalid_argument("Gemm: cuBLASLt has no deterministic algorithm for m " +
                                std::to_string(args.m) + ", n " + std::to_string(args.n) + ", k " +
                                std::to_string(args.k) + ", strides " + std::to_string(args.lda) +
                                ", " + std::to_string(args.ldb) + ", " + std::to_string(args.ldc));
  }
  return choices;
}

bool HasGemm(const Product& args, Stream* stream) {
  return AddsBias(args) && !HeuristicChoices(args, false, stream).empty();
}

bool GemmRuns(const Product& args, const GemmChoice& choice, Stream* stream) {
  if (choice.apart) return args.fp8.used;
  const Product product = ProductOf(args, choice);
  Descriptors descriptors(product);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(
      stream->cublaslt(), descriptors.operation(), descriptors.first(), descriptors.second(),
      descriptors.result(), descriptors.result(), &choice.algo, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= choice.workspace_bytes &&
         choice.workspace_bytes <= static_cast<size_t>(args.workspace.bytes);
}

GemmChoice FastestGemm(const Product& args, Stream* stream) {
  std::vector<GemmChoice> choices = GemmCandidates(args, stream);
  if (choices.front().apart) return choices.front();
  std::vector<Alternative> alternatives;
  for (const GemmChoice& choice : choices) {
    alternatives.push_back([product = ProductOf(args, choice), choice, stream] {
      return LaunchProduct(product, choice, stream) == CUBLAS_STATUS_SUCCESS;
    });
  }
  const std::vector<double> times = TimeInTurns(alternatives, stream);
  const GemmChoice* fastest = nullptr;
  for (size_t i = 0; i < choices.size(); ++i) {
    choices[i].microseconds = times[i];
    if (times[i] == 0) continue;
    if (fastest == nullptr || times[i] < kWorthwhile * fastest->microseconds) {
      fastest = &choices[i];
    }
  }
  return fastest == nullptr ? choices.front() : *fastest;
}

cublasStatus_t LaunchProduct(const Product& args, const GemmChoice& choice, Stream* stream) {
  Descriptors descriptors(args);
  return cublasLtMatmul(stream->cublaslt(), descriptors.operation(), &args.alpha, args.b,
                        descriptors.first(), args.a, descriptors.second(), &args.beta,
                        AddendOf(args), descriptors.result(), args.c, descriptors.result(),
                        &choice.algo, args.workspace.data, choice.workspace_bytes, stream->cuda());
}

}  // namespace coxswain::kernels::cuda
