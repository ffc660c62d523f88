#include "tests/worker/engine/support/test_state.h"

#include <bit>

#include "kernels/device.h"
#include "worker/engine/memory/parameter_store.h"
#include "worker/engine/step/forward_backward.h"

namespace coxswain::engine {

const std::string& TestDevice() {
  static const std::string kind = kernels::SelectDevice(0).kind;
  return kind;
}

std::vector<float> ReadFloats(const void* device, kernels::DType dtype, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  if (dtype == kernels::DType::kFloat32) {
    kernels::CopyMemory(values.data(), device, count * 4, nullptr);
    return values;
  }
  std::vector<uint16_t> bits(values.size());
  kernels::CopyMemory(bits.data(), device, count * 2, nullptr);
  for (size_t i = 0; i < bits.size(); ++i) {
    values[i] = std::bit_cast<float>(uint32_t{bits[i]} << 16);
  }
  return values;
}

void WriteFloats(const std::vector<float>& values, void* device, kernels::DType dtype) {
  if (dtype == kernels::DType::kFloat32) {
    kernels::CopyMemory(device, values.data(), static_cast<int64_t>(values.size() * 4), nullptr);
    return;
  }
  std::vector<uint16_t> bits;
  for (float value : values) {
    const auto word = std::bit_cast<uint32_t>(value);
    bits.push_back(static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16));
  }
  kernels::CopyMemory(device, bits.data(), static_cast<int64_t>(bits.size() * 2), nullptr);
}

std::vector<float> TrainedValues(const State& state, size_t i) {
  const Values values = ParameterStore(state.plan, state.layout, state.buffers).Trained(i);
  return ReadFloats(values.data, values.dtype, values.elements);
}

void SetTrainedValues(const State& state, size_t i, const std::vector<float>& values) {
  ParameterStore(state.plan, state.layout, state.buffers).Upload(i, values.data());
}

std::vector<float> GradientOf(const State& state, size_t i) {
  const Values values = ParameterStore(state.plan, state.layout, state.buffers).ReducedGradient(i);
  return ReadFloats(values.data, values.dtype, values.elements);
}

std::vector<float> AllGradients(const State& state) {
  std::vector<float> all;
  for (size_t i = 0; i < state.plan.parameters.size(); ++i) {
    if (!state.plan.parameters[i].trainable()) continue;
    const std::vector<float> one = GradientOf(state, i);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

std::vector<float> TokenRows(const State& state, const BinBatch& bins, const void* activation,
                             int64_t columns) {
  const bool padded = state.plan.device == DeviceKind::kCuda;
  const int64_t all_rows = state.plan.micro_batch_bins * state.plan.sequence_len;
  const std::vector<float> all =
      ReadFloats(activation, state.model.compute_dtype, all_rows * columns);
  std::vector<float> rows;
  size_t document = 0;
  int64_t first = 0;
  for (size_t bin = 0; bin < bins.bin_ids.size(); ++bin) {
    int64_t tokens = 0;
    for (int32_t i = 0; i < bins.documents_per_bin[bin]; ++i) {
      tokens += bins.document_lengths[document++];
    }
    rows.insert(rows.end(), all.begin() + first * columns,
                all.begin() + (first + tokens) * columns);
    first += padded ? state.plan.sequence_len : tokens;
  }
  return rows;
}

double GradientStep(State& state, const TrainStep& step) {
  PhaseSeconds seconds;
  state.timeline.Begin(state.stream);
  AccumulateGradients(state, step, step.learning_rate, &seconds);
  state.pending = {};
  kernels::Synchronize(state.stream);
  Scalars scalars;
  kernels::CopyMemory(&scalars, state.buffers.scalars, sizeof(scalars), nullptr);
  return scalars.loss_sum;
}

}  // namespace coxswain::engine
