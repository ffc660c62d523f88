// The quantised types of GGUF files: against what ggml writes and reads
// (tests/fixtures/gguf_blocks), and against the bounds of the formats.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "common/files/gguf_writer.h"
#include "common/files/safetensors/safetensors.h"
#include "tests/support/gguf_blocks.h"
#include "tests/support/gguf_file.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace gguf_blocks_test {
namespace {

using support::BlockValue;
using support::DecodeGguf;

constexpr GgufType kTypes[] = {GgufType::kQ5_0, GgufType::kQ5_1, GgufType::kQ4_K, GgufType::kQ5_K,
                               GgufType::kQ6_K};

std::string Encoded(GgufType type, const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  std::string bytes(static_cast<size_t>(GgufBytes(type, count)), '\0');
  EncodeGguf(type, values.data(), count, bytes.data());
  return bytes;
}

double SquaredError(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return sum;
}

class GgufBlocksTest : public testing::TestWithParam<GgufType> {
 protected:
  void SetUp() override {
    auto file = SafetensorsFile::Open("tests/fixtures/gguf_blocks/blocks.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    values_ = Floats("values");
  }
  std::vector<float> Floats(const std::string& name) const {
    const TensorInfo* tensor = file_->Find(name);
    std::vector<float> values(static_cast<size_t>(tensor->elements()));
    EXPECT_TRUE(CopyAsFloat(*tensor, values.data()).ok());
    return values;
  }
  std::string Name() const { return std::string(GgufTypeName(GetParam())); }
  std::string GgmlBytes() const {
    const TensorInfo* tensor = file_->Find(Name() + ".bytes");
    return {reinterpret_cast<const char*>(tensor->data), static_cast<size_t>(tensor->bytes)};
  }
  std::string Bytes() const { return Encoded(GetParam(), values_); }
  // Of equal values.
  std::vector<float> Read(float value) const {
    return DecodeGguf(GetParam(), Encoded(GetParam(), std::vector<float>(256, value)));
  }

  std::unique_ptr<SafetensorsFile> file_;
  std::vector<float> values_;
};

// Products of a float16 and such small integers are exact in float32, so one rounding is left.
TEST_P(GgufBlocksTest, LieAsGgmlReadsThem) {
  EXPECT_EQ(DecodeGguf(GetParam(), GgmlBytes()), Floats(Name() + ".decoded"));
}

// By what the whole search gains: with one round of the fit, or without the integers beside it, the
// error is above these parts of ggml's.
TEST_P(GgufBlocksTest, HaveLessErrorThanThoseOfGgml) {
  const std::map<GgufType, double> most = {{GgufType::kQ5_0, 0.900},
                                           {GgufType::kQ5_1, 0.895},
                                           {GgufType::kQ4_K, 0.982},
                                           {GgufType::kQ5_K, 0.946},
                                           {GgufType::kQ6_K, 0.954}};
  const double ours = SquaredError(values_, DecodeGguf(GetParam(), Bytes()));
  const double ggml = SquaredError(values_, Floats(Name() + ".decoded"));
  EXPECT_LT(std::sqrt(ours / ggml), most.at(GetParam()));
}

// A quotient of at most 63 steps has three roundings, of 2^-24 each; value and base have one.
TEST_P(GgufBlocksTest, GiveEachValueTheNearestCode) {
  const std::vector<BlockValue> read = support::ReadGgufBlocks(GetParam(), Bytes());
  for (size_t i = 0; i < read.size(); ++i) {
    const double step = std::fabs(read[i].step), x = values_[i];
    const double end = double{read[i].base} + double{read[i].step} * read[i].most;
    const double other_end = double{read[i].base} + double{read[i].step} * read[i].least;
    const double within = std::clamp(x, std::min(end, other_end), std::max(end, other_end));
    const double roundings = step * 63 * 3 * 0x1p-24 + (std::fabs(x) - read[i].base) * 0x1p-23;
    ASSERT_LE(std::fabs(within - read[i].value), step / 2 + roundings) << i << ": " << x;
  }
}

// What a sub-block spans, as FitLine says.
double WidthOf(GgufType type, const float* values, size_t count) {
  const auto [least, most] = std::minmax_element(values, values + count);
  if (type == GgufType::kQ5_1) return *most - *least;
  const bool symmetric = type == GgufType::kQ5_0 || type == GgufType::kQ6_K;
  return symmetric ? std::max(*most, -*least) : *most - std::min(*least, 0.0f);
}

// How far the integers of the sub-block, or without such the float16s, move a value at most: half a
// unit of the scale for each code, and half a unit of the minimum. Of Q6_K a whole unit, for there
// is no scale of 128 where -128 is that of another sub-block.
double RoundingOf(GgufType type, const BlockValue& read) {
  const int farthest = std::max(-read.least, read.most);
  if (type == GgufType::kQ6_K) return std::fabs(read.scale_unit) * farthest;
  if (type == GgufType::kQ4_K || type == GgufType::kQ5_K) {
    return read.scale_unit * farthest / 2 + read.minimum_unit / 2;
  }
  return std::fabs(read.step) * farthest * 0x1p-10 + std::fabs(read.base) * 0x1p-11;
}

// Of the four lines that a fit begins with, one spans the block and cuts nothing: its codes are
// half a step off at most, and the fit has no larger error. The integers that are nearest to the
// fit are off by their rounding, and what is chosen beside them has no larger error.
TEST_P(GgufBlocksTest, KeepToTheBoundOfTheFormat) {
  const std::vector<BlockValue> read = support::ReadGgufBlocks(GetParam(), Bytes());
  const size_t part = GetParam() == GgufType::kQ6_K ? 16 : 32;
  for (size_t begin = 0; begin < read.size(); begin += part) {
    double squares = 0;
    for (size_t i = begin; i < begin + part; ++i) {
      squares += std::pow(double{values_[i]} - double{read[i].value}, 2);
    }
    const int codes = read[begin].least < 0 ? -read[begin].least : read[begin].most;
    const double half_step = WidthOf(GetParam(), &values_[begin], part) / (codes - 0.9) / 2;
    const double bound = half_step + RoundingOf(GetParam(), read[begin]);
    EXPECT_LE(std::sqrt(squares / static_cast<double>(part)), bound * (1 + 0x1p-20)) << begin;
  }
}

// The largest scale of a block and its largest minimum are at the end of their integers, or one
// beside it.
TEST_P(GgufBlocksTest, UseTheIntegersToTheirEnd) {
  const std::vector<BlockValue> read = support::ReadGgufBlocks(GetParam(), Bytes());
  if (read[0].scale_unit == 0) return;  // has none
  const double end = GetParam() == GgufType::kQ6_K ? 127 : 62;
  for (size_t block = 0; block < read.size(); block += 256) {
    double scale = 0, minimum = 0;
    for (size_t i = block; i < block + 256; ++i) {
      scale = std::max(scale, std::fabs(double{read[i].step} / read[i].scale_unit));
      if (read[i].minimum_unit == 0) continue;
      minimum = std::max(minimum, -double{read[i].base} / read[i].minimum_unit);
    }
    EXPECT_GE(scale, end) << block;
    if (read[block].minimum_unit == 0) continue;
    EXPECT_GE(minimum, end) << block;
  }
}

// Also where there is no scale to divide by.
TEST_P(GgufBlocksTest, OfZerosHaveTheCodeOfZero) {
  std::string wanted(static_cast<size_t>(GgufBytes(GetParam(), GgufBlock(GetParam()))), '\0');
  if (GetParam() == GgufType::kQ5_0) wanted.replace(2, 4, 4, '\xff');      // 16: bit 4 of each
  if (GetParam() == GgufType::kQ6_K) wanted.replace(128, 64, 64, '\xaa');  // 32: bit 5 of each
  EXPECT_EQ(Encoded(GetParam(), std::vector<float>(256, 0.0f)).substr(0, wanted.size()), wanted);
}

TEST_P(GgufBlocksTest, OfEqualValuesAreThatValue) {
  EXPECT_EQ(Read(0), std::vector<float>(256, 0.0f));
  // Within the rounding of the float16 scale or minimum.
  for (const float value : {0.7f, -0.7f}) {
    for (const float read : Read(value)) EXPECT_NEAR(read, value, 0.7 * 0x1p-10);
  }
}

TEST_P(GgufBlocksTest, ThatAFloat16DoesNotReachAreNan) {
  const float reached = GgufBlock(GetParam()) == 32 ? 0x1p15f : 0x1p15f * 63;
  const auto read = [](float value) {
    std::vector<float> values(256, 1.0f);
    values[37] = value;
    return DecodeGguf(GetParam(), Encoded(GetParam(), values))[37];
  };
  for (const float good : {reached, -reached}) EXPECT_NEAR(read(good), good, reached / 28);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity,
                          std::nextafter(reached, infinity), -std::numeric_limits<float>::max()}) {
    EXPECT_TRUE(std::isnan(read(bad))) << bad;
  }
}

// A step is 2 / 14.1 of them at most, and one below the least float16, 2^-24, becomes that one or
// zero.
TEST_P(GgufBlocksTest, OfTinyValuesAreNear) {
  for (const float tiny : {1e-5f, 3e-7f, 1e-9f, 1e-30f, 1e-42f}) {
    std::vector<float> values(256);
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? -tiny : tiny;
    const std::vector<float> read = DecodeGguf(GetParam(), Encoded(GetParam(), values));
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(read[i], values[i], tiny / 14.1 + 0x1p-24);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GgufBlocksTest, testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(GgufTypeName(info.param)); });

// A tensor of several pieces, which threads encode, is as one encodes it.
TEST(GgufPiecesTest, FollowOneAnother) {
  const support::ScratchFolder folder;
  constexpr int64_t kRows = 515;
  std::vector<float> values(kRows * 256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i * i % 9973));
  const GgufTensor tensor{.name = "a",
                          .type = GgufType::kQ4_K,
                          .shape = {kRows, 256},
                          .fill = [&values](int64_t, float* out) {
                            std::copy(values.begin(), values.end(), out);
                            return absl::OkStatus();
                          }};
  const std::string path = folder.path() + "/x.gguf";
  ASSERT_TRUE(WriteGguf(path, {}, {tensor}).ok());
  EXPECT_EQ(support::ReadGguf(path).data.at("a"), Encoded(GgufType::kQ4_K, values));
}

}  // namespace
}  // namespace gguf_blocks_test
}  // namespace coxswain
