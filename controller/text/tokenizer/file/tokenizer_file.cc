#include "controller/text/tokenizer/file/tokenizer_file.h"

#include "absl/strings/str_cat.h"
#include "controller/text/tokenizer/file/quoted.h"

namespace coxswain::data {
namespace {

constexpr int64_t kMaxTokenId = 1 << 24;  // a larger id is a damaged file, not a vocabulary

}  // namespace

int32_t TokenizerFile::IdOf(std::string_view token) const {
  const auto found = ids.find(absl::string_view(token.data(), token.size()));
  return found == ids.end() ? -1 : found->second;
}

absl::Status TokenizerFile::AddToken(std::string_view token, int64_t id) {
  if (id < 0 || id >= kMaxTokenId) {
    return absl::InvalidArgumentError(
        absl::StrCat("token ", Quoted(token), " has id ", id, ", outside 0..", kMaxTokenId - 1));
  }
  if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(static_cast<size_t>(id) + 1);
  if (!tokens[id].empty()) {
    return absl::InvalidArgumentError(absl::StrCat("id ", id, " is given to two tokens, ",
                                                   Quoted(tokens[id]), " and ", Quoted(token)));
  }
  tokens[id] = std::string(token);
  ids.emplace(std::string(token), static_cast<int32_t>(id));
  return absl::OkStatus();
}

}  // namespace coxswain::data
