// The trained tensors of a committed checkpoint, whatever number of ranks wrote it.
#ifndef COXSWAIN_CONTROLLER_DRIVER_CHECKPOINT_TENSORS_H_
#define COXSWAIN_CONTROLLER_DRIVER_CHECKPOINT_TENSORS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/safetensors.h"

namespace coxswain::driver {

class CheckpointTensors {
 public:
  // Maps every rank-*.safetensors of `directory`. NotFound when there is none.
  static absl::StatusOr<CheckpointTensors> Open(const std::string& directory);

  // The master of parameter `name`, float32 or bfloat16 as it was trained; null when no rank's shard holds it.
  const TensorInfo* Find(const std::string& name) const;
  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_CHECKPOINT_TENSORS_H_
