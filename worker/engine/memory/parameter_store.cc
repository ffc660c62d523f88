#include "worker/engine/memory/parameter_store.h"

#include <algorithm>

#include "common/plan/optimizer_states.h"
#include "kernels/device.h"
#include "kernels/tensors/whole_tensors.h"

namespace coxswain::engine {
namespace {

void Convert(const Values& from, const Values& to) {
  kernels::Convert(
      {.from = from.dtype, .to = to.dtype, .count = from.elements, .in = from.data, .out = to.data},
      nullptr);
  kernels::Synchronize(nullptr);
}

void* After(void* data, int64_t elements, kernels::DType dtype) {
  return static_cast<char*>(data) + elements * kernels::DTypeBytes(dtype);
}

void RunFill(kernels::RandomFillArgs fill, const Values& out) {
  fill.dtype = out.dtype;
  fill.first = out.first;
  fill.count = out.elements;
  fill.out = out.data;
  kernels::RandomFill(fill, nullptr);
  kernels::Synchronize(nullptr);
}

// The finaliser of SplitMix64: one bit of it is a fair coin for each of successive numbers. Source:
// Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

plan::Range ParameterStore::Loaded(size_t i) const {
  const plan::Flat& flat = layout_.FlatOf(i);
  if ((flat.trained() || flat.weights_slotted()) && !flat.quantized()) return layout_.owned[i];
  return {0, plan_.parameters[i].elements()};
}

Values ParameterStore::Compute(size_t i) const {
  const plan::ParameterPlace& place = layout_.map.places[i];
  const FlatMemory& flat = buffers_.flats[place.flat];
  return {After(flat.values, place.offset, flat.dtype), flat.dtype, 0,
          plan_.parameters[i].elements()};
}

Values ParameterStore::Weights(size_t i) const {
  const plan::Flat& flat = layout_.FlatOf(i);
  if (!flat.trained() && !flat.weights_slotted()) return Compute(i);
  const FlatMemory& memory = buffers_.flats[layout_.map.places[i].flat];
  return Owned(i, memory.owned, memory.dtype);
}

Values ParameterStore::Trained(size_t i) const {
  const FlatMemory& memory = buffers_.flats[layout_.map.places[i].flat];
  return memory.master == nullptr ? Weights(i) : Owned(i, memory.master, memory.master_dtype);
}

std::vector<StateValues> ParameterStore::States(size_t i) const {
  std::vector<StateValues> states;
  for (const plan::OptimizerState& state : plan::OptimizerOf(plan_).states) {
    const size_t s = states.size();
    const auto place = layout_.map.State(plan_, i, s, layout_.owned[i], layout_.place.shard);
    states.push_back(place.has_value() ? StateValues{buffers_.states[s] + place->offset,
                                                     state.storage, place->elements}
                                       : StateValues{});
  }
  return states;
}

Values ParameterStore::ReducedGradient(size_t i) const {
  const FlatMemory& memory = buffers_.flats[layout_.map.places[i].flat];
  return Owned(i, memory.reduced, memory.reduced_dtype);
}

Values ParameterStore::Owned(size_t i, void* range, kernels::DType dtype) const {
  const plan::Range owned = layout_.owned[i];
  return {After(range, layout_.OffsetInOwned(i), dtype), dtype, owned.begin, owned.count()};
}

void ParameterStore::ApplyChange(size_t i, int64_t first, std::vector<float>* values) const {
  const ElementType type = change_.types.empty() ? ElementType::kF32 : change_.types[i];
  const auto up = static_cast<float>(1 + change_.shake);
  const auto down = static_cast<float>(1 - change_.shake);
  const uint64_t key = Mixed(i);
  for (size_t j = 0; j < values->size(); ++j) {
    float& value = (*values)[j];
    if (change_.shake != 0) {
      value *= (Mixed(key ^ (static_cast<uint64_t>(first) + j)) & 1) != 0 ? up : down;
    }
    if (type == ElementType::kBF16) value = Bf16ToFloat(FloatToBf16(value));
    if (type == ElementType::kF16) value = HalfToFloat(FloatToHalf(value));
  }
}

void ParameterStore::Write(size_t i, const float* values, const Values& to) const {
  if (!change_.any()) return WriteAsIs(values, to);
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<float> changed;
  for (int64_t begin = 0; begin < to.elements; begin += kPiece) {
    const int64_t count = std::min(kPiece, to.elements - begin);
    changed.assign(values + begin, values + begin + count);
    ApplyChange(i, to.first + begin, &changed);
    WriteAsIs(changed.data(), {After(to.data, begin, to.dtype), to.dtype, to.first + begin, count});
  }
}

void ParameterStore::WriteAsIs(const float* values, const Values& to) const {
  if (to.dtype == kernels::DType::kFloat32) {
    kernels::CopyMemory(to.data, values, to.elements * 4, nullptr);
    return;
  }
  const int64_t piece = buffers_.scratch.bytes / 4;
  for (int64_t begin = 0; begin < to.elements; begin += piece) {
    const int64_t count = std::min(piece, to.elements - begin);
    kernels::CopyMemory(buffers_.scratch.data, values + begin, count * 4, nullptr);
    Convert({buffers_.scratch.data, kernels::DType::kFloat32, 0, count},
            {After(to.data, begin, to.dtype), to.dtype, 0, count});
  }
}

void ParameterStore::QuantizeValues(size_t i, bool whole, const float* values) const {
  Quantize(plan_, layout_, buffers_, i, whole, [&](int64_t first, int64_t count, float* out) {
    kernels::CopyMemory(out, values + first, count * 4, nullptr);
  });
}

void ParameterStore::QuantizeFill(size_t i, bool whole, const kernels::RandomFillArgs& fill) const {
  Quantize(plan_, layout_, buffers_, i, whole, [&](int64_t first, int64_t count, float* out) {
    RunFill(fill, {out, kernels::DType::kFloat32, first, count});
  });
}

void ParameterStore::UploadPacked(size_t i, const PackedTensor& tensor) const {
  engine::UploadPacked(plan_, layout_, buffers_, i, /*whole=*/false, tensor);
}

void ParameterStore::UploadPackedWhole(size_t i, const PackedTensor& tensor) const {
  engine::UploadPacked(plan_, layout_, buffers_, i, /*whole=*/true, tensor);
  Dequantize(plan_, layout_, buffers_, i, nullptr);
}

void ParameterStore::Upload(size_t i, const float* values) const {
  if (layout_.FlatOf(i).quantized()) return QuantizeValues(i, /*whole=*/false, values);
  UploadPart(i, Loaded(i), values);
}

void ParameterStore::UploadPart(size_t i, plan::Range part, const float* values) const {
  const int64_t skip = part.begin - Loaded(i).begin, count = part.count();
  const auto cut = [&](const Values& all) {
    return Values{After(all.data, skip, all.dtype), all.dtype, all.first + skip, count};
  };
  if (count == 0) return;
  const Values weights = cut(Weights(i)), trained = cut(Trained(i));
  Write(i, values, trained);
  if (trained.data != weights.data) Convert(trained, weights);
}

void ParameterStore::Fill(size_t i, kernels::RandomFillArgs fill) const {
  if (layout_.FlatOf(i).quantized()) return QuantizeFill(i, /*whole=*/false, fill);
  const Values weights = Weights(i), trained = Trained(i);
  if (weights.elements == 0) return;
  RunFill(fill, trained);
  if (trained.data != weights.data) Convert(trained, weights);
}

void ParameterStore::UploadWhole(size_t i, const float* values) const {
  if (!layout_.FlatOf(i).quantized()) return Write(i, values, Compute(i));
  QuantizeValues(i, /*whole=*/true, values);
  Dequantize(plan_, layout_, buffers_, i, nullptr);
}

void ParameterStore::FillWhole(size_t i, kernels::RandomFillArgs fill) const {
  if (!layout_.FlatOf(i).quantized()) return RunFill(fill, Compute(i));
  QuantizeFill(i, /*whole=*/true, fill);
  Dequantize(plan_, layout_, buffers_, i, nullptr);
}

void ParameterStore::DequantizeBlock(int32_t layer) const {
  for (size_t i = 0; i < plan_.parameters.size(); ++i) {
    if (plan_.parameters[i].layer != layer || !IsQuantized(i)) continue;
    Dequantize(plan_, layout_, buffers_, i, nullptr);
  }
  kernels::Synchronize(nullptr);
}

bool ParameterStore::IsQuantized(size_t i) const { return layout_.FlatOf(i).quantized(); }

void ParameterStore::FillAbsent(size_t i, kernels::RandomFillArgs fill) const {
  if (layout_.FlatOf(i).coded) return;  // unit_exchange.h, RepeatOwn
  const Values all = Compute(i);
  // In a slot not even the owned elements are there.
  const plan::Range here = layout_.FlatOf(i).weights_slotted() ? plan::Range{} : Loaded(i);
  for (const plan::Range& range : {plan::Range{0, here.begin}, {here.end, all.elements}}) {
    if (range.count() == 0) continue;
    RunFill(fill, {After(all.data, range.begin, all.dtype), all.dtype, range.begin, range.count()});
  }
}

}  // namespace coxswain::engine
