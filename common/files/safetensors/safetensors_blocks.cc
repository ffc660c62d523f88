#include "common/files/safetensors/safetensors_blocks.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/parallel_for.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

// Parts of a file that lie in memory, one after another.
class FileParts {
 public:
  void Add(const char* data, int64_t bytes) {
    if (bytes == 0) return;
    parts_.push_back({end_, data, bytes});
    end_ += bytes;
  }

  // Bytes [begin, begin + count): where they are, or copied together into `buffer`, which becomes
  // large enough.
  std::string_view Get(int64_t begin, int64_t count, std::unique_ptr<char[]>* buffer) const {
    auto part = std::upper_bound(parts_.begin(), parts_.end(), begin,
                                 [](int64_t at, const Part& p) { return at < p.begin; });
    --part;
    if (begin + count <= part->begin + part->bytes) {
      return {part->data + (begin - part->begin), static_cast<size_t>(count)};
    }
    *buffer = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(count));
    for (int64_t done = 0; done < count; ++part) {
      const int64_t skip = begin + done - part->begin;
      const int64_t piece = std::min(part->bytes - skip, count - done);
      std::memcpy(buffer->get() + done, part->data + skip, static_cast<size_t>(piece));
      done += piece;
    }
    return {buffer->get(), static_cast<size_t>(count)};
  }

 private:
  struct Part {
    int64_t begin;
    const char* data;
    int64_t bytes;
  };
  std::vector<Part> parts_;
  int64_t end_ = 0;
};

}  // namespace

absl::StatusOr<BlockDigests> WriteSafetensorsBlocks(
    const std::string& path, const std::vector<TensorInMemory>& tensors,
    const std::map<std::string, std::string>& metadata, const BlockWriteOptions& options) {
  std::vector<TensorForm> forms;
  for (const TensorInMemory& tensor : tensors) forms.push_back(tensor.form);
  ASSIGN_OR_RETURN(const SafetensorsLayout layout, LayOutSafetensors(path, forms, metadata));
  FileParts parts;
  parts.Add(layout.head.data(), static_cast<int64_t>(layout.head.size()));
  for (size_t i = 0; i < layout.order.size(); ++i) {
    parts.Add(tensors[layout.order[i]].data, layout.entries[i].end - layout.entries[i].begin);
  }
  BlockDigests out{.bytes = layout.bytes(), .digests = {}};
  out.digests.resize(static_cast<size_t>(out.blocks() * kBlockDigestBytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<DurableFile> file, DurableFile::Create(path));
  const auto write = [&](int64_t i) -> absl::Status {
    if (options.check) RETURN_IF_ERROR(options.check());
    std::unique_ptr<char[]> buffer;
    const int64_t begin = i * kDigestBlockBytes;
    const std::string_view block = parts.Get(begin, BlockBytes(out.bytes, i), &buffer);
    const std::string digest = DigestOfBlock(block);
    digest.copy(out.digests.data() + i * kBlockDigestBytes, digest.size());
    return file->WriteAt(begin, block);
  };
  RETURN_IF_ERROR(ParallelFor(out.blocks(), options.threads, write));
  RETURN_IF_ERROR(file->Commit());
  return out;
}

}  // namespace coxswain
