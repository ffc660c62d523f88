#include "controller/data/documents/document_encoder.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/model_ends.h"
#include "controller/text/records/record.h"
#include "controller/text/templates/content_guard.h"

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

// Trains all from the first trained token to the last.
void CloseGaps(std::vector<bool>* trained) {
  const auto first = std::find(trained->begin(), trained->end(), true);
  if (first == trained->end()) return;
  const auto last = std::find(trained->rbegin(), trained->rend(), true).base();
  std::fill(first, last, true);
}

// The last `tail` tokens of the whole document end what is left of it.
void KeepTail(const std::vector<int32_t>& whole, size_t tail, std::vector<int32_t>* cut) {
  const size_t kept = std::min(tail, cut->size());
  std::copy(whole.end() - static_cast<int64_t>(kept), whole.end(),
            cut->end() - static_cast<int64_t>(kept));
}

// Two sides are kept or dropped together, and equal ones are dropped: nothing sets them apart.
void JoinOutcomes(EncodedDocument* chosen, EncodedDocument* rejected) {
  const auto both = [&](Outcome outcome) {
    if (chosen->outcome != outcome && rejected->outcome != outcome) return false;
    chosen->outcome = rejected->outcome = outcome;
    return true;
  };
  if (both(Outcome::kTooLong) || both(Outcome::kNoTarget)) return;
  if (chosen->ids != rejected->ids || chosen->target_bits != rejected->target_bits) return;
  const bool cut = chosen->outcome == Outcome::kTruncated;
  chosen->outcome = rejected->outcome = cut ? Outcome::kEqualOnceCut : Outcome::kEqual;
}

void SetDesirable(bool desirable, EncodedDocument* document) {
  document->role = desirable ? DocumentRole::kDesirable : DocumentRole::kUndesirable;
  document->values = {desirable ? 1.0f : 0.0f};
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
    if (tokenizer.Counts(id)) tokens.counted.push_back(text(id));
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
  const TemplateTokens tokens = TokensOf(tokenizer, job.model_path);
  if (dataset.format != config::DatasetFormat::kTokenized) {
    ASSIGN_OR_RETURN(encoder.renderer_, MakeRecordRenderer(job, dataset, tokens));
  }
  std::shared_ptr<const ConversationTemplate> chat_template;
  if (UsesChatTemplate(dataset) || MayUseChatTemplate(dataset)) {
    // Text needs none.
    absl::StatusOr<ConversationTemplate> parsed = ConversationTemplate::Create(job, tokens);
    if (parsed.ok()) {
      chat_template = std::make_shared<const ConversationTemplate>(*std::move(parsed));
      encoder.notes_.emplace(*chat_template, job.roles_to_train);
    }
  }
  RETURN_IF_ERROR(encoder.Use(tokenizer, tokens, std::move(chat_template)));
  if (dataset.format == config::DatasetFormat::kInputOutput) encoder.front_.clear();
  encoder.train_on_inputs_ = job.train_on_inputs;
  encoder.unpairs_ = job.method == "kto";
  encoder.margins_ = job.method == "reward";
  if (dataset.format == config::DatasetFormat::kClassification) {
    encoder.classes_.emplace(job.classification);
  }
  encoder.sequence_len_ = job.sequence_len;
  encoder.excess_length_ = job.excess_length;
  return encoder;
}

absl::StatusOr<DocumentEncoder> DocumentEncoder::ForPrompts(
    const Tokenizer& tokenizer, const TemplateTokens& tokens,
    std::shared_ptr<const ConversationTemplate> chat_template) {
  DocumentEncoder encoder;
  RETURN_IF_ERROR(encoder.Use(tokenizer, tokens, std::move(chat_template)));
  return encoder;
}

absl::Status DocumentEncoder::Use(const Tokenizer& tokenizer, const TemplateTokens& tokens,
                                  std::shared_ptr<const ConversationTemplate> chat_template) {
  tokenizer_ = &tokenizer;
  front_.assign(tokenizer.ids_in_front().begin(), tokenizer.ids_in_front().end());
  chat_template_ = std::move(chat_template);
  if (chat_template_ != nullptr) guarded_ = GuardedMarkers(*chat_template_, tokens);
  if (chat_template_ == nullptr && tokens.eos.id >= 0) guarded_ = {tokens.eos.text};
  const auto is_in = [](const std::vector<std::string>& list, const std::string& marker) {
    return std::find(list.begin(), list.end(), marker) != list.end();
  };
  for (const std::string& marker : guarded_) {
    if (is_in(tokens.special, marker) && !is_in(tokens.counted, marker)) continue;
    breakable_.push_back(marker);
  }
  return FindLead();
}

absl::Status DocumentEncoder::EncodeGiven(const TokenizedRecord& record,
                                          std::vector<EncodedDocument>* documents) const {
  for (const int32_t id : record.ids) {
    if (id < tokenizer_->vocab_size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("input_ids holds ", id, ", but the model's tokenizer ends at ",
                     tokenizer_->vocab_size() - 1, "; was it prepared with another one?"));
  }
  size_t begin = 0;
  for (size_t i = 0; i <= record.begins.size(); ++i) {
    const size_t end = i < record.begins.size() ? record.begins[i] : record.ids.size();
    const auto from = static_cast<int64_t>(begin), to = static_cast<int64_t>(end);
    const Tokens tokens = {{record.ids.begin() + from, record.ids.begin() + to},
                           {record.trained.begin() + from, record.trained.begin() + to}};
    RETURN_IF_ERROR(AppendPieces(tokens, documents));
    begin = end;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<EncodedDocument>> DocumentEncoder::Encode(const Record& record,
                                                                     RecordNotes* notes) const {
  std::vector<EncodedDocument> documents;
  if (const auto* tokenized = std::get_if<TokenizedRecord>(&record)) {
    RETURN_IF_ERROR(EncodeGiven(*tokenized, &documents));
    return documents;
  }
  if (notes_) {
    for (const ChatRecord* chat : ConversationsOf(record)) notes_->Add(*chat, notes);
  }
  const bool preference =
      std::holds_alternative<PairRecord>(record) || std::holds_alternative<LabelledRecord>(record);
  ASSIGN_OR_RETURN(const std::vector<RenderedDocument> rendered, renderer_(record));
  std::vector<int32_t> special_as_text;
  for (const RenderedDocument& document : rendered) {
    const size_t first = documents.size();
    Tokens tokens;
    RETURN_IF_ERROR(AppendSegments(document.segments, &tokens, &special_as_text));
    if (document.rule == TargetRule::kFormat) PutFront(&tokens);
    if (document.rule == TargetRule::kFormat && classes_) PutBehind(&tokens);
    if (preference) CloseGaps(&tokens.trained);
    RETURN_IF_ERROR(AppendPieces(tokens, &documents));
    for (size_t i = first; i < documents.size(); ++i) {
      documents[i].rule = document.rule;
      documents[i].rendering = static_cast<size_t>(&document - rendered.data());
    }
    if (first < documents.size()) documents[first].turns = document.turns;
  }
  for (const int32_t id : special_as_text) {
    Note(NoteKind::kSpecialAsText, std::string(tokenizer_->IdToToken(id)), notes);
  }
  RETURN_IF_ERROR(SetRoles(record, &documents));
  return documents;
}

// And the values that go with them.
absl::Status DocumentEncoder::SetRoles(const Record& record,
                                       std::vector<EncodedDocument>* documents) const {
  if (const auto* labelled = std::get_if<LabelledRecord>(&record)) {
    SetDesirable(labelled->desirable, &documents->front());
  }
  if (const auto* classified = std::get_if<ClassifiedRecord>(&record)) {
    ASSIGN_OR_RETURN(documents->front().values, classes_->ValuesOf(*classified));
  }
  const auto* pair = std::get_if<PairRecord>(&record);
  if (pair == nullptr) return absl::OkStatus();
  EncodedDocument &chosen = (*documents)[0], &rejected = (*documents)[1];
  if (unpairs_) {
    SetDesirable(true, &chosen);
    SetDesirable(false, &rejected);
    return absl::OkStatus();
  }
  chosen.role = DocumentRole::kChosen;
  rejected.role = DocumentRole::kRejected;
  if (margins_) chosen.values = {pair->margin};
  if (margins_) rejected.values = {0.0f};
  JoinOutcomes(&chosen, &rejected);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> DocumentEncoder::EncodePrompt(const std::string& text) const {
  Tokens tokens;
  std::vector<int32_t> ignored;
  RETURN_IF_ERROR(AppendSegments({{.text = text, .markup = true}}, &tokens, &ignored));
  PutFront(&tokens);
  return std::move(tokens.ids);
}

absl::StatusOr<std::vector<int32_t>> DocumentEncoder::EncodePrompt(ChatRecord record) const {
  const ContentGuard guard(guarded_, &record);
  ASSIGN_OR_RETURN(jinja::Rendering rendered,
                   chat_template_->Render(record.messages, record, /*prompt=*/true));
  std::vector<ByteRange> targets;
  TextMarks marks{guard.Clean(&rendered.text, &targets), {}};
  Tokens tokens;
  std::vector<int32_t> ignored;
  const Segment all = {.text = std::move(rendered.text), .marks = std::move(marks)};
  RETURN_IF_ERROR(AppendSegment(all, &tokens, &ignored));
  return std::move(tokens.ids);
}

// A text that begins with it already gets no second one.
void DocumentEncoder::PutFront(Tokens* tokens) const {
  std::vector<int32_t>& ids = tokens->ids;
  const bool there =
      ids.size() >= front_.size() && std::equal(front_.begin(), front_.end(), ids.begin());
  if (front_.empty() || there) return;
  ids.insert(ids.begin(), front_.begin(), front_.end());
  tokens->trained.insert(tokens->trained.begin(), front_.size(), classes_.has_value());
}

void DocumentEncoder::PutBehind(Tokens* tokens) const {
  const std::span<const int32_t> behind = tokenizer_->ids_behind();
  tokens->ids.insert(tokens->ids.end(), behind.begin(), behind.end());
  tokens->trained.resize(tokens->ids.size(), true);
  tokens->tail = behind.size();
}

// The document, cut as excess_length says.
absl::Status DocumentEncoder::AppendPieces(const Tokens& tokens,
                                           std::vector<EncodedDocument>* documents) const {
  const auto length = static_cast<int64_t>(tokens.ids.size());
  const size_t first = documents->size();
  RETURN_IF_ERROR(AppendCut(tokens, length, documents));
  (*documents)[first].whole_tokens = length;
  return absl::OkStatus();
}

absl::Status DocumentEncoder::AppendCut(const Tokens& tokens, int64_t length,
                                        std::vector<EncodedDocument>* documents) const {
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
      documents->back().answer_cut =
          !classes_ && std::find(tokens.trained.begin() + sequence_len_, tokens.trained.end(),
                                 true) != tokens.trained.end();
      KeepTail(tokens.ids, tokens.tail, &documents->back().ids);
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
  const bool is_read = classes_ && !document.ids.empty();
  if (!any_target && !is_read && outcome != Outcome::kTooLong) {
    document.outcome = Outcome::kNoTarget;
  }
  return document;
}

absl::Status DocumentEncoder::AppendSegments(const std::vector<Segment>& segments, Tokens* tokens,
                                             std::vector<int32_t>* special_as_text) const {
  for (const Segment& segment : segments) {
    RETURN_IF_ERROR(AppendSegment(segment, tokens, special_as_text));
  }
  return absl::OkStatus();
}

absl::Status DocumentEncoder::AppendSegment(const Segment& segment, Tokens* tokens,
                                            std::vector<int32_t>* special_as_text) const {
  if (segment.marks.has_value()) {
    return tokenizer_->EncodeMarked(segment.text, *segment.marks, &tokens->ids, &tokens->trained,
                                    special_as_text);
  }
  const size_t first = tokens->ids.size();
  size_t untrained = 0;
  if (segment.token >= 0) {
    const bool there = first > 0 && tokens->ids.back() == segment.token && tokens->trained.back();
    if (segment.once && there) return absl::OkStatus();
    tokens->ids.push_back(segment.token);
  } else {
    RETURN_IF_ERROR(AppendText(segment, &tokens->ids, special_as_text));
    untrained =
        TokensWithin(*tokenizer_, std::span(tokens->ids).subspan(first), segment.untrained_prefix);
  }
  tokens->trained.resize(first + untrained, false);
  tokens->trained.resize(tokens->ids.size(), segment.target);
  return absl::OkStatus();
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
absl::Status DocumentEncoder::AppendText(const Segment& segment, std::vector<int32_t>* ids,
                                         std::vector<int32_t>* special_as_text) const {
  const auto append = [&](const std::string& text, std::vector<int32_t>* to) {
    return segment.markup ? tokenizer_->Encode(text, to) : AppendPlain(text, to, special_as_text);
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
absl::Status DocumentEncoder::AppendPlain(std::string_view text, std::vector<int32_t>* ids,
                                          std::vector<int32_t>* special_as_text) const {
  while (true) {
    size_t cut = std::string_view::npos;
    const std::string* broken = nullptr;
    for (const std::string& marker : breakable_) {
      const size_t at = text.find(marker);
      if (at < cut) broken = &marker;
      cut = std::min(cut, at);
    }
    if (broken == nullptr) return tokenizer_->EncodePlain(text, ids, special_as_text);
    special_as_text->push_back(*tokenizer_->TokenToId(*broken));
    RETURN_IF_ERROR(tokenizer_->EncodePlain(text.substr(0, cut + 1), ids, special_as_text));
    text.remove_prefix(cut + 1);
  }
}

}  // namespace coxswain::data
