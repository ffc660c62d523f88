// Whole files, compressed or not.
#ifndef COXSWAIN_CONTROLLER_DATA_TOKENIZER_GZIP_FILE_H_
#define COXSWAIN_CONTROLLER_DATA_TOKENIZER_GZIP_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace coxswain::data {

// The bytes of `path`, decompressed when it is gzip. NotFound: it cannot be opened. DataLoss: it
// cannot be read to its end (a truncated .gz, a directory).
absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TOKENIZER_GZIP_FILE_H_
