#include <utility>

#include "common/status_macros.h"
#include "controller/data/readers/bytes/byte_source.h"
#include "controller/data/readers/bytes/gzip_source.h"
#include "controller/data/readers/bytes/zstd_source.h"

namespace coxswain::data {

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::Open(const std::string& path) {
  ASSIGN_OR_RETURN(RegularFile file, OpenDataset(path));
  std::string head(ZstdSource::kMagic.size(), '\0');
  RETURN_IF_ERROR(file.ReadAt(0, static_cast<int64_t>(head.size()), head.data()).status());
  if (head == ZstdSource::kMagic) return ZstdSource::Open(std::move(file));
  return GzipSource::Open(std::move(file));
}

}  // namespace coxswain::data
