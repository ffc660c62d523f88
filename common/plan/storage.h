// How the numbers of a parameter are stored: one function of plan and role decides, and whoever
// sizes, lays out, sends, updates, saves or checks a parameter asks it. What blocks compute is of
// the plan's compute dtype, which is a format of activations, not of parameters.
#ifndef COXSWAIN_COMMON_PLAN_STORAGE_H_
#define COXSWAIN_COMMON_PLAN_STORAGE_H_

#include <cstdint>
#include <optional>

#include "common/plan/plan.h"

namespace coxswain::plan {

// kDynamic8: codes of kernels/optimizer/dynamic_map.h, whose scales are a state of their own. The
// quantised ones are of frozen weights: codes, and scales beside them (kernels/quantize/nf4.h,
// kernels/quantize/int8_rows.h, kernels/quantize/mxfp4.h). What is stored so is dequantised into a
// slot before every use.
enum class Storage : uint8_t { kFloat32, kBfloat16, kDynamic8, kNf4, kNf4Double, kInt8, kMxfp4 };
bool IsQuantized(Storage storage);
// Whether a base quantised in `format` has this parameter so, where it is frozen: MXFP4 is a format
// of experts, the others are of every linear of a block.
bool IsQuantizedIn(Quantization format, const model::Parameter& parameter);

// Memory of so many elements that lie side by side; of quantised ones their codes.
int64_t StorageBytes(Storage storage, int64_t elements);
const char* StorageName(
    Storage storage);  // as the plan's dtypes and Plan::quantization are spelled
// Of quantised elements, what lies beside their codes and is cut among ranks as they are: NF4's
// absmax of each block, in float32 or as codes, and MXFP4's scales. 0 of others.
int64_t ScaleBytes(Storage storage, int64_t elements);
// Of a quantised matrix, the floats that every rank holds: NF4's offset and absmax of groups,
// INT8's absmax of rows. 0 of others.
int64_t ScaleConstants(Storage storage, int64_t rows, int64_t cols);

struct ParameterStorage {
  Storage weights = Storage::kFloat32;  // as kept; forward and backward read the compute dtype
  std::optional<Storage> master;        // none: the weights are their own
  std::optional<Storage> gradient;      // none: frozen

  bool trained() const { return gradient.has_value(); }
  // Of what an update writes and a checkpoint holds.
  Storage trained_values() const { return master.value_or(weights); }
  bool operator==(const ParameterStorage&) const = default;
};
ParameterStorage StorageOf(const Plan& plan, const model::Parameter& parameter);

// Whether the gradient of a parameter comes whole out of one product of a micro-step: that of the
// weight of a linear or of the head, which is the embedding where they are tied. It is written in
// the first micro-step of a step and added to in the next; all others are cleared and added to.
bool IsWrittenByProduct(const Plan& plan, const model::Parameter& parameter);

// Whether a tensor of the base model is trained: then master_dtype and gradient_dtype matter.
bool TrainsBase(const Plan& plan);

// Of activations, and the bytes of an element of them.
Storage ComputeStorage(const Plan& plan);
int64_t ComputeBytes(const Plan& plan);

// Of a row of logits, and of the buffer of logits: a chunk, or the workspace of a cut head.
int64_t LogitsRowBytes(const Plan& plan);
int64_t LogitsBytes(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_STORAGE_H_
