#include "controller/data/readers/bytes/file_kind.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files/read_file.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/data/readers/bytes/byte_source.h"

namespace coxswain::data {
namespace {

constexpr size_t kHeadBytes = 4096;

// Sources: parquet-format, "File format"; Arrow columnar format, "IPC File Format" and
// "Encapsulated message format".
constexpr std::array<std::pair<std::string_view, FileKind>, 3> kColumnarMagic = {{
    {"PAR1", FileKind::kParquet},
    {"ARROW1", FileKind::kArrowFile},
    {"\xFF\xFF\xFF\xFF", FileKind::kArrowStream},
}};

std::optional<FileKind> KindOfTable(std::string_view head) {
  for (const auto& [magic, kind] : kColumnarMagic) {
    if (head.starts_with(magic)) return kind;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> FirstInflatedBytes(const std::string& path) {
  ASSIGN_OR_RETURN(const auto source, ByteSource::Open(path));
  std::string head(kHeadBytes, '\0');
  ASSIGN_OR_RETURN(const size_t got, source->Read(head.data(), head.size()));
  head.resize(got);
  return head;
}

bool BeginsJson(std::string_view head) {
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (head[first] == '{' || head[first] == '[');
}

}  // namespace

std::string_view KindName(FileKind kind) {
  switch (kind) {
    case FileKind::kJson:
      return "JSON";
    case FileKind::kCsv:
      return "CSV";
    case FileKind::kText:
      return "text";
    case FileKind::kParquet:
      return "Parquet";
    case FileKind::kArrowFile:
    case FileKind::kArrowStream:
      break;
  }
  return "Arrow";
}

std::optional<FileKind> KindOfName(std::string_view name) {
  if (name.ends_with(".parquet")) return FileKind::kParquet;
  if (name.ends_with(".arrow")) return FileKind::kArrowStream;
  for (const std::string_view compressed : {".gz", ".zst"}) {
    if (name.ends_with(compressed)) name.remove_suffix(compressed.size());
  }
  for (const std::string_view ending : {".json", ".jsonl", ".ndjson"}) {
    if (name.ends_with(ending)) return FileKind::kJson;
  }
  if (name.ends_with(".csv") || name.ends_with(".tsv")) return FileKind::kCsv;
  if (name.ends_with(".txt")) return FileKind::kText;
  return std::nullopt;
}

absl::StatusOr<FileKind> KindOf(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string raw, FirstBytes(path, 8));
  if (const std::optional<FileKind> kind = KindOfTable(raw)) return *kind;
  ASSIGN_OR_RETURN(const std::string head, FirstInflatedBytes(path));
  if (const std::optional<FileKind> kind = KindOfTable(head)) {
    return absl::InvalidArgumentError(absl::StrCat("dataset ", path, " is ",
                                                   std::string(KindName(*kind)),
                                                   " in a compressed stream; decompress it"));
  }
  if (const std::string pointer = LfsPointerText(head); !pointer.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("dataset ", path, " ", pointer));
  }
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset ", path, " is UTF-16; save it as UTF-8"));
  }
  const std::optional<FileKind> named = KindOfName(path);
  const bool by_name = named == FileKind::kCsv || named == FileKind::kText;
  return by_name && !BeginsJson(head) ? *named : FileKind::kJson;
}

namespace {

constexpr size_t kShownEnding = 24;

// The last characters of `text`, which is UTF-8.
std::string Ending(std::string_view text) {
  size_t begin = text.size() - std::min(text.size(), kShownEnding);
  while (begin < text.size() && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) ++begin;
  return CleanText(std::string(text.substr(begin)));
}

// A byte above 0x9F as the character that Latin-1 makes of it.
std::string Latin1(uint8_t byte) {
  return {static_cast<char>(0xC0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3F))};
}

}  // namespace

std::string NotUtf8Text(std::string_view text) {
  const size_t good = Utf8Prefix(text);
  if (good == text.size()) return "";
  const auto byte = static_cast<uint8_t>(text[good]);
  // Latin-1 has control characters there, the code page of Windows quotes and dashes.
  const bool windows = byte < 0xA0;
  const char* name = windows ? "WINDOWS-1252" : "ISO-8859-1";
  return absl::StrCat(absl::StrFormat("not UTF-8 at byte 0x%02X behind \"", byte),
                      Ending(text.substr(0, good)), "\"",
                      windows ? ", which text of Windows has"
                              : absl::StrCat(", which is \"", Latin1(byte), "\" in Latin-1"),
                      "; save the file as UTF-8: iconv -f ", name, " -t UTF-8 FILE > NEW_FILE");
}

}  // namespace coxswain::data
