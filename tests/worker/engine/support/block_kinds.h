// A small model of each kind of block that families make.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_BLOCK_KINDS_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_BLOCK_KINDS_H_

#include <string>
#include <vector>

#include "common/model/model_config.h"

namespace coxswain::engine {

struct BlockKind {
  std::string name;
  model::ModelConfig config;  // five blocks
};
std::vector<BlockKind> BlockKinds();
// The same with widths that products in FP8 take, but for those of experts.
std::vector<BlockKind> BlockKindsForFp8();

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_BLOCK_KINDS_H_
