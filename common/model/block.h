// A model as data: the parameters and ops of a block, and what lies around the blocks. Made by a
// family from the ModelConfig alone, so that planner and engine see the same.
#ifndef COXSWAIN_COMMON_MODEL_BLOCK_H_
#define COXSWAIN_COMMON_MODEL_BLOCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/model_config.h"
#include "common/model/ops.h"

namespace coxswain::model {

struct RowRange {
  int64_t begin = 0, count = 0;
};

struct TensorSpec {
  Role role{};
  std::string name;  // of Hugging Face, in a block below Outside::layers and its number
  int64_t rows = 0, cols = 1;
  // Rows of the file in the order of memory; empty: as in the file.
  std::vector<RowRange> file_rows = {};
};

struct Block {
  std::vector<TensorSpec> tensors;  // in memory order
  std::vector<Op> ops;              // in forward order
};

// What is not in a block.
struct Outside {
  std::string layers;                    // "model.layers.": before the number of a block
  TensorSpec embedding = {}, head = {};  // the head of a tied model is its embedding
  std::vector<TensorSpec> final_norm;    // weight, and bias where it has one
  NormOp norm;                           // from kFinalResidual to kFinalNormed
};

// The stream that enters a block, and what a branch leaves for the next add.
Row BlockInput(int64_t layer);
Row BlockOutput(const ModelConfig& config, int64_t layer);
inline const Row kBranch = {kSharedByLayers, "branch"};
inline const Row kFinalResidual = {kSharedByLayers, "final.residual"};
inline const Row kFinalNormed = {kSharedByLayers, "final.norm"};

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_BLOCK_H_
