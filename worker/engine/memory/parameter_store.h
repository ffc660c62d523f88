// The values of the parameters on the device: loads them, and knows which copy is the trained one.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_PARAMETER_STORE_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_PARAMETER_STORE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/element_type.h"
#include "common/plan/plan.h"
#include "common/plan/shard_map.h"
#include "common/plan/storage.h"
#include "kernels/dtype.h"
#include "kernels/tensors/whole_tensors.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"
#include "worker/engine/memory/quantized_weights.h"

namespace coxswain::engine {

// Elements [first, first + elements) of one parameter in device memory.
struct Values {
  void* data = nullptr;
  kernels::DType dtype = kernels::DType::kFloat32;
  int64_t first = 0, elements = 0;
};

// This rank's part of a state of the optimizer. `elements` count within the state of the whole
// parameter.
struct StateValues {
  void* data = nullptr;  // null: the parameter has no such state
  plan::Storage storage{};
  plan::Range elements;

  int64_t bytes() const { return plan::StorageBytes(storage, elements.count()); }
};

// What becomes of values from host memory before they are written, of parameters that are not
// quantised.
struct Change {
  double shake = 0;  // times 1 + shake or 1 - shake, by a hash of parameter and element
  std::vector<ElementType> types =
      {};  // by parameter: rounded to float16 or bfloat16; empty: none is

  bool any() const { return shake != 0 || !types.empty(); }
};

// Holds views only. Calls block until done.
class ParameterStore {
 public:
  // The scratch of `buffers` must be bound.
  ParameterStore(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
                 Change change = {})
      : plan_(plan), layout_(layout), buffers_(buffers), change_(std::move(change)) {}

  // The elements of parameter i that this rank loads: all elements of a frozen parameter that stays
  // whole on every rank, else the owned ones. Ranks gather the rest of trained and slotted
  // parameters.
  plan::Range Loaded(size_t i) const;
  // True for a quantised parameter. It is loaded whole, and this rank keeps its owned part.
  bool IsQuantized(size_t i) const;
  // Writes elements Loaded(i) from host memory, rounded to nearest if they are kept in bfloat16.
  void Upload(size_t i, const float* values) const;
  // The same for elements `part` of a parameter that is not quantised, all of them in Loaded(i).
  void UploadPart(size_t i, plan::Range part, const float* values) const;
  // Fills elements Loaded(i) from counters; dtype, first, count and out of `fill` are set here.
  void Fill(size_t i, kernels::RandomFillArgs fill) const;

  // Copies a quantised parameter from host memory unchanged.
  void UploadPacked(size_t i, const PackedTensor& tensor) const;
  // The same, and dequantises it where sweeps read it.
  void UploadPackedWhole(size_t i, const PackedTensor& tensor) const;

  // The whole parameter in the memory that forward and backward read.
  Values Compute(size_t i) const;
  // Elements Loaded(i) of the parameter in the memory that an update writes.
  Values Weights(size_t i) const;
  // The owned elements that an update writes and a checkpoint holds: the master, or without one the
  // weight itself.
  Values Trained(size_t i) const;
  // Each state of the optimizer for the owned elements (common/plan/optimizer_states.h).
  std::vector<StateValues> States(size_t i) const;
  // The gradient of the owned elements after reduction.
  Values ReducedGradient(size_t i) const;

  // Write all elements to the memory that sweeps read, whether or not there is a master. The slot
  // of the parameter must be free.
  void UploadWhole(size_t i, const float* values) const;
  void FillWhole(size_t i, kernels::RandomFillArgs fill) const;
  // Dequantises the parameters of a block into the memory that sweeps read, unless ranks share
  // them.
  void DequantizeBlock(int32_t layer) const;
  // Fills the elements that this rank does not load, in the memory that sweeps read, until they are
  // gathered.
  void FillAbsent(size_t i, kernels::RandomFillArgs fill) const;

 private:
  // The owned elements of parameter i inside the owned range of its flat.
  Values Owned(size_t i, void* range, kernels::DType dtype) const;
  void Write(size_t i, const float* values, const Values& to) const;
  void WriteAsIs(const float* values, const Values& to) const;
  void ApplyChange(size_t i, int64_t first, std::vector<float>* values) const;
  void QuantizeValues(size_t i, bool whole, const float* values) const;
  void QuantizeFill(size_t i, bool whole, const kernels::RandomFillArgs& fill) const;

  const plan::Plan& plan_;
  const ParameterLayout& layout_;
  const Buffers& buffers_;
  const Change change_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_PARAMETER_STORE_H_
