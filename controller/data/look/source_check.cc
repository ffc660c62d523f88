#include "controller/data/look/source_check.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include <simdjson.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/hash.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/data/class_labels.h"
#include "controller/data/documents/document_encoder.h"
#include "controller/data/documents/loss_notes.h"
#include "controller/data/documents/template_check.h"
#include "controller/data/readers/detect_format.h"
#include "controller/data/readers/fields_read.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/sources/dataset_reader.h"
#include "controller/data/sources/resolve_formats.h"
#include "controller/text/records/record.h"
#include "controller/text/tokenizer/tokenizer.h"
#include "controller/text/tokenizer/unicode/white_space.h"

namespace coxswain::data {
namespace {

using Json = nlohmann::ordered_json;

// Equal for records that train the same tokens, with the same labels.
uint64_t DigestOf(const std::vector<EncodedDocument>& documents, const std::string& labels) {
  Sha256Stream stream;
  stream.Update(labels);
  for (const EncodedDocument& document : documents) {
    const auto ids = std::as_bytes(std::span(document.ids));
    const auto bits = std::as_bytes(std::span(document.target_bits));
    stream.Update({reinterpret_cast<const char*>(ids.data()), ids.size()});
    stream.Update({reinterpret_cast<const char*>(bits.data()), bits.size()});
    const auto values = std::as_bytes(std::span(document.values));
    stream.Update({reinterpret_cast<const char*>(values.data()), values.size()});
  }
  const std::string whole = stream.Finish();
  uint64_t digest = 0;
  std::memcpy(&digest, whole.data(), sizeof(digest));
  return digest;
}

class Checker {
 public:
  Checker(const config::JobSpec& job, config::DatasetSpec dataset, const Cancelled& cancelled)
      : job_(job), dataset_(std::move(dataset)), cancelled_(cancelled) {}

  absl::StatusOr<SourceReport> Check() {
    ASSIGN_OR_RETURN(const auto reader, Begin());
    RawRecord raw;
    while (true) {
      RETURN_IF_ERROR(CheckCancelled(cancelled_));
      ASSIGN_OR_RETURN(const bool more, reader->Next(&raw));
      if (!more) break;
      ++report_.records;
      RETURN_IF_ERROR(ReadRecord(raw));
    }
    if (others_ > 0) report_.fields.push_back({.name = "...", .records = others_, .read = false});
    for (const auto& [name, column] : reader->LeftOutColumns()) {
      report_.findings.Add(NoteKind::kUnreadField, name, column.records);
      report_.fields.push_back({.name = name, .records = column.records, .read = false});
    }
    return std::move(report_);
  }

 private:
  absl::StatusOr<std::unique_ptr<DatasetReader>> Begin() {
    ASSIGN_OR_RETURN(tokenizer_, Tokenizer::Load(job_.model_path, job_.added_tokens));
    ASSIGN_OR_RETURN(dataset_.format, AnyFormatOf(dataset_));
    config::JobSpec job = job_;
    job.datasets = {dataset_};
    job.test_datasets.clear();
    ASSIGN_OR_RETURN(report_.warnings, CheckTemplates(job, *tokenizer_));
    ASSIGN_OR_RETURN(encoder_, DocumentEncoder::Create(job, dataset_, *tokenizer_));
    ASSIGN_OR_RETURN(auto reader, DatasetReader::Open(dataset_));
    parser_ = std::make_unique<RecordParser>(dataset_);
    read_ = FieldsRead(dataset_.format, dataset_.fields);
    report_.format = dataset_.format;
    report_.files = reader->paths();
    return reader;
  }

  // Errors are those of files: what is wrong with the record is a finding.
  absl::Status ReadRecord(const RawRecord& raw) {
    while (report_.files[file_] != raw.path) ++file_;  // records come in order of files
    const RecordPlace place = {.file = static_cast<int64_t>(file_), .line = raw.line};
    RecordNotes notes;
    const auto documents = Encode(raw, &notes);
    if (!documents.ok()) {
      const absl::StatusCode code = documents.status().code();
      const bool of_record = code == absl::StatusCode::kInvalidArgument ||
                             code == absl::StatusCode::kOutOfRange ||
                             code == absl::StatusCode::kUnimplemented;
      if (!of_record) return documents.status();
      std::erase_if(notes,
                    [](const RecordNote& note) { return note.kind != NoteKind::kEmptyAnswer; });
      notes.push_back({NoteKind::kBadRecord, std::string(documents.status().message())});
    } else {
      NoteLosses(*documents, &notes);
      Count(*documents, place);
      if (const auto [seen, fresh] = seen_.emplace(DigestOf(*documents, labels_), place); !fresh) {
        notes.push_back({NoteKind::kDuplicate});
        if (report_.duplicates.size() < Finding::kMaxPlaces) {
          report_.duplicates.push_back({place, seen->second});
        }
      }
    }
    report_.findings.Add(notes, place);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<EncodedDocument>> Encode(const RawRecord& raw, RecordNotes* notes) {
    if (!raw.error.empty()) return absl::InvalidArgumentError(std::string(raw.error));
    CountFields(raw.json);
    ASSIGN_OR_RETURN(const Record record, parser_->Parse(raw.json, notes));
    labels_.clear();
    if (const auto* classified = std::get_if<ClassifiedRecord>(&record)) CountLabels(*classified);
    for (const ChatRecord* chat : ConversationsOf(record)) {
      for (const Message& message : chat->messages) {
        ++report_.roles[message.role];
        const bool empty =
            message.role == "assistant" && !message.has_more && Strip(message.text).empty();
        if (empty) Note(NoteKind::kEmptyAnswer, "", notes);
      }
    }
    return encoder_->Encode(record, notes);
  }

  void CountFields(std::string_view text) {
    simdjson::dom::object record;
    if (json_.parse(text.data(), text.size()).get(record) != simdjson::SUCCESS) return;
    bool others = false;
    for (const auto item : record) {
      auto field = std::find_if(report_.fields.begin(), report_.fields.end(),
                                [&](const auto& seen) { return seen.name == item.key; });
      if (field == report_.fields.end()) {
        const bool read = std::find(read_.begin(), read_.end(), item.key) != read_.end();
        others |= !read && unread_ == Findings::kMaxNames;
        if (!read && unread_ == Findings::kMaxNames) continue;
        unread_ += read ? 0 : 1;
        field = report_.fields.insert(field,
                                      {.name = std::string(item.key), .records = 0, .read = read});
      }
      ++field->records;
    }
    others_ += others ? 1 : 0;
  }

  void Count(const std::vector<EncodedDocument>& documents, RecordPlace place) {
    int64_t most = 0;
    for (const EncodedDocument& document : documents) {
      ++report_.documents;
      report_.tokens += static_cast<int64_t>(document.ids.size());
      for (const uint8_t bits : document.target_bits) report_.targets += std::popcount(bits);
      most = std::max(most, document.whole_tokens);
    }
    auto& longest = report_.longest;
    const auto shorter =
        std::find_if(longest.begin(), longest.end(),
                     [&](const SourceReport::LongRecord& record) { return record.tokens < most; });
    longest.insert(shorter, {.place = place, .tokens = most});
    if (longest.size() > SourceReport::kMostLongest) longest.pop_back();
  }

  void CountLabels(const ClassifiedRecord& record) {
    for (const ClassifiedRecord::Label& label : record.labels) {
      const std::string text = LabelText(label);
      absl::StrAppend(&labels_, text, "\n");
      const bool more =
          report_.labels.size() >= Findings::kMaxNames && report_.labels.count(text) == 0;
      ++report_.labels[more ? "..." : text];
    }
  }

  const config::JobSpec& job_;
  config::DatasetSpec dataset_;
  const Cancelled& cancelled_;
  SourceReport report_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<RecordParser> parser_;
  std::optional<DocumentEncoder> encoder_;
  simdjson::dom::parser json_;
  std::vector<std::string> read_;
  std::string labels_;                              // of the last record
  size_t file_ = 0;                                 // likewise
  size_t unread_ = 0;                               // names in report_.fields that are not read
  int64_t others_ = 0;                              // records with unread fields beyond those
  std::unordered_map<uint64_t, RecordPlace> seen_;  // by DigestOf
};

std::string PlaceText(const SourceReport& report, RecordPlace place) {
  return absl::StrCat(report.files[static_cast<size_t>(place.file)], ":", place.line);
}

// What the source holds.
std::string Overview(const SourceReport& report) {
  std::vector<std::string> read, unread, roles, labels, longest;
  for (const SourceReport::Field& field : report.fields) {
    (field.read ? read : unread)
        .push_back(absl::StrCat(OneLine(field.name), " (", field.records, ")"));
  }
  for (const auto& [role, messages] : report.roles) {
    roles.push_back(absl::StrCat(OneLine(role), " (", messages, ")"));
  }
  for (const auto& [label, records] : report.labels) {
    labels.push_back(absl::StrCat(OneLine(label), " (", records, ")"));
  }
  for (const SourceReport::LongRecord& record : report.longest) {
    longest.push_back(
        absl::StrCat(OneLine(PlaceText(report, record.place)), " (", record.tokens, " tokens)"));
  }
  std::string out = absl::StrCat("format ", std::string(FormatName(report.format)), ", ",
                                 report.records, " records, ", report.documents, " documents, ",
                                 report.tokens, " tokens, ", report.targets, " targets\n");
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) absl::StrAppend(&out, what, ": ", absl::StrJoin(names, ", "), "\n");
  };
  add("read", read);
  add("not read", unread);
  add("roles", roles);
  add("labels", labels);
  add("longest", longest);
  return out;
}

}  // namespace

absl::StatusOr<SourceReport> CheckSource(const config::JobSpec& job,
                                         const config::DatasetSpec& dataset,
                                         const Cancelled& cancelled) {
  return Checker(job, dataset, cancelled).Check();
}

std::string SourceReportText(const SourceReport& report, size_t most_places) {
  std::string out = Overview(report);
  if (report.clean()) return out + "nothing found\n";
  absl::StrAppend(&out, "found\n");
  for (const std::string& warning : report.warnings) {
    absl::StrAppend(&out, "  ", OneLine(warning), "\n");
  }
  for (const std::string& line : FindingLines(report.findings, report.files, most_places)) {
    absl::StrAppend(&out, "  ", line, "\n");
  }
  for (size_t i = 0; i < std::min(report.duplicates.size(), most_places); ++i) {
    absl::StrAppend(&out, "  ", OneLine(PlaceText(report, report.duplicates[i].place)), " is ",
                    OneLine(PlaceText(report, report.duplicates[i].of)), " again\n");
  }
  return out;
}

nlohmann::ordered_json SourceReportJson(const SourceReport& report) {
  Json fields = Json::array(), duplicates = Json::array(), longest = Json::array();
  for (const SourceReport::Field& field : report.fields) {
    fields.push_back({{"name", field.name}, {"records", field.records}, {"read", field.read}});
  }
  for (const SourceReport::Duplicate& duplicate : report.duplicates) {
    duplicates.push_back(
        {{"record", PlaceText(report, duplicate.place)}, {"of", PlaceText(report, duplicate.of)}});
  }
  for (const SourceReport::LongRecord& record : report.longest) {
    longest.push_back({{"record", PlaceText(report, record.place)}, {"tokens", record.tokens}});
  }
  return {{"format", FormatName(report.format)},
          {"records", report.records},
          {"documents", report.documents},
          {"tokens", report.tokens},
          {"targets", report.targets},
          {"fields", std::move(fields)},
          {"roles", report.roles},
          {"labels", report.labels},
          {"findings", PlacedFindingsJson(report.findings, report.files)},
          {"duplicates", std::move(duplicates)},
          {"longest", std::move(longest)},
          {"warnings", report.warnings},
          {"clean", report.clean()}};
}

}  // namespace coxswain::data
