// What a dataset file holds.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_FILE_KIND_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_FILE_KIND_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::data {

enum class FileKind { kJson, kCsv, kText, kParquet, kArrowFile, kArrowStream };

std::string_view KindName(FileKind kind);

// By content; only CSV and plain text are told by their names (.csv, .tsv, .txt, perhaps with .gz
// or .zst behind) where the first character begins no JSON, since any text is both. Other text is
// JSON Lines, whose reader says what is wrong with it. InvalidArgument: UTF-16, or Parquet or Arrow
// in a compressed stream; else errors as ByteSource.
absl::StatusOr<FileKind> KindOf(const std::string& path);

// By the name alone; none: no dataset has such a name.
std::optional<FileKind> KindOfName(std::string_view name);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_FILE_KIND_H_
