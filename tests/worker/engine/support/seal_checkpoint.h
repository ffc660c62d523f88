// Makes shards a checkpoint, as the controller does.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_SEAL_CHECKPOINT_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_SEAL_CHECKPOINT_H_

#include <string>

namespace coxswain::engine {

// Writes the manifest of the shards that are in `directory`, as they are.
void SealCheckpoint(const std::string& directory);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_SEAL_CHECKPOINT_H_
