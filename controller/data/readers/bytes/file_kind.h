// The kind of content of a dataset file.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_BYTES_FILE_KIND_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_BYTES_FILE_KIND_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::data {

enum class FileKind { kJson, kCsv, kText, kParquet, kArrowFile, kArrowStream };

std::string_view KindName(FileKind kind);

// Decides by content. CSV and plain text cannot be told apart by content: if the first character
// begins no JSON, the name decides (.csv, .tsv, .txt, optionally with .gz or .zst). Other text
// counts as JSON Lines, so that its reader reports the fault. InvalidArgument: UTF-16, or Parquet
// or Arrow in a compressed stream. Other errors as ByteSource.
absl::StatusOr<FileKind> KindOf(const std::string& path);

// Decides by the name alone. None: the name is not that of a dataset.
std::optional<FileKind> KindOfName(std::string_view name);

// Describes text in another encoding than UTF-8.

// `not UTF-8 at byte 0xE9 behind "caf", which is "é" in Latin-1; ...`, with the command that
// converts a file. Empty: `text` is UTF-8.
std::string NotUtf8Text(std::string_view text);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_BYTES_FILE_KIND_H_
