#include "common/checkpoint/checked_tensors.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/manifest_files.h"
#include "common/element_type.h"
#include "common/files/regular_file.h"
#include "common/files/safetensors/safetensors_header.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

absl::StatusOr<std::map<std::string, BlockDigests>> ExpectedFiles(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<ManifestFile> files, ReadManifestFiles(directory));
  std::map<std::string, BlockDigests> expected;
  for (const ManifestFile& file : files) expected.emplace(file.name, file.blocks());
  return expected;
}

// The size, and the blocks that hold the length of the header and the header: what a parser trusts.
absl::Status CheckHeader(const std::string& path, const BlockDigests& expected) {
  RETURN_IF_ERROR(CheckBlocksOfFile(path, expected, {.most_blocks = 1}));
  uint64_t header_bytes = 0;
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  RETURN_IF_ERROR(
      file.ReadAt(0, sizeof(header_bytes), reinterpret_cast<char*>(&header_bytes)).status());
  const auto end = static_cast<int64_t>(std::min(header_bytes, kMaxSafetensorsHeaderBytes)) + 8;
  return CheckBlocksOfFile(path, expected,
                           {.most_blocks = (end + kDigestBlockBytes - 1) / kDigestBlockBytes});
}

}  // namespace

absl::Status CheckedTensors::Shard::CheckBytes(int64_t begin, int64_t end) const {
  if (expected.digests.empty()) return absl::OkStatus();
  const std::string_view content = file->content();
  for (int64_t i = begin / kDigestBlockBytes; i * kDigestBlockBytes < end; ++i) {
    if (checked[static_cast<size_t>(i)].load(std::memory_order_relaxed)) continue;
    RETURN_IF_ERROR(CheckBlock(file->path(), expected, i,
                               content.substr(static_cast<size_t>(i * kDigestBlockBytes),
                                              static_cast<size_t>(kDigestBlockBytes))));
    checked[static_cast<size_t>(i)].store(true, std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

const CheckedTensors::Shard& CheckedTensors::ShardOf(const TensorInfo& values) const {
  const auto* at = reinterpret_cast<const char*>(values.data);  // in one of them
  return *std::prev(std::upper_bound(
      shards_.begin(), shards_.end(), at,
      [](const char* data, const Shard& shard) { return data < shard.file->content().data(); }));
}

absl::Status CheckedTensors::Check(const PiecedTensor& tensor, int64_t begin, int64_t count) const {
  const int64_t bits = ElementBits(tensor.dtype);
  for (const PiecedTensor::Piece& piece : tensor.pieces) {
    const int64_t first = std::max(begin, piece.begin) - piece.begin;
    const int64_t end = std::min(begin + count - piece.begin, piece.values->elements());
    if (first >= end) continue;
    const Shard& shard = ShardOf(*piece.values);
    const int64_t values_at =
        reinterpret_cast<const char*>(piece.values->data) - shard.file->content().data();
    RETURN_IF_ERROR(shard.CheckBytes(values_at + first * bits / 8, values_at + end * bits / 8));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckedTensors> CheckedTensors::Open(const std::string& directory) {
  ASSIGN_OR_RETURN(const auto expected, ExpectedFiles(directory));
  for (const auto& [name, blocks] : expected) {
    if (blocks.digests.empty()) continue;
    RETURN_IF_ERROR(CheckHeader(absl::StrCat(directory, "/", name), blocks));
  }
  CheckedTensors checked;
  ASSIGN_OR_RETURN(checked.tensors_, CheckpointTensors::Open(directory));
  for (const std::unique_ptr<SafetensorsFile>& file : checked.tensors_.shards()) {
    const auto found = expected.find(std::filesystem::path(file->path()).filename().string());
    if (found == expected.end()) {
      return absl::DataLossError(absl::StrCat(file->path(), ": is not in ", kManifestName));
    }
    const auto blocks = static_cast<size_t>(found->second.blocks());
    checked.shards_.push_back(
        {file.get(), found->second, std::make_unique<std::atomic<bool>[]>(blocks)});
  }
  std::sort(checked.shards_.begin(), checked.shards_.end(), [](const Shard& a, const Shard& b) {
    return a.file->content().data() < b.file->content().data();
  });
  return checked;
}

}  // namespace coxswain
