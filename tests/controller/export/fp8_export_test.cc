// Models written in FP8, and read again.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "common/files/weights/blocks_and_scales.h"
#include "common/files/weights/fp8_blocks.h"
#include "common/files/weights/weight_files.h"
#include "tests/controller/export/export_fixture.h"

namespace coxswain::exports {
namespace fp8_export_test {
namespace {

using support::ReadFile;

// 256 wide, of bfloat16; the feed-forward of 704 is no multiple of 128.
const std::string kModel = "deploy/quickstart/model";

float Trained(int64_t i) { return std::sin(static_cast<float>(i % 9973)) * 0.1f; }

class Fp8ExportTest : public ExportTest {
 protected:
  void TrainAll() {
    UseModel(kModel);
    TrainGroup([](const model::Parameter&) { return true; });
    WriteCheckpoint([](const model::Parameter& p, float* out) {
      for (int64_t i = 0; i < p.elements(); ++i) out[i] = Trained(i);
    });
    request_.job.export_dtype = "fp8";
  }
  // Of the folder that a model was exported to.
  std::string Export() {
    const auto result = ExportArtifacts(&files_, request_);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return "";
    return result->merged_directory.empty() ? result->directory : result->merged_directory;
  }
  static std::unique_ptr<WeightFiles> Open(const std::string& directory) {
    auto files = WeightFiles::Open(directory);
    EXPECT_TRUE(files.ok()) << files.status();
    return files.ok() ? *std::move(files) : nullptr;
  }
  // What the codes of `name` stand for; none where it is not in FP8.
  static std::vector<float> Decoded(const WeightFiles& files, const std::string& name) {
    const auto blocks = FindBlocksAndScales(files, name);
    EXPECT_TRUE(blocks.ok()) << blocks.status();
    if (!blocks.ok() || !blocks->has_value()) return {};
    std::vector<float> values(static_cast<size_t>((*blocks)->rows * (*blocks)->cols));
    EXPECT_TRUE(CopyRowsAsFloat(**blocks, {0, 0, (*blocks)->rows}, values.data()).ok());
    return values;
  }
  static std::vector<float> InFp8(std::vector<float> values, int64_t rows, int64_t cols) {
    const Fp8Matrix matrix{.rows = rows, .cols = cols, .values = values.data()};
    const std::vector<float> scales = Fp8ScalesOf(matrix);
    std::vector<uint8_t> codes(values.size());
    WriteFp8Codes(matrix, scales, codes.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / cols, col = static_cast<int64_t>(i) % cols;
      values[i] = E4m3ToFloat(codes[i]) *
                  scales[static_cast<size_t>(row / 128 * Fp8Blocks(cols) + col / 128)];
    }
    return values;
  }
  static bool IsOfAttention(const std::string& name) {
    return name.find("self_attn") != std::string::npos && name.ends_with(".weight");
  }
};

TEST_F(Fp8ExportTest, LinearsThatFitAreCodesAndScalesAndTheRestIsAsInTheSource) {
  TrainAll();
  const auto files = Open(Export());
  ASSERT_NE(files, nullptr);
  size_t tensors = 0;
  for (const model::Parameter& parameter : request_.plan.parameters) {
    const TensorInfo* const tensor = files->Find(parameter.name);
    ASSERT_NE(tensor, nullptr) << parameter.name;
    ++tensors;
    std::vector<float> trained(static_cast<size_t>(parameter.elements()));
    for (size_t i = 0; i < trained.size(); ++i) trained[i] = Trained(static_cast<int64_t>(i));
    if (!IsOfAttention(parameter.name)) {
      EXPECT_EQ(tensor->dtype, ElementType::kBF16) << parameter.name;
      continue;
    }
    ++tensors;
    EXPECT_EQ(tensor->shape, (std::vector<int64_t>{parameter.rows, parameter.cols}));
    EXPECT_EQ(Decoded(*files, parameter.name), InFp8(trained, parameter.rows, parameter.cols))
        << parameter.name;
  }
  EXPECT_EQ(files->tensors().size(), tensors);
}

TEST_F(Fp8ExportTest, TheConfigurationIsThatOfTransformersAndNamesWhatIsNotConverted) {
  TrainAll();
  const std::string directory = Export();
  auto config = nlohmann::json::parse(ReadFile(directory + "/config.json"));
  auto quantization = config["quantization_config"];
  std::set<std::string> others;
  for (const auto& name : quantization["modules_to_not_convert"]) others.insert(name);
  std::set<std::string> expected = {"lm_head"};
  for (int layer = 0; layer < 4; ++layer) {
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      expected.insert("model.layers." + std::to_string(layer) + ".mlp." + name);
    }
  }
  EXPECT_EQ(others, expected);
  quantization.erase("modules_to_not_convert");
  EXPECT_EQ(quantization, (nlohmann::json{{"quant_method", "fp8"},
                                          {"fmt", "e4m3"},
                                          {"activation_scheme", "dynamic"},
                                          {"weight_block_size", {128, 128}}}));
  config.erase("quantization_config");
  EXPECT_EQ(config, nlohmann::json::parse(ReadFile(kModel + "/config.json")));
}

TEST_F(Fp8ExportTest, ShardsCountCodesAndScales) {
  TrainAll();
  const auto whole = Open(Export());
  request_.job.export_max_shard_bytes = 1000000;
  const std::string directory = Export();
  const auto index = nlohmann::json::parse(ReadFile(directory + "/model.safetensors.index.json"));
  const auto shards = Open(directory);
  ASSERT_TRUE(whole != nullptr && shards != nullptr);
  int64_t bytes = 0, parameters = 0;
  for (const TensorInfo* tensor : whole->tensors()) {
    bytes += static_cast<int64_t>(tensor->bytes);
    if (!tensor->name.ends_with(kScalesOfFp8)) parameters += tensor->elements();
    const TensorInfo* const other = shards->Find(tensor->name);
    ASSERT_NE(other, nullptr) << tensor->name;
    EXPECT_EQ(std::memcmp(other->data, tensor->data, tensor->bytes), 0) << tensor->name;
    EXPECT_TRUE(index["weight_map"].contains(tensor->name)) << tensor->name;
  }
  EXPECT_EQ(index["metadata"]["total_size"], bytes);
  EXPECT_EQ(index["metadata"]["total_parameters"], parameters);
}

// The weight is rounded once, when the adapter has been added.
TEST_F(Fp8ExportTest, AMergedModelIsInFp8BesideItsAdapter) {
  UseModel(kModel);
  const std::vector<model::Parameter> base = request_.plan.parameters;
  AddLora(2, 2, false);  // of scale 1
  TrainGroup(model::IsAdapter);
  WriteCheckpoint(
      [](const model::Parameter& p, float* out) { std::fill_n(out, p.elements(), 0.125f); });
  request_.job.export_merge = true;
  request_.job.export_dtype = "fp8";
  const auto merged = Open(Export()), before = Open(kModel);
  ASSERT_TRUE(merged != nullptr && before != nullptr);
  size_t in_fp8 = 0;
  for (const model::Parameter& parameter : base) {
    if (!IsOfAttention(parameter.name)) continue;
    std::vector<float> values(static_cast<size_t>(parameter.elements()));
    ASSERT_TRUE(CopyAsFloat(*before->Find(parameter.name), values.data()).ok());
    for (float& value : values) value += 2 * 0.125f * 0.125f;
    EXPECT_EQ(Decoded(*merged, parameter.name), InFp8(values, parameter.rows, parameter.cols))
        << parameter.name;
    ++in_fp8;
  }
  EXPECT_EQ(in_fp8, 4u * 4u);
}

// As a base its codes are what they stand for: exported again in float32, frozen, with these bits.
TEST_F(Fp8ExportTest, AModelInFp8IsABaseAgain) {
  TrainAll();
  const std::string base = directory_ + "/base";
  fs::copy(Export(), base, fs::copy_options::recursive);
  UseModel(base);
  TrainGroup([](const model::Parameter& p) { return model::IsEmbedding(p); });
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 1; });
  const auto of_base = Open(base);
  for (const char* dtype : {"float32", "source"}) {
    request_.job.export_dtype = dtype;
    const std::string directory = Export();
    EXPECT_FALSE(nlohmann::json::parse(ReadFile(directory + "/config.json"))
                     .contains("quantization_config"));
    const auto again = Open(directory);
    ASSERT_TRUE(of_base != nullptr && again != nullptr);
    EXPECT_EQ(again->tensors().size(), request_.plan.parameters.size());
    for (const model::Parameter& parameter : request_.plan.parameters) {
      if (!IsOfAttention(parameter.name)) continue;
      std::vector<float> values(static_cast<size_t>(parameter.elements()));
      ASSERT_TRUE(CopyAsFloat(*again->Find(parameter.name), values.data()).ok());
      std::vector<float> expected = Decoded(*of_base, parameter.name);
      if (std::string(dtype) == "source") {
        for (float& value : expected) value = Bf16ToFloat(FloatToBf16(value));
      }
      EXPECT_EQ(values, expected) << parameter.name;
    }
  }
}

// transformers, where it is installed, reads the bits that we read.
TEST_F(Fp8ExportTest, TransformersReadsTheSameBits) {
  const char* python = std::getenv("COXSWAIN_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "needs COXSWAIN_PYTHON (tests/run.sh sets it)";
  TrainAll();
  const std::string base = directory_ + "/base";
  fs::copy(Export(), base, fs::copy_options::recursive);
  UseModel(base);
  TrainGroup([](const model::Parameter& p) { return model::IsEmbedding(p); });
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 1; });
  request_.job.export_dtype = "float32";
  const std::string command =
      std::string(python) + " tests/e2e/same_in_fp8.py " + base + " " + Export();
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs torch and transformers";
  EXPECT_EQ(status, 0) << command;
}

TEST_F(Fp8ExportTest, ItsVerificationIsSkippedWithTheReason) {
  TrainAll();
  const absl::StatusOr<StagedExport> staged = StageArtifacts(&files_, request_);
  ASSERT_TRUE(staged.ok()) << staged.status();
  EXPECT_EQ(staged->folders.at(0).verification.reason, "weights in FP8 are rounded");
  EXPECT_FALSE(staged->folders.at(0).rounded);
}

}  // namespace
}  // namespace fp8_export_test
}  // namespace coxswain::exports
