// Identifies a set of weights without reading all of it.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MODEL_WEIGHTS_IDENTITY_H_
#define COXSWAIN_CONTROLLER_PLANNER_MODEL_WEIGHTS_IDENTITY_H_

#include <string>

#include "absl/status/statusor.h"

namespace coxswain::planner {

// SHA-256 (hex) over every *.safetensors file of `directory` in name order: its size, its header
// and 16 evenly spaced blocks of 4 KiB. If the weights are those of pytorch_model.bin, over its
// files too. Their header is data.pkl and the directory of the archive, which holds the check sums
// of its entries. Reads at most 64 KiB beside each header. The path of the directory does not
// matter. NotFound: there is no such file. InvalidArgument: a file is damaged.
absl::StatusOr<std::string> WeightsIdentity(const std::string& directory);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MODEL_WEIGHTS_IDENTITY_H_
