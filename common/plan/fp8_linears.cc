#include "common/plan/fp8_linears.h"

#include <algorithm>

namespace coxswain::plan {

using kernels::Fp8Format;
using kernels::Fp8Scaling;

Fp8Formats FormatsOf(const Fp8& fp8) {
  const Fp8Format gradient = fp8.e4m3_gradients ? Fp8Format::kE4M3 : Fp8Format::kE5M2;
  switch (fp8.recipe) {
    case Fp8Recipe::kRowwise:
      return {Fp8Scaling::kRow, Fp8Scaling::kRow, gradient};
    case Fp8Recipe::kBlockwise:
      return {Fp8Scaling::kTile, Fp8Scaling::kBlock, gradient};
    default:
      return {Fp8Scaling::kTensor, Fp8Scaling::kTensor, gradient};
  }
}

const char* NameOf(Fp8Recipe recipe) {
  switch (recipe) {
    case Fp8Recipe::kTensorwise:
      return "tensorwise";
    case Fp8Recipe::kRowwise:
      return "rowwise";
    case Fp8Recipe::kBlockwise:
      return "blockwise";
    default:
      return "none";
  }
}

bool InFp8(const Plan& plan, const model::LinearOp& linear, int64_t layer) {
  if (plan.fp8.recipe == Fp8Recipe::kNone) return false;
  if (linear.in_features % kFp8Width != 0 || linear.out_features % kFp8Width != 0) return false;
  const std::vector<LinearPlace>& excluded = plan.fp8.excluded;
  return std::find(excluded.begin(), excluded.end(), LinearPlace{layer, linear.id}) ==
         excluded.end();
}

}  // namespace coxswain::plan
