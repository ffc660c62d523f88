// PCRE2's API is by code unit width.
#define PCRE2_CODE_UNIT_WIDTH 8

#include "controller/job_import/target_pattern.h"

#include <memory>
#include <string_view>

#include <pcre2.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

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

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
using Code = std::unique_ptr<pcre2_code, FreeCode>;

bool Matches(const Code& code, const std::string& name) {
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(
      pcre2_match_data_create_from_pattern(code.get(), nullptr));
  return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                     data.get(), nullptr) >= 0;
}

size_t BlocksMatched(const Code& code, std::string_view projection) {
  size_t most = 0;
  for (const std::string_view prefix : kPrefixes) {
    size_t count = 0;
    for (const int block : kBlocks) {
      count += Matches(code, absl::StrCat(std::string(prefix), block, ".", std::string(projection)))
                   ? 1
                   : 0;
    }
    most = std::max(most, count);
  }
  return most;
}

}  // namespace

bool IsPattern(const std::string& text) {
  return text.find_first_of("()[]*|\\^$+") != std::string::npos;
}

absl::StatusOr<std::vector<std::string>> TargetsOfPattern(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error, &offset, nullptr));
  if (code == nullptr) return absl::InvalidArgumentError("is no regular expression");
  std::vector<std::string> names;
  for (const std::string_view projection : kProjections) {
    const size_t blocks = BlocksMatched(code, projection);
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
