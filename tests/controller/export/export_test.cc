#include "controller/export/export_artifacts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/checkpoint_tensors.h"
#include "common/files/safetensors.h"
#include "common/files/safetensors_writer.h"
#include "common/files/weight_files.h"
#include "common/model/file_rows.h"
#include "common/model/parameter_table.h"
#include "common/model/read_model_config.h"
#include "common/model/saved_modules.h"
#include "controller/checkpoint/staging.h"
#include "controller/export/base_model_name.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/killing_files.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::exports {
namespace {

namespace fs = std::filesystem;
using support::ReadFile;

// A fixture is a base model, its plan, and a checkpoint that any number of ranks wrote.
class ExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    request_.job = config::DefaultSpec();
    fs::create_directories(directory_ + "/checkpoint");
  }

  void UseModel(const std::string& path) {
    request_.plan.model_path = path;
    request_.job.model_path = path;
    auto config = model::ReadModelConfig(path);
    ASSERT_TRUE(config.ok()) << config.status();
    request_.plan.model = *config;
    request_.plan.parameters = model::BaseParameterTable(*config);
    request_.job.output_dir = directory_ + "/out";
    request_.checkpoint_dir = directory_ + "/checkpoint";
  }

  void AddLora(int64_t rank, double alpha, bool rslora, bool dora = false,
               const std::vector<std::string>& targets = {"all-linear"}) {
    auto table =
        model::WithLora(request_.plan.parameters, request_.plan.model, {rank, targets, dora});
    ASSERT_TRUE(table.ok()) << table.status();
    request_.plan.parameters = *table;
    request_.plan.lora.rank = rank;
    request_.plan.lora.dora = dora;
    request_.plan.lora.scale = rslora ? alpha / std::sqrt(rank) : alpha / rank;
    request_.job.adapter = config::Adapter::kLora;
    request_.job.lora.r = rank;
    request_.job.lora.alpha = alpha;
    request_.job.lora.use_rslora = rslora;
  }

  // Splits the tensors that `value` fills over two ranks' shards.
  void WriteCheckpoint(const std::function<void(const model::Parameter&, float*)>& value,
                       DType dtype = DType::kF32) {
    std::vector<TensorSource> shards[2];
    int next = 0;
    for (const model::Parameter& parameter : request_.plan.parameters) {
      if (!parameter.trainable()) continue;
      std::vector<int64_t> shape = {parameter.rows};
      if (parameter.cols > 1) shape.push_back(parameter.cols);
      shards[next++ % 2].push_back({parameter.name, dtype, shape, [&, dtype](uint8_t* out) {
                                      std::vector<float> values(parameter.elements());
                                      value(parameter, values.data());
                                      Store(values, dtype, out);
                                      return absl::OkStatus();
                                    }});
    }
    for (int rank = 0; rank < 2; ++rank) {
      auto written = WriteSafetensors(
          request_.checkpoint_dir + "/rank-" + std::to_string(rank) + ".safetensors", shards[rank]);
      ASSERT_TRUE(written.ok()) << written.status();
    }
  }

  // The same checkpoint as three ranks write it that own parts of every tensor.
  void CutCheckpoint(const std::string& to) {
    fs::create_directories(to);
    const auto whole = CheckpointTensors::Open(request_.checkpoint_dir);
    ASSERT_TRUE(whole.ok()) << whole.status();
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<TensorSource> tensors;
      nlohmann::json pieces = nlohmann::json::object();
      for (const auto& [name, tensor] : whole->tensors()) {
        const int64_t begin = tensor.elements() * rank / 3,
                      end = tensor.elements() * (rank + 1) / 3;
        pieces[name] = {{"begin", begin}, {"shape", tensor.shape}};
        const TensorInfo* values = tensor.pieces[0].values;
        const int64_t element = DTypeBits(tensor.dtype) / 8;
        tensors.push_back({name, tensor.dtype, {end - begin}, [=](uint8_t* out) {
                             std::memcpy(out, values->data + begin * element,
                                         static_cast<size_t>((end - begin) * element));
                             return absl::OkStatus();
                           }});
      }
      const nlohmann::json metadata = {{"pieces", pieces}};
      ASSERT_TRUE(WriteSafetensors(to + "/rank-" + std::to_string(rank) + ".safetensors", tensors,
                                   {{"coxswain", metadata.dump()}})
                      .ok());
    }
  }

  static void Store(const std::vector<float>& values, DType dtype, uint8_t* out) {
    if (dtype == DType::kF32) {
      std::memcpy(out, values.data(), values.size() * 4);
      return;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t bits = FloatToBf16(values[i]);
      std::memcpy(out + 2 * i, &bits, 2);
    }
  }

  void TrainGroup(const std::function<bool(const model::Parameter&)>& trainable) {
    for (model::Parameter& parameter : request_.plan.parameters) {
      parameter.group = trainable(parameter) ? 0 : model::kFrozen;
    }
  }

  const support::ScratchFolder folder_;
  const std::string directory_ = folder_.path();
  DiskFiles files_;
  ExportRequest request_;
};

bool IsAdapter(const model::Parameter& parameter) {
  return parameter.name.find(".lora_") != std::string::npos;
}

class ExportGoldenTest : public ExportTest,
                         public ::testing::WithParamInterface<std::tuple<const char*, int, bool>> {
};

// What goes out is what peft wrote: keys, shapes, values, settings (read by the safetensors
// package).
TEST_P(ExportGoldenTest, AdapterIsReadBackByTheSafetensorsPackage) {
  const auto [name, rank, rslora] = GetParam();
  const std::string fixture = support::GoldenFolder(name);
  const char* python = std::getenv("COXSWAIN_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "needs COXSWAIN_PYTHON (tests/run.sh sets it)";
  UseModel(fixture);
  AddLora(rank, 16, rslora, std::string(name) == "llama_dora");
  TrainGroup(IsAdapter);
  auto golden = SafetensorsFile::Open(fixture + "/adapter/adapter_model.safetensors");
  ASSERT_TRUE(golden.ok()) << golden.status();
  WriteCheckpoint([&](const model::Parameter& parameter, float* out) {
    const TensorInfo* tensor = (*golden)->Find(parameter.name);
    ASSERT_NE(tensor, nullptr) << parameter.name;
    ASSERT_TRUE(CopyAsFloat(*tensor, out).ok());
  });
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string command = std::string(python) + " tests/e2e/compare_adapter.py " +
                              result->directory + " " + fixture + "/adapter --values";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

INSTANTIATE_TEST_SUITE_P(Cases, ExportGoldenTest,
                         ::testing::Values(std::make_tuple("qwen2_lora", 8, false),
                                           std::make_tuple("qwen2_lora_plus", 8, false),
                                           std::make_tuple("llama_rslora", 16, true),
                                           std::make_tuple("llama_dora", 8, false),
                                           std::make_tuple("phi3_lora", 8, false),
                                           std::make_tuple("glm4_lora", 8, false),
                                           std::make_tuple("gemma3_text_lora", 8, false),
                                           std::make_tuple("cohere_lora", 8, false),
                                           std::make_tuple("starcoder2_lora", 8, false)));

// Beyond the linears of blocks: modules trained in full, adapters of head and embedding, untied and
// tied. peft computes the same from what goes out as from what it wrote itself.
class ExportOutsideBlocksTest : public ExportTest,
                                public ::testing::WithParamInterface<const char*> {};

TEST_P(ExportOutsideBlocksTest, PeftComputesTheSameFromIt) {
  const std::string fixture = support::GoldenFolder(GetParam());
  const auto settings = nlohmann::json::parse(ReadFile(fixture + "/adapter/adapter_config.json"));
  const bool saves = !settings["modules_to_save"].is_null();
  const bool untied = std::string(GetParam()).starts_with("llama");
  UseModel(fixture);
  AddLora(2, 4, false, false,
          saves ? std::vector<std::string>{"all-linear"}
                : settings["target_modules"].get<std::vector<std::string>>());
  if (saves) request_.job.lora.modules_to_save = {"embed_tokens"};
  if (saves && untied) request_.job.lora.modules_to_save = {"embed_tokens", "lm_head", "norm"};
  const auto saved = model::SavedModules(request_.plan.parameters, request_.plan.model,
                                         request_.job.lora.modules_to_save);
  ASSERT_TRUE(saved.ok()) << saved.status();
  size_t next = 0;
  TrainGroup([&](const model::Parameter& p) { return (*saved)[next++] || IsAdapter(p); });
  auto golden = SafetensorsFile::Open(fixture + "/adapter/adapter_model.safetensors");
  ASSERT_TRUE(golden.ok()) << golden.status();
  WriteCheckpoint([&](const model::Parameter& parameter, float* out) {
    const std::string key = model::AdapterFileKeys(request_.plan.model, parameter).front();
    const TensorInfo* tensor = (*golden)->Find(key);
    ASSERT_NE(tensor, nullptr) << key;
    std::vector<float> values(static_cast<size_t>(parameter.elements()));
    ASSERT_TRUE(CopyAsFloat(*tensor, values.data()).ok());
    if (model::IsTransposedInFiles(parameter.role)) {
      model::Transpose(parameter.cols, parameter.rows, &values);
    }
    std::copy(values.begin(), values.end(), out);
  });
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  auto exported = SafetensorsFile::Open(result->directory + "/adapter_model.safetensors");
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ((*exported)->tensors().size(), (*golden)->tensors().size());
  const auto config = nlohmann::json::parse(ReadFile(result->directory + "/adapter_config.json"));
  if (saves) {
    EXPECT_EQ(config["modules_to_save"], untied
                                             ? nlohmann::json({"embed_tokens", "lm_head", "norm"})
                                             : nlohmann::json({"embed_tokens", "lm_head"}));
  } else {
    EXPECT_EQ(config["modules_to_save"], nullptr);
    EXPECT_TRUE(std::is_permutation(config["target_modules"].begin(),
                                    config["target_modules"].end(),
                                    settings["target_modules"].begin()));
  }
  const char* python = std::getenv("COXSWAIN_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "needs COXSWAIN_PYTHON (tests/run.sh sets it)";
  const std::string command = std::string(python) + " tests/e2e/same_in_peft.py " + fixture + " " +
                              fixture + "/adapter " + result->directory;
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs torch, transformers and peft";
  EXPECT_EQ(status, 0) << command;
}

INSTANTIATE_TEST_SUITE_P(Cases, ExportOutsideBlocksTest,
                         ::testing::Values("llama_saved_lora", "qwen2_saved_lora",
                                           "llama_outer_lora", "qwen2_outer_lora"));

TEST_F(ExportTest, FullModelKeepsDtypeConfigAndTokenizerBytes) {
  const std::string model = "deploy/quickstart/model";
  UseModel(model);
  TrainGroup([](const model::Parameter& p) { return p.role != model::Role::kEmbedding; });
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
    EXPECT_EQ(written->dtype, DType::kBF16) << tensor.name;
    const bool frozen = tensor.name == "model.embed_tokens.weight";
    EXPECT_EQ(std::memcmp(written->data, tensor.data, tensor.bytes) == 0, frozen) << tensor.name;
  }
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
  request_.plan.init = "random";
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter& p, float* out) {
    for (int64_t i = 0; i < p.elements(); ++i) out[i] = static_cast<float>(i / p.cols);
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
      DType::kBF16);
  for (const char* dtype : {"source", "float32"}) {
    request_.job.export_dtype = dtype;
    const auto result = ExportArtifacts(&files_, request_);
    ASSERT_TRUE(result.ok()) << result.status();
    auto file = SafetensorsFile::Open(result->directory + "/model.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    for (const TensorInfo& tensor : (*file)->tensors()) {
      EXPECT_EQ(tensor.dtype, std::string(dtype) == "source" ? DType::kBF16 : DType::kF32);
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
    request_.plan.init = "random";
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
      EXPECT_EQ(written->dtype, *key != '\0' ? DType::kBF16 : DType::kF32) << tensor.name;
    }
  }
}

TEST_F(ExportTest, PiecesOfRanksExportAsTheWhole) {
  UseModel("deploy/quickstart/model");
  AddLora(4, 8, false);
  TrainGroup(IsAdapter);
  WriteCheckpoint([](const model::Parameter& p, float* out) {
    for (int64_t i = 0; i < p.elements(); ++i) out[i] = 0.01f * static_cast<float>(i % 11 - 5);
  });
  request_.job.export_merge = true;
  std::string files[2];
  for (const bool cut : {false, true}) {
    if (cut) {
      CutCheckpoint(directory_ + "/pieces");
      request_.checkpoint_dir = directory_ + "/pieces";
    }
    const auto result = ExportArtifacts(&files_, request_);
    ASSERT_TRUE(result.ok()) << result.status();
    files[cut] = ReadFile(request_.job.output_dir + "/adapter/adapter_model.safetensors") +
                 ReadFile(request_.job.output_dir + "/model/model.safetensors");
  }
  EXPECT_GT(files[0].size(), 1000u);
  EXPECT_TRUE(files[0] == files[1]);
  fs::remove(directory_ + "/pieces/rank-1.safetensors");
  const absl::Status status = ExportArtifacts(&files_, request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(ExportTest, MergeAddsTheScaledProductAndShardsWithAnIndex) {
  const std::string model = "deploy/quickstart/model";
  UseModel(model);
  AddLora(4, 8, false);
  TrainGroup(IsAdapter);
  WriteCheckpoint([](const model::Parameter& p, float* out) {
    for (int64_t i = 0; i < p.elements(); ++i) out[i] = 0.01f * static_cast<float>(i % 5 - 2);
  });
  request_.job.export_merge = true;
  request_.job.export_dtype = "float32";
  request_.job.export_max_shard_bytes = 4 << 20;
  ASSERT_TRUE(ExportArtifacts(&files_, request_).ok());
  const std::string merged_dir = request_.job.output_dir + "/model";
  EXPECT_TRUE(fs::exists(merged_dir + "/model.safetensors.index.json"));
  EXPECT_EQ(nlohmann::json::parse(ReadFile(merged_dir + "/config.json"))["dtype"], "float32");
  auto base = WeightFiles::Open(model);
  auto merged = WeightFiles::Open(merged_dir);
  ASSERT_TRUE(base.ok() && merged.ok()) << merged.status();
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const TensorInfo* w = (*base)->Find(name);
  const TensorInfo* m = (*merged)->Find(name);
  ASSERT_TRUE(w != nullptr && m != nullptr);
  const int64_t rows = w->shape[0], cols = w->shape[1];
  std::vector<float> before(rows * cols), after(rows * cols);
  ASSERT_TRUE(CopyAsFloat(*w, before.data()).ok());
  ASSERT_TRUE(CopyAsFloat(*m, after.data()).ok());
  const auto value = [](int64_t i) { return 0.01 * static_cast<double>(i % 5 - 2); };
  for (int64_t i = 0; i < rows; i += 37) {
    for (int64_t j = 0; j < cols; j += 41) {
      double product = 0;
      for (int64_t k = 0; k < 4; ++k) product += value(i * 4 + k) * value(k * cols + j);
      // Four products of magnitude 4e-4, one addition: within 8 eps of the larger operand.
      EXPECT_NEAR(after[i * cols + j], before[i * cols + j] + 2.0 * product, 8 * 6e-8);
    }
  }
}

// Source: Liu et al., DoRA, 2024, equation 5.
TEST_F(ExportTest, MergeGivesEveryRowItsMagnitude) {
  const std::string model = "deploy/quickstart/model";
  UseModel(model);
  AddLora(4, 8, false, /*dora=*/true);
  TrainGroup(IsAdapter);
  const auto value = [](int64_t i) { return 0.01 * static_cast<double>(i % 5 - 2); };
  const auto length = [](int64_t i) { return 0.5 + static_cast<double>(i % 7); };
  WriteCheckpoint([&](const model::Parameter& p, float* out) {
    const bool magnitude = p.name.find("magnitude") != std::string::npos;
    for (int64_t i = 0; i < p.elements(); ++i) {
      out[i] = static_cast<float>(magnitude ? length(i) : value(i));
    }
  });
  request_.job.export_merge = true;
  request_.job.export_dtype = "float32";
  ASSERT_TRUE(ExportArtifacts(&files_, request_).ok());
  auto base = WeightFiles::Open(model);
  auto merged = WeightFiles::Open(request_.job.output_dir + "/model");
  ASSERT_TRUE(base.ok() && merged.ok()) << merged.status();
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const TensorInfo* w = (*base)->Find(name);
  const TensorInfo* m = (*merged)->Find(name);
  ASSERT_TRUE(w != nullptr && m != nullptr);
  const int64_t rows = w->shape[0], cols = w->shape[1];
  std::vector<float> before(rows * cols), after(rows * cols);
  ASSERT_TRUE(CopyAsFloat(*w, before.data()).ok());
  ASSERT_TRUE(CopyAsFloat(*m, after.data()).ok());
  for (int64_t i = 0; i < rows; i += 37) {
    std::vector<double> sum(cols);
    double squares = 0;
    for (int64_t j = 0; j < cols; ++j) {
      sum[j] = static_cast<double>(before[i * cols + j]);
      for (int64_t k = 0; k < 4; ++k) sum[j] += 2.0 * value(i * 4 + k) * value(k * cols + j);
      squares += sum[j] * sum[j];
    }
    // Rounded as above, then by the factor and the product.
    const double factor = length(i) / std::sqrt(squares);
    for (int64_t j = 0; j < cols; j += 41) {
      EXPECT_NEAR(after[i * cols + j], sum[j] * factor, 12 * 6e-8 * factor) << i << ", " << j;
    }
  }
}

TEST_F(ExportTest, AdapterHasAModelCard) {
  const std::string model = directory_ + "/a \"model\": 1";
  fs::copy("deploy/quickstart/model", model, fs::copy_options::recursive);
  UseModel(model);
  AddLora(4, 8, false);
  TrainGroup(IsAdapter);
  WriteCheckpoint(
      [](const model::Parameter& p, float* out) { std::fill(out, out + p.elements(), 1.0f); });
  request_.job.name = "card";
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string card = ReadFile(result->directory + "/README.md");
  const std::string front =
      "---\nbase_model: \"a \\\"model\\\": 1\"\nlibrary_name: peft\n---\n\n# card\n";
  EXPECT_EQ(card.substr(0, front.size()), front);
  for (const char* line :
       {"LoRA+ adapter of", "| r | 4 |", "| alpha | 8 |", "| checkpoint | checkpoint |"}) {
    EXPECT_NE(card.find(line), std::string::npos) << line << "\n" << card;
  }
}

class BaseModelNameTest : public ExportTest {
 protected:
  std::string NameOf(const std::string& directory, const std::string& name_or_path) {
    const std::string model = directory_ + "/" + directory;
    fs::create_directories(model);
    nlohmann::json config = {{"model_type", "llama"}};
    if (!name_or_path.empty()) config["_name_or_path"] = name_or_path;
    std::ofstream(model + "/config.json") << config.dump();
    request_.plan.model_path = model;
    return BaseModelName(request_.job, request_.plan);
  }
};

TEST_F(BaseModelNameTest, IsTheUsersThenAHubIdThenTheDirectorysOwn) {
  EXPECT_EQ(NameOf("m", "Qwen/Qwen2.5-0.5B"), "Qwen/Qwen2.5-0.5B");
  for (const char* path : {"", "/home/me/base", "./base", "../a", "~/base", "a/b/c", "C:\\base"}) {
    EXPECT_EQ(NameOf("My-Model", path), "My-Model") << path;
  }
  EXPECT_EQ(NameOf("My-Model/", ""), "My-Model");
  EXPECT_EQ(NameOf("hub/models--Qwen--Qwen2.5-0.5B/snapshots/060db6499f", ""), "Qwen/Qwen2.5-0.5B");
  request_.job.model_name = "my base, third try";
  EXPECT_EQ(NameOf("m", "Qwen/Qwen2.5-0.5B"), "my base, third try");
}

// Whatever is exported is for other machines.
TEST_F(ExportTest, NoExportedFileHoldsAPathOfThisMachine) {
  const std::string model = directory_ + "/secret/base";
  fs::create_directories(directory_ + "/secret");
  fs::copy("deploy/quickstart/model", model, fs::copy_options::recursive);
  auto config = nlohmann::ordered_json::parse(ReadFile(model + "/config.json"));
  config["_name_or_path"] = model;
  std::ofstream(model + "/config.json") << config.dump(2);
  UseModel(model);
  AddLora(4, 8, false);
  TrainGroup(IsAdapter);
  WriteCheckpoint(
      [](const model::Parameter& p, float* out) { std::fill(out, out + p.elements(), 1.0f); });
  request_.job.export_merge = true;
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->merged_directory, request_.job.output_dir + "/model");
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(request_.job.output_dir)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_EQ(ReadFile(entry.path().string()).find(directory_), std::string::npos) << entry.path();
  }
  EXPECT_GE(files, 6);
  const auto adapter = nlohmann::json::parse(ReadFile(result->directory + "/adapter_config.json"));
  EXPECT_EQ(adapter["base_model_name_or_path"], "base");
  const auto merged = nlohmann::json::parse(ReadFile(result->merged_directory + "/config.json"));
  EXPECT_EQ(merged["_name_or_path"], "base");
}

// Looked at again right before: an hour may lie between submit and export.
TEST_F(ExportTest, ABaseModelThatCameToLieInThePlaceOfTheExportStays) {
  const std::string model = directory_ + "/base";
  fs::copy("deploy/quickstart/model", model, fs::copy_options::recursive);
  UseModel(model);
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 0; });
  const std::string target = request_.job.output_dir + "/model";
  request_.guard = [&](const auto& work) {
    fs::rename(model, target);
    fs::create_directory_symlink(target, model);
    return work();
  };
  const absl::Status status = ExportArtifacts(&files_, request_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("would be deleted"), absl::string_view::npos) << status;
  EXPECT_EQ(ReadFile(target + "/config.json"), ReadFile("deploy/quickstart/model/config.json"));
  EXPECT_TRUE(fs::exists(target + "/model.safetensors"));
}

TEST_F(ExportTest, WithoutTheDirectoryNothingIsReplaced) {
  UseModel("deploy/quickstart/model");
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 0; });
  request_.guard = [](const auto&) { return absl::AbortedError("another owner"); };
  EXPECT_TRUE(absl::IsAborted(ExportArtifacts(&files_, request_).status()));
  EXPECT_FALSE(fs::exists(request_.job.output_dir + "/model"));
}

TEST_F(ExportTest, AKillAtAnyOperationLeavesTheOldOrTheNewArtifactWhole) {
  UseModel("deploy/quickstart/model");
  AddLora(2, 8, false);
  TrainGroup(IsAdapter);
  float fill = 1.0f;
  const auto export_with = [&](Files* files) {
    WriteCheckpoint(
        [&](const model::Parameter& p, float* out) { std::fill(out, out + p.elements(), fill); });
    return ExportArtifacts(files, request_).status();
  };
  const std::string adapter = request_.job.output_dir + "/adapter";
  int kills = 0;
  for (; kills < 20; ++kills) {
    fill = 1.0f;
    ASSERT_TRUE(export_with(&files_).ok());
    fill = 2.0f;
    const bool survived = SurvivesKillAt(kills, export_with);
    ASSERT_TRUE(checkpoint::SweepStaging(&files_, request_.job.output_dir).ok());
    auto file = SafetensorsFile::Open(adapter + "/adapter_model.safetensors");
    ASSERT_TRUE(file.ok()) << "killed at operation " << kills << ": " << file.status();
    for (const TensorInfo& tensor : (*file)->tensors()) {
      float first = 0;
      ASSERT_TRUE(CopyRangeAsFloat(tensor, 0, 1, &first).ok());
      EXPECT_EQ(first, kills < 5 ? 1.0f : 2.0f) << "killed at operation " << kills;
    }
    EXPECT_TRUE(fs::exists(adapter + "/adapter_config.json"));
    EXPECT_TRUE(fs::is_empty(request_.job.output_dir + "/.staging"));
    if (survived) break;
  }
  EXPECT_EQ(kills, 6);  // empty and make staging; room aside, aside, in place, remove
}

TEST_F(ExportTest, RunsAgainOverAnEarlierExportAndItsLeftovers) {
  UseModel("deploy/quickstart/model");
  AddLora(4, 8, false);
  TrainGroup(IsAdapter);
  float fill = 1.0f;
  const auto constant = [&](const model::Parameter& p, float* out) {
    std::fill(out, out + p.elements(), fill);
  };
  WriteCheckpoint(constant);
  ASSERT_TRUE(ExportArtifacts(&files_, request_).ok());
  fs::create_directories(request_.job.output_dir + "/.staging/export-adapter");
  std::ofstream(request_.job.output_dir + "/.staging/export-adapter/garbage") << "from a crash";
  fill = 2.0f;
  WriteCheckpoint(constant);
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(fs::exists(result->directory + "/garbage"));
  auto file = SafetensorsFile::Open(result->directory + "/adapter_model.safetensors");
  ASSERT_TRUE(file.ok());
  float first = 0;
  ASSERT_TRUE(CopyRangeAsFloat((*file)->tensors()[0], 0, 1, &first).ok());
  EXPECT_EQ(first, 2.0f);
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

TEST_F(ExportTest, OutputThatCannotBeWrittenIsNamed) {
  UseModel("deploy/quickstart/model");
  TrainGroup([](const model::Parameter&) { return true; });
  WriteCheckpoint([](const model::Parameter&, float* out) { out[0] = 0; });
  std::ofstream(directory_ + "/file") << "not a directory";
  request_.job.output_dir = directory_ + "/file/out";
  const auto result = ExportArtifacts(&files_, request_);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(result.status().message()).find(request_.job.output_dir),
            std::string::npos);
}

}  // namespace
}  // namespace coxswain::exports
