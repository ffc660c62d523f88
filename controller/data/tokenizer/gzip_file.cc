#include "controller/data/tokenizer/gzip_file.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace coxswain::data {

absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  std::string text;
  constexpr unsigned kBlock = 1 << 20;
  int got = 0;
  do {
    const size_t size = text.size();
    text.resize(size + kBlock);
    got = gzread(file, text.data() + size, kBlock);
    text.resize(size + (got > 0 ? static_cast<size_t>(got) : 0));
  } while (got > 0);
  int error = Z_OK;
  const std::string reason = gzerror(file, &error);
  gzclose_r(file);
  if (got < 0 || error != Z_OK) {
    return absl::DataLossError(absl::StrCat(path, ": cannot be read to its end: ", reason));
  }
  return text;
}

}  // namespace coxswain::data
