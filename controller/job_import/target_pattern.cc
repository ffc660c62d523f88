#include "controller/job_import/target_pattern.h"

#include <algorithm>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/name_pattern.h"

namespace coxswain::job_import {
namespace {

// Where blocks lie in models of text, and of text with images.
constexpr std::string_view kPrefixes[] = {"model.layers.", "model.language_model.layers.",
                                          "language_model.model.layers.",
                                          "model.text_model.layers."};
constexpr std::string_view kProjections[] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
// A pattern that chooses these chooses all: no list of layers has just them.
constexpr int kBlocks[] = {0, 1, 7, 22, 40};

size_t BlocksMatched(const NamePattern& pattern, std::string_view projection) {
  size_t most = 0;
  for (const std::string_view prefix : kPrefixes) {
    size_t count = 0;
    for (const int block : kBlocks) {
      const std::string name =
          absl::StrCat(std::string(prefix), block, ".", std::string(projection));
      count += pattern.Matches(name) ? 1 : 0;
    }
    most = std::max(most, count);
  }
  return most;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> TargetsOfPattern(const std::string& pattern) {
  const absl::StatusOr<NamePattern> code = NamePattern::Compile(pattern);
  if (!code.ok()) return code.status();
  std::vector<std::string> names;
  for (const std::string_view projection : kProjections) {
    const size_t blocks = BlocksMatched(*code, projection);
    if (blocks == 0) continue;
    if (blocks < std::size(kBlocks)) {
      return absl::InvalidArgumentError("chooses some blocks only, which has no counterpart");
    }
    names.emplace_back(projection.substr(projection.find('.') + 1));
  }
  if (names.empty()) {
    return absl::InvalidArgumentError("chooses no projection of a dense model; give the names");
  }
  return names;
}

}  // namespace coxswain::job_import
