#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/files/weights/weight_files.h"
#include "gtest/gtest.h"
#include "tests/common/files/torch_archive.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

class WeightFilesTest : public testing::Test {
 protected:
  void WriteShard(const std::string& file, const std::string& tensor, float value) {
    const TensorSource source{
        .name = tensor, .dtype = ElementType::kF32, .shape = {1}, .fill = [value](uint8_t* out) {
          std::memcpy(out, &value, sizeof(value));
          return absl::OkStatus();
        }};
    ASSERT_TRUE(WriteSafetensors(folder_ + "/" + file, {source}).ok());
  }

  void WriteIndex(const std::string& text, const std::string& of = "model.safetensors") {
    std::ofstream(folder_ + "/" + of + ".index.json") << text;
  }

  void WriteTorchFile(const std::string& file, const std::string& tensor, float value) {
    std::ofstream(folder_ + "/" + file) << archive::File(
        {{.name = tensor, .elements = 1, .shape = {1}, .strides = {1}}}, archive::Bytes(value));
  }

  const support::ScratchFolder scratch_;
  const std::string folder_ = scratch_.path();
};

float Value(const TensorInfo* tensor) {
  float value = 0;
  EXPECT_TRUE(CopyAsFloat(*tensor, &value).ok());
  return value;
}

TEST_F(WeightFilesTest, ReadsASingleFile) {
  WriteShard("model.safetensors", "w", 3.0f);
  const auto weights = WeightFiles::Open(folder_);
  ASSERT_TRUE(weights.ok()) << weights.status();
  ASSERT_EQ((*weights)->tensors().size(), 1u);
  EXPECT_EQ(Value((*weights)->Find("w")), 3.0f);
  EXPECT_EQ((*weights)->Find("v"), nullptr);
}

TEST_F(WeightFilesTest, ReadsShardsByWeightMapAlone) {
  WriteShard("model-00001-of-00002.safetensors", "a", 1.0f);
  WriteShard("model-00002-of-00002.safetensors", "b", 2.0f);
  WriteIndex(R"({"weight_map":{"a":"model-00001-of-00002.safetensors",)"
             R"("b":"model-00002-of-00002.safetensors"}})");
  const auto weights = WeightFiles::Open(folder_);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ((*weights)->tensors().size(), 2u);
  EXPECT_EQ(Value((*weights)->Find("a")), 1.0f);
  EXPECT_EQ(Value((*weights)->Find("b")), 2.0f);
}

TEST_F(WeightFilesTest, FindsTensorsUnderOtherPrefixes) {
  WriteShard("model.safetensors", "old.w", 3.0f);
  const auto weights = WeightFiles::Open(folder_, {{"older.", "newer."}, {"old.", "new."}});
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(Value((*weights)->Find("new.w")), 3.0f);
  EXPECT_EQ((*weights)->Find("old.w"), nullptr);
  EXPECT_EQ((*weights)->tensors()[0]->name, "old.w");
}

TEST_F(WeightFilesTest, TwoNamesOfOneTensorAreRefused) {
  WriteShard("a.safetensors", "old.w", 1.0f);
  WriteShard("b.safetensors", "new.w", 2.0f);
  WriteIndex(R"({"weight_map":{"old.w":"a.safetensors","new.w":"b.safetensors"}})");
  EXPECT_TRUE(WeightFiles::Open(folder_).ok());
  const auto status = WeightFiles::Open(folder_, {{"old.", "new."}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("\"old.w\""), std::string::npos) << status;
}

TEST_F(WeightFilesTest, MissingShardOrTensorIsNamed) {
  WriteIndex(R"({"weight_map":{"a":"gone.safetensors"}})");
  const auto missing = WeightFiles::Open(folder_).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.ToString().find("gone.safetensors"), std::string::npos);
  WriteShard("gone.safetensors", "other", 1.0f);
  const auto lacking = WeightFiles::Open(folder_).status();
  EXPECT_EQ(lacking.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(lacking.ToString().find("\"a\""), std::string::npos);
}

TEST_F(WeightFilesTest, RefusesAnIndexThatIsNotOne) {
  for (const char* text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{"a":1}})",
                           R"({"weight_map":{"a":"../secret.safetensors"}})"}) {
    WriteIndex(text);
    EXPECT_EQ(WeightFiles::Open(folder_).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST_F(WeightFilesTest, ReadsFilesOfTorchWhereThereAreNoSafetensors) {
  WriteIndex(R"({"weight_map":{"a":"pytorch_model-1.bin","b":"pytorch_model-2.bin"}})",
             "pytorch_model.bin");
  WriteTorchFile("pytorch_model-1.bin", "a", 1.0f);
  WriteTorchFile("pytorch_model-2.bin", "b", 2.0f);
  const auto sharded = WeightFiles::Open(folder_);
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  EXPECT_EQ(Value((*sharded)->Find("a")), 1.0f);
  EXPECT_EQ(Value((*sharded)->Find("b")), 2.0f);
  EXPECT_EQ((*sharded)->PathOf(*(*sharded)->Find("b")), folder_ + "/pytorch_model-2.bin");
  EXPECT_TRUE((*sharded)->Intact().ok());
  EXPECT_EQ(*WeightPaths(folder_), (std::vector<std::string>{folder_ + "/pytorch_model-1.bin",
                                                             folder_ + "/pytorch_model-2.bin"}));

  WriteTorchFile("pytorch_model.bin", "w", 3.0f);
  EXPECT_EQ(*FindWeights(folder_), folder_ + "/pytorch_model.bin");
  EXPECT_EQ(*WeightPaths(folder_), std::vector<std::string>{folder_ + "/pytorch_model.bin"});
  const auto single = WeightFiles::Open(folder_);
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ(Value((*single)->Find("w")), 3.0f);

  // Safetensors win, sharded ones too.
  WriteShard("s.safetensors", "w", 4.0f);
  WriteIndex(R"({"weight_map":{"w":"s.safetensors"}})");
  EXPECT_EQ(*FindWeights(folder_), folder_ + "/model.safetensors.index.json");
  EXPECT_EQ(Value((*WeightFiles::Open(folder_))->Find("w")), 4.0f);
}

TEST_F(WeightFilesTest, EmptyFolderSaysWhatWasLookedFor) {
  const auto status = WeightFiles::Open(folder_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  for (const std::string& part : {folder_, std::string("model.safetensors.index.json"),
                                  std::string("pytorch_model.bin.index.json")}) {
    EXPECT_NE(status.ToString().find(part), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace coxswain
