#include "common/model/files/fp8_weights.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace coxswain::model {
namespace {

// The layer, and the first tensor of what is one linear in memory.
using PackedLinear = std::pair<int32_t, int32_t>;

bool IsWeightOfLinear(const Parameter& p) {
  return IsBase(p, Kind::kLinear) && absl::EndsWith(p.name, ".weight");
}

PackedLinear PackedOf(const Parameter& p) {
  return {p.layer, p.packed == kNoTensor ? p.tensor : p.packed};
}

bool Fits(const Parameter& p) {
  return p.batch == 1 && p.rows % kFp8WeightBlock == 0 && p.cols % kFp8WeightBlock == 0;
}

}  // namespace

std::vector<bool> WeightsInFp8(const std::vector<Parameter>& table) {
  std::set<PackedLinear> unfit;
  for (const Parameter& p : table) {
    if (IsWeightOfLinear(p) && !Fits(p)) unfit.insert(PackedOf(p));
  }
  std::vector<bool> in_fp8;
  in_fp8.reserve(table.size());
  for (const Parameter& p : table) {
    in_fp8.push_back(IsWeightOfLinear(p) && !unfit.contains(PackedOf(p)));
  }
  return in_fp8;
}

absl::Status CheckFp8Weights(const std::vector<Parameter>& table) {
  for (const Parameter& p : table) {
    if (!IsBase(p, Kind::kExperts)) continue;
    return absl::UnimplementedError(
        absl::StrCat("\"", p.name, "\" is of experts, whose files in FP8 are not written"));
  }
  const std::vector<bool> in_fp8 = WeightsInFp8(table);
  if (std::find(in_fp8.begin(), in_fp8.end(), true) != in_fp8.end()) return absl::OkStatus();
  const auto linear = std::find_if(table.begin(), table.end(), IsWeightOfLinear);
  if (linear == table.end()) return absl::UnimplementedError("the model has no linear in a block");
  return absl::UnimplementedError(
      absl::StrCat("no linear of a block has widths that are multiples of ", kFp8WeightBlock,
                   ": \"", linear->name, "\" is [", linear->rows, ", ", linear->cols, "]"));
}

}  // namespace coxswain::model
