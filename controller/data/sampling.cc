#include "controller/data/sampling.h"

#include <cmath>

#include "common/philox.h"

namespace coxswain::data {
namespace {

uint64_t Draw(uint64_t seed, RandomPurpose purpose, RecordId record) {
  const auto bits = Philox4x32({static_cast<uint32_t>(record.index),
                                static_cast<uint32_t>(static_cast<uint64_t>(record.index) >> 32),
                                static_cast<uint32_t>(record.source), 0},
                               PhiloxKey(seed, purpose));
  return (uint64_t{bits[0]} << 32) | bits[1];
}

}  // namespace

int64_t CopiesOf(uint64_t seed, RecordId record, double weight) {
  const double whole = std::floor(weight);
  const uint64_t bits = Draw(seed, RandomPurpose::kWeightCopies, record);
  const double uniform = static_cast<double>(bits >> 11) * 0x1p-53;
  return static_cast<int64_t>(whole) + (uniform < weight - whole ? 1 : 0);
}

uint64_t HoldBackDraw(uint64_t seed, RecordId record) {
  return Draw(seed, RandomPurpose::kValSplit, record);
}

}  // namespace coxswain::data
