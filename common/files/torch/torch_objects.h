// The classes that the pickle of a state dict may name, and what calling them gives. No other class
// is known, so nothing that a file says is ever run.
// Source: torch/_utils.py (_rebuild_tensor_v2, _rebuild_parameter), torch/serialization.py
// (persistent_id of _save).
#ifndef COXSWAIN_COMMON_FILES_TORCH_TORCH_OBJECTS_H_
#define COXSWAIN_COMMON_FILES_TORCH_TORCH_OBJECTS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "common/files/torch/pickle_value.h"

namespace coxswain {

// All errors are InvalidArgument and say what was found, without its place in the file.

// The class `name` of `module`, one of the table, else the error names it.
absl::StatusOr<PickleValue> FindTorchClass(std::string_view module, std::string_view name);

// What `callee`, a class of the table, gives for `arguments`, a tuple.
absl::StatusOr<PickleValue> CallTorchClass(const PickleValue& callee, const PickleValue& arguments,
                                           PickleHeap* heap);

// The storage that a persistent id names: ('storage', class, key, device, elements).
absl::StatusOr<PickleValue> FindTorchStorage(const PickleValue& id, PickleHeap* heap);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_TORCH_TORCH_OBJECTS_H_
