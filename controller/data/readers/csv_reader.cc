#include "controller/data/readers/csv_reader.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/columnar/json_text.h"

namespace coxswain::data {
namespace {

constexpr size_t kMaxColumns = size_t{1} << 16;
constexpr size_t kCsvChunkBytes = size_t{1} << 18;

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> CsvReader::Open(const std::string& path,
                                                              std::unique_ptr<ByteSource> source) {
  std::unique_ptr<CsvReader> reader(new CsvReader(path, std::move(source)));
  RETURN_IF_ERROR(reader->ReadHeader());
  return reader;
}

absl::Status CsvReader::ReadHeader() {
  RETURN_IF_ERROR(Peek().status());
  if (buffer_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  separator_ = FindSeparator();
  ASSIGN_OR_RETURN(const bool any, ReadRow());
  if (!any) return absl::OkStatus();
  if (text_after_quote_) return Malformed(row_line_, "text after the closing quote of a name");
  if (num_fields_ > kMaxColumns) {
    return Malformed(row_line_, absl::StrCat("the header names ", num_fields_, " columns; at most ",
                                             kMaxColumns, " are read"));
  }
  for (size_t i = 0; i < num_fields_; ++i) {
    if (std::find(fields_.begin(), fields_.begin() + i, fields_[i]) != fields_.begin() + i) {
      return Malformed(row_line_, absl::StrCat("the header names the column \"", fields_[i],
                                               "\" twice; rename one"));
    }
    std::string name;
    AppendJsonString(fields_[i], &name);
    names_.push_back(name + ": ");
  }
  return absl::OkStatus();
}

char CsvReader::FindSeparator() const {
  bool comma = false, semicolon = false, quoted = false;
  const size_t begin = buffer_.find_first_not_of("\r\n", at_);
  for (size_t i = begin; i < buffer_.size() && (quoted || buffer_[i] != '\n'); ++i) {
    const char c = buffer_[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\t') return c;
    comma = comma || c == ',';
    semicolon = semicolon || c == ';';
  }
  return semicolon && !comma ? ';' : ',';
}

absl::StatusOr<bool> CsvReader::Next(RawRecord* record) {
  ASSIGN_OR_RETURN(const bool any, ReadRow());
  if (!any) return false;
  error_.clear();
  json_.clear();
  if (row_bytes_ > kMaxRecordBytes) {
    error_ = kTooLong;
  } else if (text_after_quote_) {
    error_ = "text after the closing quote of a value; a quote inside one is written twice";
  } else if (num_fields_ != names_.size()) {
    error_ = absl::StrCat("the row has ", num_fields_, " fields, the header ", names_.size());
  } else {
    for (size_t i = 0; i < num_fields_; ++i) {
      absl::StrAppend(&json_, i == 0 ? "{" : ", ", names_[i]);
      AppendJsonString(fields_[i], &json_);
    }
    json_ += '}';
  }
  *record = {json_, path_, row_line_, error_};
  return true;
}

absl::StatusOr<bool> CsvReader::ReadRow() {
  while (true) {
    num_fields_ = row_bytes_ = 0;
    text_after_quote_ = quoted_ = false;
    row_line_ = line_;
    ASSIGN_OR_RETURN(int next, Peek());
    if (next == kEnd) return false;
    do {
      RETURN_IF_ERROR(ReadField());
      ASSIGN_OR_RETURN(next, Peek());
      if (next != kEnd) ++at_;
      if (next == '\n') ++line_;
    } while (next != kEnd && next != '\n');
    const bool blank = num_fields_ == 1 && fields_[0].empty() && !quoted_;
    if (!blank) return true;
  }
}

// Stops at the separator or line feed behind the field.
absl::Status CsvReader::ReadField() {
  ++num_fields_;
  if (num_fields_ > fields_.size() && num_fields_ <= kMaxColumns) fields_.emplace_back();
  field().clear();
  ASSIGN_OR_RETURN(const int first, Peek());
  if (first != '"') return ReadPlain();
  RETURN_IF_ERROR(ReadQuoted());
  const size_t end = field().size();
  RETURN_IF_ERROR(ReadPlain());
  text_after_quote_ = text_after_quote_ || field().size() > end;
  return absl::OkStatus();
}

absl::Status CsvReader::ReadQuoted() {
  const int64_t line = line_;
  quoted_ = true;
  ++at_;  // the opening quote
  while (true) {
    const size_t quote = std::min(buffer_.find('"', at_), buffer_.size());
    const std::string_view text = std::string_view(buffer_).substr(at_, quote - at_);
    line_ += std::count(text.begin(), text.end(), '\n');
    Append(text);
    at_ = quote;
    ASSIGN_OR_RETURN(int next, Peek());
    if (next == kEnd) {
      return Malformed(line,
                       "the quoted value that starts here never ends; is the file cut short?");
    }
    if (next != '"') continue;
    ++at_;
    ASSIGN_OR_RETURN(next, Peek());
    if (next != '"') return absl::OkStatus();
    Append("\"");
    ++at_;
  }
}

absl::Status CsvReader::ReadPlain() {
  const char stops[] = {separator_, '\n'};
  const size_t start = field().size();
  while (true) {
    const size_t stop =
        std::min(buffer_.find_first_of(stops, at_, std::size(stops)), buffer_.size());
    Append(std::string_view(buffer_).substr(at_, stop - at_));
    at_ = stop;
    ASSIGN_OR_RETURN(const int next, Peek());
    const bool row_ends = next == kEnd || next == '\n';
    if (row_ends && field().size() > start && field().back() == '\r') field().pop_back();
    if (row_ends || next == separator_) return absl::OkStatus();
  }
}

void CsvReader::Append(std::string_view text) {
  row_bytes_ += text.size();
  if (row_bytes_ <= kMaxRecordBytes) field().append(text);
}

absl::StatusOr<int> CsvReader::Peek() {
  if (at_ == buffer_.size()) {
    at_ = 0;
    buffer_.resize(kCsvChunkBytes);
    absl::StatusOr<size_t> got = source_->Read(buffer_.data(), buffer_.size());
    buffer_.resize(got.ok() ? *got : 0);
    RETURN_IF_ERROR(got.status());
    bytes_read_ += static_cast<int64_t>(*got);
    if (*got == 0) return kEnd;
  }
  return static_cast<unsigned char>(buffer_[at_]);
}

int64_t CsvReader::consumed_bytes() const {
  return source_->consumed_before(bytes_read_, static_cast<int64_t>(buffer_.size() - at_));
}

absl::Status CsvReader::Malformed(int64_t line, std::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ":", line, ": ", std::string(what)));
}

}  // namespace coxswain::data
