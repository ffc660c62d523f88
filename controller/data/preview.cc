#include "controller/data/preview.h"

#include <map>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/data/dataset_reader.h"
#include "controller/data/document_encoder.h"
#include "controller/data/escape_token.h"
#include "controller/data/findings.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/resolve_formats.h"
#include "controller/data/tokenizer/byte_alphabet.h"
#include "controller/data/tokenizer/tokenizer.h"
#include "controller/data/turn_notes.h"

namespace coxswain::data {
namespace {

constexpr int kIgnoredLabel = -100;
constexpr char kGreen[] = "\x1b[32m", kGrey[] = "\x1b[90m", kPlain[] = "\x1b[0m";

std::string NoteOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kKept:
      return "";
    case Outcome::kTruncated:
      return "truncated to sequence_len";
    case Outcome::kSplit:
      return "of a document above sequence_len";
    case Outcome::kTooLong:
      return "dropped: above sequence_len";
    case Outcome::kNoTarget:
      break;
  }
  return "dropped: no trainable token";
}

std::string RuleText(TargetRule rule) {
  switch (rule) {
    case TargetRule::kFormat:
      return "";
    case TargetRule::kMarks:
      return "marked by the template";
    case TargetRule::kPrefixes:
      break;
  }
  return "what each trained turn adds to the text";
}

std::vector<PreviewToken> TokensOf(const Tokenizer& tokenizer, const EncodedDocument& document) {
  std::vector<PreviewToken> tokens;
  for (size_t t = 0; t < document.ids.size(); ++t) {
    const int32_t id = document.ids[t];
    const std::string_view written = tokenizer.IdToToken(id);
    const bool target = t > 0 && (document.target_bits[(t - 1) / 8] >> ((t - 1) % 8) & 1);
    tokens.push_back(
        {id, EscapeToken(TokenToBytes(written).value_or(std::string(written))), target});
  }
  return tokens;
}

// The documents of one record, each a copy of `record` with its tokens.
void AppendDocuments(const PreviewDocument& record, const std::vector<EncodedDocument>& encoded,
                     const Tokenizer& tokenizer, std::vector<PreviewDocument>* documents) {
  for (size_t i = 0; i < encoded.size(); ++i) {
    PreviewDocument document = record;
    document.note = NoteOf(encoded[i].outcome);
    if (encoded.size() > 1) {
      const bool piece = encoded[i].outcome == Outcome::kSplit;
      const bool turn = encoded[i].rule != TargetRule::kFormat;
      document.note = absl::StrCat(piece  ? "piece "
                                   : turn ? "turn "
                                          : "document ",
                                   i + 1, " of ", encoded.size(), document.note.empty() ? "" : ", ",
                                   document.note);
    }
    document.rule = RuleText(encoded[i].rule);
    for (const std::string& note : TurnNotes(encoded[i].turns)) {
      absl::StrAppend(&document.rule, "; ", note);
    }
    document.tokens = TokensOf(tokenizer, encoded[i]);
    if (i > 0) document.notes.clear();
    documents->push_back(std::move(document));
  }
}

absl::Status PreviewDataset(const config::JobSpec& job, const config::DatasetSpec& dataset, int n,
                            const Tokenizer& tokenizer, std::vector<PreviewDocument>* documents) {
  ASSIGN_OR_RETURN(const auto encoder, DocumentEncoder::Create(job, dataset, tokenizer));
  ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(dataset));
  RecordParser parser(dataset.format, dataset.fields);
  RawRecord raw;
  const size_t first = documents->size();
  for (int i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(bool more, reader->Next(&raw));
    if (!more) break;
    PreviewDocument document = {std::string(raw.path), raw.line, "", "", {}, {}};
    absl::StatusOr<Record> record = absl::InvalidArgumentError(std::string(raw.error));
    if (raw.error.empty()) record = parser.Parse(raw.json, &document.notes);
    absl::StatusOr<std::vector<EncodedDocument>> encoded =
        record.ok() ? encoder.Encode(*record, &document.notes) : record.status();
    if (encoded.ok()) {
      AppendDocuments(document, *encoded, tokenizer, documents);
      continue;
    }
    if (job.on_bad_record == config::OnBadRecord::kSkip &&
        absl::IsInvalidArgument(encoded.status())) {
      document.note = CleanText(absl::StrCat("skipped: ", encoded.status().message()));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(document.path, ":", raw.line, ": ", encoded.status().message()));
    }
    documents->push_back(std::move(document));
  }
  for (const auto& [name, column] : reader->LeftOutColumns()) {
    if (first < documents->size()) Note(NoteKind::kUnreadField, name, &(*documents)[first].notes);
  }
  return absl::OkStatus();
}

int64_t CountTargets(const PreviewDocument& document) {
  int64_t targets = 0;
  for (const PreviewToken& token : document.tokens) targets += token.target;
  return targets;
}

void AppendTokens(const PreviewDocument& document, bool color, std::string* out) {
  bool line_begins = true;
  for (const PreviewToken& token : document.tokens) {
    if (!line_begins) *out += ' ';
    if (color) *out += token.target ? kGreen : kGrey;
    absl::StrAppend(out, token.text, "(", token.target ? token.id : kIgnoredLabel, ", ", token.id,
                    ")");
    if (color) *out += kPlain;
    line_begins = token.text.ends_with("\\n");
    if (line_begins) *out += '\n';
  }
  if (!line_begins) *out += '\n';
}

}  // namespace

absl::StatusOr<std::vector<PreviewDocument>> PreviewDocuments(const config::JobSpec& given, int n) {
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(given.model_path, given.added_tokens));
  ASSIGN_OR_RETURN(const config::JobSpec job, ResolveFormats(given));
  std::vector<PreviewDocument> documents;
  for (const config::DatasetSpec& dataset : job.datasets) {
    RETURN_IF_ERROR(PreviewDataset(job, dataset, n, *tokenizer, &documents));
  }
  return documents;
}

namespace {

std::vector<std::string> NoteWarnings(const std::vector<PreviewDocument>& documents) {
  std::map<std::string, Findings> of_files;
  for (const PreviewDocument& document : documents) {
    of_files[document.path].Add(document.notes, {.file = 0, .line = document.line});
  }
  std::vector<std::string> warnings;
  for (const auto& [path, findings] : of_files) {
    for (std::string& warning : FindingWarnings(path, findings)) {
      warnings.push_back(std::move(warning));
    }
  }
  return warnings;
}

}  // namespace

std::vector<std::string> TargetWarnings(const std::vector<PreviewDocument>& documents) {
  int64_t tokens = 0, targets = 0;
  bool prompts = false;
  for (const PreviewDocument& document : documents) {
    tokens += static_cast<int64_t>(document.tokens.size());
    targets += CountTargets(document);
    prompts |= !document.rule.empty();
  }
  std::vector<std::string> warnings = NoteWarnings(documents);
  if (tokens > 0 && 100 * targets < tokens) {
    warnings.push_back(
        absl::StrCat(targets, " of ", tokens,
                     " tokens are targets, less than 1 %: hardly anything is learnt; "
                     "look at roles_to_train, train_on and the chat template"));
  }
  // The first token of a document follows nothing.
  if (prompts && tokens > 0 && targets + static_cast<int64_t>(documents.size()) >= tokens) {
    warnings.push_back(
        "every token is a target, those of the prompts too: train_on_inputs, or a template that "
        "marks all of its text");
  }
  return warnings;
}

absl::StatusOr<std::string> PreviewData(const config::JobSpec& job, int n, bool color) {
  ASSIGN_OR_RETURN(const auto documents, PreviewDocuments(job, n));
  std::string out;
  for (const PreviewDocument& document : documents) {
    absl::StrAppend(&out, document.path, ":", document.line, ": ", document.tokens.size(),
                    " tokens, ", CountTargets(document), " targets");
    if (!document.rule.empty()) absl::StrAppend(&out, ", ", document.rule);
    if (!document.note.empty()) absl::StrAppend(&out, "; ", document.note);
    const std::string notes = NotesText(document.notes);
    if (!notes.empty()) absl::StrAppend(&out, "; ", notes);
    out += '\n';
    AppendTokens(document, color, &out);
    out += '\n';
  }
  for (const std::string& warning : TargetWarnings(documents)) {
    absl::StrAppend(&out, "warning: ", warning, "\n");
  }
  return out;
}

absl::StatusOr<std::string> PreviewJson(const config::JobSpec& job, int n) {
  ASSIGN_OR_RETURN(const auto documents, PreviewDocuments(job, n));
  nlohmann::json all = nlohmann::json::array();
  for (const PreviewDocument& document : documents) {
    nlohmann::json ids = nlohmann::json::array(), labels = ids, text = ids;
    for (const PreviewToken& token : document.tokens) {
      ids.push_back(token.id);
      labels.push_back(token.target ? token.id : kIgnoredLabel);
      text.push_back(token.text);
    }
    all.push_back({{"path", document.path},
                   {"line", document.line},
                   {"rule", document.rule},
                   {"note", document.note},
                   {"notes", NotesText(document.notes)},
                   {"tokens", document.tokens.size()},
                   {"targets", CountTargets(document)},
                   {"input_ids", ids},
                   {"labels", labels},
                   {"text", text}});
  }
  return nlohmann::json{{"documents", all}, {"warnings", TargetWarnings(documents)}}.dump(2) + "\n";
}

}  // namespace coxswain::data
