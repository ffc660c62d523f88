#include "controller/text/tokenizer/append_tokens.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/file/quoted.h"

namespace coxswain::data {

absl::Status AppendTokens(const std::vector<std::string>& tokens, TokenizerFile* file) {
  if (tokens.empty()) return absl::OkStatus();
  if (!file->path.ends_with("tokenizer.json")) {
    return absl::InvalidArgumentError(
        absl::StrCat("base_model.added_tokens: ", file->path,
                     " cannot be extended, a tokenizer.json can; load it with transformers and "
                     "save_pretrained, which writes one"));
  }
  for (const std::string& content : tokens) {
    if (content.empty()) {
      return absl::InvalidArgumentError(
          "base_model.added_tokens: a token is empty; leave it out or give it a text");
    }
    if (file->IdOf(content) >= 0) {
      for (AddedToken& token : file->added) token.counts |= token.content == content;
      continue;
    }
    int32_t largest = -1;
    for (const AddedToken& token : file->added) largest = std::max(largest, token.id);
    const int32_t id = largest >= file->model_size ? largest + 1 : file->model_size;
    if (id != static_cast<int32_t>(file->tokens.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("base_model.added_tokens: ", Quoted(content), " would get id ", id, ", and ",
                       file->path, " has ids up to ", file->tokens.size() - 1,
                       "; save the tokenizer again with save_pretrained"));
    }
    RETURN_IF_ERROR(file->AddToken(content, id));
    file->added.push_back(
        {.id = id, .content = content, .special = true, .counts = true, .normalized = false});
    file->appended.push_back(content);
  }
  std::string text = file->fingerprint;
  for (const std::string& token : file->appended) absl::StrAppend(&text, "\n", token);
  if (!file->appended.empty()) file->fingerprint = ToHex(Sha256(text));
  return absl::OkStatus();
}

}  // namespace coxswain::data
