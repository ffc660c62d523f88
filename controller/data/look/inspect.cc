#include "controller/data/look/inspect.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/data/documents/document_encoder.h"
#include "controller/data/readers/detect_format.h"
#include "controller/data/readers/record_parser.h"
#include "controller/data/sources/dataset_reader.h"
#include "controller/data/sources/resolve_formats.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownErrors = 3;
constexpr size_t kShownBytes = 600;
constexpr int kBarColumns = 40;

class Inspector {
 public:
  Inspector(const config::JobSpec& job, config::DatasetSpec dataset)
      : job_(job), dataset_(std::move(dataset)) {}

  absl::StatusOr<DatasetReport> Inspect() {
    ASSIGN_OR_RETURN(dataset_.format, AnyFormatOf(dataset_));
    ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(dataset_));
    RETURN_IF_ERROR(Begin());
    RawRecord raw;
    while (true) {
      ASSIGN_OR_RETURN(const bool more, reader->Next(&raw));
      if (!more) break;
      if (report_.records++ == 0) report_.first_record = raw.json.substr(0, kShownBytes);
      const absl::Status read = Read(raw);
      if (read.ok()) continue;
      ++report_.bad_records;
      if (report_.first_errors.size() < kShownErrors) {
        report_.first_errors.push_back(
            CleanText(absl::StrCat(std::string(raw.path), ":", raw.line, ": ", read.message())));
      }
    }
    return std::move(report_);
  }

 private:
  absl::Status Begin() {
    report_.format = dataset_.format;
    parser_ = std::make_unique<RecordParser>(dataset_);
    if (job_.model_path.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(tokenizer_, Tokenizer::Load(job_.model_path, job_.added_tokens));
    config::JobSpec whole = job_;  // lengths are those before any cut
    whole.excess_length = config::ExcessLength::kTruncate;
    whole.sequence_len = int64_t{1} << 40;
    ASSIGN_OR_RETURN(encoder_, DocumentEncoder::Create(whole, dataset_, *tokenizer_));
    return absl::OkStatus();
  }

  absl::Status Read(const RawRecord& raw) {
    if (!raw.error.empty()) return absl::InvalidArgumentError(std::string(raw.error));
    CountFields(raw.json);
    ASSIGN_OR_RETURN(const Record record, parser_->Parse(raw.json));
    if (!encoder_) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<EncodedDocument> documents, encoder_->Encode(record));
    for (const EncodedDocument& document : documents) Count(document);
    return absl::OkStatus();
  }

  void CountFields(std::string_view text) {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return;
    for (const auto& item : json.items()) {
      const std::string& name = item.key();
      auto field = std::find_if(report_.fields.begin(), report_.fields.end(),
                                [&](const FieldReport& seen) { return seen.name == name; });
      if (field == report_.fields.end()) {
        field = report_.fields.insert(field, {.name = name, .types = {}});
      }
      ++field->types[item.value().type_name()];
    }
  }

  void Count(const EncodedDocument& document) {
    TokenReport& tokens = report_.tokens;
    const auto length = static_cast<int64_t>(document.ids.size());
    ++tokens.documents;
    tokens.tokens += length;
    tokens.longest = std::max(tokens.longest, length);
    if (length > job_.sequence_len) ++tokens.above_sequence_len;
    if (document.outcome == Outcome::kNoTarget) ++tokens.no_target;
    for (const uint8_t bits : document.target_bits) tokens.targets += std::popcount(bits);
    ++tokens.lengths[static_cast<int64_t>(
        std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(length, 16))))];
  }

  const config::JobSpec& job_;
  config::DatasetSpec dataset_;
  DatasetReport report_;
  std::unique_ptr<RecordParser> parser_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<DocumentEncoder> encoder_;
};

std::string TypesText(const FieldReport& field) {
  std::string text;
  for (const auto& [type, records] : field.types) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", type, " in ", records);
  }
  return text;
}

std::string TokensText(const TokenReport& tokens) {
  const double share = tokens.tokens == 0 ? 0
                                          : 100.0 * static_cast<double>(tokens.targets) /
                                                static_cast<double>(tokens.tokens);
  std::string out =
      absl::StrFormat("documents %d, tokens %d, targets %d (%.1f %%), longest document %d tokens\n",
                      tokens.documents, tokens.tokens, tokens.targets, share, tokens.longest);
  absl::StrAppend(&out, "above sequence_len: ", tokens.above_sequence_len,
                  "; dropped for want of a target: ", tokens.no_target, "\n");
  int64_t most = 1;
  for (const auto& [bound, count] : tokens.lengths) most = std::max(most, count);
  for (const auto& [bound, count] : tokens.lengths) {
    const auto columns = static_cast<size_t>((count * kBarColumns + most - 1) / most);
    absl::StrAppend(
        &out, absl::StrFormat("  <= %7d  %8d  %s\n", bound, count, std::string(columns, '#')));
  }
  return out;
}

}  // namespace

absl::StatusOr<DatasetReport> InspectDataset(const config::JobSpec& job,
                                             const config::DatasetSpec& dataset) {
  return Inspector(job, dataset).Inspect();
}

std::string InspectText(const DatasetReport& report) {
  std::string out =
      absl::StrCat("format ", std::string(FormatName(report.format)), ", ", report.records,
                   " records, ", report.bad_records, " of them bad\n");
  for (const std::string& error : report.first_errors) absl::StrAppend(&out, "  ", error, "\n");
  absl::StrAppend(&out, "fields\n");
  for (const FieldReport& field : report.fields) {
    absl::StrAppend(&out, "  ", CleanText(field.name), ": ", TypesText(field), "\n");
  }
  absl::StrAppend(&out, "first record\n  ", CleanText(report.first_record), "\n");
  if (report.tokens.documents > 0) absl::StrAppend(&out, TokensText(report.tokens));
  return out;
}

std::string InspectJson(const DatasetReport& report) {
  Json fields = Json::array();
  for (const FieldReport& field : report.fields) {
    fields.push_back({{"name", field.name}, {"types", field.types}});
  }
  Json lengths = Json::array();
  for (const auto& [bound, count] : report.tokens.lengths) {
    lengths.push_back({{"up_to", bound}, {"documents", count}});
  }
  const TokenReport& tokens = report.tokens;
  const Json all = {{"format", FormatName(report.format)},
                    {"records", report.records},
                    {"bad_records", report.bad_records},
                    {"first_errors", report.first_errors},
                    {"fields", fields},
                    {"first_record", report.first_record},
                    {"documents", tokens.documents},
                    {"tokens", tokens.tokens},
                    {"targets", tokens.targets},
                    {"longest_document", tokens.longest},
                    {"above_sequence_len", tokens.above_sequence_len},
                    {"no_target", tokens.no_target},
                    {"lengths", lengths}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace coxswain::data
