// Invariant common-8.
#include "common/files/torch/torch_file.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/common/files/torch_archive.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

using archive::File;
using archive::View;
using archive::Zip;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr char kFixtures[] = "tests/fixtures/torch_files/";

std::string FileRefusal(const std::string& file) {
  const auto tensors = ReadTorchTensors(file);
  if (tensors.ok()) return "read";
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensors.status().message());
}

void ExpectPart(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

std::string ContentOf(const TensorInfo& tensor) {
  std::string bytes(static_cast<size_t>(tensor.bytes), '\0');
  CopyRangeBytes(tensor, 0, tensor.elements(), reinterpret_cast<uint8_t*>(bytes.data()));
  return bytes;
}

std::string HexOf(const std::string& bytes) {
  std::string hex;
  for (const char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<uint8_t>(byte) >> 4];
    hex += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return hex;
}

// Six floats: 0 to 5.
std::string SixFloats() {
  std::string bytes;
  for (float value = 0; value < 6; ++value) bytes += archive::Bytes(value);
  return bytes;
}

TEST(TorchFileTest, ReadsWhatTorchReadsFromItsFiles) {
  const auto expected =
      nlohmann::json::parse(std::ifstream(kFixtures + std::string("expected.json")));
  for (const char* name : {"by_torch_1_13.bin", "by_torch_2_15.bin"}) {
    const auto file = TorchFile::Open(std::string(kFixtures) + name);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->tensors().size(), expected.size());
    for (const auto& [key, entry] : expected.items()) {
      const TensorInfo* tensor = (*file)->Find(key);
      ASSERT_NE(tensor, nullptr) << key;
      EXPECT_EQ(std::string(ElementName(tensor->dtype)), entry["dtype"].get<std::string>()) << key;
      EXPECT_EQ(nlohmann::json(tensor->shape), entry["shape"]) << key;
      EXPECT_EQ(HexOf(ContentOf(*tensor)), entry["bytes"].get<std::string>()) << key;
    }
    // Tied weights share their bytes; of views only those with gaps have strides.
    EXPECT_EQ((*file)->Find("0.weight")->data, (*file)->Find("1.weight")->data);
    EXPECT_FALSE((*file)->Find("view.transposed")->strides.empty());
    EXPECT_TRUE((*file)->Find("view.row")->strides.empty());
    EXPECT_TRUE((*file)->Intact().ok());
  }
}

TEST(TorchFileTest, EveryRangeOfAStridedViewReadsRight) {
  const std::string bytes =
      File({{.name = "t", .elements = 6, .shape = {3, 2}, .strides = {1, 3}}}, SixFloats());
  const auto tensors = ReadTorchTensors(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const std::vector<float> whole = {0, 3, 1, 4, 2, 5};
  for (int64_t begin = 0; begin <= 6; ++begin) {
    for (int64_t count = 0; begin + count <= 6; ++count) {
      std::vector<float> part(static_cast<size_t>(count));
      ASSERT_TRUE(CopyRangeAsFloat((*tensors)[0], begin, count, part.data()).ok());
      EXPECT_EQ(part, std::vector<float>(whole.begin() + begin, whole.begin() + begin + count));
    }
  }
}

// More than CopyRangeAsFloat takes at once.
TEST(TorchFileTest, ALargeTransposedMatrixReadsRight) {
  constexpr int64_t kRows = 300, kCols = 500;
  std::vector<float> values(kRows * kCols);
  std::iota(values.begin(), values.end(), 0.0f);
  const std::string data(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  const std::string bytes = File(
      {{.name = "t", .elements = kRows * kCols, .shape = {kCols, kRows}, .strides = {1, kCols}}},
      data);
  const auto tensors = ReadTorchTensors(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  std::vector<float> read(values.size());
  ASSERT_TRUE(CopyAsFloat((*tensors)[0], read.data()).ok());
  for (int64_t row = 0; row < kCols; ++row) {
    for (int64_t col = 0; col < kRows; ++col) {
      ASSERT_EQ(read[row * kRows + col], values[col * kCols + row]) << row << " " << col;
    }
  }
}

TEST(TorchFileTest, ViewsThatLeaveTheirStorageAreRefused) {
  const auto refusal = [](View view) {
    if (view.elements == 0) view.elements = 6;
    return FileRefusal(File({view}, SixFloats()));
  };
  EXPECT_EQ(refusal({.offset = 3, .shape = {3}, .strides = {1}}), "read");
  EXPECT_EQ(refusal({.offset = kMost, .shape = {0, kMost}, .strides = {kMost, 1}}), "read");
  for (const View& view : std::vector<View>{
           {.offset = 4, .shape = {3}, .strides = {1}},
           {.offset = 6, .shape = {}, .strides = {}},
           {.offset = kMost, .shape = {2}, .strides = {1}},
           {.offset = std::numeric_limits<int64_t>::min(), .shape = {1}, .strides = {1}},
           {.offset = 1, .shape = {2}, .strides = {kMost}},
           {.shape = {kMost, kMost}, .strides = {1, 1}},
           {.shape = {kMost, kMost, kMost}, .strides = {0, 0, 0}},
           {.shape = {int64_t{1} << 32, int64_t{1} << 32}, .strides = {0, 0}},
           {.shape = {3, 2}, .strides = {3, 1}}}) {
    ExpectPart(refusal(view), "leaves its storage of 6 elements");
  }
  ExpectPart(refusal({.shape = {7}, .strides = {0}}), "repeats the 6 elements");
  ExpectPart(refusal({.shape = {-1}, .strides = {1}}), "negative extent or stride");
  ExpectPart(refusal({.offset = 5, .shape = {2}, .strides = {-1}}), "negative extent or stride");
}

TEST(TorchFileTest, StoragesThatAreNotThereAreRefused) {
  const View whole{.name = "w", .elements = 6, .shape = {6}, .strides = {1}};
  ExpectPart(FileRefusal(File({whole}, SixFloats().substr(1))), "of which it holds 23 bytes");
  View view = whole;
  view.elements = kMost;
  ExpectPart(FileRefusal(File({view}, SixFloats())), "a storage of 9223372036854775807 elements");
  view = whole;
  view.storage = "DoubleStorage";
  ExpectPart(FileRefusal(File({view}, SixFloats())), "6 elements of F64");
  for (const char* key : {"1", "../../etc/passwd", ""}) {
    view = whole;
    view.key = key;
    ExpectPart(FileRefusal(File({view}, SixFloats())), "which it lacks");
  }
}

TEST(TorchFileTest, BigEndianStoragesAreRefused) {
  EXPECT_EQ(FileRefusal(Zip({{"a/data.pkl", archive::StateDict({})}})), "read");
  ExpectPart(FileRefusal(Zip({{"a/data.pkl", archive::StateDict({})}, {"a/byteorder", "big"}})),
             "byte order \"big\"");
}

TEST(TorchFileTest, ErrorsNameTheFile) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/pytorch_model.bin";
  std::ofstream(path) << Zip({{"a/data.pkl", archive::Pickle(archive::Class("os", "system"))}});
  const absl::Status status = TorchFile::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  ExpectPart(std::string(status.message()),
             path + " is not read: data.pkl, byte 2: it asks for os");
  EXPECT_EQ(TorchFile::Open(path + "x").status().code(), absl::StatusCode::kNotFound);
}

TEST(TorchFileTest, AFileThatIsCutIsNotIntact) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/pytorch_model.bin";
  const std::string data(1 << 20, '\0');
  std::ofstream(path) << File({{.name = "w", .elements = 4, .shape = {4}, .strides = {1}}}, data);
  const auto file = TorchFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Intact().ok());
  std::filesystem::resize_file(path, 4096);
  EXPECT_EQ((*file)->Intact().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace coxswain
