#include "worker/engine/memory/quantized_weights.h"

#include <algorithm>

#include "common/plan/quantize_pieces.h"
#include "common/plan/storage.h"
#include "kernels/quantize/int8_rows.h"
#include "kernels/quantize/mxfp4.h"
#include "kernels/quantize/nf4.h"

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
        constants(memory.constants + layout.map.places[i].constants) {
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

void KeepScales(const Place& place, int64_t begin, int64_t count, const void* scales) {
  Keep(place, begin, count, scales, place.kept.scales,
       [&](int64_t n) { return plan::ScaleBytes(place.storage, n); });
}

// The pieces of a matrix in scratch.
struct Pieces {
  Pieces(const Place& place, const kernels::Workspace& buffer)
      : at(place.parameter, place.storage), scratch(static_cast<char*>(buffer.data)) {}

  float* values() const { return reinterpret_cast<float*>(scratch); }
  float* absmax() const { return reinterpret_cast<float*>(scratch + at.absmax); }
  uint8_t* codes() const { return reinterpret_cast<uint8_t*>(scratch + at.codes); }
  uint8_t* absmax_codes() const { return reinterpret_cast<uint8_t*>(scratch + at.absmax_codes); }
  uint8_t* scales() const { return reinterpret_cast<uint8_t*>(scratch + at.scales); }

  const plan::QuantizePieces at;
  char* const scratch;
};

// Elements [begin, begin + count), whose values are in scratch. The scales of NF4 stay there.
void QuantizePiece(const Place& place, const Pieces& pieces, int64_t begin, int64_t count) {
  if (place.storage == Storage::kInt8) {
    const int64_t cols = place.parameter.cols;
    kernels::Int8QuantizeRows({.rows = count / cols,
                               .cols = cols,
                               .in = pieces.values(),
                               .codes = reinterpret_cast<int8_t*>(pieces.codes()),
                               .absmax = place.constants + begin / cols},
                              nullptr);
  } else if (place.storage == Storage::kMxfp4) {
    kernels::Mxfp4Quantize({.elements = count,
                            .in = pieces.values(),
                            .codes = pieces.codes(),
                            .scales = pieces.scales()},
                           nullptr);
    KeepScales(place, begin, count, pieces.scales());
  } else {
    kernels::Nf4Quantize({.elements = count,
                          .in = pieces.values(),
                          .codes = pieces.codes(),
                          .absmax = pieces.absmax() + begin / kernels::kNf4Block},
                         nullptr);
  }
  KeepCodes(place, begin, count, pieces.codes());
}

void DequantizeNf4(const QuantizedMatrix& matrix, plan::Range elements, const uint8_t* codes,
                   const char* scales, kernels::DType dtype, void* out, kernels::Stream* stream) {
  kernels::Nf4DequantizeArgs args{
      .dtype = dtype, .elements = elements.count(), .codes = codes, .out = out};
  if (matrix.storage == Storage::kNf4) {
    args.absmax = reinterpret_cast<const float*>(scales);
  } else {
    args.absmax_codes = reinterpret_cast<const uint8_t*>(scales);
    args.constants = matrix.constants;
    args.first_block = elements.begin / kernels::kNf4Block;
  }
  kernels::Nf4Dequantize(args, stream);
}

}  // namespace

void DequantizePart(const QuantizedMatrix& matrix, plan::Range elements, kernels::DType dtype,
                    void* out, kernels::Stream* stream) {
  const auto* const codes = reinterpret_cast<const uint8_t*>(
      matrix.packed.codes + plan::StorageBytes(matrix.storage, elements.begin));
  const char* const scales =
      matrix.packed.scales + plan::ScaleBytes(matrix.storage, elements.begin);
  if (matrix.storage == Storage::kInt8) {
    kernels::Int8DequantizeRows({.dtype = dtype,
                                 .rows = elements.count() / matrix.cols,
                                 .cols = matrix.cols,
                                 .codes = reinterpret_cast<const int8_t*>(codes),
                                 .absmax = matrix.constants + elements.begin / matrix.cols,
                                 .out = out},
                                stream);
  } else if (matrix.storage == Storage::kMxfp4) {
    kernels::Mxfp4Dequantize({.dtype = dtype,
                              .elements = elements.count(),
                              .codes = codes,
                              .scales = reinterpret_cast<const uint8_t*>(scales),
                              .out = out},
                             stream);
  } else {
    DequantizeNf4(matrix, elements, codes, scales, dtype, out, stream);
  }
}

void Dequantize(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
                size_t i, kernels::Stream* stream) {
  if (layout.FlatOf(i).in_ranges) return;
  const FlatMemory& memory = buffers.flats[layout.map.places[i].flat];
  char* const out = static_cast<char*>(memory.values) +
                    layout.map.places[i].offset * kernels::DTypeBytes(memory.dtype);
  DequantizePart(QuantizedMatrixOf(plan, layout, i, memory), {0, plan.parameters[i].elements()},
                 memory.dtype, out, stream);
}

void Quantize(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
              size_t i, bool whole, const WriteElements& write) {
  const Place place(plan, layout, buffers, i, whole);
  const int64_t all = place.parameter.elements();
  const Pieces pieces(place, buffers.scratch);
  for (int64_t begin = 0; begin < all; begin += pieces.at.elements) {
    const int64_t count = std::min(pieces.at.elements, all - begin);
    write(begin, count, pieces.values());
    QuantizePiece(place, pieces, begin, count);
  }
  if (place.storage == Storage::kNf4Double) {
    kernels::Nf4QuantizeScales({.blocks = kernels::Nf4Blocks(all),
                                .absmax = pieces.absmax(),
                                .codes = pieces.absmax_codes(),
                                .constants = place.constants},
                               nullptr);
    KeepScales(place, 0, all, pieces.absmax_codes());
  } else if (place.storage == Storage::kNf4) {
    KeepScales(place, 0, all, pieces.absmax());
  }
  kernels::Synchronize(nullptr);
}

void UploadPacked(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers,
                  size_t i, bool whole, const PackedTensor& tensor) {
  const Place place(plan, layout, buffers, i, whole);
  KeepCodes(place, 0, place.parameter.elements(), tensor.codes);
  if (tensor.scales != nullptr) KeepScales(place, 0, place.parameter.elements(), tensor.scales);
  const int64_t constants =
      plan::ScaleConstants(place.storage, place.parameter.rows, place.parameter.cols);
  if (tensor.constants != nullptr) {
    kernels::CopyMemory(place.constants, tensor.constants, 4 * constants, nullptr);
  }
}

}  // namespace coxswain::engine
