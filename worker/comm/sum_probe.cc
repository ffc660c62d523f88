#include "worker/comm/sum_probe.h"

#include <xxhash.h>

#include <bit>

#include "absl/strings/str_cat.h"

namespace coxswain::comm {
namespace {

// A float32 of random sign, fraction and size between 2^-4 and 2^3.
float Number(uint64_t seed) {
  const uint64_t bits = XXH64(&seed, sizeof(seed), 0);
  const auto exponent = static_cast<uint32_t>(123 + bits % 8);
  return std::bit_cast<float>(static_cast<uint32_t>(bits >> 32 & 0x807fffffu) | exponent << 23);
}

}  // namespace

SumProbe::SumProbe(int rank) {
  for (int64_t i = 0; i < kNumbers; ++i) {
    const float number = Number(static_cast<uint64_t>(rank) << 32 | static_cast<uint64_t>(i));
    floats_.push_back(number);
    halves_.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16));
  }
}

const void* SumProbe::Numbers(kernels::DType dtype) const {
  if (dtype == kernels::DType::kFloat32) return floats_.data();
  return halves_.data();
}

void SumProbe::Take(const void* result, int64_t bytes) {
  digest_ = XXH3_64bits_withSeed(result, static_cast<size_t>(bytes), digest_);
}

std::string SumProbe::Digest() const { return absl::StrCat(absl::Hex(digest_, absl::kZeroPad16)); }

}  // namespace coxswain::comm
