#include "tests/worker/engine/support/test_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "common/files/safetensors/safetensors_writer.h"
#include "worker/engine/memory/weights.h"

namespace coxswain::engine {
namespace {

std::vector<float> RandomValues(const model::Parameter& parameter) {
  std::vector<float> values(static_cast<size_t>(parameter.elements()));
  uint32_t state =
      (static_cast<uint32_t>(parameter.tensor) * 4u + static_cast<uint32_t>(parameter.part)) * 97u +
      static_cast<uint32_t>(parameter.layer);
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) * 0x1p-24f - 0.5f) * 0.4f;
  }
  return values;
}

void Encode(float value, ElementType dtype, uint8_t* out) {
  const uint16_t half = dtype == ElementType::kBF16 ? FloatToBf16(value) : FloatToHalf(value);
  if (dtype == ElementType::kF32) {
    std::memcpy(out, &value, 4);
  } else {
    std::memcpy(out, &half, 2);
  }
}

std::vector<TensorSource> Tensors(const plan::Plan& plan, bool adapter, ElementType dtype) {
  std::vector<TensorSource> tensors;
  for (const model::Parameter& parameter : plan.parameters) {
    if (model::IsAdapter(parameter) == adapter) tensors.push_back(RandomTensor(parameter, dtype));
  }
  return tensors;
}

}  // namespace

TensorSource RandomTensor(const model::Parameter& parameter, ElementType dtype) {
  const auto fill = [values = RandomValues(parameter), dtype](uint8_t* out) {
    for (size_t i = 0; i < values.size(); ++i) {
      Encode(values[i], dtype, out + i * static_cast<size_t>(ElementBits(dtype) / 8));
    }
    return absl::OkStatus();
  };
  return {parameter.name, dtype, FileShape(parameter), fill};
}

TensorSource ZeroTensor(const std::string& name, ElementType dtype,
                        const std::vector<int64_t>& shape) {
  int64_t bytes = ElementBits(dtype) / 8;
  for (int64_t extent : shape) bytes *= extent;
  return {name, dtype, shape, [bytes](uint8_t* out) {
            std::fill_n(out, bytes, uint8_t{0});
            return absl::OkStatus();
          }};
}

std::vector<TensorSource> BaseTensors(const plan::Plan& plan, ElementType dtype) {
  return Tensors(plan, false, dtype);
}

std::vector<TensorSource> AdapterTensors(const plan::Plan& plan) {
  return Tensors(plan, true, ElementType::kF32);
}

}  // namespace coxswain::engine
