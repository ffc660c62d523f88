#include "common/status_macros.h"
#include "controller/data/readers/byte_source.h"
#include "controller/data/readers/gzip_source.h"
#include "controller/data/readers/zstd_source.h"

namespace coxswain::data {

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const int64_t file_bytes, DatasetFileBytes(path));
  ASSIGN_OR_RETURN(const std::string head, FirstBytes(path, ZstdSource::kMagic.size()));
  if (head == ZstdSource::kMagic) return ZstdSource::Open(path, file_bytes);
  return GzipSource::Open(path, file_bytes);
}

}  // namespace coxswain::data
