// Under ZeRO 3 the weights of linears in FP8 with one scale each (Fp8Recipe::kTensorwise, kDelayed)
// can be gathered as codes: a rank quantises its range of the unit, and a byte an element travels.
//   amax    Of each weight, once an update, and of frozen weights once they were read: of a rank's
//           elements of it, then the largest over the ranks of the shard group, so that all have
//           the scale of the whole weight.
//   codes   Of the owned range, made into its place in the slot right before each gather: no rank
//           keeps codes of its own range, so that memory is saved however few the slots are.
//   turned  What the gradient of x reads is made from the gathered codes, product by product.
// The values that are quantised are the weights in the compute dtype, as where values are gathered:
// codes, scales and products have the same bits.
//   ranges  Coded weights are flats by themselves (shard_map.h), so that ranks own other elements
//           of a block than where values are gathered. What depends on that is how the norm of the
//           gradients is added up, in doubles, and where ranks add by NCCL the order of the ranks
//           in the sum of an element. Sums in rank order keep the bits of gradients.
#ifndef COXSWAIN_COMMON_PLAN_FP8_GATHER_H_
#define COXSWAIN_COMMON_PLAN_FP8_GATHER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/model/block.h"
#include "common/plan/plan.h"
#include "common/plan/shard_map.h"

namespace coxswain::plan {

// A weight whose codes are gathered: all members of its pack.
struct CodedWeight {
  size_t flat = 0;     // index into ShardMap::flats
  Range elements;      // of the flat
  int64_t number = 0;  // CodedWeightOf
  bool trained = false;
};

// In the order of their numbers. Empty: none is gathered as codes.
std::vector<CodedWeight> CodedWeights(const Plan& plan, const ShardMap& map);

// How many there are, and the number of one: its place in VisitFp8Linears.
int64_t CountCodedWeights(const Plan& plan);
int64_t CodedWeightOf(const Plan& plan, const model::LinearOp& linear, int64_t layer);

// Rows of float32, N weights:
//   "fp8.weight_amaxes"  [shard, N rounded up], what each rank found, then [N]: the largest
//   "fp8.weight_scales"  [N + 1, 4]: the first of each row; the last row is scratch
//   "fp8.constants"      [4]: the first is the largest number of E4M3
std::vector<Buffer> CodedWeightRows(const Plan& plan);
int64_t GatheredAmaxes(const Plan& plan);     // N rounded up: those of a rank
inline constexpr int64_t kFloatsOfScale = 4;  // scales are aligned to 16 bytes

// Of the weights that are gathered as codes, those of the largest block, padding included: as
// codes, and as values.
struct GatheredBytes {
  int64_t codes = 0, values = 0;
};
GatheredBytes GatheredBytesOf(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_FP8_GATHER_H_
