// What tells two sets of weights apart without reading all of them.
#ifndef COXSWAIN_CONTROLLER_PLANNER_WEIGHTS_IDENTITY_H_
#define COXSWAIN_CONTROLLER_PLANNER_WEIGHTS_IDENTITY_H_

#include <string>

#include "absl/status/statusor.h"

namespace coxswain::planner {

// SHA-256 (hex) over every *.safetensors file of `directory` in name order: its size, its header
// and 16 evenly spaced blocks of 4 KiB of it. Where the weights are those of
// pytorch_model.bin, over its files too; their header is the directory of the archive, which has
// the check sums of its entries, and data.pkl. Reads at most 64 KiB beside each header. Independent
// of where the directory lies. NotFound when there is no such file; InvalidArgument: one is
// damaged.
absl::StatusOr<std::string> WeightsIdentity(const std::string& directory);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_WEIGHTS_IDENTITY_H_
