// Whole models: files, dtypes, rows and tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/files/safetensors/safetensors.h"
#include "tests/controller/export/export_fixture.h"

namespace coxswain::exports {
namespace {

using support::ReadFile;

TEST_F(ExportTest, FullModelKeepsDtypeConfigAndTokenizerBytes) {
  const std::string model = "deploy/quickstart/model";
  UseModel(model);
  TrainGroup([](const model::Parameter& p) { return !model::IsEmbedding(p); });
  WriteCheckpoint([](const model::Parameter& p, float* out) {
    for (int64_t i = 0; i < p.elements(); ++i) out[i] = 1.0f + static_cast<float>(i % 7);
  });
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
    EXPECT_EQ(ReadFile(result->directory + "/" + name), ReadFile(model + "/" + name)) << name;
  }
  auto before = SafetensorsFile::Open(model + "/model.safetensors");
  auto after = SafetensorsFile::Open(result->directory + "/model.safetensors");
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  ASSERT_EQ((*after)->tensors().size(), (*before)->tensors().size());
  for (const TensorInfo& tensor : (*before)->tensors()) {
    const TensorInfo* written = (*after)->Find(tensor.name);
    ASSERT_NE(written, nullptr) << tensor.name;
    EXPECT_EQ(written->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(written->dtype, ElementType::kBF16) << tensor.name;
    const bool frozen = tensor.name == "model.embed_tokens.weight";
    EXPECT_EQ(std::memcmp(written->data, tensor.data, tensor.bytes) == 0, frozen) << tensor.name;
  }
}

// Its config.json ties what its files, and hence the plan, do not.
TEST_F(ExportTest, AHeadOfItsOwnIsExportedUntied) {
  UseModel("deploy/quickstart/model");
  ASSERT_TRUE(request_.plan.model.tie_embeddings);
  request_.plan.model.tie_embeddings = false;
  request_.plan.architecture = model::ArchitectureOf(request_.plan.model);
  request_.plan.parameters = model::BaseParameterTable(request_.plan.model);
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter& p, float* out) {
    std::fill_n(out, p.elements(), model::IsHead(p) ? 2.0f : 1.0f);
  });
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto config = nlohmann::json::parse(ReadFile(result->directory + "/config.json"));
  EXPECT_EQ(config["tie_word_embeddings"], false);
  auto file = SafetensorsFile::Open(result->directory + "/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_NE((*file)->Find("lm_head.weight"), nullptr);
}

// Full fine-tuning with two new tokens: the vocabulary, the rows and the tokenizer have grown.
TEST_F(ExportTest, AddedTokensGrowConfigTensorsAndTokenizer) {
  const std::string model = "deploy/quickstart/model";
  UseModel(model);
  model::ModelConfig& config = request_.plan.model;
  const int64_t rows = config.vocab_size;
  const auto base = nlohmann::json::parse(ReadFile(model + "/tokenizer.json"));
  int64_t known = 0;
  for (const auto& [token, id] : base["model"]["vocab"].items()) {
    known = std::max<int64_t>(known, id.get<int64_t>() + 1);
  }
  for (const auto& entry : base["added_tokens"]) {
    known = std::max<int64_t>(known, entry["id"].get<int64_t>() + 1);
  }
  ASSERT_LE(known, rows);
  request_.job.added_tokens = {base["added_tokens"][0]["content"], "<|call|>", "<|result|>"};
  config.added_tokens = {.count = 2, .known = known, .base_rows = rows};
  config.vocab_size = std::max(rows, known + 2);
  request_.plan.architecture = model::ArchitectureOf(config);
  request_.plan.parameters = model::BaseParameterTable(config);
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter& p, float* out) {
    for (int64_t i = 0; i < p.elements(); ++i) out[i] = static_cast<float>(i % 7);
  });
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto read = [&](const char* name) {
    return nlohmann::json::parse(ReadFile(result->directory + "/" + name));
  };
  EXPECT_EQ(read("config.json")["vocab_size"], config.vocab_size);
  auto file = SafetensorsFile::Open(result->directory + "/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Find("model.embed_tokens.weight")->shape.front(), config.vocab_size);
  const auto added = read("tokenizer.json")["added_tokens"];
  ASSERT_EQ(added.size(), base["added_tokens"].size() + 2);
  EXPECT_EQ(added.back()["content"], "<|result|>");
  EXPECT_EQ(added.back()["id"], known + 1);
  EXPECT_EQ(added.back()["special"], true);
  const auto settings = read("tokenizer_config.json");
  if (settings.contains("added_tokens_decoder")) {
    EXPECT_EQ(settings["added_tokens_decoder"][std::to_string(known)]["content"], "<|call|>");
  }
  request_.job.added_tokens.pop_back();
  EXPECT_EQ(ExportArtifacts(&files_, request_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// q, k and v of each kv head lie together in the file: memory has 8 rows of q, then 4 of k and of
// v.
TEST_F(ExportTest, RowsLieAsInTheFilesOfTheFamily) {
  const std::string model = directory_ + "/grouped";
  fs::create_directories(model);
  std::ofstream(model + "/config.json") << R"({"architectures": ["InternLM2ForCausalLM"],
      "vocab_size": 8, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 1,
      "num_attention_heads": 4, "num_key_value_heads": 2, "bias": false})";
  UseModel(model);
  request_.plan.init = BaseInit::kRandom;
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter& p, float* out) {
    for (int64_t i = 0; i < p.elements(); ++i) {
      const int64_t row = i / p.cols;
      out[i] = static_cast<float>(row);
    }
  });
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  auto file = SafetensorsFile::Open(result->directory + "/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorInfo* wqkv = (*file)->Find("model.layers.0.attention.wqkv.weight");
  ASSERT_NE(wqkv, nullptr);
  std::vector<float> values(16 * 8);
  ASSERT_TRUE(CopyAsFloat(*wqkv, values.data()).ok());
  std::vector<float> rows;
  for (size_t i = 0; i < values.size(); i += 8) rows.push_back(values[i]);
  EXPECT_EQ(rows, (std::vector<float>{0, 1, 2, 3, 8, 9, 12, 13, 4, 5, 6, 7, 10, 11, 14, 15}));
}

// Weights that were rounded stochastically are their own masters.
TEST_F(ExportTest, TakesBfloat16Masters) {
  UseModel("deploy/quickstart/model");
  TrainGroup([](const model::Parameter&) { return true; });
  const auto value = [](int64_t i) { return 0.5f + static_cast<float>(i % 97) / 128.0f; };
  WriteCheckpoint(
      [&](const model::Parameter& p, float* out) {
        for (int64_t i = 0; i < p.elements(); ++i) out[i] = value(i);
      },
      ElementType::kBF16);
  for (const char* dtype : {"source", "float32"}) {
    request_.job.export_dtype = dtype;
    const auto result = ExportArtifacts(&files_, request_);
    ASSERT_TRUE(result.ok()) << result.status();
    auto file = SafetensorsFile::Open(result->directory + "/model.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    for (const TensorInfo& tensor : (*file)->tensors()) {
      EXPECT_EQ(tensor.dtype,
                std::string(dtype) == "source" ? ElementType::kBF16 : ElementType::kF32);
      std::vector<float> values(static_cast<size_t>(tensor.elements()));
      ASSERT_TRUE(CopyAsFloat(tensor, values.data()).ok());
      for (size_t i = 0; i < values.size(); i += 31) {
        ASSERT_EQ(values[i], Bf16ToFloat(FloatToBf16(value(static_cast<int64_t>(i)))))
            << tensor.name << " " << i;
      }
    }
  }
}

// base_model.init: random reads no weights, so none are there when the job ends.
TEST_F(ExportTest, ModelOfRandomWeightsTakesItsDtypeFromTheConfiguration) {
  const std::string model = "deploy/quickstart/model";
  UseModel(model);
  for (const char* key : {"torch_dtype", "dtype", ""}) {
    const std::string bare = directory_ + "/bare";
    fs::create_directories(bare);
    auto config = nlohmann::json::parse(ReadFile(model + "/config.json"));
    config.erase("torch_dtype");
    config.erase("dtype");
    if (*key != '\0') config[key] = "bfloat16";
    std::ofstream(bare + "/config.json") << config.dump();
    request_.plan.model_path = bare;
    request_.plan.init = BaseInit::kRandom;
    TrainGroup([](const model::Parameter&) { return true; });
    WriteCheckpoint([](const model::Parameter& p, float* out) {
      for (int64_t i = 0; i < p.elements(); ++i) out[i] = static_cast<float>(i % 7);
    });
    const auto result = ExportArtifacts(&files_, request_);
    ASSERT_TRUE(result.ok()) << result.status();
    auto before = SafetensorsFile::Open(model + "/model.safetensors");
    auto after = SafetensorsFile::Open(result->directory + "/model.safetensors");
    ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
    ASSERT_EQ((*after)->tensors().size(), (*before)->tensors().size());
    for (const TensorInfo& tensor : (*before)->tensors()) {
      const TensorInfo* written = (*after)->Find(tensor.name);
      ASSERT_NE(written, nullptr) << tensor.name;
      EXPECT_EQ(written->shape, tensor.shape) << tensor.name;
      EXPECT_EQ(written->dtype, *key != '\0' ? ElementType::kBF16 : ElementType::kF32)
          << tensor.name;
    }
  }
}

TEST_F(ExportTest, NamesTheTensorThatACheckpointLacks) {
  UseModel("deploy/quickstart/model");
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 0; });
  request_.plan.parameters[3].name = "model.layers.0.no_such.weight";
  const auto result = ExportArtifacts(&files_, request_);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(result.status().message()).find("no_such"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::exports
