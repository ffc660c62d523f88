// The tensors of a checkpoint whose files are checked block by block against their manifest, by
// whoever reads them and only where it does.
#ifndef COXSWAIN_COMMON_CHECKPOINT_CHECKED_TENSORS_H_
#define COXSWAIN_COMMON_CHECKPOINT_CHECKED_TENSORS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint_tensors.h"
#include "common/files/block_digests.h"

namespace coxswain {

class CheckedTensors {
 public:
  // Maps the shards of `directory`, once their sizes and headers are as its manifest says. DataLoss
  // names the file, the block and both values. Other errors as CheckpointTensors::Open; NotFound
  // too where there is no manifest. Files that the manifest knows as a whole (checkpoints of
  // releases before blocks) the controller has checked; here they are taken as they are.
  static absl::StatusOr<CheckedTensors> Open(const std::string& directory);

  const CheckpointTensors& tensors() const { return tensors_; }

  // Checks the blocks that hold elements [begin, begin + count) of one of `tensors`, which has
  // them, unless they were checked before. Any thread. DataLoss: CheckBlock.
  absl::Status Check(const PiecedTensor& tensor, int64_t begin, int64_t count) const;

 private:
  struct Shard {
    const SafetensorsFile* file = nullptr;
    BlockDigests expected;                              // without digests: not checked here
    std::unique_ptr<std::atomic<bool>[]> checked = {};  // by block

    absl::Status CheckBytes(int64_t begin, int64_t end) const;
  };
  const Shard& ShardOf(const TensorInfo& values) const;

  CheckpointTensors tensors_;
  std::vector<Shard> shards_;  // by address of their content
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_CHECKPOINT_CHECKED_TENSORS_H_
