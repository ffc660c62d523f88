// How far a model that was written is from the trained state, by the types of its files.
#ifndef COXSWAIN_CONTROLLER_EXPORT_EXPORT_ROUNDING_H_
#define COXSWAIN_CONTROLLER_EXPORT_EXPORT_ROUNDING_H_

#include "absl/status/status.h"
#include "common/checkpoint/checkpoint_tensors.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"
#include "controller/folders/staged_export.h"

namespace coxswain::exports {

inline constexpr char kSameBits[] = "equal bits, as the files hold every trained value unrounded";
inline constexpr char kRoundedBits[] =
    "equal bits with the trained state, each value rounded to the type of its file";

// Says of a model of WriteModel how it is held against the trained state, or the reason why the
// engine of `plan` cannot compute with it. A tensor is unrounded where its file's type holds the
// trained values, or is the one in which the engine keeps them. A merge is not compared bit by bit:
// the base beside its adapter computes in another order. Its rounding is the sum of
//   u(type)            relative to a value, of its rounding to the file's type: 2^-24 of float32,
//                      2^-11 of float16, 2^-8 of bfloat16
//   u(compute)         of the output of a product, which the base beside its adapter rounds once
//                      more than the merged matrix
//   sqrt(K) 2^-24      of a sum of K products in float32 in another order. Source: Higham, Mary, "A
//                      New Approach to Probabilistic Rounding Error Analysis", 2019, theorem 3.1,
//                      whose bound grows with sqrt(K) u.
// Where an adapter D changes a weight W of a coarse type by less than half a unit, it is rounded
// away. The part that is lost is -<e, D> / <D, D> over the weights of a tensor, with e = merged -
// (W
// + D): 1 where W + D rounds to W, about 0 where roundings are independent of D. `lost` is the
// largest of at most 8 tensors.
// A model in FP8 is not compared: rounding to a fraction of three bits moves answers further than
// a bound by which a wrong file would be found.
// Errors as ListModelTensors.
absl::Status FindRounding(const config::JobSpec& job, const plan::Plan& plan,
                          const CheckpointTensors& checkpoint, StagedFolder* folder);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_EXPORT_ROUNDING_H_
