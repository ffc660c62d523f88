// Writes a safetensors file of tensors that lie in memory, block by block on several threads.
#ifndef COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_BLOCKS_H_
#define COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_BLOCKS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/block_digests.h"
#include "common/files/safetensors/safetensors_layout.h"

namespace coxswain {

struct TensorInMemory {
  TensorForm form;
  const char* data = nullptr;  // all bytes of it, owned by the caller
};

struct BlockWriteOptions {
  int threads = 1;
  // Asked before each block, on any thread; not OK: the write stops with that and leaves nothing
  // behind. May be empty.
  std::function<absl::Status()> check = {};
};

// The same bytes as WriteSafetensors, and their digests, which are those of what was meant to be
// written. Whole and on disk under its name when it returns OK; errors as WriteSafetensors.
absl::StatusOr<BlockDigests> WriteSafetensorsBlocks(
    const std::string& path, const std::vector<TensorInMemory>& tensors,
    const std::map<std::string, std::string>& metadata, const BlockWriteOptions& options);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_BLOCKS_H_
