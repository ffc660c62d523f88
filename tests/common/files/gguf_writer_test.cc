#include "common/files/gguf_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "common/element_type.h"
#include "tests/support/gguf_file.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

std::string Encoded(GgufType type, const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  std::string bytes(static_cast<size_t>(GgufBytes(type, count)), '\0');
  EncodeGguf(type, values.data(), count, bytes.data());
  return bytes;
}

float ScaleOf(const std::string& block) {
  uint16_t bits;
  std::memcpy(&bits, block.data(), sizeof(bits));
  return HalfToFloat(bits);
}

class GgufWriterTest : public testing::Test {
 protected:
  const support::ScratchFolder folder_;
  const std::string path_ = folder_.path() + "/x.gguf";
};

TEST_F(GgufWriterTest, WritesFieldsAndTensorsThatAreReadBack) {
  const std::vector<GgufField> fields = {{"number", uint32_t{7}},
                                         {"part", 0.5f},
                                         {"yes", true},
                                         {"text", std::string("a \"b\"")},
                                         {"texts", std::vector<std::string>{"x", ""}},
                                         {"numbers", std::vector<int32_t>{-1, 3}}};
  // Five elements, so that the second begins behind padding; parts are filled in order.
  const std::vector<GgufTensor> tensors = {{.name = "a",
                                            .type = GgufType::kF32,
                                            .shape = {5},
                                            .fill =
                                                [](int64_t, float* out) {
                                                  for (int i = 0; i < 5; ++i)
                                                    out[i] = static_cast<float>(i);
                                                  return absl::OkStatus();
                                                }},
                                           {.name = "b",
                                            .type = GgufType::kF16,
                                            .shape = {2, 3, 4},
                                            .parts = 2,
                                            .fill = [](int64_t part, float* out) {
                                              std::fill_n(out, 12, static_cast<float>(part + 1));
                                              return absl::OkStatus();
                                            }}};
  ASSERT_TRUE(WriteGguf(path_, fields, tensors).ok());
  const support::GgufFacts file = support::ReadGguf(path_);
  EXPECT_EQ(file.fields.at("number")["value"], 7);
  EXPECT_EQ(file.fields.at("part")["value"], 0.5);
  EXPECT_EQ(file.fields.at("yes")["value"], true);
  EXPECT_EQ(file.fields.at("text")["value"], "a \"b\"");
  EXPECT_EQ(file.arrays.at("texts"), (nlohmann::json{"x", ""}));
  EXPECT_EQ(file.arrays.at("numbers"), (nlohmann::json{-1, 3}));
  EXPECT_EQ(file.tensors.at("b")["shape"], (nlohmann::json{4, 3, 2}));
  EXPECT_EQ(file.data.at("a").substr(16), std::string("\0\0\x80\x40", 4));
  std::string halves;
  for (int i = 0; i < 24; ++i) halves += std::string(i < 12 ? "\0\x3c" : "\0\x40", 2);
  EXPECT_EQ(file.data.at("b"), halves);
  EXPECT_EQ(file.file_bytes % 32, 0);
}

TEST_F(GgufWriterTest, RefusesTwoOfOneNameAndRowsOfHalfABlock) {
  const auto zero = [](int64_t, float* out) {
    *out = 0;
    return absl::OkStatus();
  };
  const GgufTensor one{.name = "a", .type = GgufType::kF32, .shape = {1}, .fill = zero};
  EXPECT_EQ(WriteGguf(path_, {}, {one, one}).message(), path_ + ": two tensors have the name a");
  const GgufTensor odd{.name = "a", .type = GgufType::kQ8_0, .shape = {2, 48}, .fill = zero};
  EXPECT_NE(WriteGguf(path_, {}, {odd}).message().find("blocks of 32"), std::string::npos);
}

TEST_F(GgufWriterTest, LeavesNothingWhereATensorFails) {
  const GgufTensor broken{
      .name = "a", .type = GgufType::kF32, .shape = {1}, .fill = [](int64_t, float*) {
        return absl::DataLossError("gone");
      }};
  EXPECT_EQ(WriteGguf(path_, {}, {broken}).message(), "gone");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// d = max|x| / 127; quotients are rounded half away from zero: 0.5 becomes 1, where half to even
// would give 0.
TEST(GgufTypeTest, Q8RoundsHalfAwayFromZero) {
  std::vector<float> values(32, 0.0f);
  values[0] = -127.0f;
  values[1] = 0.5f;
  values[2] = -2.5f;
  values[3] = 100.25f;
  const std::string block = Encoded(GgufType::kQ8_0, values);
  ASSERT_EQ(block.size(), 34u);
  EXPECT_EQ(ScaleOf(block), 1.0f);
  const auto at = [&block](size_t i) {
    return static_cast<int>(static_cast<int8_t>(block[2 + i]));
  };
  EXPECT_EQ(at(0), -127);
  EXPECT_EQ(at(1), 1);
  EXPECT_EQ(at(2), -3);
  EXPECT_EQ(at(3), 100);
}

TEST(GgufTypeTest, Q8OfZerosIsZeroAndNanStaysNan) {
  EXPECT_EQ(Encoded(GgufType::kQ8_0, std::vector<float>(32, 0.0f)), std::string(34, '\0'));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(32, 1.0f);
    values[5] = bad;
    EXPECT_TRUE(std::isnan(ScaleOf(Encoded(GgufType::kQ8_0, values))));
  }
}

}  // namespace
}  // namespace coxswain
