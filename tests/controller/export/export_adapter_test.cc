// Adapters as peft reads them, and their model card.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/files/safetensors/safetensors.h"
#include "common/model/files/file_rows.h"
#include "common/model/saved_modules.h"
#include "tests/controller/export/export_fixture.h"
#include "tests/support/golden_folder.h"

namespace coxswain::exports {
namespace {

using support::ReadFile;

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
  TrainGroup(model::IsAdapter);
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
  TrainGroup([&](const model::Parameter& p) { return (*saved)[next++] || model::IsAdapter(p); });
  auto golden = SafetensorsFile::Open(fixture + "/adapter/adapter_model.safetensors");
  ASSERT_TRUE(golden.ok()) << golden.status();
  WriteCheckpoint([&](const model::Parameter& parameter, float* out) {
    const std::string key = model::AdapterFileKeys(request_.plan.model, parameter).front();
    const TensorInfo* tensor = (*golden)->Find(key);
    ASSERT_NE(tensor, nullptr) << key;
    std::vector<float> values(static_cast<size_t>(parameter.elements()));
    ASSERT_TRUE(CopyAsFloat(*tensor, values.data()).ok());
    if (model::IsTransposedInFiles(parameter)) {
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

TEST_F(ExportTest, AdapterHasAModelCard) {
  const std::string model = directory_ + "/a \"model\": 1";
  fs::copy("deploy/quickstart/model", model, fs::copy_options::recursive);
  UseModel(model);
  AddLora(4, 8, false);
  TrainGroup(model::IsAdapter);
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

}  // namespace
}  // namespace coxswain::exports
