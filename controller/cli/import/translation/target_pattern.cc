#include "controller/cli/import/translation/target_pattern.h"

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
constexpr std::string_view kShared[] = {"mlp.shared_expert.", "mlp.shared_experts."};
constexpr std::string_view kOfExperts[] = {
    "mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj",
    "block_sparse_moe.experts.0.w1", "block_sparse_moe.experts.0.w2"};
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

// Those of shared experts alone: "shared_experts.up_proj". A chosen "up_proj" has them already.
void AppendOfSharedExperts(const NamePattern& pattern, std::vector<std::string>* names) {
  for (const std::string_view expert : kShared) {
    for (const std::string_view linear : {"gate_proj", "up_proj", "down_proj"}) {
      const std::string name = absl::StrCat(std::string(expert), std::string(linear));
      const bool chosen = std::find(names->begin(), names->end(), linear) != names->end();
      if (!chosen && BlocksMatched(pattern, name) == std::size(kBlocks)) {
        names->push_back(name.substr(name.find('.') + 1));
      }
    }
  }
}

bool ChoosesSingleExperts(const NamePattern& pattern) {
  return std::any_of(
      std::begin(kOfExperts), std::end(kOfExperts),
      [&pattern](std::string_view name) { return BlocksMatched(pattern, name) > 0; });
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
  AppendOfSharedExperts(*code, &names);
  if (!names.empty()) return names;
  if (ChoosesSingleExperts(*code)) {
    return absl::InvalidArgumentError(
        "chooses linears of single experts, which lie in stacks; give lora_target_parameters: "
        "[mlp.experts.gate_up_proj, mlp.experts.down_proj]");
  }
  return absl::InvalidArgumentError("chooses no projection; give the names");
}

}  // namespace coxswain::job_import
