#include "common/plan/fp8_gather.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/plan/buffer_names.h"
#include "common/plan/extents.h"
#include "common/plan/fp8_linears.h"

namespace coxswain::plan {
namespace {

int64_t FloatBytes(int64_t floats) { return StorageBytes(Storage::kFloat32, floats); }

}  // namespace

std::vector<CodedWeight> CodedWeights(const Plan& plan, const ShardMap& map) {
  std::vector<CodedWeight> weights;
  if (!GathersCodes(plan)) return weights;
  std::map<std::pair<int64_t, int32_t>, size_t> parameters;  // by layer and tensor
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& p = plan.parameters[i];
    if (p.part == model::Part::kBase) parameters[{p.layer, p.tensor}] = i;
  }
  VisitFp8Linears(plan, [&](const model::LinearOp& linear, int64_t layer) {
    const ParameterPlace& place = map.places[parameters.at({layer, linear.members.front().weight})];
    const int64_t elements = linear.in_features * linear.out_features;
    weights.push_back({.flat = place.flat,
                       .elements = {place.offset, place.offset + elements},
                       .number = static_cast<int64_t>(weights.size()),
                       .trained = map.flats[place.flat].trained()});
  });
  return weights;
}

int64_t CountCodedWeights(const Plan& plan) {
  int64_t count = 0;
  if (!GathersCodes(plan)) return count;
  VisitFp8Linears(plan, [&count](const auto&, int64_t) { ++count; });
  return count;
}

int64_t CodedWeightOf(const Plan& plan, const model::LinearOp& linear, int64_t layer) {
  int64_t count = 0, found = -1;
  VisitFp8Linears(plan, [&](const model::LinearOp& other, int64_t of_layer) {
    if (of_layer == layer && other.id == linear.id) found = count;
    ++count;
  });
  return found;
}

int64_t GatheredAmaxes(const Plan& plan) { return CeilDiv(CountCodedWeights(plan), 4) * 4; }

std::vector<Buffer> CodedWeightRows(const Plan& plan) {
  const int64_t count = CountCodedWeights(plan);
  if (count == 0) return {};
  const auto row = [](const char* name, int64_t floats) {
    return Buffer{name, MemoryClass::kWeights, FloatBytes(floats), ""};
  };
  return {row(buffers::kFp8WeightAmaxes, (plan.shard + 1) * GatheredAmaxes(plan)),
          row(buffers::kFp8WeightScales, (count + 1) * kFloatsOfScale),
          row(buffers::kFp8Constants, kFloatsOfScale)};
}

GatheredBytes GatheredBytesOf(const Plan& plan) {
  GatheredBytes most;
  const ShardMap map(plan);
  std::vector<int64_t> elements(static_cast<size_t>(plan.model.num_layers + 2));
  for (const Flat& flat : map.flats) {
    if (!flat.coded) continue;
    most.codes = std::max(most.codes, elements[static_cast<size_t>(flat.unit)] += flat.elements);
  }
  most.values = StorageBytes(ComputeStorage(plan), most.codes);
  return most;
}

}  // namespace coxswain::plan
