#include "controller/text/tokenizer/file/read_added_tokens.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/file/quoted.h"
#include "controller/text/tokenizer/steps/step_fields.h"

namespace coxswain::data {
namespace {

using simdjson::dom::element;

// tokenizers numbers an added token itself: by the vocabulary if it is there, else the next free
// id. A file whose numbers differ would be renumbered on load, so it is refused.
absl::Status CheckAddedId(const AddedToken& token, int32_t largest_added,
                          const TokenizerFile& file) {
  const int32_t known = file.IdOf(token.content);
  const int32_t expected = known >= 0                         ? known
                           : largest_added >= file.model_size ? largest_added + 1
                                                              : file.model_size;
  if (token.id == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("added token ", Quoted(token.content), " has id ", token.id,
                   ", but Hugging Face would load it as ", expected,
                   "; save the tokenizer again with save_pretrained"));
}

// tokenizers matches a `normalized` token in its normalized form, and gives that form back.
absl::Status NormalizeAdded(AddedToken* token, TokenizerFile* file) {
  if (!token->normalized || file->pipeline.normalizer.empty()) return absl::OkStatus();
  RegexScratch regex;
  NormalizerScratch scratch;
  std::string_view text = token->content;
  RETURN_IF_ERROR(file->pipeline.normalizer.Normalize(/*is_first=*/true, &regex, &scratch, &text));
  if (text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("added token ", Quoted(token->content),
                     " is normalized to nothing; give it \"normalized\": false"));
  }
  token->content = std::string(text);
  file->decoded_as[token->id] = token->content;
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadAddedTokens(element document, TokenizerFile* file) {
  simdjson::dom::array tokens;
  if (document["added_tokens"].get(tokens) != simdjson::SUCCESS) return absl::OkStatus();
  int32_t largest = -1;
  for (const element entry : tokens) {
    AddedToken token;
    int64_t id = 0;
    std::string_view content;
    if (entry["id"].get(id) != simdjson::SUCCESS ||
        entry["content"].get(content) != simdjson::SUCCESS || id < 0 || id > INT32_MAX) {
      return absl::InvalidArgumentError(absl::StrCat("added_tokens: entry ", file->added.size(),
                                                     " has no usable id and content"));
    }
    if (content.empty()) continue;
    token.id = static_cast<int32_t>(id);
    token.content = std::string(content);
    token.special = Field(entry, "special", false);
    token.normalized = Field(entry, "normalized", !token.special);
    token.lstrip = Field(entry, "lstrip", false);
    token.rstrip = Field(entry, "rstrip", false);
    token.single_word = Field(entry, "single_word", false);
    RETURN_IF_ERROR(CheckAddedId(token, largest, *file));
    largest = std::max(largest, token.id);
    if (file->IdOf(token.content) < 0) {
      RETURN_IF_ERROR(file->AddToken(token.content, token.id));
    }
    RETURN_IF_ERROR(NormalizeAdded(&token, file));
    file->added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
