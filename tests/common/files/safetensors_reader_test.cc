#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "common/files/safetensors/safetensors.h"
#include "gtest/gtest.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

std::string U64(uint64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}

std::string FileOf(const std::string& header, const std::string& data) {
  return U64(header.size()) + header + data;
}

std::string Write(const std::string& bytes) {
  static const support::ScratchFolder folder;
  return folder.Write(std::to_string(std::hash<std::string>{}(bytes)) + ".safetensors", bytes);
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenBytes(const std::string& bytes) {
  return SafetensorsFile::Open(Write(bytes));
}

// Refused with InvalidArgument, naming the file and `expected`.
void ExpectRefused(const std::string& bytes, const std::string& expected) {
  const auto file = OpenBytes(bytes);
  ASSERT_FALSE(file.ok()) << "accepted; expected: " << expected;
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(file.status().message());
  EXPECT_NE(message.find(expected), std::string::npos) << message;
  EXPECT_NE(message.find(".safetensors"), std::string::npos) << message;
}

constexpr char kTwo[] = R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                        R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";

TEST(SafetensorsReaderTest, ReadsTensorsInOffsetOrderAnyKeyOrder) {
  const auto file = OpenBytes(FileOf(
      R"({"b":{"data_offsets":[4,8],"shape":[],"dtype":"F32"},"__metadata__":{"format":"pt"},)"
      R"("empty":{"dtype":"I64","shape":[0,3],"data_offsets":[4,4]},)"
      R"("a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}})",
      std::string("\x80\x3f\x00\xc0", 4) + std::string("\x00\x00\x20\x41", 4)));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tensors().size(), 3u);
  EXPECT_EQ((*file)->tensors()[0].name, "a");
  EXPECT_EQ((*file)->tensors()[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ((*file)->tensors()[1].name, "empty");
  EXPECT_EQ((*file)->tensors()[1].elements(), 0);
  EXPECT_EQ((*file)->tensors()[2].name, "b");
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
  float values[2];
  ASSERT_TRUE(CopyAsFloat(*(*file)->Find("a"), values).ok());
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -2.0f);
  ASSERT_TRUE(CopyAsFloat(*(*file)->Find("b"), values).ok());  // rank 0: one element
  EXPECT_EQ(values[0], 10.0f);
  EXPECT_EQ((*file)->Find("c"), nullptr);
}

TEST(SafetensorsReaderTest, AcceptsAFileWithoutTensorsAndTrailingSpaces) {
  EXPECT_TRUE(OpenBytes(FileOf("{}", "")).ok());
  EXPECT_TRUE(OpenBytes(FileOf("{}     ", "")).ok());
}

TEST(SafetensorsReaderTest, RefusesBadFraming) {
  ExpectRefused("", "0 bytes");
  ExpectRefused("1234567", "7 bytes");
  ExpectRefused(U64(100'000'001) + std::string(64, ' '), "limit is 100000000");
  ExpectRefused(U64(std::numeric_limits<uint64_t>::max()) + "{}", "limit");
  ExpectRefused(U64(3) + "{}", "claims 3 bytes, the file has 10");
}

TEST(SafetensorsReaderTest, RefusesBadJson) {
  ExpectRefused(FileOf("", ""), "does not begin with '{'");
  ExpectRefused(FileOf(" {}", ""), "does not begin with '{'");
  ExpectRefused(FileOf("[]", ""), "does not begin with '{'");
  ExpectRefused(FileOf("{", ""), "not valid JSON");
  ExpectRefused(FileOf("{}{}", ""), "not valid JSON");
  ExpectRefused(FileOf("{\"\xff\":{}}", ""), "not valid JSON");
  ExpectRefused(FileOf(R"({"a":1})", ""), "has a number");
  ExpectRefused(FileOf(R"({"a":null})", ""), "has null");
  ExpectRefused(FileOf(R"({"a":[]})", ""), "has an array");
}

TEST(SafetensorsReaderTest, RefusesDuplicateKeysThatADomWouldHide) {
  ExpectRefused(FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                       "x"),
                "duplicate name \"a\"");
  ExpectRefused(
      FileOf(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "x"),
      "duplicate field dtype");
  ExpectRefused(FileOf(R"({"__metadata__":{"k":"1","k":"2"}})", ""), "duplicate metadata key");
}

TEST(SafetensorsReaderTest, RefusesBadMetadata) {
  ExpectRefused(FileOf(R"({"__metadata__":{"k":1}})", ""), "strings to strings");
  ExpectRefused(FileOf(R"({"__metadata__":{"k":{}}})", ""), "strings to strings");
  ExpectRefused(FileOf(R"({"__metadata__":"k"})", ""), "strings to strings");
}

TEST(SafetensorsReaderTest, RefusesBadTensorFields) {
  ExpectRefused(FileOf(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "1234"),
                "unknown dtype \"F33\"");
  ExpectRefused(FileOf(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "1234"), "no dtype");
  ExpectRefused(FileOf(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "1234"), "no shape");
  ExpectRefused(FileOf(R"({"a":{"dtype":"F32","shape":[1]}})", "1234"), "no data_offsets");
  ExpectRefused(FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1234"),
                "two data_offsets");
  ExpectRefused(FileOf(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"),
                "negative");
  ExpectRefused(FileOf(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "1234"),
                "fraction");
  ExpectRefused(FileOf(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "1234"),
                "an array");
  ExpectRefused(
      FileOf(R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", "1234"),
      "too large");
  ExpectRefused(
      FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}})", "1234"),
      "unknown field \"extra\"");
}

TEST(SafetensorsReaderTest, RefusesSizesThatDisagree) {
  ExpectRefused(FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
                "needs 8 bytes");
  ExpectRefused(FileOf(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
                       R"("data_offsets":[0,4]}})",
                       "1234"),
                "overflows");
  ExpectRefused(FileOf(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "1"), "12 bits");
  ExpectRefused(FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "1"),
                "data_offsets [1, 0]");
  EXPECT_TRUE(
      OpenBytes(FileOf(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "1")).ok());
}

// Invariant common-4.
TEST(SafetensorsReaderTest, RefusesHolesOverlapsAliasesAndTrailingBytes) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_TRUE(OpenBytes(FileOf(two("[0,4]", "[4,8]"), "12345678")).ok());
  ExpectRefused(FileOf(two("[0,4]", "[5,9]"), "123456789"), "hole, overlap or alias");
  ExpectRefused(FileOf(two("[0,4]", "[3,7]"), "1234567"), "hole, overlap or alias");
  ExpectRefused(FileOf(two("[0,4]", "[0,4]"), "1234"), "hole, overlap or alias");
  ExpectRefused(FileOf(two("[1,5]", "[5,9]"), "123456789"), "hole, overlap or alias");
  ExpectRefused(FileOf(two("[0,4]", "[4,8]"), "123456789"), "trailing bytes");
  ExpectRefused(FileOf(two("[0,4]", "[4,8]"), "1234567"), "truncated");
}

TEST(SafetensorsReaderTest, MissingFileIsNotFoundAndNamed) {
  const std::string path = testing::TempDir() + "/none/model.safetensors";
  const auto file = SafetensorsFile::Open(path);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(file.status().ToString().find(path), std::string::npos);
  EXPECT_EQ(SafetensorsFile::Open(testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SafetensorsReaderTest, CopiesRangesOfEveryFloatDTypeAtOddAddresses) {
  // One leading byte makes every later tensor unaligned.
  std::string data = "\x07";
  for (const double v : {1.5, -2.25}) data.append(reinterpret_cast<const char*>(&v), 8);
  for (const float v : {3.5f, -4.75f}) data.append(reinterpret_cast<const char*>(&v), 4);
  data += std::string("\x00\x3c\x00\xc0", 4);  // half 1, -2
  const auto file = OpenBytes(FileOf(R"({"pad":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                     R"("d":{"dtype":"F64","shape":[2],"data_offsets":[1,17]},)"
                                     R"("f":{"dtype":"F32","shape":[2],"data_offsets":[17,25]},)"
                                     R"("h":{"dtype":"F16","shape":[2],"data_offsets":[25,29]}})",
                                     data));
  ASSERT_TRUE(file.ok()) << file.status();
  float value = 0;
  for (const auto& [name, expected] :
       std::map<std::string, float>{{"d", -2.25f}, {"f", -4.75f}, {"h", -2.0f}}) {
    ASSERT_TRUE(CopyRangeAsFloat(*(*file)->Find(name), 1, 1, &value).ok());
    EXPECT_EQ(value, expected) << name;
  }
  EXPECT_FALSE(CopyRangeAsFloat(*(*file)->Find("f"), 1, 2, &value).ok());
  EXPECT_FALSE(CopyRangeAsFloat(*(*file)->Find("f"), -1, 1, &value).ok());
  const absl::Status wrong = CopyAsFloat(*(*file)->Find("pad"), &value);
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(wrong.ToString().find("\"pad\" has dtype U8"), std::string::npos) << wrong;
}

// Whatever happens to a valid file, opening it ends in a Status and accepted tensors lie inside.
TEST(SafetensorsReaderTest, SurvivesRandomDamage) {
  const std::string valid = FileOf(kTwo, "12345678");
  std::mt19937 random(7);
  const support::ScratchFolder folder;
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = valid;
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int e = 0; e < edits && !bytes.empty(); ++e) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.resize(at);
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(random()));
          break;
        default:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
      }
    }
    const auto file = SafetensorsFile::Open(folder.Write("damaged.safetensors", bytes));
    if (!file.ok()) continue;
    ++accepted;
    for (const TensorInfo& tensor : (*file)->tensors()) {
      std::vector<float> out(static_cast<size_t>(tensor.elements()));
      const absl::Status copied = CopyAsFloat(tensor, out.data());
      EXPECT_TRUE(copied.ok() || copied.code() == absl::StatusCode::kInvalidArgument);
    }
  }
  EXPECT_GT(accepted, 0);  // damage to the data alone is not visible
}

}  // namespace
}  // namespace coxswain
