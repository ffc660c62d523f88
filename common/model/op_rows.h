// The rows that an op reads and writes.
#ifndef COXSWAIN_COMMON_MODEL_OP_ROWS_H_
#define COXSWAIN_COMMON_MODEL_OP_ROWS_H_

#include <cstdint>
#include <vector>

#include "common/model/ops.h"

namespace coxswain::model {

enum class RowType { kCompute, kFloat32, kInt32 };

struct Operand {
  Row row;
  int64_t width = 0;  // elements of a token: of each of its pairs with experts together
  RowType type = RowType::kCompute;
  int64_t fixed = 0;  // elements beside those of tokens
};

// What it reads; of what it changes in place, too.
std::vector<Operand> Reads(const PlainOp& op);

// What it makes, statistics for backward included; what it changes in place is not among these.
std::vector<Operand> Writes(const PlainOp& op);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_OP_ROWS_H_
