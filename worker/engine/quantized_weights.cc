#include "worker/engine/quantized_weights.h"

#include <algorithm>

#include "common/plan/quantize_pieces.h"
#include "common/plan/storage.h"
#include "kernels/int8_rows.h"
#include "kernels/nf4.h"

namespace coxswain::engine {
namespace {

using plan::Storage;

// A parameter among the packed elements of its flat.
struct Place {
  Place(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers, size_t i,
        bool whole = false)
      : parameter(plan.parameters[i]),
        flat(layout.FlatOf(i)),
        storage(flat.storage.weights),
        memory(buffers.flats[layout.map.places[i].flat]),
        kept(whole ? memory.packed : memory.owned_packed),
        first(layout.map.places[i].packed),
        constants(buffers.weight_scales + layout.map.places[i].constants) {
    if (whole || flat.packed_slot < 0) {
      owned = {0, flat.packed};
    } else {
      const int64_t elements = flat.packed / plan.shard;
      owned = {layout.place.shard * elements, (layout.place.shard + 1) * elements};
    }
  }

  const model::Parameter& parameter;
  const plan::Flat& flat;
  const Storage storage;
  const FlatMemory& memory;
  const PackedMemory& kept;
  const int64_t first;  // of its elements among the flat's packed ones
  float* const constants;
  plan::Range owned;  // of the flat's packed elements: those in `kept`
};

// Keeps what is wanted of `bytes` that stand for elements [begin, begin + count) of the
// parameter, where `of` elements take so many bytes.
template <typename BytesOf>
void Keep(const Place& place, int64_t begin, int64_t count, const void* bytes, char* row,
          const BytesOf& of) {
  const int64_t at = place.first + begin;
  const int64_t from = std::clamp(place.owned.begin, at, at + count);
  const int64_t to = std::clamp(place.owned.end, from, at + count);
  if (from == to) return;
  kernels::CopyMemory(row + of(from - place.owned.begin),
                      static_cast<const char*>(bytes) + of(from - at), of(to - from), nullptr);
}

void KeepCodes(const Place& place, int64_t begin, int64_t count, const void* codes) {
  Keep(place, begin, count, codes, place.kept.codes,
       [&](int64_t n) { return plan::StorageBytes(place.storage, n); });
}

void KeepScales(const Place& place, const void* scales) {
  Keep(place, 0, place.parameter.elements(), scales, place.kept.scales,
       [&](int64_t n) { return plan::ScaleBytes(place.storage, n); });
}

}  // namespace

void Dequantize(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
                size_t i, kernels::Stream* stream) {
  const Place place(plan, layout, buffers, i);
  const kernels::DType dtype = place.memory.dtype;
  char* const out = static_cast<char*>(place.memory.values) +
                    layout.map.places[i].offset * kernels::DTypeBytes(dtype);
  const char* const codes =
      place.memory.packed.codes + plan::StorageBytes(place.storage, place.first);
  const char* const scales =
      place.memory.packed.scales + plan::ScaleBytes(place.storage, place.first);
  if (place.storage == Storage::kInt8) {
    kernels::Int8DequantizeRows({.dtype = dtype,
                                 .rows = place.parameter.rows,
                                 .cols = place.parameter.cols,
                                 .codes = reinterpret_cast<const int8_t*>(codes),
                                 .absmax = place.constants,
                                 .out = out},
                                stream);
    return;
  }
  kernels::Nf4DequantizeArgs args{.dtype = dtype,
                                  .elements = place.parameter.elements(),
                                  .codes = reinterpret_cast<const uint8_t*>(codes),
                                  .out = out};
  if (place.storage == Storage::kNf4) {
    args.absmax = reinterpret_cast<const float*>(scales);
  } else {
    args.absmax_codes = reinterpret_cast<const uint8_t*>(scales);
    args.constants = place.constants;
  }
  kernels::Nf4Dequantize(args, stream);
}

void Quantize(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
              size_t i, bool whole, const WriteElements& write) {
  const Place place(plan, layout, buffers, i, whole);
  const int64_t all = place.parameter.elements();
  const plan::QuantizePieces at(place.parameter, place.storage);
  char* const scratch = static_cast<char*>(buffers.scratch.data);
  auto* const values = reinterpret_cast<float*>(scratch);
  auto* const absmax = reinterpret_cast<float*>(scratch + at.absmax);
  for (int64_t begin = 0; begin < all; begin += at.elements) {
    const int64_t count = std::min(at.elements, all - begin);
    write(begin, count, values);
    if (place.storage == Storage::kInt8) {
      const int64_t cols = place.parameter.cols;
      kernels::Int8QuantizeRows({.rows = count / cols,
                                 .cols = cols,
                                 .in = values,
                                 .codes = reinterpret_cast<int8_t*>(scratch + at.codes),
                                 .absmax = place.constants + begin / cols},
                                nullptr);
    } else {
      kernels::Nf4Quantize({.elements = count,
                            .in = values,
                            .codes = reinterpret_cast<uint8_t*>(scratch + at.codes),
                            .absmax = absmax + begin / kernels::kNf4Block},
                           nullptr);
    }
    KeepCodes(place, begin, count, scratch + at.codes);
  }
  if (place.storage == Storage::kNf4Double) {
    kernels::Nf4QuantizeScales({.blocks = kernels::Nf4Blocks(all),
                                .absmax = absmax,
                                .codes = reinterpret_cast<uint8_t*>(scratch + at.absmax_codes),
                                .constants = place.constants},
                               nullptr);
    KeepScales(place, scratch + at.absmax_codes);
  } else if (place.storage == Storage::kNf4) {
    KeepScales(place, absmax);
  }
  kernels::Synchronize(nullptr);
}

void UploadPacked(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
                  size_t i, bool whole, const PackedTensor& tensor) {
  const Place place(plan, layout, buffers, i, whole);
  KeepCodes(place, 0, place.parameter.elements(), tensor.codes);
  if (tensor.scales != nullptr) KeepScales(place, tensor.scales);
  const int64_t constants =
      plan::ScaleConstants(place.storage, place.parameter.rows, place.parameter.cols);
  if (tensor.constants != nullptr) {
    kernels::CopyMemory(place.constants, tensor.constants, 4 * constants, nullptr);
  }
}

}  // namespace coxswain::engine
