// The formula of 8-bit AdamW against bitsandbytes, run freely: eight updates from the first on.
#include "tests/reference/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "common/files/safetensors/safetensors.h"

namespace coxswain::reference {
namespace {

template <typename T>
std::vector<T> Read(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* tensor = file.Find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<T> values(static_cast<size_t>(tensor->elements()));
  std::memcpy(values.data(), tensor->data, static_cast<size_t>(tensor->bytes));
  return values;
}

std::vector<double> ReadDoubles(const SafetensorsFile& file, const std::string& name) {
  const std::vector<float> values = Read<float>(file, name);
  return {values.begin(), values.end()};
}

void ExpectWithinOneCode(const std::vector<uint8_t>& actual, const std::vector<uint8_t>& want,
                         const std::set<size_t>& apart) {
  ASSERT_EQ(actual.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(std::abs(actual[i] - want[i]) <= 1 || apart.count(i) == 1) << i;
  }
}

// Made by bitsandbytes on a CPU, which looks codes up on a grid of 65,536 points in float32: three
// roundings put one value in 200 on the neighbouring point, and from 1 / 500 near 1 to all below
// 1e-4 have another code there, on the whole about one in 20. From such a code on the element goes
// another way: of 16 lookups a value 16 / 4,000 of the elements. Two and a half times as many may.
TEST(AdamW8bitReferenceTest, EightUpdatesAreThoseOfBitsandbytes) {
  const char* shared = std::getenv("COXSWAIN_SHARED");
  const std::string path = std::string(shared != nullptr ? shared : "../shared") +
                           "/fixtures/bits/adamw8bit.safetensors";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs " << path;
  const auto opened = SafetensorsFile::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const SafetensorsFile& file = **opened;
  AdamW8bitState<double> state;
  state.p = ReadDoubles(file, "param_0");
  for (BlockStates<double>* states : {&state.m, &state.v}) {
    states->codes.resize(state.p.size());
    states->absmax.resize((state.p.size() + 255) / 256);
  }
  std::set<size_t> apart;
  const AdamWOptions<double> o{1e-3, 0.9, 0.999, 1e-8, 0.01};
  for (int64_t update = 1; update <= 8; ++update) {
    const std::string step = std::to_string(update);
    AdamW8bitUpdate(o, ReadDoubles(file, "grad_" + step), update, NearestIndexOnGrid<double>,
                    &state);
    const std::vector<double> p = ReadDoubles(file, "param_" + step);
    for (size_t i = 0; i < p.size(); ++i) {
      if (!(std::abs(state.p[i] - p[i]) <= 1e-6)) apart.insert(i);
    }
  }
  EXPECT_LE(apart.size(), state.p.size() / 100);
  ExpectWithinOneCode(state.m.codes, Read<uint8_t>(file, "state1"), apart);
  ExpectWithinOneCode(state.v.codes, Read<uint8_t>(file, "state2"), apart);
  const std::vector<double> m = ReadDoubles(file, "absmax1"), v = ReadDoubles(file, "absmax2");
  for (size_t b = 0; b < m.size(); ++b) {
    EXPECT_NEAR(state.m.absmax[b] / m[b], 1, 1e-6);
    EXPECT_NEAR(state.v.absmax[b] / v[b], 1, 1e-6);
  }
  const std::vector<double> maps[] = {DynamicMapValues<double>(true),
                                      DynamicMapValues<double>(false)};
  for (int i = 0; i < 2; ++i) {
    const std::vector<double> theirs = ReadDoubles(file, i == 0 ? "qmap1" : "qmap2");
    for (size_t code = 0; code < theirs.size(); ++code) {
      EXPECT_NEAR(maps[i][code], theirs[code], 4 * 0x1p-24 * std::abs(theirs[code]));
    }
  }
}

}  // namespace
}  // namespace coxswain::reference
