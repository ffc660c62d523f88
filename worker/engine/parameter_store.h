// The values of the parameters on the device: how they get there and which copy is the trained one.
#ifndef COXSWAIN_WORKER_ENGINE_PARAMETER_STORE_H_
#define COXSWAIN_WORKER_ENGINE_PARAMETER_STORE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/shard_map.h"
#include "common/plan/storage.h"
#include "kernels/dtype.h"
#include "kernels/random_fill.h"
#include "worker/engine/buffers.h"
#include "worker/engine/model.h"
#include "worker/engine/quantized_weights.h"

namespace coxswain::engine {

// Elements [first, first + elements) of one parameter in device memory.
struct Values {
  void* data = nullptr;
  kernels::DType dtype = kernels::DType::kFloat32;
  int64_t first = 0, elements = 0;
};

// What this rank holds of a state of the optimizer: elements of the state of the whole parameter.
struct StateValues {
  void* data = nullptr;  // null: the parameter has no such state
  plan::Storage storage{};
  plan::Range elements;

  int64_t bytes() const { return plan::StorageBytes(storage, elements.count()); }
};

// Views only. Calls block until done.
class ParameterStore {
 public:
  // `buffers` with its scratch bound.
  ParameterStore(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers)
      : plan_(plan), layout_(layout), buffers_(buffers) {}

  // The elements of parameter i that this rank loads: all of one that is frozen and stays whole on
  // every rank, else the owned ones. Ranks get the rest of trained and slotted ones by gathering.
  plan::Range Loaded(size_t i) const;
  // Quantised: all of it, of which this rank keeps what it owns.
  bool IsQuantized(size_t i) const;
  // Writes elements Loaded(i) from host memory, rounded to nearest where they are kept in bfloat16.
  void Upload(size_t i, const float* values) const;
  // Likewise elements `part` of it, among Loaded(i); of one that is not quantised.
  void UploadPart(size_t i, plan::Range part, const float* values) const;
  // Fills elements Loaded(i) from counters; dtype, first, count and out of `fill` are set here.
  void Fill(size_t i, kernels::RandomFillArgs fill) const;

  // Takes a quantised parameter from host memory as it is.
  void UploadPacked(size_t i, const PackedTensor& tensor) const;
  // The same, and dequantises it where sweeps read it.
  void UploadPackedWhole(size_t i, const PackedTensor& tensor) const;

  // The whole parameter, where forward and backward read it.
  Values Compute(size_t i) const;
  // Elements Loaded(i) of the parameter, where an update writes them.
  Values Weights(size_t i) const;
  // What an update writes and a checkpoint holds: of the owned elements the master, else the
  // weight itself.
  Values Trained(size_t i) const;
  // Of the owned elements, each state of the optimizer (common/plan/optimizer_states.h).
  std::vector<StateValues> States(size_t i) const;
  // The gradient of the owned elements after reduction.
  Values ReducedGradient(size_t i) const;

  // Uploads and fills all elements where sweeps read them, master or not: for looking at a
  // parameter whose slot is free.
  void UploadWhole(size_t i, const float* values) const;
  void FillWhole(size_t i, kernels::RandomFillArgs fill) const;
  // Writes the quantised parameters of a block where sweeps read them, unless ranks share them.
  void DequantizeBlock(int32_t layer) const;
  // Fills the elements that this rank does not load, where sweeps read them, until they are
  // gathered.
  void FillAbsent(size_t i, kernels::RandomFillArgs fill) const;

 private:
  // The owned elements of parameter i inside the owned range of its flat.
  Values Owned(size_t i, void* range, kernels::DType dtype) const;
  void Write(const float* values, const Values& to) const;
  void QuantizeValues(size_t i, bool whole, const float* values) const;
  void QuantizeFill(size_t i, bool whole, const kernels::RandomFillArgs& fill) const;

  const plan::Plan& plan_;
  const ParameterLayout& layout_;
  const Buffers& buffers_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_PARAMETER_STORE_H_
