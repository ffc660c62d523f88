// The pickle of a state dict, as torch.save writes it (protocol 2), read by a machine that knows
// its opcodes and no others.
#ifndef COXSWAIN_COMMON_FILES_TORCH_TORCH_PICKLE_H_
#define COXSWAIN_COMMON_FILES_TORCH_TORCH_PICKLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/torch/pickle_value.h"

namespace coxswain {

// Bounds of what is read; the pickle of a model of 100,000 tensors has 15 MB.
inline constexpr size_t kMostPickleBytes = size_t{64} << 20;
inline constexpr size_t kMostPickleValues = size_t{4} << 20;  // that opcodes make, and memo entries
inline constexpr size_t kMostPickleMarks = 64;                // open at a time

struct NamedView {
  std::string name;
  TorchView view;  // its key points into the pickle
};

// The tensors of a state dict in its order. Memory is at most some hundred bytes for each opcode,
// within the bounds above. InvalidArgument, without the path, names what is not admitted (an
// opcode, a class, or a value that is no tensor), the byte of `pickle` and what to do. The views
// are what the file claims: who reads by them checks them first.
absl::StatusOr<std::vector<NamedView>> ReadTorchPickle(std::string_view pickle);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_TORCH_TORCH_PICKLE_H_
