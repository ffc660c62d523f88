#include "tests/sim/fakes/fake_model.h"

#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/sim/fakes/synthetic_curriculum.h"

namespace coxswain::sim {

uint64_t Mix(uint64_t state, uint64_t value) {
  state ^= value + 0x9E3779B97F4A7C15u + (state << 6) + (state >> 2);
  state *= 0xBF58476D1CE4E5B9u;
  return state ^ (state >> 31);
}

double Unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

void FakeModel::Train(std::span<const int64_t> batch) {
  for (const int64_t bin : batch) parameters = Mix(parameters, static_cast<uint64_t>(bin));
  ++steps;
}

std::string FakeModel::Serialize() const { return absl::StrCat(parameters, " ", steps); }

FakeModel FakeModel::Parse(const std::string& text) {
  std::istringstream in(text);
  FakeModel model;
  in >> model.parameters >> model.steps;
  return model;
}

uint64_t Lineage::ParametersAfter(int64_t steps) {
  while (static_cast<int64_t>(models_.size()) <= steps) {
    FakeModel next = models_.back();
    std::vector<int64_t> batch;
    for (const driver::BinSize& bin : StepBins(next.steps, bins_per_step_)) batch.push_back(bin.id);
    next.Train(batch);
    models_.push_back(next);
  }
  return models_[static_cast<size_t>(steps)].parameters;
}

}  // namespace coxswain::sim
