#include "controller/data/readers/json_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view TrimBlank(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> JsonReader::Open(const std::string& path,
                                                               std::unique_ptr<ByteSource> source) {
  std::unique_ptr<JsonReader> reader(new JsonReader(path, std::move(source)));
  RETURN_IF_ERROR(reader->DetectLayout());
  return reader;
}

absl::Status JsonReader::DetectLayout() {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  ASSIGN_OR_RETURN(bool more, More());
  if (more && std::string_view(buffer_).substr(0, 3) == kByteOrderMark) {
    begin_ = at_ = kByteOrderMark.size();
  }
  ASSIGN_OR_RETURN(bool found, SkipBlank());
  if (found && buffer_[at_] == '[') {
    layout_ = Layout::kArray;
    begin_ = ++at_;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> JsonReader::Next(RawRecord* record) {
  switch (layout_) {
    case Layout::kLines:
      return NextLine(record);
    case Layout::kArray:
      return NextElement(record);
    case Layout::kArrayEnded:
      break;
  }
  return false;
}

absl::StatusOr<bool> JsonReader::NextLine(RawRecord* record) {
  while (true) {
    begin_ = at_;
    too_long_ = false;
    bool ended = false;
    size_t end;
    while ((end = buffer_.find('\n', at_)) == std::string::npos && !ended) {
      at_ = buffer_.size();
      ASSIGN_OR_RETURN(bool more, More());
      ended = !more;
    }
    const bool last = end == std::string::npos;
    if (last) end = buffer_.size();
    const std::string_view line = TrimBlank(std::string_view(buffer_).substr(begin_, end - begin_));
    at_ = last ? end : end + 1;
    *record = RecordOf(line, line_);
    if (!last) ++line_;
    if (too_long_ || !line.empty()) return true;
    if (last) return false;
  }
}

absl::StatusOr<bool> JsonReader::NextElement(RawRecord* record) {
  ASSIGN_OR_RETURN(bool found, SkipToElement());
  if (!found) return false;
  begin_ = at_;
  too_long_ = false;
  const int64_t line = line_;
  Scan scan;
  while (!ScanElement(scan)) {
    ASSIGN_OR_RETURN(bool more, More());
    if (!more) {
      return Malformed(line, "the record that starts here never ends; is the file cut short?");
    }
  }
  const std::string_view json = std::string_view(buffer_).substr(begin_, at_ - begin_);
  if (json.empty() && !too_long_) return Malformed(line, "a value is missing between commas");
  *record = RecordOf(TrimBlank(json), line);
  return true;
}

absl::StatusOr<bool> JsonReader::SkipToElement() {
  begin_ = at_;
  ASSIGN_OR_RETURN(bool found, SkipBlank());
  const char separator = found ? buffer_[at_] : '\0';
  if (separator == ']') {
    ++at_;
    layout_ = Layout::kArrayEnded;
    RETURN_IF_ERROR(ExpectNothingMore());
    return false;
  }
  if (found && !std::exchange(first_element_, false)) {
    ++at_;  // the ',' at which the last element ended
    ASSIGN_OR_RETURN(found, SkipBlank());
    if (found && buffer_[at_] == ']') return Malformed(line_, "a comma before the closing ]");
  }
  if (!found) return Malformed(line_, "the array is not closed; is the file cut short?");
  return true;
}

absl::Status JsonReader::ExpectNothingMore() {
  ASSIGN_OR_RETURN(bool found, SkipBlank());
  return found ? Malformed(line_, "text after the closing ] of the array") : absl::OkStatus();
}

absl::StatusOr<bool> JsonReader::SkipBlank() {
  while (true) {
    for (; at_ < buffer_.size(); ++at_) {
      if (!IsBlank(buffer_[at_])) return true;
      if (buffer_[at_] == '\n') ++line_;
    }
    begin_ = at_;
    ASSIGN_OR_RETURN(bool more, More());
    if (!more) return false;
  }
}

bool JsonReader::ScanElement(Scan& scan) {
  for (; at_ < buffer_.size(); ++at_) {
    const char c = buffer_[at_];
    if (c == '\n') ++line_;
    if (scan.in_string) {
      if (scan.escaped) {
        scan.escaped = false;
      } else if (c == '\\') {
        scan.escaped = true;
      } else if (c == '"') {
        scan.in_string = false;
      }
    } else if (c == '"') {
      scan.in_string = true;
    } else if (c == '{' || c == '[') {
      ++scan.depth;
    } else if (scan.depth == 0 && (c == ',' || c == ']')) {
      return true;
    } else if (scan.depth > 0 && (c == '}' || c == ']')) {
      --scan.depth;
    }
  }
  return false;
}

absl::StatusOr<bool> JsonReader::More() {
  if (buffer_.size() - begin_ > kMaxRecordBytes) {
    too_long_ = true;
    begin_ = at_ = buffer_.size();
  }
  buffer_.erase(0, begin_);
  at_ -= begin_;
  begin_ = 0;
  const size_t size = buffer_.size();
  buffer_.resize(size + kChunkBytes);
  absl::StatusOr<size_t> got = source_->Read(buffer_.data() + size, kChunkBytes);
  buffer_.resize(size + (got.ok() ? *got : 0));
  RETURN_IF_ERROR(got.status());
  bytes_read_ += static_cast<int64_t>(*got);
  return *got > 0;
}

int64_t JsonReader::consumed_bytes() const {
  return source_->consumed_before(bytes_read_, static_cast<int64_t>(buffer_.size() - at_));
}

RawRecord JsonReader::RecordOf(std::string_view json, int64_t line) const {
  if (too_long_) return {{}, path_, line, kTooLong};
  return {json, path_, line, {}};
}

absl::Status JsonReader::Malformed(int64_t line, std::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ":", line, ": ", std::string(what)));
}

}  // namespace coxswain::data
