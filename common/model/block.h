// A model as data: the tensors and ops of its blocks, and what lies around the blocks. A family
// makes it from the ModelConfig; the plan carries it, so that the engine knows no family.
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
  bool operator==(const RowRange&) const = default;
};

// Tensors of the files that fill rows [row, row + rows) of every matrix of a stack: row `first`,
// then every `step`-th. A name with "*" is one tensor for each matrix, whose number stands there;
// without, one tensor [batch, ...] has them all.
struct FileMember {
  std::string name;  // as TensorSpec::name
  int64_t row = 0, rows = 0;
  int64_t first = 0, step = 1;
  bool transposed = false;  // the file has [in, out]

  bool one_each() const { return name.find('*') != std::string::npos; }
  bool operator==(const FileMember&) const = default;
};

struct TensorSpec {
  std::string name = {};  // of Hugging Face, in a block below Outside::layers and its number
  Kind kind{};
  int64_t rows = 0, cols = 1;  // of one matrix
  int64_t batch = 1;           // matrices: the experts
  Reach reach = Reach::kDirect;
  int32_t packed = kNoTensor;  // first tensor of the matrix or vector that this is a part of
  // Rows of the file in the order of memory; empty: as in the file.
  std::vector<RowRange> file_rows = {};
  // What of the files makes the stack; empty: one tensor of the same name and shape.
  std::vector<FileMember> members = {};

  bool operator==(const TensorSpec&) const = default;
};

struct Block {
  std::vector<TensorSpec> tensors;  // in memory order
  std::vector<PlainOp> ops;         // in forward order

  bool operator==(const Block&) const = default;
};

// What is not in a block.
struct Outside {
  std::string layers;                    // "model.layers.": before the number of a block
  TensorSpec embedding = {}, head = {};  // the head of a tied model is its embedding
  std::vector<TensorSpec> final_norm;    // weight, and bias where it has one
  NormOp norm;                           // from kFinalResidual to kFinalNormed
  bool tied = false;                     // the files have no head

  bool operator==(const Outside&) const = default;
};

struct Architecture {
  std::vector<Block> blocks;
  Outside outside;

  bool operator==(const Architecture&) const = default;
};

// The stream that enters a block, and what a branch leaves for the next add.
Row BlockInput(int64_t layer);
Row BlockOutput(const ModelConfig& config, int64_t layer);
inline const Row kBranch = {kSharedByLayers, "branch"};
inline const Row kFinalResidual = {kSharedByLayers, "final.residual"};
inline const Row kFinalNormed = {kSharedByLayers, "final.norm"};

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_BLOCK_H_
