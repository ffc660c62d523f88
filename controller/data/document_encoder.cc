#include "controller/data/document_encoder.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/model_ends.h"
#include "controller/data/templates/conversation_template.h"
#include "controller/data/templates/named_templates.h"

namespace coxswain::data {
namespace {

// A control character: no vocabulary merges it with anything.
constexpr char kLead[] = "\x01";

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
  const auto text = [&](int32_t id) { return std::string(id < 0 ? "" : tokenizer.IdToToken(id)); };
  tokens.eos = {tokenizer.eos_id(), text(tokenizer.eos_id())};
  tokens.bos = text(tokenizer.bos_id());
  tokens.pad = text(tokenizer.pad_id());
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsSpecial(id)) tokens.special.push_back(text(id));
  }
  for (const int32_t id : ModelEnds(name, tokenizer)) {
    if (!tokenizer.IdToToken(id).empty()) tokens.ends.push_back(text(id));
  }
  tokens.own_template = tokenizer.chat_template();
  tokens.own_tool_template = tokenizer.chat_template("tool_use");
  return tokens;
}

absl::StatusOr<DocumentEncoder> DocumentEncoder::Create(const config::JobSpec& job,
                                                        const config::DatasetSpec& dataset,
                                                        const Tokenizer& tokenizer) {
  DocumentEncoder encoder;
  TemplateTokens tokens = TokensOf(tokenizer, job.model_path);
  if (dataset.format != config::DatasetFormat::kTokenized) {
    ASSIGN_OR_RETURN(encoder.renderer_, MakeRecordRenderer(job, dataset, tokens));
  }
  encoder.FindBreakable(ResolvedTemplateName(job, tokens), dataset, tokens);
  encoder.tokenizer_ = &tokenizer;
  RETURN_IF_ERROR(encoder.FindLead());
  const bool written_by_the_user = dataset.format == config::DatasetFormat::kTokenized ||
                                   dataset.format == config::DatasetFormat::kInputOutput;
  if (!UsesChatTemplate(dataset) && !written_by_the_user && !tokenizer.byte_level()) {
    const auto front = tokenizer.ids_in_front();
    encoder.front_.assign(front.begin(), front.end());
  }
  encoder.train_on_inputs_ = job.train_on_inputs;
  encoder.sequence_len_ = job.sequence_len;
  encoder.excess_length_ = job.excess_length;
  return encoder;
}

absl::StatusOr<DocumentEncoder::Tokens> DocumentEncoder::Given(
    const TokenizedRecord& record) const {
  for (const int32_t id : record.ids) {
    if (id < tokenizer_->vocab_size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("input_ids holds ", id, ", but the model's tokenizer ends at ",
                     tokenizer_->vocab_size() - 1, "; was it prepared with another one?"));
  }
  return Tokens{record.ids, record.trained};
}

absl::StatusOr<std::vector<EncodedDocument>> DocumentEncoder::Encode(const Record& record) const {
  std::vector<EncodedDocument> documents;
  if (const auto* tokenized = std::get_if<TokenizedRecord>(&record)) {
    ASSIGN_OR_RETURN(const Tokens tokens, Given(*tokenized));
    RETURN_IF_ERROR(AppendPieces(tokens, &documents));
    return documents;
  }
  ASSIGN_OR_RETURN(const std::vector<RenderedDocument> rendered, renderer_(record));
  for (const RenderedDocument& document : rendered) {
    const size_t first = documents.size();
    Tokens tokens;
    if (document.rule == TargetRule::kFormat) {
      tokens = {front_, std::vector<bool>(front_.size(), false)};
    }
    for (const Segment& segment : document.segments) {
      RETURN_IF_ERROR(AppendSegment(segment, &tokens));
    }
    RETURN_IF_ERROR(AppendPieces(tokens, &documents));
    for (size_t i = first; i < documents.size(); ++i) documents[i].rule = document.rule;
    if (first < documents.size()) documents[first].turns = document.turns;
  }
  return documents;
}

// The document, cut as excess_length says.
absl::Status DocumentEncoder::AppendPieces(const Tokens& tokens,
                                           std::vector<EncodedDocument>* documents) const {
  const int64_t length = static_cast<int64_t>(tokens.ids.size());
  if (length <= sequence_len_) {
    documents->push_back(Cut(tokens, 0, length, Outcome::kKept));
    return absl::OkStatus();
  }
  switch (excess_length_) {
    case config::ExcessLength::kError:
      return absl::OutOfRangeError(
          absl::StrCat("the document has ", length, " tokens, above sequence_len ", sequence_len_,
                       "; raise it or set excess_length to truncate, split or drop"));
    case config::ExcessLength::kDrop:
      documents->push_back(Cut(tokens, 0, length, Outcome::kTooLong));
      break;
    case config::ExcessLength::kTruncate:
      documents->push_back(Cut(tokens, 0, sequence_len_, Outcome::kTruncated));
      break;
    case config::ExcessLength::kSplit:
      for (int64_t begin = 0; begin < length; begin += sequence_len_) {
        const int64_t end = std::min(begin + sequence_len_, length);
        documents->push_back(Cut(tokens, begin, end, Outcome::kSplit));
      }
  }
  return absl::OkStatus();
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
  if (segment.marks.has_value()) {
    return tokenizer_->EncodeMarked(segment.text, *segment.marks, &tokens->ids, &tokens->trained);
  }
  const size_t first = tokens->ids.size();
  size_t untrained = 0;
  if (segment.token >= 0) {
    tokens->ids.push_back(segment.token);
  } else {
    RETURN_IF_ERROR(AppendText(segment, &tokens->ids));
    untrained =
        TokensWithin(*tokenizer_, std::span(tokens->ids).subspan(first), segment.untrained_prefix);
  }
  tokens->trained.resize(first + untrained, false);
  tokens->trained.resize(tokens->ids.size(), segment.target);
  return absl::OkStatus();
}

void DocumentEncoder::FindBreakable(const std::string& template_name,
                                    const config::DatasetSpec& dataset,
                                    const TemplateTokens& tokens) {
  std::vector<std::string_view> markers;
  if (UsesChatTemplate(dataset)) markers = TokensOfNamedTemplate(template_name);
  if (tokens.eos.id >= 0) markers.push_back(tokens.eos.text);
  for (const std::string_view marker : markers) {
    const bool special =
        std::find(tokens.special.begin(), tokens.special.end(), marker) != tokens.special.end();
    if (!special) breakable_.emplace_back(marker);
  }
}

absl::Status DocumentEncoder::FindLead() {
  std::vector<int32_t> lead, alone, behind;
  RETURN_IF_ERROR(tokenizer_->Encode(kLead, &lead));
  RETURN_IF_ERROR(tokenizer_->Encode("a", &alone));
  RETURN_IF_ERROR(tokenizer_->Encode(absl::StrCat(kLead, "a"), &behind));
  const bool kept =
      behind.size() > lead.size() && std::equal(lead.begin(), lead.end(), behind.begin());
  if (kept && !std::equal(alone.begin(), alone.end(),
                          behind.begin() + static_cast<int64_t>(lead.size()), behind.end())) {
    lead_ = std::move(lead);
  }
  return absl::OkStatus();
}

// A text goes on where the one before it ended, unless that was a special token.
absl::Status DocumentEncoder::AppendText(const Segment& segment, std::vector<int32_t>* ids) const {
  const auto append = [&](const std::string& text, std::vector<int32_t>* to) {
    return segment.markup ? tokenizer_->Encode(text, to) : AppendPlain(text, to);
  };
  if (lead_.empty() || ids->empty() || tokenizer_->IsSpecial(ids->back())) {
    return append(segment.text, ids);
  }
  std::vector<int32_t> led;
  RETURN_IF_ERROR(append(absl::StrCat(kLead, segment.text), &led));
  if (led.size() < lead_.size() || !std::equal(lead_.begin(), lead_.end(), led.begin())) {
    return append(segment.text, ids);
  }
  ids->insert(ids->end(), led.begin() + static_cast<int64_t>(lead_.size()), led.end());
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
