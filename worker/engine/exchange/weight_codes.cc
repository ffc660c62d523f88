#include "worker/engine/exchange/weight_codes.h"

#include <algorithm>

#include "kernels/quantize/fp8.h"

namespace coxswain::engine {
namespace {

// Owned ranges begin and end at multiples of plan::kShardAlignment, which is half of it.
constexpr int64_t kColumns = 2 * plan::kShardAlignment;
static_assert(kColumns == kernels::kFp8Block);

// Of the bytes of a float, which is then 0.0115, as large as weights are: the amax of ranks that
// have not met, in a warm-up.
constexpr int kStandIn = 0x3c;

constexpr kernels::Fp8Format kFormat = kernels::Fp8Format::kE4M3;

}  // namespace

void FillFp8Constants(const Buffers& buffers, kernels::Stream* stream) {
  if (buffers.fp8_constants == nullptr) return;
  const float largest = kernels::Fp8Largest(kFormat);
  kernels::CopyMemory(buffers.fp8_constants, &largest, sizeof(largest), stream);
  kernels::Synchronize(stream);
}

WeightCodes::WeightCodes(const plan::Plan& plan, const ParameterLayout& layout,
                         const Buffers& buffers)
    : plan_(plan),
      layout_(layout),
      buffers_(buffers),
      weights_(plan::CodedWeights(plan, layout.map)),
      amaxes_of_rank_(plan::GatheredAmaxes(plan)),
      trained_(std::any_of(weights_.begin(), weights_.end(),
                           [](const plan::CodedWeight& weight) { return weight.trained; })) {}

float* WeightCodes::OwnAmaxes() const {
  return AllAmaxes() + layout_.place.shard * amaxes_of_rank_;
}

float* WeightCodes::AmaxOf(const plan::CodedWeight& weight) const {
  return AllAmaxes() + plan_.shard * amaxes_of_rank_ + weight.number;
}

float* WeightCodes::ScaleOf(const plan::CodedWeight& weight) const {
  return buffers_.fp8_weight_scales + plan::kFloatsOfScale * weight.number;
}

uint8_t* WeightCodes::OwnCodes(size_t flat) const {
  return buffers_.flats[flat].codes + layout_.place.shard * layout_.map.flats[flat].owned;
}

plan::Range WeightCodes::OwnedOf(const plan::CodedWeight& weight) const {
  const int64_t owned = layout_.map.flats[weight.flat].owned;
  const int64_t first = layout_.place.shard * owned;
  const int64_t begin = std::clamp(first, weight.elements.begin, weight.elements.end);
  return {begin, std::clamp(first + owned, begin, weight.elements.end)};
}

// Rows of kColumns, and what is left.
void WeightCodes::Read(const Reading& reading, kernels::Stream* stream) const {
  const FlatMemory& memory = buffers_.flats[reading.flat];
  const int64_t first = layout_.place.shard * layout_.map.flats[reading.flat].owned;
  kernels::Fp8QuantizeArgs args;
  args.dtype = memory.dtype;
  args.format = kFormat;
  args.amax = reading.amax;
  args.observed = reading.observed;
  args.workspace = buffers_.scratch;
  for (plan::Range left = reading.elements; left.count() > 0;) {
    args.rows = std::max<int64_t>(1, left.count() / kColumns);
    args.cols = args.ldx = std::min(left.count(), kColumns);
    args.x = static_cast<const char*>(memory.owned) +
             (left.begin - first) * kernels::DTypeBytes(memory.dtype);
    if (reading.codes != nullptr) {
      args.straight = {reading.codes + left.begin - reading.elements.begin, reading.scale};
    }
    kernels::Fp8Quantize(args, stream);
    left.begin += args.rows * args.cols;
  }
}

void WeightCodes::FindAmaxes(kernels::Stream* stream) const {
  const int64_t of_rank = static_cast<int64_t>(sizeof(float)) * amaxes_of_rank_;
  kernels::SetMemory(AllAmaxes(), kStandIn, plan_.shard * of_rank, stream);
  kernels::SetMemory(OwnAmaxes(), 0, of_rank, stream);
  for (const plan::CodedWeight& weight : weights_) {
    // An amax is given so that the weight is read once, and on a GPU without the workspace, which
    // belongs to compute beside this stream; no code is made with it.
    Read({.flat = weight.flat,
          .elements = OwnedOf(weight),
          .amax = buffers_.fp8_constants,
          .observed = OwnAmaxes() + weight.number},
         stream);
  }
}

void WeightCodes::FindScales(kernels::Stream* stream) const {
  kernels::SetMemory(AllAmaxes() + plan_.shard * amaxes_of_rank_, 0,
                     static_cast<int64_t>(sizeof(float)) * amaxes_of_rank_, stream);
  const int64_t scratch = plan::kFloatsOfScale * static_cast<int64_t>(weights_.size());
  for (const plan::CodedWeight& weight : weights_) {
    kernels::Fp8QuantizeArgs of_ranks;  // of float32: the largest of a column of amaxes
    of_ranks.rows = plan_.shard;
    of_ranks.cols = 1;
    of_ranks.x = AllAmaxes() + weight.number;
    of_ranks.ldx = amaxes_of_rank_;
    of_ranks.amax = buffers_.fp8_constants;
    of_ranks.observed = AmaxOf(weight);
    of_ranks.workspace = buffers_.scratch;
    kernels::Fp8Quantize(of_ranks, stream);
    kernels::Fp8QuantizeArgs scale;  // its scale; the code is read by nobody
    scale.rows = scale.cols = scale.ldx = 1;
    scale.x = scale.amax = AmaxOf(weight);
    scale.straight = {reinterpret_cast<uint8_t*>(buffers_.fp8_weight_scales + scratch),
                      ScaleOf(weight)};
    kernels::Fp8Quantize(scale, stream);
  }
}

void WeightCodes::Quantize(size_t flat, kernels::Stream* stream) const {
  const int64_t first = layout_.place.shard * layout_.map.flats[flat].owned;
  for (const plan::CodedWeight& weight : weights_) {
    if (weight.flat != flat) continue;
    const plan::Range owned = OwnedOf(weight);
    Read({.flat = flat,
          .elements = owned,
          .amax = AmaxOf(weight),
          .codes = OwnCodes(flat) + owned.begin - first,
          .scale = ScaleOf(weight)},
         stream);
  }
}

}  // namespace coxswain::engine
