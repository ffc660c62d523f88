// Reads whole files, compressed or not.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_GZIP_FILE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_GZIP_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/files/read_file.h"

namespace coxswain::data {

// The bytes of `path`, decompressed if it is gzip. InvalidArgument, with both sizes: there are more
// than `max_bytes`, or, after the first MiB, more than 200 times the compressed bytes;
// decompression then stops. DataLoss: the file cannot be read to its end (a truncated .gz). Other
// errors as RegularFile::Open.
absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path,
                                          int64_t max_bytes = kMaxTokenizerBytes);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_GZIP_FILE_H_
