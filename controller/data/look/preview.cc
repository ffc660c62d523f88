#include "controller/data/look/preview.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/data/class_labels.h"
#include "controller/data/documents/document_encoder.h"
#include "controller/data/escape_token.h"
#include "controller/data/findings.h"
#include "controller/data/readers/classification_parser.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/sources/dataset_reader.h"
#include "controller/data/sources/resolve_formats.h"
#include "controller/text/templates/turn_counts.h"
#include "controller/text/tokenizer/tokenizer.h"
#include "controller/text/tokenizer/unicode/byte_alphabet.h"

namespace coxswain::data {
namespace {

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
    case Outcome::kEqual:
      return "dropped: chosen equals rejected";
    case Outcome::kEqualOnceCut:
      return "dropped: chosen equals rejected once both are cut to sequence_len";
    case Outcome::kNoTarget:
      break;
  }
  return "dropped: no trainable token";
}

std::string RoleText(DocumentRole role) {
  switch (role) {
    case DocumentRole::kAlone:
      return "";
    case DocumentRole::kChosen:
      return "chosen";
    case DocumentRole::kRejected:
      return "rejected";
    case DocumentRole::kDesirable:
      return "desirable";
    case DocumentRole::kUndesirable:
      break;
  }
  return "undesirable";
}

// What the token store keeps beside the document.
std::string ValueText(const config::JobSpec& job, const EncodedDocument& encoded) {
  if (encoded.values.empty()) return "";
  if (job.method == "classification") {
    return absl::StrCat("label ", ClassLabels(job.classification).Text(encoded.values));
  }
  const bool margin = job.method == "reward" && encoded.role == DocumentRole::kChosen;
  return margin ? absl::StrCat("margin ", encoded.values[0]) : "";
}

std::string RuleText(TargetRule rule) {
  switch (rule) {
    case TargetRule::kFormat:
    case TargetRule::kWhole:
      return "";
    case TargetRule::kMarks:
      return "marked by the template";
    case TargetRule::kPrefixes:
      break;
  }
  return "what each trained turn adds to the text";
}

void AddTokens(const Tokenizer& tokenizer, const EncodedDocument& encoded,
               PreviewDocument* document) {
  std::vector<std::string> bytes;  // of each run
  for (size_t t = 0; t < encoded.ids.size(); ++t) {
    const int32_t id = encoded.ids[t];
    const std::string_view written = tokenizer.IdToToken(id);
    const bool target = t > 0 && (encoded.target_bits[(t - 1) / 8] >> ((t - 1) % 8) & 1);
    const std::string text = TokenToBytes(written).value_or(std::string(written));
    document->tokens.push_back({id, EscapeToken(text), target});
    if (bytes.empty() || document->runs.back().target != target) {
      document->runs.push_back({"", target});
      bytes.emplace_back();
    }
    bytes.back() += text;
  }
  for (size_t i = 0; i < bytes.size(); ++i) document->runs[i].text = EscapeToken(bytes[i]);
}

// The documents of one record, each a copy of `record` with its tokens.
void AppendDocuments(const config::JobSpec& job, const PreviewDocument& record,
                     const std::vector<EncodedDocument>& encoded,
                     const std::vector<std::vector<FieldPart>>& parts, const Tokenizer& tokenizer,
                     std::vector<PreviewDocument>* documents) {
  for (size_t i = 0; i < encoded.size(); ++i) {
    PreviewDocument document = record;
    document.note = NoteOf(encoded[i].outcome);
    document.role = RoleText(encoded[i].role);
    document.value = ValueText(job, encoded[i]);
    if (encoded.size() > 1 && document.role.empty()) {
      const bool piece = encoded[i].outcome == Outcome::kSplit;
      const bool turn = !RuleText(encoded[i].rule).empty();
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
    if (encoded[i].answer_cut) document.note += ", what was to be trained is cut off";
    AddTokens(tokenizer, encoded[i], &document);
    if (i > 0) {
      document.notes.clear();
      document.unwritten.clear();
    }
    const bool first = i == 0 || encoded[i].rendering != encoded[i - 1].rendering;
    if (first && encoded[i].rendering < parts.size()) document.parts = parts[encoded[i].rendering];
    documents->push_back(std::move(document));
  }
}

// "LINE" or "FILE:LINE", where FILE may be the end of a path.
bool IsAt(const RawRecord& raw, std::string_view place) {
  const size_t colon = place.rfind(':');
  const std::string_view file = colon == std::string_view::npos ? "" : place.substr(0, colon);
  const std::string_view line = place.substr(colon == std::string_view::npos ? 0 : colon + 1);
  const bool named =
      file.empty() || raw.path == file || raw.path.ends_with(absl::StrCat("/", std::string(file)));
  return named && line == std::to_string(raw.line);
}

// The records of one dataset.
class DatasetPreview {
 public:
  static absl::StatusOr<DatasetPreview> Create(const config::JobSpec& job,
                                               const config::DatasetSpec& dataset,
                                               const Tokenizer& tokenizer) {
    DatasetPreview preview(job, dataset, tokenizer);
    ASSIGN_OR_RETURN(preview.encoder_, DocumentEncoder::Create(job, dataset, tokenizer));
    if (dataset.format != config::DatasetFormat::kTokenized) {
      ASSIGN_OR_RETURN(preview.renderer_,
                       MakeRecordRenderer(job, dataset, TokensOf(tokenizer, job.model_path)));
    }
    return preview;
  }

  absl::Status Add(int n, std::string_view place, std::vector<PreviewDocument>* documents) {
    ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(dataset_));
    RawRecord raw;
    const size_t first = documents->size();
    for (int i = 0; i < n;) {
      ASSIGN_OR_RETURN(const bool more, reader->Next(&raw));
      if (!more) break;
      if (!place.empty() && !IsAt(raw, place)) continue;
      RETURN_IF_ERROR(AddRecord(raw, documents));
      ++i;
    }
    for (const auto& [name, column] : reader->LeftOutColumns()) {
      if (first < documents->size()) Note(NoteKind::kUnreadField, name, &(*documents)[first].notes);
    }
    return absl::OkStatus();
  }

 private:
  DatasetPreview(const config::JobSpec& job, const config::DatasetSpec& dataset,
                 const Tokenizer& tokenizer)
      : job_(job),
        dataset_(dataset),
        tokenizer_(tokenizer),
        parser_(std::make_unique<RecordParser>(dataset)) {}

  absl::Status AddRecord(const RawRecord& raw, std::vector<PreviewDocument>* documents) {
    PreviewDocument document;
    document.path = raw.path;
    document.line = raw.line;
    const absl::StatusOr<std::vector<EncodedDocument>> encoded = Encode(raw, &document.notes);
    if (encoded.ok()) {
      const RecordParts parts = PartsOfRecord(raw.json, parser_.get(), renderer_);
      document.unwritten = Unnamed(parts.unwritten, document.notes);
      AppendDocuments(job_, document, *encoded, parts.texts, tokenizer_, documents);
      return absl::OkStatus();
    }
    const bool skip = job_.on_bad_record == config::OnBadRecord::kSkip &&
                      absl::IsInvalidArgument(encoded.status());
    if (!skip) {
      return absl::InvalidArgumentError(
          absl::StrCat(document.path, ":", raw.line, ": ", encoded.status().message()));
    }
    document.note = CleanText(absl::StrCat("skipped: ", encoded.status().message()));
    documents->push_back(std::move(document));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<EncodedDocument>> Encode(const RawRecord& raw, RecordNotes* notes) {
    if (!raw.error.empty()) return absl::InvalidArgumentError(std::string(raw.error));
    ASSIGN_OR_RETURN(const Record record, parser_->Parse(raw.json, notes));
    return encoder_->Encode(record, notes);
  }

  // Without those that a note tells already, and without labels, which are no text.
  std::vector<std::string> Unnamed(std::vector<std::string> fields,
                                   const RecordNotes& notes) const {
    if (dataset_.format == config::DatasetFormat::kClassification) {
      for (const std::string& name : ClassLabelFields(dataset_.fields)) std::erase(fields, name);
    }
    std::erase_if(fields, [&](const std::string& field) {
      return std::any_of(notes.begin(), notes.end(), [&](const RecordNote& note) {
        return note.kind == NoteKind::kUnreadField && note.name == field;
      });
    });
    return fields;
  }

  const config::JobSpec& job_;
  const config::DatasetSpec& dataset_;
  const Tokenizer& tokenizer_;
  std::unique_ptr<RecordParser> parser_;
  std::optional<DocumentEncoder> encoder_;
  RecordRenderer renderer_;  // null: records are tokens
};

}  // namespace

absl::StatusOr<std::vector<PreviewDocument>> PreviewDocuments(const config::JobSpec& given, int n,
                                                              const std::string& place) {
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(given.model_path, given.added_tokens));
  ASSIGN_OR_RETURN(const config::JobSpec job, ResolveFormats(given));
  std::vector<PreviewDocument> documents;
  for (const config::DatasetSpec& dataset : job.datasets) {
    ASSIGN_OR_RETURN(DatasetPreview preview, DatasetPreview::Create(job, dataset, *tokenizer));
    RETURN_IF_ERROR(preview.Add(place.empty() ? n : 1, place, &documents));
  }
  if (!place.empty() && documents.empty()) {
    return absl::NotFoundError(absl::StrCat("no record of the job's datasets begins at ", place,
                                            "; name it as LINE or FILE:LINE"));
  }
  return documents;
}

int64_t CountTargets(const PreviewDocument& document) {
  return std::count_if(document.tokens.begin(), document.tokens.end(),
                       [](const PreviewToken& token) { return token.target; });
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

}  // namespace coxswain::data
