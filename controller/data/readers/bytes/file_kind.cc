#include "controller/data/readers/bytes/file_kind.h"

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
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

}  // namespace coxswain::data
