#include "controller/text/tokenizer/file/gzip_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/files/regular_file.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

constexpr int64_t kBlock = 1 << 20;
constexpr int64_t kMaxInflation = 200;  // times its own size, or kBlock where that is more

struct CloseGzip {
  void operator()(gzFile file) const { gzclose_r(file); }
};

}  // namespace

absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path, int64_t max_bytes) {
  ASSIGN_OR_RETURN(RegularFile regular, RegularFile::Open(path));
  const int64_t file_bytes = regular.bytes();
  if (file_bytes > max_bytes) return TooManyBytes(path, file_bytes, max_bytes);
  Descriptor descriptor = std::move(regular).TakeDescriptor();
  const std::unique_ptr<gzFile_s, CloseGzip> file(gzdopen(descriptor.get(), "rb"));
  if (file == nullptr) return ErrnoStatus(ENOMEM, "read", path);
  descriptor.Release();  // the stream closes it
  const int64_t most = std::min(max_bytes, std::max(kBlock, file_bytes * kMaxInflation));
  std::string text;
  int got = 0;
  do {
    const size_t size = text.size();
    text.resize(size + kBlock);
    got = gzread(file.get(), text.data() + size, kBlock);
    text.resize(size + static_cast<size_t>(std::max(got, 0)));
    if (static_cast<int64_t>(text.size()) > most) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has ", file_bytes, " bytes and inflates to more than ", most,
                       "; a file is read up to ", max_bytes, " bytes, and to ", kMaxInflation,
                       " times its size. Is it the right file?"));
    }
  } while (got > 0);
  int error = Z_OK;
  const std::string reason = gzerror(file.get(), &error);
  if (got < 0 || error != Z_OK) {
    return absl::DataLossError(absl::StrCat(path, ": cannot be read to its end: ", reason));
  }
  return text;
}

}  // namespace coxswain::data
