#include "common/files/safetensors/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

using Json = nlohmann::json;

// Event handler: a DOM would silently keep the last of two equal keys, which the format forbids.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  bool key(string_t& name) override {
    if (level_ == Level::kTop) return OpenEntry(name);
    if (level_ == Level::kMetadata) {
      if (header_.metadata.count(name) > 0) return Fail("duplicate metadata key \"" + name + "\"");
      metadata_key_ = name;
      return true;
    }
    if (!fields_.insert(name).second) return FailTensor("has a duplicate field " + name);
    field_ = name;
    if (field_ == "dtype" || field_ == "shape" || field_ == "data_offsets") return true;
    return FailTensor("has an unknown field \"" + name + "\"");
  }

  bool start_object(size_t) override {
    if (level_ == Level::kStart) {
      level_ = Level::kTop;
      return true;
    }
    if (level_ != Level::kTop) return Unexpected("an object");
    level_ = in_metadata_ ? Level::kMetadata : Level::kTensor;
    fields_.clear();
    offsets_.clear();
    return true;
  }

  bool end_object() override {
    if (level_ == Level::kTop) {
      level_ = Level::kEnd;
    } else {
      if (level_ == Level::kTensor && !CloseTensor()) return false;
      level_ = Level::kTop;
    }
    return true;
  }

  bool start_array(size_t) override {
    if (level_ != Level::kTensor || (field_ != "shape" && field_ != "data_offsets")) {
      return Unexpected("an array");
    }
    level_ = Level::kNumbers;
    return true;
  }

  bool end_array() override {
    level_ = Level::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ != Level::kNumbers) return Unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return FailTensor(absl::StrCat(field_, " value ", value, " is too large"));
    }
    (field_ == "shape" ? entry_.shape : offsets_).push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (level_ == Level::kMetadata) {
      header_.metadata[metadata_key_] = value;
      return true;
    }
    if (level_ != Level::kTensor || field_ != "dtype") return Unexpected("a string");
    if (!ParseElementType(value, &entry_.dtype)) {
      return FailTensor("has unknown dtype \"" + value + "\"");
    }
    return true;
  }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return Unexpected("a fraction"); }
  bool binary(binary_t&) override { return Unexpected("binary"); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return Fail(absl::StrCat("header is not valid JSON at byte ", position, ": ", error.what()));
  }

  const std::string& error() const { return error_; }
  SafetensorsHeader& header() { return header_; }

 private:
  enum class Level { kStart, kTop, kMetadata, kTensor, kNumbers, kEnd };

  bool OpenEntry(const std::string& name) {
    if (!names_.insert(name).second) return Fail("duplicate name \"" + name + "\" in the header");
    in_metadata_ = name == "__metadata__";
    entry_ = SafetensorsEntry{.name = name, .dtype = {}, .shape = {}};
    return true;
  }

  bool CloseTensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (fields_.count(field) == 0) return FailTensor(absl::StrCat("has no ", field));
    }
    if (offsets_.size() != 2) return FailTensor("needs two data_offsets");
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    header_.entries.push_back(std::move(entry_));
    return true;
  }

  bool Unexpected(const char* what) {
    if (level_ == Level::kStart) return Fail("header is not a JSON object");
    if (level_ == Level::kMetadata || (level_ == Level::kTop && in_metadata_)) {
      return Fail(absl::StrCat("__metadata__ maps strings to strings, found ", what));
    }
    return FailTensor(absl::StrCat("has ", what, " where it does not belong"));
  }

  bool FailTensor(const std::string& what) {
    return Fail(absl::StrCat("tensor \"", entry_.name, "\" ", what));
  }

  bool Fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    return false;
  }

  Level level_ = Level::kStart;
  bool in_metadata_ = false;
  std::string field_, metadata_key_;
  std::set<std::string> names_, fields_;
  std::vector<int64_t> offsets_;
  SafetensorsEntry entry_;
  SafetensorsHeader header_;
  std::string error_;
};

// Sorted by offsets the tensors must follow each other without gap: that alone refuses holes,
// overlaps and aliases. Source: safetensors tensor.rs, Metadata::validate.
absl::Status CheckLayout(std::vector<SafetensorsEntry>& entries, int64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  int64_t position = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != position || entry.end < entry.begin) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", entry.name, "\" has data_offsets [", entry.begin, ", ", entry.end,
          "], expected them to begin at ", position, " (hole, overlap or alias)"));
    }
    ASSIGN_OR_RETURN(const int64_t bytes,
                     SafetensorsTensorBytes(entry.name, entry.dtype, entry.shape));
    if (entry.end - entry.begin != bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", entry.name, "\" needs ", bytes,
          " bytes by dtype and shape, its data_offsets hold ", entry.end - entry.begin));
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensors cover ", position, " bytes of data, the file holds ", data_bytes,
                     position < data_bytes ? " (trailing bytes)" : " (truncated)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> SafetensorsTensorBytes(const std::string& name, ElementType dtype,
                                               const std::vector<int64_t>& shape) {
  int64_t bits = ElementBits(dtype);
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bits, extent, &bits)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", name, "\" has a shape whose size overflows"));
    }
  }
  if (bits % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", name, "\" holds ", bits, " bits, not a whole number of bytes"));
  }
  return bits / 8;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                         int64_t data_bytes) {
  if (json.empty() || json.front() != '{') {
    return absl::InvalidArgumentError("header does not begin with '{'");
  }
  HeaderReader reader;
  if (!Json::sax_parse(json.begin(), json.end(), &reader)) {
    return absl::InvalidArgumentError(reader.error());
  }
  RETURN_IF_ERROR(CheckLayout(reader.header().entries, data_bytes));
  return std::move(reader.header());
}

std::string FormatSafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                                    const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) absl::StrAppend(&text, "\"__metadata__\":", Json(metadata).dump());
  for (const SafetensorsEntry& entry : entries) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "", Json(entry.name).dump(), ":{\"dtype\":\"",
                    std::string(ElementName(entry.dtype)),
                    "\",\"shape\":", Json(entry.shape).dump(), ",\"data_offsets\":[", entry.begin,
                    ",", entry.end, "]}");
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace coxswain
