// What export.gguf asks for and no GGUF is written of, before a job begins.
#include "controller/planner/model/gguf_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "common/files/read_file.h"
#include "common/model/read/read_model_config.h"
#include "tests/common/config/default_spec.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::planner {
namespace {

namespace fs = std::filesystem;

class GgufCheckTest : public testing::Test {
 protected:
  void SetUp() override {
    job_ = config::DefaultSpec();
    job_.export_gguf.model = "q8_0";
    Use("qwen2", "qwen2_full");
  }
  void Use(const std::string& tokenizer, const std::string& golden) {
    job_.model_path = folder_.path() + "/" + golden;
    fs::create_directories(job_.model_path);
    fs::copy(support::GoldenFolder("gguf/" + tokenizer), job_.model_path,
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    fs::copy_file(support::GoldenFolder(golden) + "/config.json", job_.model_path + "/config.json",
                  fs::copy_options::overwrite_existing);
    model_ = *model::ReadModelConfig(job_.model_path);
  }
  void ChangeTokenizer(const std::function<void(nlohmann::json*)>& change) {
    const std::string path = job_.model_path + "/tokenizer.json";
    auto json = nlohmann::json::parse(*ReadFile(path));
    change(&json);
    std::ofstream(path) << json.dump();
  }
  void ExpectRefused(const std::string& part) {
    const absl::Status status = CheckGguf(job_, model_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(std::string(status.message()).find(part), std::string::npos)
        << part << " is not in: " << status;
  }

  const support::ScratchFolder folder_;
  config::JobSpec job_;
  model::ModelConfig model_;
};

TEST_F(GgufCheckTest, TakesModelsThatLlamaCppComputes) {
  EXPECT_TRUE(CheckGguf(job_, model_).ok()) << CheckGguf(job_, model_);
  Use("gemma2", "gemma2_full");
  EXPECT_TRUE(CheckGguf(job_, model_).ok()) << CheckGguf(job_, model_);
  Use("llama31_rope", "llama31_rope_full");
  EXPECT_TRUE(CheckGguf(job_, model_).ok()) << CheckGguf(job_, model_);
}

TEST_F(GgufCheckTest, NamesTheFamiliesThatAreWritten) {
  Use("qwen2", "granite_full");
  ExpectRefused("export.gguf.model: no GGUF is written of GraniteForCausalLM; it is of ");
  ExpectRefused("LlamaForCausalLM");
  job_.export_gguf = {.model = "none", .adapter = "f16"};
  ExpectRefused("export.gguf.adapter: ");
  job_.export_gguf = {};
  EXPECT_TRUE(CheckGguf(job_, model_).ok());
}

TEST_F(GgufCheckTest, RefusesSettingsThatLlamaCppHasNot) {
  model_.labels = 2;
  ExpectRefused("a head of scores has no name there");
  Use("llama", "llama_yarn_full");
  ExpectRefused("rope_type yarn is not written");
  Use("mistral", "mistral_swa_full");
  ExpectRefused("layer 0 has a sliding window of 16");
  Use("gemma2", "gemma2_full");
  model_.attention_scale = 0.5;
  ExpectRefused("query_pre_attn_scalar 32");
}

TEST_F(GgufCheckTest, RefusesATokenizerThatHasNoNameThere) {
  ChangeTokenizer([](nlohmann::json* json) {
    (*json)["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\s+";
  });
  ExpectRefused("pre_tokenizer is none that a GGUF is written of; these are those of llama-bpe, ");
  Use("llama", "llama_full");
  fs::remove(job_.model_path + "/tokenizer.model");
  EXPECT_FALSE(CheckGguf(job_, model_).ok());
}

TEST_F(GgufCheckTest, RefusesMembersOfAnotherType) {
  Use("llama", "llama_full");
  std::ofstream(job_.model_path + "/added_tokens.json") << R"({"<new>": "seven"})";
  ExpectRefused("a member of the tokenizer's files is of another type");
}

TEST_F(GgufCheckTest, RefusesMoreTokensThanRows) {
  model_.vocab_size = 100;
  ExpectRefused("the embedding has 100 rows");
}

}  // namespace
}  // namespace coxswain::planner
