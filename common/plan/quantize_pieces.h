// Where the parts of one matrix lie in scratch while it is quantised, piece by piece: the engine
// runs it, the planner sizes scratch by it.
#ifndef COXSWAIN_COMMON_PLAN_QUANTIZE_PIECES_H_
#define COXSWAIN_COMMON_PLAN_QUANTIZE_PIECES_H_

#include <cstdint>

#include "common/plan/plan.h"
#include "common/plan/storage.h"

namespace coxswain::plan {

// Offsets in bytes; a piece's values, in float32, are at 0.
struct QuantizePieces {
  QuantizePieces(const model::Parameter& parameter, Storage storage);

  int64_t elements = 0;      // of a piece: whole blocks, or whole rows of INT8
  int64_t absmax = 0;        // NF4: of all blocks of the matrix, float32
  int64_t absmax_codes = 0;  // NF4, doubly quantised: of all of them
  int64_t codes = 0;         // of a piece
  int64_t scales = 0;        // MXFP4: of a piece
  int64_t bytes = 0;
};

// For any parameter of the plan; 0 where none is quantised.
int64_t QuantizeScratchBytes(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_QUANTIZE_PIECES_H_
