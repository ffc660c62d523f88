#include "kernels/tensors/whole_tensors.h"

#include <bit>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace checksum_test {
namespace {

uint64_t Sum(const Floats& values, uint64_t before = 0) {
  uint64_t sum = before;
  Checksum({.count = static_cast<int64_t>(values.size()), .values = values.data(), .sum = &sum},
           nullptr);
  return sum;
}

TEST(ChecksumTest, ChangesWithEveryBitAndWithTheOrder) {
  const Floats values = Normal(7, 1);
  EXPECT_EQ(Sum(values, 5), Sum(values) + 5);
  EXPECT_EQ(Sum({}, 5), 5u);
  for (size_t i = 0; i < 7; ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      Floats other = values;
      other[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(other[i]) ^ (1u << bit));
      EXPECT_NE(Sum(other), Sum(values)) << i << " " << bit;
    }
  }
  Floats swapped = values;
  std::swap(swapped[2], swapped[5]);
  EXPECT_NE(Sum(swapped), Sum(values));
  EXPECT_NE(Sum({0.0f, 0.0f}), Sum({0.0f}));
}

TEST(ChecksumTest, BFloat16BitsAreZeroExtended) {
  const std::vector<uint16_t> bits = {0x3f80, 0xc000, 0x0001};
  Floats as_float;
  for (const uint16_t word : bits) as_float.push_back(std::bit_cast<float>(uint32_t{word}));
  uint64_t sum = 0;
  Checksum({.dtype = DType::kBFloat16, .count = 3, .values = bits.data(), .sum = &sum}, nullptr);
  EXPECT_EQ(sum, Sum(as_float));
}

TEST(AllZeroTest, IgnoresTheSignOfZeroAndNothingElse) {
  for (const float other : {0.0f, 1e-45f, std::nanf("")}) {
    const Floats values = {0.0f, -0.0f, other, 0.0f};
    int32_t all_zero = 1;
    AllZero({.count = 4, .values = values.data(), .all_zero = &all_zero}, nullptr);
    EXPECT_EQ(all_zero, other == 0.0f ? 1 : 0);
  }
  const std::vector<uint16_t> bits = {0x8000, 0x0001};
  int32_t all_zero = 1;
  AllZero({.dtype = DType::kBFloat16, .count = 1, .values = bits.data(), .all_zero = &all_zero},
          nullptr);
  EXPECT_EQ(all_zero, 1);
  AllZero({.dtype = DType::kBFloat16, .count = 2, .values = bits.data(), .all_zero = &all_zero},
          nullptr);
  EXPECT_EQ(all_zero, 0);
}

TEST(ChecksumTensorsTest, AreThoseOfEachTensorAlone) {
  std::vector<Floats> tensors;
  for (const int64_t n : {7, 0, 16384, 40001, 1}) {
    tensors.push_back(Normal(n, static_cast<unsigned>(n)));
  }
  tensors.push_back(Floats(20000, -0.0f));
  std::vector<NormTensor> list;
  int64_t chunks = 0;
  for (const Floats& tensor : tensors) {
    const auto elements = static_cast<int64_t>(tensor.size());
    list.push_back({tensor.data(), elements, chunks, DType::kFloat32});
    chunks += TensorChunks(elements);
  }
  const std::vector<uint16_t> halves = {0x8000, 0x0001};
  list.push_back({halves.data(), 2, chunks, DType::kBFloat16});
  std::vector<TensorBits> bits(list.size(), {7, 7});
  ChecksumTensors({.tensors = list.data(),
                   .count = static_cast<int64_t>(list.size()),
                   .chunks = chunks + 1,
                   .bits = bits.data()},
                  nullptr);
  for (size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(bits[i].checksum, Sum(tensors[i])) << i;
  const std::vector<uint64_t> nonzero = {1, 0, 1, 1, 1, 0, 1};
  for (size_t i = 0; i < nonzero.size(); ++i) EXPECT_EQ(bits[i].nonzero, nonzero[i]) << i;
}

}  // namespace
}  // namespace checksum_test
}  // namespace coxswain::kernels
