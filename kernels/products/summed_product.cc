#include "kernels/products/summed_product.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace coxswain::kernels {
namespace {

// Operands of a range that begins at a multiple of so many rows keep their alignment.
constexpr int64_t kRangeRows = 64;

void Validate(const SummedProductArgs& args) {
  const GemmArgs& product = args.product;
  const auto fail = [](const std::string& what) {
    throw std::invalid_argument("SummedProduct: " + what);
  };
  if (product.spec.output_dtype != DType::kBFloat16) fail("C is not bfloat16");
  if (product.ldc != product.n) fail("rows of C lie apart");
  if (product.beta != 0.0f && product.beta != 1.0f) fail("beta is neither 0 nor 1");
  if (product.addend != nullptr || product.bias != nullptr) fail("an addend or a bias");
  const int64_t row = DTypeBytes(DType::kFloat32) * product.n;
  if (args.term.bytes < row || args.term.data == nullptr) {
    fail("term of " + std::to_string(args.term.bytes) + " bytes, a row has " + std::to_string(row));
  }
}

// Rows of all ranges but the last.
int64_t RowsOfRange(const SummedProductArgs& args) {
  const int64_t held = args.term.bytes / (DTypeBytes(DType::kFloat32) * args.product.n);
  const int64_t rows = held >= kRangeRows ? held / kRangeRows * kRangeRows : held;
  return std::min(rows, args.product.m);
}

}  // namespace

void SummedProduct(const SummedProductArgs& args, Stream* stream) {
  const GemmArgs& all = args.product;
  if (all.m == 0 || all.n == 0) return;
  Validate(args);
  const int64_t rows = RowsOfRange(args), element = DTypeBytes(all.spec.dtype);
  for (int64_t first = 0; first < all.m; first += rows) {
    GemmArgs range = all;
    range.m = std::min(rows, all.m - first);
    range.spec.output_dtype = DType::kFloat32;
    range.a =
        static_cast<const char*>(all.a) + element * first * (all.spec.transpose_a ? 1 : all.lda);
    range.beta = 0.0f;
    range.c = args.term.data;
    Gemm(range, stream);
    AddToGradient(
        {.count = range.m * all.n,
         .term = static_cast<const float*>(args.term.data),
         .accumulate = all.beta != 0.0f,
         .gradient = static_cast<char*>(all.c) + DTypeBytes(DType::kBFloat16) * first * all.n,
         .sum = args.sum.From(first * all.n)},
        stream);
  }
}

}  // namespace coxswain::kernels
