#include "controller/data/document_encoder.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

// Tokens of `ids` that lie within the first `bytes` bytes of their text.
size_t TokensWithin(const Tokenizer& tokenizer, std::span<const int32_t> ids, size_t bytes) {
  size_t count = 0, end = 0;
  while (count < ids.size()) {
    end += tokenizer.Decode(ids.subspan(count, 1), /*skip_special=*/false).size();
    if (end > bytes) break;
    ++count;
  }
  return count;
}

}  // namespace

TemplateTokens TokensOf(const Tokenizer& tokenizer, const std::string& name) {
  TemplateTokens tokens;
  tokens.find = [&tokenizer](std::string_view token) { return tokenizer.TokenToId(token); };
  tokens.tokenizer = name;
  if (tokenizer.eos_id() >= 0) {
    tokens.eos = {tokenizer.eos_id(), std::string(tokenizer.IdToToken(tokenizer.eos_id()))};
  }
  return tokens;
}

absl::StatusOr<DocumentEncoder> DocumentEncoder::Create(const config::JobSpec& job,
                                                        const config::DatasetSpec& dataset,
                                                        const Tokenizer& tokenizer) {
  DocumentEncoder encoder;
  TemplateTokens tokens = TokensOf(tokenizer, job.model_path);
  tokens.find = [&](std::string_view token) {
    const std::optional<int32_t> id = tokenizer.TokenToId(token);
    if (id && !tokenizer.IsSpecial(*id)) encoder.breakable_.emplace_back(token);
    return id;
  };
  ASSIGN_OR_RETURN(encoder.renderer_, MakeRecordRenderer(dataset, job.chat_template, tokens));
  if (tokens.eos.id >= 0 && !tokenizer.IsSpecial(tokens.eos.id)) {
    encoder.breakable_.push_back(tokens.eos.text);
  }
  encoder.tokenizer_ = &tokenizer;
  encoder.train_on_inputs_ = job.train_on_inputs;
  encoder.sequence_len_ = job.sequence_len;
  encoder.excess_length_ = job.excess_length;
  return encoder;
}

absl::StatusOr<std::vector<EncodedDocument>> DocumentEncoder::Encode(const Record& record) const {
  ASSIGN_OR_RETURN(const std::vector<Segment> segments, renderer_(record));
  Tokens tokens;
  for (const Segment& segment : segments) RETURN_IF_ERROR(AppendSegment(segment, &tokens));

  const int64_t length = static_cast<int64_t>(tokens.ids.size());
  std::vector<EncodedDocument> documents;
  if (length <= sequence_len_) {
    documents.push_back(Cut(tokens, 0, length, Outcome::kKept));
    return documents;
  }
  switch (excess_length_) {
    case config::ExcessLength::kError:
      return absl::OutOfRangeError(
          absl::StrCat("the document has ", length, " tokens, above sequence_len ", sequence_len_,
                       "; raise it or set excess_length to truncate, split or drop"));
    case config::ExcessLength::kDrop:
      documents.push_back(Cut(tokens, 0, length, Outcome::kTooLong));
      break;
    case config::ExcessLength::kTruncate:
      documents.push_back(Cut(tokens, 0, sequence_len_, Outcome::kTruncated));
      break;
    case config::ExcessLength::kSplit:
      for (int64_t begin = 0; begin < length; begin += sequence_len_) {
        const int64_t end = std::min(begin + sequence_len_, length);
        documents.push_back(Cut(tokens, begin, end, Outcome::kSplit));
      }
  }
  return documents;
}

// Tokens [begin, end) as a document.
EncodedDocument DocumentEncoder::Cut(const Tokens& tokens, int64_t begin, int64_t end,
                                     Outcome outcome) const {
  EncodedDocument document;
  document.outcome = outcome;
  document.ids.assign(tokens.ids.begin() + begin, tokens.ids.begin() + end);
  document.target_bits.assign((document.ids.size() + 7) / 8, 0);
  bool any_target = false;
  for (size_t t = 0; t + 1 < document.ids.size(); ++t) {
    if (!train_on_inputs_ && !tokens.trained[static_cast<size_t>(begin) + t + 1]) continue;
    document.target_bits[t / 8] |= static_cast<uint8_t>(1 << (t % 8));
    any_target = true;
  }
  if (!any_target && outcome != Outcome::kTooLong) document.outcome = Outcome::kNoTarget;
  return document;
}

absl::Status DocumentEncoder::AppendSegment(const Segment& segment, Tokens* tokens) const {
  const size_t first = tokens->ids.size();
  size_t untrained = 0;
  if (segment.token >= 0) {
    tokens->ids.push_back(segment.token);
  } else {
    RETURN_IF_ERROR(AppendPlain(segment.text, &tokens->ids));
    untrained =
        TokensWithin(*tokenizer_, std::span(tokens->ids).subspan(first), segment.untrained_prefix);
  }
  tokens->trained.resize(first + untrained, false);
  tokens->trained.resize(tokens->ids.size(), segment.target);
  return absl::OkStatus();
}

// Text never becomes a turn marker: EncodePlain keeps special tokens plain, and the markers that a
// tokenizer did not mark special are tokenised in two parts.
absl::Status DocumentEncoder::AppendPlain(std::string_view text, std::vector<int32_t>* ids) const {
  while (true) {
    size_t cut = std::string_view::npos;
    for (const std::string& marker : breakable_) cut = std::min(cut, text.find(marker));
    if (cut == std::string_view::npos) return tokenizer_->EncodePlain(text, ids);
    RETURN_IF_ERROR(tokenizer_->EncodePlain(text.substr(0, cut + 1), ids));
    text.remove_prefix(cut + 1);
  }
}

}  // namespace coxswain::data
