#include "worker/engine/parameter_store.h"

#include <algorithm>

#include "kernels/convert.h"
#include "kernels/device.h"

namespace coxswain::engine {
namespace {

void Convert(const Values& from, const Values& to) {
  kernels::Convert(
      {.from = from.dtype, .to = to.dtype, .count = from.elements, .in = from.data, .out = to.data},
      nullptr);
  kernels::Synchronize(nullptr);
}

}  // namespace

Values ParameterStore::Compute(size_t i) const {
  const kernels::DType dtype = ComputeDType(plan_);
  char* weights = static_cast<char*>(buffers_.parameters.weights);
  return {weights + layout_.weight_offset[i] * kernels::DTypeBytes(dtype), dtype,
          plan_.parameters[i].elements()};
}

Values ParameterStore::Trained(size_t i) const {
  if (layout_.master_offset[i] < 0) return Compute(i);
  return {buffers_.master + layout_.master_offset[i], kernels::DType::kFloat32,
          plan_.parameters[i].elements()};
}

void ParameterStore::Upload(size_t i, const float* values) const {
  const Values compute = Compute(i), trained = Trained(i);
  if (trained.dtype == kernels::DType::kFloat32) {
    kernels::CopyMemory(trained.data, values, trained.elements * 4, nullptr);
    if (trained.data != compute.data) Convert(trained, compute);
    return;
  }
  const int64_t piece = buffers_.scratch.bytes / 4;
  for (int64_t begin = 0; begin < compute.elements; begin += piece) {
    const int64_t count = std::min(piece, compute.elements - begin);
    kernels::CopyMemory(buffers_.scratch.data, values + begin, count * 4, nullptr);
    Convert({buffers_.scratch.data, kernels::DType::kFloat32, count},
            {static_cast<char*>(compute.data) + begin * kernels::DTypeBytes(compute.dtype),
             compute.dtype, count});
  }
}

void ParameterStore::Fill(size_t i, kernels::RandomFillArgs fill) const {
  const Values compute = Compute(i), trained = Trained(i);
  fill.dtype = trained.dtype;
  fill.count = trained.elements;
  fill.out = trained.data;
  kernels::RandomFill(fill, nullptr);
  kernels::Synchronize(nullptr);
  if (trained.data != compute.data) Convert(trained, compute);
}

}  // namespace coxswain::engine
