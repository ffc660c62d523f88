// What an export says that it is made of.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "controller/export/base_model_name.h"
#include "controller/export/export_adapter.h"
#include "tests/controller/export/export_fixture.h"

namespace coxswain::exports {
namespace {

using support::ReadFile;

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

// AutoPeftModelForCausalLM loads the base by this name.
TEST_F(BaseModelNameTest, AnAdapterNamesABaseWithoutAHubIdByItsPath) {
  const auto base = [this] { return AdapterBase(request_.job, request_.plan); };
  NameOf("m", "Qwen/Qwen2.5-0.5B");
  EXPECT_EQ(base(), "Qwen/Qwen2.5-0.5B");
  NameOf("m", "");
  EXPECT_EQ(base(), directory_ + "/m");
  request_.job.export_base_path = false;
  EXPECT_EQ(base(), "m");
}

// With export.base_path: false.
TEST_F(ExportTest, NoExportedFileHoldsAPathOfThisMachine) {
  const std::string model = directory_ + "/secret/base";
  fs::create_directories(directory_ + "/secret");
  fs::copy("deploy/quickstart/model", model, fs::copy_options::recursive);
  auto config = nlohmann::ordered_json::parse(ReadFile(model + "/config.json"));
  config["_name_or_path"] = model;
  std::ofstream(model + "/config.json") << config.dump(2);
  UseModel(model);
  AddLora(4, 8, false);
  TrainGroup(model::IsAdapter);
  WriteCheckpoint(
      [](const model::Parameter& p, float* out) { std::fill(out, out + p.elements(), 1.0f); });
  request_.job.export_merge = true;
  request_.job.export_base_path = false;
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
  request_.job.export_base_path = true;
  const auto here = nlohmann::json::parse(AdapterConfigJson(request_.job, request_.plan));
  EXPECT_EQ(here["base_model_name_or_path"], model);
  const auto merged = nlohmann::json::parse(ReadFile(result->merged_directory + "/config.json"));
  EXPECT_EQ(merged["_name_or_path"], "base");
}

}  // namespace
}  // namespace coxswain::exports
